"""From measurements to speedups with intervals: medians of paired ratios, and a bootstrap over prompts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

RESAMPLES = 1000
"""Resamples of the bootstrap: enough for two digits of a 95% interval."""

CONFIDENCE = 0.95

SURE = ("exact", "unknown")
"""Whether the passes of a server's answer are known."""

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t at 95%, by degrees of freedom from 1: a bootstrap over few prompts is narrower than what it estimates."""

Row = Mapping[str, Any]

ANOTHER_RUN = math.sqrt(2)
"""Both runs miss the true ratio, so another run's figure strays from this one's by the root of two times as much as the truth
does. The intervals are for the reader who runs the command again."""


def interval(groups: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float, float]:
    """The median ratio over prompts, and the interval in which another run of the same prompts finds it with 95% confidence.

    `groups` has for each prompt the ratios of its rounds; a prompt's own ratio is their median. Returns (estimate, low, high);
    with a single ratio both ends are the estimate itself.
    """
    logs = [[math.log(ratio) for ratio in group] for group in groups if group]
    estimate = median(median(group) for group in logs)
    draw = random.Random(seed)
    found = []
    for _ in range(RESAMPLES):
        chosen = (logs[draw.randrange(len(logs))] for _ in logs)
        found.append(median(median(draw.choices(group, k=len(group))) for group in chosen))
    found.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = found[int(tail * (RESAMPLES - 1))], found[math.ceil((1 - tail) * (RESAMPLES - 1))]
    count = len(logs) if len(logs) > 1 else len(logs[0])
    wider = T_95[min(count - 1, len(T_95)) - 1] / 1.96 * math.sqrt(count / (count - 1)) if count > 1 else 1.0
    wider *= ANOTHER_RUN
    return (
        math.exp(estimate),
        math.exp(estimate - (estimate - low) * wider),
        math.exp(estimate + (high - estimate) * wider),
    )


def pairs(rows: Iterable[Row], method: str, base: str, clock: str) -> dict[str, list[float]]:
    """Item → the ratios of its rounds: seconds per token of `base` / seconds per token of `method`, measured side by side."""
    by_place = {(row["item"], row["round"], row["method"]): row for row in rows if not row.get("error")}
    out: dict[str, list[float]] = {}
    for (item, turn, name), row in by_place.items():
        other = by_place.get((item, turn, base))
        if name == method and other is not None:
            mine, theirs = per_token(row, clock), per_token(other, clock)
            if mine > 0 and theirs > 0:
                out.setdefault(item, []).append(theirs / mine)
    return out


def per_token(row: Row, clock: str) -> float:
    """Seconds of the whole answer / its tokens; 0 where there is none."""
    seconds = row["cpu_seconds"] if clock == "cpu" else row["seconds"]
    return float(seconds) / row["count"] if row["count"] else 0.0


def share(rows: Sequence[Row], value: Callable[[Row], float], of: Callable[[Row], float]) -> float:
    """Sum of one thing / sum of another; 0 if there is nothing."""
    total = sum(map(of, rows))
    return sum(map(value, rows)) / total if total else 0.0


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
    ratios = pairs(rows, method, base, clock)
    speedup, low, high = interval(list(ratios.values())) if ratios else (None, None, None)
    seconds = [per_token(row, clock) for row in mine if row["count"]]

    def spent(row: Row) -> float:
        return float(row["draft_seconds"] + row["forward_seconds"] + row["other_seconds"])

    return {
        "method": method,
        "category": category,
        "tokens_per_second": 1 / median(seconds) if seconds and median(seconds) > 0 else 0.0,
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
        "nodes_per_token": share(first, lambda row: row["nodes"], lambda row: row["count"]),
        "flops_per_token": share(first, lambda row: row.get("flops", 0), lambda row: row["count"]),
        "identical": sum(plain.get(row["item"]) == row["digest"] for row in first) if base else None,
        "prompts": len(first),
        "pairs": sum(map(len, ratios.values())),
        "tokens": sum(row["count"] for row in first),
        "steps": sum(row["steps"] for row in first),
        **_thinking(first),
        "draft_share": share(mine, lambda row: row["draft_seconds"], spent),
        "forward_share": share(mine, lambda row: row["forward_seconds"], spent),
        **({"certainty": sure} if (sure := sureness(first)) else {}),
    }


def _thinking(rows: Sequence[Row]) -> dict[str, float]:
    """Tokens a pass and acceptance of thoughts and of the answers behind them, apart; nothing where nobody thought."""
    if not any(row.get("thought", {}).get("tokens") for row in rows):
        return {}
    of = partial(_of, rows)
    return {
        "thought_tokens": sum(row["thought"]["tokens"] for row in rows if "thought" in row),
        **{f"{part}_tokens_per_step": of(part, "tokens", "passes") for part in ("thought", "answer")},
        **{f"{part}_acceptance_rate": of(part, "accepted", "drafted") for part in ("thought", "answer")},
    }


def _of(rows: Sequence[Row], part: str, what: str, of: str) -> float:
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
            ratios = pairs([row for row in rows if category in (row["category"], "all")], method, against, clock)
            if ratios:
                ratio, low, high = interval(list(ratios.values()))
                count = sum(map(len, ratios.values()))
                line = {"method": method, "against": against, "category": category}
                out.append({**line, "ratio": ratio, "low": low, "high": high, "pairs": count})
    return out
