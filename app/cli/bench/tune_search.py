"""The search for the fastest method, by successive halving.

Every candidate answers a few prompts beside plain decoding; the fastest third goes on to more of them, and so on. Jamieson and
Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization" (2016), arXiv:1502.07943.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

from ....errors import counted
from .items import Item
from .lab import BASE, Spec, read_spec
from .requests import TuneRequest
from .run import WARM_UP_TOKENS
from .statistics import per_token
from .tune_blocks import TIME_SHARE, Blocks

KEPT = 3
"""One in so many candidates goes on to the next rung, which has so many times the prompts."""

LEAST = 4
"""Prompts that a pick must have answered to be one: with fewer, chance decides."""


@dataclass(slots=True)
class TuneSearch:
    """The search as it goes."""

    request: TuneRequest
    specs: list[Spec]
    items: list[Item]
    measure: Callable[[Item, Spec], dict[str, Any]]
    told: Callable[[str], None] = lambda text: None
    default: str = BASE
    """The candidate that is the model's method already. It goes on to the end, so that the winner can be compared with it."""
    now: Callable[[], float] = time.monotonic
    rows: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """(prompt, method) → its row."""
    passes: int = 0
    """Forward passes of all candidates, and of the search for blocks; those of plain decoding are left out, it runs once for
    all."""
    blocks: Blocks = field(default_factory=Blocks)
    """What early exit can leave out."""
    rungs: list[dict[str, Any]] = field(default_factory=list)
    out_of_time: bool = False
    tokens: int = 0
    """Tokens of all answers, those of the warm-up too."""
    seconds: float = 0.0
    """Time that they took."""

    def score(self, label: str, items: Sequence[Item]) -> float:
        """Geometric mean of the paired speedups; those far from the middle half are brought to its edge: a prompt during which
        somebody else had the machine decides nothing."""
        logs = sorted(math.log(ratio) for ratio in self.ratios(label, items))
        if not logs:
            return 0.0
        cut = len(logs) // 8
        low, high = logs[cut], logs[len(logs) - 1 - cut]
        return math.exp(mean(min(max(log, low), high) for log in logs))

    def ratios(self, label: str, items: Sequence[Item], base: str = BASE) -> list[float]:
        """Speedups over `base` on the prompts that both have answered."""
        out = []
        for item in items:
            mine, other = self.rows.get((item.id, label)), self.rows.get((item.id, base))
            if mine and other and not mine.get("error") and not other.get("error"):
                clock = self.request.clock
                seconds = per_token(mine, clock)
                if seconds > 0:
                    out.append(per_token(other, clock) / seconds)
        return out

    def run(self) -> list[Spec]:
        """Search; returns the candidates by rank, those that got furthest first."""
        base = read_spec(BASE)
        deadline = self.now() + 60 * self.request.minutes
        alive = [spec for spec in self.specs if spec.label != BASE]
        ranked: list[Spec] = []
        begin = 0
        sizes = rung_sizes(len(self.items), len(alive))
        for number, size in enumerate(sizes, 1):
            for item in self.items[begin:size]:
                order = [base, *alive]
                random.Random(f"tune/{item.id}").shuffle(order)
                for spec in order:
                    if self.now() > deadline:
                        self.out_of_time = True
                        break
                    self.told(
                        f"round {number} of {len(sizes)}, {counted(len(alive), 'candidate')}: {item.category}, {spec.label}"
                    )
                    row = self.rows[item.id, spec.label] = self.measure(item, spec)
                    self.passes += int(row.get("steps", 0)) if spec.label != BASE else 0
                if self.out_of_time:
                    break
            begin = size
            seen = self.items[:size]
            scores = {spec.label: self.score(spec.label, seen) for spec in alive}
            alive = sorted(alive, key=lambda spec: -scores[spec.label])
            keep = max(1, math.ceil(len(alive) / KEPT)) if number < len(sizes) else 1
            line = [{"method": spec.label, "speedup": scores[spec.label] or None} for spec in alive]
            self.rungs.append({"prompts": size, "kept": keep, "candidates": line})
            ranked = [*alive, *(spec for spec in ranked if spec not in alive)]
            if self.out_of_time:
                break
            if number < len(sizes):
                alive = [spec for place, spec in enumerate(alive) if place < keep or spec.label == self.default]
        return ranked

    def whole_seconds(self) -> float:
        """How long the search would take to its end, by what was answered until now; 0 where nothing was."""
        alive, before, answers = len(self.specs), 0, 0
        for size in rung_sizes(len(self.items), alive):
            answers += (alive + 1) * (size - before)
            alive, before = math.ceil(alive / KEPT), size
        each = self.seconds / self.tokens if self.tokens else 0.0
        blocks = 1 - TIME_SHARE if self.blocks.found else 1.0
        return each * (answers * self.request.max_tokens + (len(self.specs) + 1) * WARM_UP_TOKENS) / blocks

    def lacks(self, prompts: int) -> str:
        """What it takes to choose a method, where the best candidate and plain decoding have answered so many prompts; empty
        where that is enough."""
        if prompts >= LEAST:
            return ""
        said = "Too little was measured to choose a method, so nothing was saved: "
        said += f"it takes {LEAST} answered prompts, not {prompts}."
        if len(self.items) < LEAST:
            return f"{said} Give more prompts."
        if not self.out_of_time:
            return f"{said} The messages above say why the others have no answer."
        minutes = math.ceil(self.whole_seconds() / 60)
        return f"{said} The whole search takes about {minutes} min. Use --minutes {minutes}, or fewer --methods."


def rung_sizes(prompts: int, candidates: int) -> list[int]:
    """Prompts answered by the end of each rung: a ninth and a third of them, then all; fewer rungs for few candidates."""
    sizes = [math.ceil(prompts / KEPT**power) for power in (2, 1, 0)]
    needed = 1 + min(2, math.ceil(math.log(max(candidates, 1), KEPT)))
    return sorted(set(sizes[-needed:]))
