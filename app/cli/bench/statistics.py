"""Figures from measurements: quotients of totals over all answers, and intervals by a bootstrap over prompts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

RESAMPLES = 1000
"""Resamples of the bootstrap: enough for two digits of a 95% interval."""

CONFIDENCE = 0.95

FAR = 100
"""Times as fast, beyond which the end of an interval is no figure any more."""

SURE = ("exact", "unknown")
"""Whether the passes of a server's answer are known."""

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t at 95%, by degrees of freedom from 1: a bootstrap over few prompts is narrower than what it estimates."""

Row = Mapping[str, Any]

ANOTHER_RUN = math.sqrt(2)
"""Both runs miss the true ratio, so another run's figure strays from this one's by the root of two times as much as the truth
does. The intervals are for the reader who runs the command again."""


class Pair(NamedTuple):
    """Two answers to one prompt, measured side by side: the method's, and that of what it is compared with."""

    tokens: int
    seconds: float
    other_tokens: int
    other_seconds: float


def ratio(pairs: Iterable[Pair]) -> float:
    """Total tokens ÷ total seconds, divided by the same of what it is compared with."""
    tokens, seconds, other_tokens, other_seconds = map(sum, zip(*pairs, strict=True))
    return tokens * other_seconds / (seconds * other_tokens)


def interval(groups: Sequence[Sequence[Pair]], seed: int = 0) -> tuple[float, float | None, float | None]:
    """Return the speedup over all prompts, and the interval in which another run of the same prompts finds it with 95%
    confidence.

    `groups` has for each prompt the pairs of its rounds. Returns (estimate, low, high); a single pair has no ends, as it tells
    nothing of how far another would be from it.
    """
    count = len(groups) if len(groups) > 1 else len(groups[0])
    estimate = math.log(ratio(chain(*groups)))
    if count == 1:
        return math.exp(estimate), None, None
    draw = random.Random(seed)
    found = []
    for _ in range(RESAMPLES):
        chosen = (groups[draw.randrange(len(groups))] for _ in groups)
        found.append(math.log(ratio(chain(*(draw.choices(group, k=len(group)) for group in chosen)))))
    found.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = found[int(tail * (RESAMPLES - 1))], found[math.ceil((1 - tail) * (RESAMPLES - 1))]
    wider = T_95[min(count - 1, len(T_95)) - 1] / 1.96 * math.sqrt(count / (count - 1)) * ANOTHER_RUN
    return (
        math.exp(estimate),
        math.exp(estimate - max(0.0, estimate - low) * wider),
        math.exp(estimate + max(0.0, high - estimate) * wider),
    )


def span(low: float | None, high: float | None, to: str = "–") -> str:
    """An interval as people read it, – for none. Two prompts may leave a factor of a million open: *over 100* says enough."""
    if low is None or high is None:
        return "–"
    first = f"under {1 / FAR}" if low < 1 / FAR else f"{low:.2f}"
    return first + to + (f"over {FAR}" if high > FAR else f"{high:.2f}")


def pairs(rows: Iterable[Row], method: str, base: str, clock: str) -> dict[str, list[Pair]]:
    """Item → the pairs of its rounds: answers of `method` beside those of `base`."""
    by_place = {(row["item"], row["round"], row["method"]): row for row in rows if not row.get("error")}
    out: dict[str, list[Pair]] = {}
    for (item, turn, name), row in by_place.items():
        other = by_place.get((item, turn, base))
        if name == method and other is not None and (found := pair(row, other, clock)) is not None:
            out.setdefault(item, []).append(found)
    return out


def pair(row: Row, other: Row, clock: str) -> Pair | None:
    """Two answers to compare; None where one has no tokens, or took no time."""
    found = Pair(row["count"], seconds_of(row, clock), other["count"], seconds_of(other, clock))
    return found if all(value > 0 for value in found) else None


def seconds_of(row: Row, clock: str) -> float:
    """Seconds of the whole answer."""
    return float(row["cpu_seconds"] if clock == "cpu" else row["seconds"])


def share(rows: Sequence[Row], value: Callable[[Row], float], of: Callable[[Row], float]) -> float | None:
    """Sum of one thing ÷ sum of another; None if there is nothing to divide by."""
    total = sum(map(of, rows))
    return sum(map(value, rows)) / total if total else None


def summarise(rows: Sequence[Row], methods: Sequence[str], base: str, clock: str) -> list[dict[str, Any]]:
    """One line for each method and category, then one for each method over all categories (`all`)."""
    categories = list(dict.fromkeys(row["category"] for row in rows))
    groups = [*categories, *(["all"] if len(categories) > 1 else [])]
    out = []
    for method in methods:
        for category in groups:
            here = [row for row in rows if category in (row["category"], "all")]
            if line := _line(here, method, base, clock, category):
                out.append(line)
    return out


def _line(rows: Sequence[Row], method: str, base: str, clock: str, category: str) -> dict[str, Any] | None:
    mine = [row for row in rows if row["method"] == method and not row.get("error")]
    if not mine:
        return None
    # Counts are the same in every round but for methods that go by the clock: the first one is counted.
    first = list({row["item"]: row for row in reversed(mine)}.values())
    plain = {row["item"]: row["digest"] for row in rows if row["method"] == base and not row.get("error")}
    paired = pairs(rows, method, base, clock)
    speedup, low, high = interval(list(paired.values())) if paired else (None, None, None)

    def spent(row: Row) -> float:
        told = row["forward_seconds"] > 0  # servers do not tell where their time goes
        return float(row["draft_seconds"] + row["forward_seconds"] + row["other_seconds"]) if told else 0.0

    return {
        "method": method,
        "category": category,
        "tokens_per_second": share(mine, lambda row: row["count"], lambda row: seconds_of(row, clock)),
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "tokens_per_step": share(first, lambda row: row["count"], lambda row: row["steps"]),
        **(
            {"own_tokens_per_step": share(first, lambda row: row["count"] - row.get("grammar", 0), lambda row: row["steps"])}
            if any(row.get("grammar") for row in first)
            else {}
        ),
        "acceptance_rate": share(first, lambda row: row["accepted"], lambda row: row["drafted"]),
        "nodes_per_token": share(first, lambda row: row["nodes"], lambda row: row["count"]) or None,
        "flops_per_token": share(first, lambda row: row.get("flops", 0), lambda row: row["count"]) or None,
        "identical": sum(plain.get(row["item"]) == row["digest"] for row in first) if base else None,
        "prompts": len(first),
        "pairs": sum(map(len, paired.values())),
        "tokens": sum(row["count"] for row in first),
        "steps": sum(row["steps"] for row in first),
        **_thinking(first),
        "draft_share": share(mine, lambda row: row["draft_seconds"], spent),
        "forward_share": share(mine, lambda row: row["forward_seconds"], spent),
        **({"certainty": sure} if (sure := sureness(first)) else {}),
    }


def _thinking(rows: Sequence[Row]) -> dict[str, float | None]:
    """Tokens a pass and acceptance of thoughts and of the answers behind them, apart; nothing where nobody thought."""
    if not any(row.get("thought", {}).get("tokens") for row in rows):
        return {}
    of = partial(_of, rows)
    return {
        "thought_tokens": sum(row["thought"]["tokens"] for row in rows if "thought" in row),
        **{f"{part}_tokens_per_step": of(part, "tokens", "passes") for part in ("thought", "answer")},
        **{f"{part}_acceptance_rate": of(part, "accepted", "drafted") for part in ("thought", "answer")},
    }


def _of(rows: Sequence[Row], part: str, what: str, of: str) -> float | None:
    return share(rows, lambda row: row.get(part, {}).get(what, 0.0), lambda row: row.get(part, {}).get(of, 0.0))


def sureness(rows: Sequence[Row]) -> dict[str, int]:
    """How many answers have passes that are known or not; empty for methods of this machine, which count their own."""
    found = [row.get("certainty") for row in rows]
    return {name: found.count(name) for name in SURE if name in found}


def compare(rows: Sequence[Row], pairings: Sequence[tuple[str, str]], clock: str) -> list[dict[str, Any]]:
    """Head to head: how many times as fast one method is as another, by category, from paired answers."""
    categories = list(dict.fromkeys(row["category"] for row in rows))
    out = []
    for method, against in pairings:
        for category in [*categories, *(["all"] if len(categories) > 1 else [])]:
            paired = pairs([row for row in rows if category in (row["category"], "all")], method, against, clock)
            if paired:
                found, low, high = interval(list(paired.values()))
                line = {"method": method, "against": against, "category": category, "ratio": found, "low": low, "high": high}
                out.append({**line, "pairs": sum(map(len, paired.values()))})
    return out
