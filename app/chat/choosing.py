"""The order of the methods: which one a chat starts with, which ones ctrl+n goes through, which ones race."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ...engine.options import BUILTIN, ModelInfo, least_share, plain_passes
from .methods import Method

PLAIN = "greedy"
"""The method that every other one is compared with."""

PROMISING = ("draft", "lookup", "early-exit", "fusion", "auto")
"""Methods offered after plain decoding and trained drafters. The first two differ most: one gives several tokens a pass on any
text, the other wins where text is copied, on the fastest models too. `auto` chooses among the others, so it comes last."""

FEWEST_TOKENS = 16
"""Shorter answers say nothing about speed."""

SELDOM = ("recompute", "ngram", "recycle", "lookahead", "jacobi")
"""Methods that others beat nearly everywhere, offered last."""


def exits_early(model: str) -> bool:
    """Whether a model's first layers are trained to draft. Only its name shows it: its files look like any other's."""
    return model == BUILTIN or "layerskip" in model.lower()


def shortlist(methods: Mapping[str, Method], unavailable: Collection[str], model: str) -> list[str]:
    """Return the methods worth a try on a model: plain decoding, then those with the same text, the most promising first."""
    trained = [name for name, method in methods.items() if method.group == "trained" and method.label == "identical"]
    left_out = {*unavailable, *(() if exits_early(model) else ("early-exit",))}
    # The built-in model is so small that its trained drafters, a fifth of it, pay less than the first two.
    first = PROMISING[:2] if model == BUILTIN else ()
    ranked = dict.fromkeys((PLAIN, *first, *trained, *PROMISING))
    return [name for name in ranked if name in methods and name not in left_out]


DEAR_NODE = 0.4
"""The most that a further node may cost, in plain passes, at the size where it costs the least: drafts rarely gain more."""

USUAL_DRAFT = 8
"""Draft tokens of the pass whose cost is shown."""


def why_plain(info: ModelInfo) -> str:
    """Explain why a model starts with plain decoding; empty if guesses may pay, or before the model is loaded."""
    if least_share(info.pass_seconds) < DEAR_NODE:
        return ""
    cost = plain_passes(info.pass_seconds)[USUAL_DRAFT + 1]
    return f"Here a pass over {USUAL_DRAFT} guesses takes as long as {cost:.1f} plain ones, so plain decoding comes first."


def first_method(
    methods: Mapping[str, Method], unavailable: Collection[str], model: str, drafts: object, info: ModelInfo
) -> str:
    """Choose the method that a chat starts with.

    If a pass over guesses costs too much, it is plain decoding (see `why_plain`). Else, with a draft model it is `draft`, and
    with a trained drafter its method: they give several tokens a pass on any text. Else it is `lookup`: it needs no trial, and
    a wrong draft costs it next to nothing.

    Args:
        unavailable: methods that the model is known not to run.
        model: its name as the user wrote it.
        drafts: the requested draft models; the built-in model has its own.
    """
    preferred = ["lookup", PLAIN]
    if why_plain(info):
        preferred = [PLAIN]
    elif drafts or model == BUILTIN:
        # `draft` first: until the model is loaded, its draft models are unknown.
        trained = (name for name, method in methods.items() if method.group == "trained")
        preferred = ["draft", *trained, *preferred]
    return next((name for name in (*preferred, *methods) if name in methods and name not in unavailable), PLAIN)


@dataclass(slots=True)
class Speeds:
    """The last measured speedup of each method on each model, from an answer's verdict or from a race."""

    _ratios: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, model: str, method: str, tokens: int, ratio: float) -> None:
        """Record a method's speed divided by plain decoding's (0 if unknown) over an answer of `tokens` tokens."""
        if tokens >= FEWEST_TOKENS and ratio > 0:
            self._ratios[model, method] = ratio

    def ratio(self, model: str, method: str) -> float | None:
        """Return a method's speedup over plain decoding; None if unknown."""
        return self._ratios.get((model, method))
