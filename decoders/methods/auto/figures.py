"""The measurements of `auto` for a model on this machine: the cost of passes, and the yield of each method's rounds."""

from __future__ import annotations

import math
import platform
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ....plain_file import read_json, write_json
from ...base import Context
from ...parts.costs import PassCosts
from ...parts.learned import Reliability
from ...parts.proposers import mismatch

MEMORY = 400
"""Time of a method, in one-node passes, after which an older round of it counts for a third."""

RETRIED = 1600
"""Time of all methods, in one-node passes, after which the bound counts a third of a method's rounds: it is tried again."""

FREE = 1.15
"""Most one-node passes for a pass over 8 nodes at which nodes are nearly free: trees pay that guess in every direction."""

MODELS = 32
"""Number of models, the latest used, that the file remembers."""

SHORT = 64
"""Tokens of a text up to which passes cost about the same; costs are learned apart for each doubling beyond."""

WRITTEN = 60.0
"""Seconds between two writes of the file, which take as long as a small model's pass."""


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

    def learn(self, tokens: float, passes: float, keep: float = 1 - 1 / MEMORY) -> None:
        """Learn from a round; `keep` is the remaining weight of earlier ones."""
        self.rounds = keep * self.rounds + 1
        self.tokens = keep * self.tokens + tokens
        self.passes = keep * self.passes + passes


class TargetFigures:
    """The measurements of one target with its draft models and trained drafter."""

    def __init__(self, data: Mapping[str, Any] | None = None, *, drafts: bool = False) -> None:
        """Read `data` from `plain`; ValueError, TypeError or AttributeError if it is not. `drafts`: a draft model can draft."""
        data = data or {}
        self.drafts = drafts
        self._lengths = {int(bits): PassCosts(curve) for bits, curve in data.get("passes", {}).items()} or {0: PassCosts()}
        self.costs = [*self._lengths.values()][-1]
        self.rounds = defaultdict[str, defaultdict[str, Rounds]](lambda: defaultdict(Rounds))  # by situation and method
        for situation, methods in data.get("methods", {}).items():
            self.rounds[situation].update({name: Rounds(*map(float, values)) for name, values in methods.items()})
        rounds = [rounds for methods in self.rounds.values() for rounds in methods.values()]
        if not all(0 < value < math.inf for record in rounds for value in astuple(record)):
            raise ValueError("these are no rounds")
        self.reading = {name: float(passes) for name, passes in data.get("reading", {}).items()}  # by method
        self.written = time.monotonic()
        self.reliability = Reliability()  # of matches in the text

    def at(self, tokens: int) -> PassCosts:
        """Switch to the costs of passes over a text of this length; until they are learned, those of the length before."""
        bits = (tokens // SHORT).bit_length()
        self.costs = self._lengths.get(bits) or self._lengths.setdefault(bits, self.costs.for_other_length())
        return self.costs

    @property
    def free(self) -> bool:
        """Whether nodes are nearly free, as far as costs are known."""
        return self.costs.known and self.costs.seconds(8) <= FREE * self.costs.seconds(1)

    def learn(self, situation: str, name: str, tokens: float, passes: float, spent: float) -> None:
        """Learn from a method's round, and discount all methods by the time `spent` on it with reading and opening."""
        for rounds in self.rounds[situation].values():
            rounds.lately = max(0.02, (1 - 1 / RETRIED) ** spent * rounds.lately)
        self.rounds[situation][name].learn(tokens, passes, (1 - 1 / MEMORY) ** passes)
        self.rounds[situation][name].lately += spent

    def plain(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        rounds = {
            situation: {name: astuple(record) for name, record in methods.items()} for situation, methods in self.rounds.items()
        }
        passes = {bits: costs.curve for bits, costs in self._lengths.items()}
        return {"passes": passes, "methods": rounds, "reading": self.reading}


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
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            loaded[key] = TargetFigures(_read_file()[key], drafts=drafts)
        # A new model has the costs that were measured at load.
        loaded.setdefault(key, TargetFigures({"passes": {0: model.info.pass_seconds}}, drafts=drafts))
    return loaded[key]


def save_figures(context: Context | None, figures: TargetFigures, every: float = 0.0) -> None:
    """Write the figures behind those of other models, once in `every` seconds. A file that cannot be written is no error."""
    due = figures.costs.known and time.monotonic() - figures.written >= every
    if file is None or context is None or context.model is None or not due:
        return
    key = _key(context)
    figures.written = time.monotonic()
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
