"""Which method a chat starts with, which ones ctrl+n goes through and which ones race: one order for all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...engine.options import BUILTIN, least_share, plain_passes
from .methods import Method

PLAIN = "greedy"
"""What every other method is compared with."""

PROMISING = ("draft", "lookup", "early-exit", "fusion", "auto")
"""What is offered beside plain decoding and trained drafters. The first two differ most: one gives several tokens a pass on any
text, the other wins where text is copied, on the fastest models too. `auto` chooses among the others, so it comes last."""

FEWEST_TOKENS = 16
"""An answer of fewer tells nothing about speed."""


SELDOM = ("recompute", "ngram", "recycle", "lookahead", "jacobi")
"""Methods that others beat nearly everywhere: worth a look for what they show. Offered last."""


def exits_early(model: str) -> bool:
    """Whether a model's first layers are trained to draft. Only its name can tell: its files are like any other's."""
    return model == BUILTIN or "layerskip" in model.lower()


def shortlist(methods: Mapping[str, Method], unavailable: Collection[str], model: str) -> list[str]:
    """The methods worth a try on a model: plain decoding, then those that give the same text sooner, the best hope first."""
    trained = [name for name, method in methods.items() if method.group == "trained" and method.label == "identical"]
    left_out = {*unavailable, *(() if exits_early(model) else ("early-exit",))}
    # The built-in model is so small that its trained drafters, a fifth of it, pay less than the first two.
    first = PROMISING[:2] if model == BUILTIN else ()
    ranked = dict.fromkeys((PLAIN, *first, *trained, *PROMISING))
    return [name for name in ranked if name in methods and name not in left_out]


DEAR_NODE = 0.4
"""What a further node may cost in plain passes, in passes of the size where it costs the least: above that drafts rarely give
as many tokens."""

USUAL_DRAFT = 8
"""Draft tokens of the pass whose cost is named."""


def why_plain(info: Mapping[str, Any]) -> str:
    """Why a model starts with plain decoding although it could guess; empty where guesses may pay, or before it is loaded."""
    curve = tuple((int(nodes), float(seconds)) for nodes, seconds in info.get("pass_seconds") or ())
    if least_share(curve) < DEAR_NODE:
        return ""
    cost = plain_passes(curve)[USUAL_DRAFT + 1]
    return f"Here a pass over {USUAL_DRAFT} guesses takes as long as {cost:.1f} plain ones, so plain decoding comes first."


def first_method(
    methods: Mapping[str, Method], unavailable: Collection[str], model: str, drafts: object, info: Mapping[str, Any]
) -> str:
    """The method that a chat starts with where nobody has chosen one.

    Where a pass over guesses costs too much it is plain decoding (see `why_plain`). Else, with a draft model it is `draft`, and
    with a trained drafter its method: they give several tokens a pass on any text. Else it is `lookup`: it needs no trial, and
    a draft that turns out wrong costs it next to nothing.

    Args:
        unavailable: those that the model cannot run, as far as that is known.
        model: as the user names it.
        drafts: the draft models that were asked for; the built-in model brings its own.
    """
    # `draft` first: until the model is loaded, nobody knows what a draft model is.
    drafting = ("draft", *(name for name, method in methods.items() if method.group == "trained"))
    wanted = (*drafting, "lookup", PLAIN) if drafts or model == BUILTIN else ("lookup", PLAIN)
    if why_plain(info):
        wanted = (PLAIN,)
    return next((name for name in (*wanted, *methods) if name in methods and name not in unavailable), PLAIN)


@dataclass(slots=True)
class Speeds:
    """How fast each method was here when it was last compared with plain decoding on one text: in an answer of its own, as its
    verdict says, or in a race."""

    _ratios: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, model: str, method: str, tokens: int, ratio: float) -> None:
        """Take in a comparison: a method's speed by plain decoding's, 0 where that is not known."""
        if tokens >= FEWEST_TOKENS and ratio > 0:
            self._ratios[model, method] = ratio

    def ratio(self, model: str, method: str) -> float | None:
        """How many times as fast as plain decoding; None where that is not known."""
        return self._ratios.get((model, method))
