"""What an answer would take, from counts alone: a latency curve of a model on a device, given, measured, or fitted to speedups
that somebody has measured.

The seconds of an answer are

    prefill(prompt) + sum over its passes of l(nodes of the pass) [+ step, for each pass of a drafting method] + drafting

with l(n) the seconds of a pass over n nodes, behind as much text as there is in the middle of the answer. `step` is what
drafting and verifying cost a pass beside the model: the look-up itself, moving tokens between host and device, cutting the
cache back. Plain decoding pays none of it. Speedup is the ratio of two such sums, so a curve is good for it even if only its
proportions are known.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from ..errors import UserError

NUMBERS = ("prefill_start", "prefill_token", "step", "context", "context_pass", "context_node")
"""What a curve consists of besides its passes: tokens and seconds, 0 where they are not known."""

ROUNDS = 30
"""Of re-weighting in a fit; it settles in about ten."""

OUTLIER = 0.02
"""Relative error from which an observation starts to count less in a fit: a few per cent is what a quiet machine repeats to."""


@dataclass(frozen=True, slots=True)
class LatencyCurve:
    """Seconds by the size of a pass, for one model on one device."""

    passes: tuple[tuple[int, float], ...]
    """(nodes, seconds) by ascending nodes; at least one."""
    prefill_start: float = 0.0
    """Seconds of a prefill whatever its length."""
    prefill_token: float = 0.0
    """Seconds of a prefill for each token of the prompt."""
    step: float = 0.0
    """Seconds for each pass that a drafting method verifies, beside the pass and the drafting."""
    name: str = ""
    """Model and device, or where the curve comes from."""
    context: int = 0
    """Tokens in the cache when `passes` were measured."""
    context_pass: float = 0.0
    """Seconds of a pass for each token in the cache beyond these."""
    context_node: float = 0.0
    """The same, for each node after the first."""

    def __post_init__(self) -> None:
        """Refuse a curve that is none.

        Raises:
            UserError: no points, points that do not rise in nodes, or seconds that are not positive numbers.
        """
        nodes = [n for n, _ in self.passes]
        if not nodes or nodes != sorted(set(nodes)) or nodes[0] < 1:
            raise UserError("A latency curve needs passes as [nodes, seconds], with nodes from 1 upwards, each size once.")
        if not all(math.isfinite(s) and s > 0 for _, s in self.passes):
            raise UserError("The passes of a latency curve must take more than 0 seconds.")
        if not all(math.isfinite(value) and value >= 0 for value in (getattr(self, key) for key in NUMBERS)):
            raise UserError(f"In a latency curve, {', '.join(NUMBERS[:-1])} and {NUMBERS[-1]} are 0 or more.")

    def seconds(self, nodes: int, context: float | None = None) -> float:
        """l(nodes): on the straight line between its neighbours, beyond the last point on the line of the last two.

        Args:
            nodes: of the pass.
            context: tokens in the cache; as many as when the curve was measured if None.
        """
        beyond = 0.0 if context is None else context - self.context
        more = beyond * (self.context_pass + self.context_node * (nodes - 1))
        least = min(s for _, s in self.passes) / 2
        if len(self.passes) == 1:
            return max(self.passes[0][1] + more, least)
        at = min(max(bisect_left(self.passes, (nodes, 0.0)), 1), len(self.passes) - 1)
        (n0, s0), (n1, s1) = self.passes[at - 1], self.passes[at]
        # A line through two noisy points may fall towards zero: no pass is faster than half the fastest one known.
        return max(s0 + (s1 - s0) * (nodes - n0) / (n1 - n0) + more, least)

    def prefill(self, prompt: int) -> float:
        """Seconds of a prefill of `prompt` tokens; it gives the first token."""
        return self.prefill_start + self.prefill_token * prompt

    def plain(self, prompt: int, tokens: int) -> float:
        """Seconds of a plain answer of `tokens` tokens."""
        return self.prefill(prompt) + (tokens - 1) * self.seconds(1, prompt + tokens / 2)

    def drafting(self, prompt: int, passes: Mapping[int, int], draft_seconds: float = 0.0, tokens: int = 0) -> float:
        """Seconds of an answer with a drafting method.

        Args:
            prompt: tokens of the prompt.
            passes: how many passes had each number of nodes, the prefill left out.
            draft_seconds: of the drafter itself.
            tokens: of the answer.
        """
        middle = prompt + tokens / 2
        counted = sum(count * (self.seconds(nodes, middle) + self.step) for nodes, count in passes.items())
        return self.prefill(prompt) + counted + draft_seconds

    def speedup(self, prompt: int, tokens: int, passes: Mapping[int, int], draft_seconds: float = 0.0) -> float:
        """Plain seconds / drafting seconds; arguments as above."""
        return self.plain(prompt, tokens) / self.drafting(prompt, passes, draft_seconds, tokens)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `read_curve` takes it."""
        return {**asdict(self), "passes": [list(point) for point in self.passes]}


def curve_of(data: Any) -> LatencyCurve:
    """A curve from plain data.

    Raises:
        UserError: it is none; says what is missing.
    """
    if not isinstance(data, dict) or not isinstance(data.get("passes"), list):
        raise UserError('A latency curve is a JSON object like {"passes": [[1, 0.030], [16, 0.034]], "prefill_token": 0.0002}.')
    known = {"passes", "name", *NUMBERS}
    if unknown := sorted(set(data) - known):
        raise UserError(f"A latency curve has no {unknown[0]!r}: choose from {', '.join(sorted(known))}.")
    try:
        passes = tuple(sorted((int(n), float(s)) for n, s in data["passes"]))
        numbers: dict[str, Any] = {key: float(data.get(key, 0)) for key in NUMBERS}
        numbers["context"] = int(numbers["context"])
    except (TypeError, ValueError):
        raise UserError("A latency curve contains numbers: passes as [nodes, seconds], the others in seconds.") from None
    return LatencyCurve(passes, **numbers, name=str(data.get("name", "")))


def read_curve(path: Path) -> LatencyCurve:
    """The curve in a JSON file.

    Raises:
        UserError: the file cannot be read or holds no curve; names it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"There is no file {path}. Give a latency curve, as `specchat replay --save-curve FILE` writes it."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot read the latency curve {path} ({error.strerror}). Give another file.") from None
    except ValueError:
        raise UserError(
            f"{path} is not JSON. Give a latency curve, as `specchat replay --save-curve FILE` writes it."
        ) from None
    try:
        return curve_of(data)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class Observed:
    """A measured speedup, and the counts of the answer that it was measured on."""

    speedup: float
    """Plain seconds / seconds with the method, of the whole answer."""
    prompt: int
    tokens: int
    passes: Mapping[int, int]
    """How many passes had each number of nodes, the prefill left out."""


def fit_curve(observed: Sequence[Observed], *, plain_seconds: float = 1.0, name: str = "fitted") -> LatencyCurve:
    """The curve that explains measured speedups best: a pass over n nodes as a straight line in n, `step`, and the prefill.

    With l(1) = 1 the equation  speedup · drafting = plain  is linear in what is unknown, so every round is a least-squares
    problem with unknowns ≥ 0, in relative errors; observations far off count less in the next round (Huber's weights).

    Args:
        observed: at least 8.
        plain_seconds: l(1), which speedups cannot tell.
        name: of the curve.

    Raises:
        UserError: too few observations.
    """
    import numpy as np

    if len(observed) < 8:
        raise UserError(f"Fitting a latency curve takes at least 8 records with a measured speedup, not {len(observed)}.")
    speed = np.array([o.speedup for o in observed])
    prompt = np.array([float(o.prompt) for o in observed])
    tokens = np.array([float(o.tokens) for o in observed])
    steps = np.array([float(sum(o.passes.values())) for o in observed])
    extra = np.array([float(sum((nodes - 1) * count for nodes, count in o.passes.items())) for o in observed])
    # Unknowns: slope per node, step, prefill start, prefill per token, all in units of l(1).
    columns = np.stack([speed * extra, speed * steps, speed - 1, (speed - 1) * prompt], axis=1)
    right = (tokens - 1) - speed * steps
    scale = columns.std(axis=0)
    scale[scale == 0] = 1
    best, weights = np.zeros(4), np.ones(len(observed))
    for _ in range(ROUNDS):
        drafting = steps + extra * best[0] + steps * best[1] + best[2] + prompt * best[3]
        relative = 1 / (speed * drafting)
        rows = (relative * np.sqrt(weights))[:, None]
        best = _non_negative(columns / scale * rows, right * rows[:, 0]) / scale
        errors = np.abs(columns @ best - right) * relative
        weights = np.minimum(1, OUTLIER / np.maximum(errors, 1e-9))
    slope, step, start, token = (float(value) * plain_seconds for value in best)
    widest = max(max(o.passes, default=1) for o in observed)
    points: Iterable[int] = (1, max(widest, 2))
    passes = tuple((nodes, plain_seconds + slope * (nodes - 1)) for nodes in points)
    return LatencyCurve(passes, start, token, step, name)


def _non_negative(columns: Any, right: Any) -> Any:
    """The least-squares solution with every unknown ≥ 0: with four unknowns every choice of which are 0 can be tried."""
    import numpy as np

    count = columns.shape[1]
    best, least = np.zeros(count), float(right @ right)
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = columns[:, chosen]
            found = np.linalg.lstsq(part, right, rcond=None)[0]
            error = float(((part @ found - right) ** 2).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(count), error
                best[list(chosen)] = found
    return best
