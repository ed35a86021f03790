"""What `auto` has measured of a model on this machine: what passes take, and what came of each method's rounds."""

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
from ...parts.vocabularies import mismatch

MEMORY = 400
"""One-node passes' time of a method after which a round of it counts for a third."""

RETRIED = 1600
"""One-node passes' time, of any method, after which the bound counts a third of what a method had: it is tried again."""

FREE = 1.15
"""Up to this many one-node passes for one over 8 nodes, nodes are nearly free: trees pay that guess in every direction."""

MODELS = 32
"""Models that the file remembers, the latest used."""

SHORT = 64
"""Tokens of a text over which passes take about the same; they are learned apart for each doubling beyond."""

WRITTEN = 60.0
"""Seconds between two writes of the file, which take as long as a small model's pass."""


@dataclass(slots=True)
class Rounds:
    """What came of a method's latest rounds; at first as if one had given what a plain pass gives."""

    rounds: float = 1.0
    tokens: float = 1.0
    passes: float = 1.0  # their time in one-node passes: a machine that is busy is slower at everything
    lately: float = 1.0  # the same, discounted by that of the other methods as well

    @property
    def yields(self) -> float:
        """Tokens in a one-node pass's time."""
        return self.tokens / self.passes

    def learn(self, tokens: float, passes: float, keep: float = 1 - 1 / MEMORY) -> None:
        """Take in a round; `keep` is what earlier ones still count."""
        self.rounds, self.tokens = keep * self.rounds + 1, keep * self.tokens + tokens
        self.passes = keep * self.passes + passes


class TargetFigures:
    """All that is known of one target with what is loaded beside it."""

    def __init__(self, kept: Mapping[str, Any] | None = None, *, drafts: bool = False) -> None:
        """`kept`: what `plain` gave, else ValueError, TypeError or AttributeError. `drafts`: a draft model can draft for it."""
        kept, self.drafts = kept or {}, drafts
        self._lengths = {int(bits): PassCosts(curve) for bits, curve in kept.get("passes", {}).items()} or {0: PassCosts()}
        self.costs = [*self._lengths.values()][-1]
        self.rounds = defaultdict[str, defaultdict[str, Rounds]](lambda: defaultdict(Rounds))  # by situation and method
        for situation, known in kept.get("methods", {}).items():
            self.rounds[situation].update({name: Rounds(*map(float, it)) for name, it in known.items()})
        every = [it for known in self.rounds.values() for it in known.values()]
        if not all(0 < it < math.inf for each in every for it in astuple(each)):
            raise ValueError("these are no rounds")
        self.reading = {name: float(passes) for name, passes in kept.get("reading", {}).items()}  # by method
        self.written = time.monotonic()
        self.reliability = Reliability()  # how texts keep to their matches

    def at(self, tokens: int) -> PassCosts:
        """Turn to what passes over a text of this length take; until that is known, as over the one before."""
        bits = (tokens // SHORT).bit_length()
        self.costs = self._lengths.get(bits) or self._lengths.setdefault(bits, self.costs.for_other_length())
        return self.costs

    @property
    def free(self) -> bool:
        """Whether nodes are known to be nearly free."""
        return self.costs.known and self.costs.seconds(8) <= FREE * self.costs.seconds(1)

    def learn(self, situation: str, name: str, tokens: float, passes: float, spent: float) -> None:
        """Take in a method's round, and what was `spent` on it with reading and opening. All are a little less sure then."""
        for it in self.rounds[situation].values():
            it.lately = max(0.02, (1 - 1 / RETRIED) ** spent * it.lately)
        self.rounds[situation][name].learn(tokens, passes, (1 - 1 / MEMORY) ** passes)
        self.rounds[situation][name].lately += spent

    def plain(self) -> dict[str, Any]:
        """The figures as plain data."""
        rounds = {where: {name: astuple(it) for name, it in known.items()} for where, known in self.rounds.items()}
        passes = {bits: it.curve for bits, it in self._lengths.items()}
        return {"passes": passes, "methods": rounds, "reading": self.reading}


file: Path | None = None
"""Where figures are kept for the next time; None: nowhere. The engine sets it."""

_known: WeakKeyDictionary[Any, dict[str, TargetFigures]] = WeakKeyDictionary()


def figures_of(context: Context) -> TargetFigures:
    """The figures of this target with what is loaded beside it; those of an earlier time if the file has them."""
    model, models = context.model, context.draft_models
    if model is None:
        return TargetFigures()
    key, known = _key(context), _known.setdefault(model, {})
    if key not in known:
        drafts = bool(models) and not any(mismatch(model, draft) for draft in models)
        with suppress(ValueError, TypeError, AttributeError, KeyError):
            known[key] = TargetFigures(_kept()[key], drafts=drafts)
        # Of a model that is new, what its passes took when it was loaded.
        known.setdefault(key, TargetFigures({"passes": {0: model.info.pass_seconds}}, drafts=drafts))
    return known[key]


def keep(context: Context | None, figures: TargetFigures, every: float = 0.0) -> None:
    """Write the figures behind those of other models, once in `every` seconds. A file that cannot be written is no error."""
    known = figures.costs.known and time.monotonic() - figures.written >= every
    if file is None or context is None or context.model is None or not known:
        return
    key, figures.written = _key(context), time.monotonic()
    others = [(other, known) for other, known in _kept().items() if other != key]
    with suppress(OSError):
        write_json(file, dict([*others[1 - MODELS :], (key, figures.plain())]))


def _kept() -> dict[str, Any]:
    """Model → what the file holds."""
    with suppress(OSError, ValueError, TypeError):
        return dict(read_json(file)) if file is not None else {}
    return {}


def _key(context: Context) -> str:
    """Names the machine, the target and what is loaded beside it."""
    infos = [model.info for model in (context.model, *context.draft_models) if model is not None]
    names = [f"{info.path or info.name} {info.backend} {info.dtype} {info.device}" for info in infos]
    return " + ".join([platform.node(), *names, *([context.head.info.name] if context.head is not None else [])])
