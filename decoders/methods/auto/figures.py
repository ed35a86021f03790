"""The measurements of `auto` for a model on this machine: the cost of passes, and the yield of each method's rounds."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ....backends.info import MOST_NODES, plain_passes
from ....plain_file import read_json, write_json
from ...base import Context
from ...parts.drafting import Reliability
from ...parts.proposers import mismatch

MEMORY = 400
"""Time of a method, in one-node passes, after which an older round of it counts for a third."""

RETRIED = 1600
"""Time of all methods, in one-node passes, after which the bound counts a third of a method's rounds: it is tried again."""

FREE = 1.15
"""Most one-node passes for a pass over 8 nodes at which nodes are nearly free: trees pay that guess in every direction."""

MODELS = 32
"""Number of models, the latest used, that the file remembers."""

PACE = 16
"""Latest one-node passes that count for the pace."""

LATEST = 8
"""Latest passes of a size that count for its cost."""

OUTLIER = 2.0
"""A pass that took longer than this many times the expected time counts as this much: another program had the machine."""

SLOPE = 0.03
"""Assumed cost of a further node in one-node passes, where nothing was measured at load."""


class PassCosts:
    """Expected seconds of a pass over n nodes: the pace, a one-node pass's time, times the size's cost in units of that.

    The pace follows the latest one-node passes: a machine that gets busy is so for every size. Costs begin with those measured
    at load; each follows the latest passes of about its size.
    """

    def __init__(self, curve: Sequence[tuple[int, float]] = ()) -> None:
        """`curve`: (nodes, seconds) that were measured at load."""
        self.units = [1.0, *(1 + SLOPE * more for more in range(MOST_NODES))]
        """Cost of a pass over 0, 1 … MOST_NODES nodes in one-node passes."""
        self.pace = 0.0
        """Expected seconds of a one-node pass; 0 before any pass."""
        self.since = 0
        """Passes since one over one node."""
        self._ones = self._passes = 0
        self._measured = bool(curve)
        if curve:
            self.units = [*plain_passes(tuple(curve))]
            self.pace = curve[0][1]
            self._ones = PACE

    @property
    def known(self) -> bool:
        """Whether any passes were measured at load, or learned besides the first two, which are slow."""
        return self._measured or self._passes > 2

    def seconds(self, nodes: int) -> float:
        """Estimate the seconds of a pass over `nodes` nodes; 0 if nothing was learned."""
        return self.pace * self.units[nodes]

    def learn(self, nodes: int, seconds: float) -> None:
        """Learn from one pass over `nodes` nodes."""
        if not 0 < nodes <= MOST_NODES or seconds <= 0:
            return
        self._passes += 1
        if self._passes > PACE:
            seconds = min(seconds, OUTLIER * self.seconds(nodes))
        if nodes == 1:
            self.since = 0
            self._ones = min(self._ones + 1, PACE)
            self.pace += (seconds - self.pace) / self._ones
            return
        self.pace = self.pace or seconds / self.units[nodes]
        change = (seconds / self.pace - self.units[nodes]) / LATEST
        # Sizes that are measured together: 1, 2, 3, 4, then four steps to each doubling.
        step = 1 << max(0, nodes.bit_length() - 3)
        largest = -(-nodes // step) * step
        for size in range(largest - step + 1, min(largest, MOST_NODES) + 1):
            self.units[size] += change


@dataclass(slots=True)
class Rounds:
    """The yield of a method's latest rounds; at first that of a plain pass."""

    rounds: float = 1.0
    tokens: float = 1.0
    passes: float = 1.0  # their time in one-node passes: a busy machine is slower at everything
    lately: float = 1.0  # the same, discounted by the other methods' time as well

    @property
    def yields(self) -> float:
        """Tokens in a one-node pass's time."""
        return self.tokens / self.passes


class TargetFigures:
    """The measurements of one target with its draft models and trained drafter.

    Args:
        curve: of its passes at load.
        drafts: a draft model can draft for it.
    """

    def __init__(self, curve: Sequence[tuple[int, float]] = (), *, drafts: bool = False) -> None:
        self.drafts = drafts
        self.costs = PassCosts(curve)
        self.rounds = defaultdict[str, defaultdict[str, Rounds]](lambda: defaultdict(Rounds))  # by situation and method
        self.reading = dict[str, float]()
        """Passes that a method's model takes to read a token of the text, by method."""
        self.reliability = Reliability()
        """Reliability of matches in the text."""

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over what `plain` returned at an earlier time.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: it is something else.
        """
        for situation, methods in data["methods"].items():
            self.rounds[situation].update({name: Rounds(*map(float, values)) for name, values in methods.items()})
        self.reading = {name: float(passes) for name, passes in data["reading"].items()}

    def plain(self) -> Mapping[str, Any]:
        """Return the figures to keep as plain data."""
        rounds = {
            situation: {name: astuple(record) for name, record in methods.items()} for situation, methods in self.rounds.items()
        }
        return {"methods": rounds, "reading": self.reading}

    @property
    def free(self) -> bool:
        """Whether nodes are nearly free, as far as costs are known."""
        return self.costs.known and self.costs.units[8] <= FREE

    def learn(self, situation: str, name: str, tokens: float, passes: float, spent: float) -> None:
        """Learn from a method's round, and discount all methods by the time `spent` on it with reading and opening."""
        for rounds in self.rounds[situation].values():
            rounds.lately = max(0.02, (1 - 1 / RETRIED) ** spent * rounds.lately)
        rounds, keep = self.rounds[situation][name], (1 - 1 / MEMORY) ** passes
        rounds.rounds = keep * rounds.rounds + 1
        rounds.tokens = keep * rounds.tokens + tokens
        rounds.passes = keep * rounds.passes + passes
        rounds.lately += spent


file: Path | None = None
"""The file that keeps figures for the next time, if any. The engine sets it."""

_loaded: WeakKeyDictionary[Any, dict[str, TargetFigures]] = WeakKeyDictionary()


def load_figures(context: Context) -> TargetFigures:
    """Return the figures of this target with its drafters, from an earlier time if the file has them."""
    model, models = context.model, context.draft_models
    if model is None:
        return TargetFigures()
    key, loaded = _key(context), _loaded.setdefault(model, {})
    if key not in loaded:
        drafts = bool(models) and not any(mismatch(model, draft) for draft in models)
        loaded[key] = TargetFigures(model.info.pass_seconds, drafts=drafts)
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            loaded[key].restore(_read_file()[key])
    return loaded[key]


def save_figures(context: Context | None, figures: TargetFigures) -> None:
    """Write the figures behind those of other models. A file that cannot be written is no error."""
    if file is None or context is None or context.model is None or not figures.costs.known:
        return
    key = _key(context)
    saved = [(model, data) for model, data in _read_file().items() if model != key]
    with suppress(OSError):
        write_json(file, dict([*saved[1 - MODELS :], (key, figures.plain())]))


def _read_file() -> dict[str, Any]:
    with suppress(OSError, ValueError, TypeError):
        return dict(read_json(file)) if file is not None else {}
    return {}


def _key(context: Context) -> str:
    infos = [model.info for model in (context.model, *context.draft_models) if model is not None]
    names = [f"{info.path or info.name} {info.backend} {info.dtype} {info.device}" for info in infos]
    return " + ".join([platform.node(), *names, *([context.head.info.name] if context.head is not None else [])])
