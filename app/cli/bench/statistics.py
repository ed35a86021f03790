"""Figures from measurements: quotients of totals over all answers, and intervals by a bootstrap over prompts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

RESAMPLES = 1000
"""Resamples of the bootstrap: enough for two digits of a 95% interval."""

CONFIDENCE = 0.95

FAR = 100
"""Ratio beyond which the end of an interval is not printed as a figure."""

CERTAINTIES = ("exact", "unknown")
"""Whether the passes of a server's answer are known."""

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Student's t at 95%, by degrees of freedom from 1: a bootstrap over few prompts is narrower than what it estimates."""

ANOTHER_RUN = math.sqrt(2)
"""Both runs miss the true ratio, so another run's figure strays from this one's by the root of two times as much as the truth
does. The intervals are for the reader who runs the command again."""

Clock = Literal["wall", "cpu"]
T = TypeVar("T")


class PartCounts(TypedDict):
    """Counts of a thought, or of the answer after it."""

    tokens: int
    passes: int
    drafted: int
    accepted: int


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
    """Hash of the tokens, to compare answers."""
    text: str
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
    flops: float
    grammar: int
    """Tokens that a constraint forced."""
    thought: PartCounts
    answer: PartCounts
    certainty: str
    """One of CERTAINTIES, from servers only."""


class Result(TypedDict, total=False):
    """Figures of a method in a category, as `--json` prints them; None for what was not measured."""

    method: str
    category: str
    tokens_per_second: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    tokens_per_step: float | None
    own_tokens_per_step: float | None
    """Without the tokens that a constraint forced; missing without a constraint."""
    acceptance_rate: float | None
    nodes_per_token: float | None
    flops_per_token: float | None
    identical: int | None
    """Answers that are plain decoding's."""
    prompts: int
    pairs: int
    tokens: int
    steps: int
    thought_tokens: int
    """This and the next four are missing without thoughts."""
    thought_tokens_per_step: float | None
    answer_tokens_per_step: float | None
    thought_acceptance_rate: float | None
    answer_acceptance_rate: float | None
    draft_microseconds: float | None
    """Time to draft for a pass."""
    draft_share: float | None
    forward_share: float | None
    certainty: dict[str, int]
    """Number of answers by certainty; missing for methods of this machine."""


class Comparison(TypedDict):
    """One method against another in a category: how many times as fast, from paired answers."""

    method: str
    against: str
    category: str
    ratio: float
    low: float | None
    high: float | None
    pairs: int


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
    return float(row["cpu_seconds"] if clock == "cpu" else row["seconds"])


def share(rows: Sequence[T], value: Callable[[T], float], of: Callable[[T], float]) -> float | None:
    """Divide the sum of one value by the sum of another; None if that is 0."""
    total = sum(map(of, rows))
    return sum(map(value, rows)) / total if total else None


def by_category(rows: Sequence[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    """Group rows by category; with several categories, all rows follow as `all`."""
    categories = list(dict.fromkeys(row["category"] for row in rows))
    for category in categories:
        yield category, [row for row in rows if row["category"] == category]
    if len(categories) > 1:
        yield "all", list(rows)


def summarise(rows: Sequence[Measurement], methods: Sequence[str], base: str, clock: str) -> list[Result]:
    """Compute a result for each method and category, and for each method over all categories (`all`)."""
    groups = list(by_category(rows))
    results = (_result(group, method, base, clock, category) for method in methods for category, group in groups)
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

    def spent(row: Measurement) -> float:
        measured = row["forward_seconds"] > 0
        return row["draft_seconds"] + row["forward_seconds"] + row["other_seconds"] if measured else 0.0

    result: Result = {
        "method": method,
        "category": category,
        "tokens_per_second": share(mine, lambda row: row["count"], lambda row: seconds_of(row, clock)),
        "speedup": speedup,
        "speedup_low": low,
        "speedup_high": high,
        "tokens_per_step": share(first, lambda row: row["count"], lambda row: row["steps"]),
        "acceptance_rate": share(first, lambda row: row["accepted"], lambda row: row["drafted"]),
        "nodes_per_token": share(first, lambda row: row["nodes"], lambda row: row["count"]) or None,
        "flops_per_token": share(first, lambda row: row.get("flops", 0), lambda row: row["count"]) or None,
        "identical": sum(plain.get(row["item"]) == row["digest"] for row in first) if base else None,
        "prompts": len(first),
        "pairs": sum(map(len, paired.values())),
        "tokens": sum(row["count"] for row in first),
        "steps": sum(row["steps"] for row in first),
        "draft_microseconds": share(mine, lambda row: row["draft_seconds"] * 1e6, lambda row: row["steps"]) or None,
        "draft_share": share(mine, lambda row: row["draft_seconds"], spent),
        "forward_share": share(mine, lambda row: row["forward_seconds"], spent),
    }
    if any(row.get("grammar") for row in first):
        result["own_tokens_per_step"] = share(first, lambda row: row["count"] - row.get("grammar", 0), lambda row: row["steps"])
    if certainty := count_certainty(first):
        result["certainty"] = certainty
    return result | _thinking(first)


def _thinking(rows: Sequence[Measurement]) -> Result:
    """Tell thoughts from the answers after them: tokens a pass and acceptance; empty without thoughts."""
    thoughts = [row["thought"] for row in rows if "thought" in row]
    answers = [row["answer"] for row in rows if "answer" in row]
    if not any(part["tokens"] for part in thoughts):
        return {}
    return {
        "thought_tokens": sum(part["tokens"] for part in thoughts),
        "thought_tokens_per_step": share(thoughts, lambda part: part["tokens"], lambda part: part["passes"]),
        "answer_tokens_per_step": share(answers, lambda part: part["tokens"], lambda part: part["passes"]),
        "thought_acceptance_rate": share(thoughts, lambda part: part["accepted"], lambda part: part["drafted"]),
        "answer_acceptance_rate": share(answers, lambda part: part["accepted"], lambda part: part["drafted"]),
    }


def count_certainty(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the answers whose passes are known, and those whose are not; empty for methods of this machine."""
    certainties = [row.get("certainty") for row in rows]
    return {name: certainties.count(name) for name in CERTAINTIES if name in certainties}


def compare(rows: Sequence[Measurement], pairings: Sequence[tuple[str, str]], clock: str) -> list[Comparison]:
    """Compare pairs of methods by category, from paired answers."""
    comparisons: list[Comparison] = []
    for method, against in pairings:
        for category, group in by_category(rows):
            if paired := pairs(group, method, against, clock):
                speedup, low, high = interval(list(paired.values()))
                comparisons.append(
                    {
                        "method": method,
                        "against": against,
                        "category": category,
                        "ratio": speedup,
                        "low": low,
                        "high": high,
                        "pairs": sum(map(len, paired.values())),
                    }
                )
    return comparisons
