"""What `auto` has measured of a model on this machine: what passes take, and what came of each method's rounds."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ....plain_file import read_json, write_json
from ...base import Context
from ...parts.costs import PassCosts
from ...parts.proposers import mismatch

MEMORY = 200
"""Rounds in a situation after which an older one counts for a third: the discount of D-UCB."""

WIDTH = 0.2
"""Width of the confidence bound: after n of N rounds a method's speed may be better by this share times √(ln N / n)."""

MODELS = 32
"""Models that the file remembers, the latest used."""


@dataclass(slots=True)
class Rounds:
    """What came of a method's rounds lately; at first as if one had given what a plain pass gives."""

    rounds: float = 1.0
    tokens: float = 1.0
    passes: float = 1.0  # their time in one-node passes: a machine that is busy is slower at everything
    asked: float = 0.0  # how often it was asked at all

    def learn(self, tokens: float, passes: float, keep: float = 1.0) -> None:
        """Take in a round; `keep` is what earlier ones still count."""
        self.rounds, self.tokens = keep * self.rounds + 1, keep * self.tokens + tokens
        self.passes, self.asked = keep * self.passes + passes, self.asked + 1


class Figures:
    """All that is known of one target with what is loaded beside it."""

    def __init__(self, kept: Mapping[str, Any] | None = None, *, drafts: bool = False) -> None:
        """`kept`: what `plain` gave. `drafts`: there is a draft model that can draft for this target.

        Raises:
            ValueError, TypeError, AttributeError: `plain` did not give that.
        """
        kept = kept or {}
        self.drafts = drafts
        self.costs = PassCosts([(int(nodes), float(seconds)) for nodes, seconds in kept.get("passes", ())])
        every = kept.get("rounds", {}).items()
        self.rounds = {where: {name: Rounds(*map(float, it)) for name, it in known.items()} for where, known in every}
        """By situation and method."""
        if not all(0 < it < math.inf for known in self.rounds.values() for each in known.values() for it in astuple(each)[:3]):
            raise ValueError("these are no rounds")
        self.reading = {name: float(passes) for name, passes in kept.get("reading", {}).items()}  # by method
        # One-node passes' time of all steps, and what trials took longer than the best method would have.
        self.spent = self.lost = 0.0
        self.since = 0  # steps since plain decoding was measured

    def of(self, name: str, situation: str) -> Rounds:
        """A method's rounds in a situation."""
        return self.rounds.setdefault(situation, {}).setdefault(name, Rounds())

    def discount(self, situation: str, keep: float = 1 - 1 / MEMORY) -> None:
        """Another round begins in this situation: all earlier ones, of every method, count less, down to nearly nothing."""
        for it in self.rounds.get(situation, {}).values():
            if it.rounds > 0.02:
                it.rounds, it.tokens, it.passes = keep * it.rounds, keep * it.tokens, keep * it.passes

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        rounds = {where: {name: astuple(it) for name, it in known.items()} for where, known in self.rounds.items()}
        return {"passes": self.costs.curve, "rounds": rounds, "reading": self.reading}


file: Path | None = None
"""Where figures are kept for the next time; None: nowhere. The engine sets it."""

_known: WeakKeyDictionary[Any, dict[str, Figures]] = WeakKeyDictionary()


def figures_of(context: Context) -> Figures:
    """The figures of this target with what is loaded beside it; those of an earlier time if the file has them."""
    model, models = context.model, context.draft_models
    if model is None:
        return Figures()
    key, known = _key(context), _known.setdefault(model, {})
    if key not in known:
        drafts = bool(models) and not any(mismatch(model, draft) for draft in models)
        with suppress(ValueError, TypeError, AttributeError):
            known[key] = Figures(_kept().get(key), drafts=drafts)
        # Of a model that is new, what its passes took when it was loaded.
        known.setdefault(key, Figures({"passes": model.info.pass_seconds}, drafts=drafts))
    return known[key]


def keep(context: Context | None, figures: Figures) -> None:
    """Write the figures into the file, behind those of other models. A file that cannot be written is no error."""
    if file is None or context is None or context.model is None or not figures.costs.known:
        return
    kept, key = _kept(), _key(context)
    kept.pop(key, None)
    kept[key] = figures.plain()
    with suppress(OSError):
        write_json(file, dict([*kept.items()][-MODELS:]))


def _kept() -> dict[str, Any]:
    """By model: what the file holds."""
    with suppress(OSError, ValueError, TypeError):
        return dict(read_json(file)) if file is not None else {}
    return {}


def _key(context: Context) -> str:
    """Names the machine, the target and what is loaded beside it."""
    infos = [model.info for model in (context.model, *context.draft_models) if model is not None]
    names = [f"{info.path or info.name} {info.backend} {info.dtype} {info.device}" for info in infos]
    return " + ".join([platform.node(), *names, *([context.head.info.name] if context.head is not None else [])])
