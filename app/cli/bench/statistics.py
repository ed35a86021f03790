"""Figures from measurements: quotients of totals over all answers, and intervals by a bootstrap over prompts."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypedDict, TypeVar

RESAMPLES = 1000
"""Resamples of the bootstrap: enough for two digits of a 95% interval."""

CONFIDENCE = 0.95

FAR = 100
"""Ratio beyond which the end of an interval is not printed as a figure."""

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t at 95%, by degrees of freedom from 1: a bootstrap over few prompts is narrower than what it estimates."""

ANOTHER_RUN = math.sqrt(2)
"""Both runs miss the true ratio, so another run's figure strays from this one's by the root of two times as much as the truth
does. The intervals are for the reader who runs the command again."""

T = TypeVar("T")


class Measurement(TypedDict, total=False):
    """A measured answer, as a line of a record. With `error` it has only that and its place."""

    item: str
    category: str
    method: str
    round: int
    error: str
    count: int
    """Tokens."""
    digest: str
    """Hash of the tokens, to compare answers; empty where there is nothing to compare."""
    text: str
    """This and the ids are in records alone, to be replayed."""
    token_ids: list[int]
    prompt_ids: list[int]
    seconds: float
    cpu_seconds: float
    draft_seconds: float
    forward_seconds: float
    """0 from a server, which does not report it."""
    other_seconds: float
    steps: int
    drafted: int
    accepted: int
    nodes: int
    grammar: int
    """Tokens that a constraint forced."""
    certainty: str
    """Whether the passes of a server's answer are known: exact or unknown."""


@dataclass(slots=True, kw_only=True)
class Result:
    """Figures of a method in a category, as `--json` prints them; None for what was not measured."""

    method: str
    category: str
    prompts: int = 0
    pairs: int = 0
    tokens: int = 0
    steps: int = 0
    identical: int | None = None
    """Answers that are plain decoding's."""
    tokens_per_second: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    tokens_per_step: float | None = None
    own_tokens_per_step: float | None = None
    """Without the tokens that a constraint forced; None without any."""
    acceptance_rate: float | None = None
    nodes_per_token: float | None = None
    draft_microseconds: float | None = None
    """Time to draft for a pass."""
    draft_share: float | None = None
    forward_share: float | None = None
    certainty: dict[str, int] = field(default_factory=dict)
    """Number of answers by certainty; empty for methods of this machine."""


class Pair(NamedTuple):
    """Two answers to one prompt, measured side by side: the method's, and that of what it is compared with."""

    tokens: int
    seconds: float
    other_tokens: int
    other_seconds: float


def ratio(pairs: Iterable[Pair]) -> float:
    """Divide total tokens ÷ total seconds by the same of what it is compared with."""
    tokens, seconds, other_tokens, other_seconds = map(sum, zip(*pairs, strict=True))
    return tokens * other_seconds / (seconds * other_tokens)


def interval(groups: Sequence[Sequence[Pair]], seed: int = 0) -> tuple[float, float | None, float | None]:
    """Estimate the speedup over all prompts, and the interval in which another run of the same prompts finds it with 95%
    confidence.

    Args:
        groups: for each prompt, the pairs of its rounds.

    Returns:
        estimate, low, high; a single pair has no ends, as it says nothing about the distance of another.
    """
    count = len(groups) if len(groups) > 1 else len(groups[0])
    estimate = math.log(ratio(chain(*groups)))
    if count == 1:
        return math.exp(estimate), None, None
    draw = random.Random(seed)
    resampled = []
    for _ in range(RESAMPLES):
        chosen = (groups[draw.randrange(len(groups))] for _ in groups)
        resampled.append(math.log(ratio(chain(*(draw.choices(group, k=len(group)) for group in chosen)))))
    resampled.sort()
    tail = (1 - CONFIDENCE) / 2
    low = resampled[int(tail * (RESAMPLES - 1))]
    high = resampled[math.ceil((1 - tail) * (RESAMPLES - 1))]
    wider = T_95[min(count - 1, len(T_95)) - 1] / 1.96 * math.sqrt(count / (count - 1)) * ANOTHER_RUN
    return (
        math.exp(estimate),
        math.exp(estimate - max(0.0, estimate - low) * wider),
        math.exp(estimate + max(0.0, high - estimate) * wider),
    )


def span(low: float | None, high: float | None, to: str = "–") -> str:
    """Write an interval, – for none. Two prompts may leave a factor of a million open: *over 100* says enough."""
    if low is None or high is None:
        return "–"
    first = f"under {1 / FAR}" if low < 1 / FAR else f"{low:.2f}"
    return first + to + (f"over {FAR}" if high > FAR else f"{high:.2f}")


def pairs(rows: Iterable[Measurement], method: str, base: str, clock: str) -> dict[str, list[Pair]]:
    """Pair the answers of `method` with those of `base`: item → the pairs of its rounds."""
    by_place = {(row["item"], row["round"], row["method"]): row for row in rows if not row.get("error")}
    paired: dict[str, list[Pair]] = {}
    for (item, turn, name), row in by_place.items():
        other = by_place.get((item, turn, base))
        if name == method and other is not None and (both := pair(row, other, clock)) is not None:
            paired.setdefault(item, []).append(both)
    return paired


def pair(row: Measurement, other: Measurement, clock: str) -> Pair | None:
    """Pair two answers; None where one has no tokens, or took no time."""
    both = Pair(row["count"], seconds_of(row, clock), other["count"], seconds_of(other, clock))
    return both if all(value > 0 for value in both) else None


def seconds_of(row: Measurement, clock: str) -> float:
    """Return the seconds of the whole answer by a clock, wall or cpu."""
    return row["cpu_seconds"] if clock == "cpu" else row["seconds"]


def share(rows: Sequence[T], value: Callable[[T], float], of: Callable[[T], float]) -> float | None:
    """Divide the sum of one value by the sum of another; None if that is 0."""
    total = sum(map(of, rows))
    return sum(map(value, rows)) / total if total else None


def summarise(rows: Sequence[Measurement], methods: Sequence[str], base: str, clock: str) -> list[Result]:
    """Compute a result for each method and category, and with several categories for each method over all of them (`all`)."""
    groups = {name: [row for row in rows if row["category"] == name] for name in dict.fromkeys(row["category"] for row in rows)}
    if len(groups) > 1:
        groups["all"] = list(rows)
    results = (_result(group, method, base, clock, category) for method in methods for category, group in groups.items())
    return [result for result in results if result is not None]


def _result(rows: Sequence[Measurement], method: str, base: str, clock: str, category: str) -> Result | None:
    mine = [row for row in rows if row["method"] == method and not row.get("error")]
    if not mine:
        return None
    # Counts are the same in every round but for methods that go by the clock: the first one is counted.
    first = list({row["item"]: row for row in reversed(mine)}.values())
    plain = {row["item"]: row["digest"] for row in rows if row["method"] == base and not row.get("error")}
    paired = pairs(rows, method, base, clock)
    speedup, low, high = interval(list(paired.values())) if paired else (None, None, None)
    forced = sum(row.get("grammar", 0) for row in first)
    tokens = sum(row["count"] for row in first)
    steps = sum(row["steps"] for row in first)

    def spent(row: Measurement) -> float:
        measured = row["forward_seconds"] > 0
        return row["draft_seconds"] + row["forward_seconds"] + row["other_seconds"] if measured else 0.0

    return Result(
        method=method,
        category=category,
        prompts=len(first),
        pairs=sum(map(len, paired.values())),
        tokens=tokens,
        steps=steps,
        identical=sum(plain.get(row["item"]) == row["digest"] for row in first) if any(plain.values()) else None,
        tokens_per_second=share(mine, lambda row: row["count"], lambda row: seconds_of(row, clock)),
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        tokens_per_step=tokens / steps if steps else None,
        own_tokens_per_step=(tokens - forced) / steps if forced and steps else None,
        acceptance_rate=share(first, lambda row: row["accepted"], lambda row: row["drafted"]),
        nodes_per_token=share(first, lambda row: row["nodes"], lambda row: row["count"]) or None,
        draft_microseconds=share(mine, lambda row: row["draft_seconds"] * 1e6, lambda row: row["steps"]) or None,
        draft_share=share(mine, lambda row: row["draft_seconds"], spent),
        forward_share=share(mine, lambda row: row["forward_seconds"], spent),
        certainty=dict(Counter(row["certainty"] for row in first if row.get("certainty"))),
    )
