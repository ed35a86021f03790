"""The decoding methods as the chat shows them: their labels, their draft lengths, and which of them suit a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, NamedTuple

from ...engine.catalog import Totals
from ...engine.options import BUILTIN, ModelInfo, least_share, plain_passes

MethodSettings = Mapping[str, Any]
"""Settings of a method by name; their types are the method's."""

LABELS: Mapping[str, str] = {
    "identical": "The text is exactly what plain decoding would write, token for token.",
    "identical but for near ties": "The text is what plain decoding would write, except where two tokens are nearly equal: a "
    "pass of many nodes rounds otherwise, and the other one may win.",
    "same distribution": "The tokens may differ from plain decoding's, but each is as probable as under plain sampling.",
    "lossy": "The text may differ from what the model would write by itself, and may be worse.",
}
"""Label → what it promises."""


def right_or_accepted(label: str) -> str:
    """Return the word for a guess that went into the text: right, or accepted if the rule allows other tokens too."""
    return "accepted" if label in ("lossy", "same distribution") else "right"


def hits(totals: Totals, label: str) -> tuple[str, str]:
    """Count the right guesses and name the unit. Trees are counted by whether they held the right token, as at most one guess
    of a depth is right."""
    word = right_or_accepted(label)
    if totals.depth < totals.drafted:
        return f"{totals.accepted_at[0]:,} of {totals.drafted_at[0]:,}", f"trees {word}"
    return f"{totals.accepted:,} of {totals.drafted:,}", f"guesses {word}"


GROUPS: Mapping[str, str] = {
    "plain": "Plain decoding",
    "text": "From the text",
    "draft model": "A smaller model",
    "own layers": "Its own layers",
    "trained": "Trained drafters",
    "automatic": "Automatic",
}
"""Group → its heading, in display order."""

SERVER = "The server's"
"""Heading of a server's method."""


@dataclass(frozen=True, slots=True)
class Method:
    """A decoding method as the interface knows it; decoders/base.py explains the fields."""

    name: str
    group: str = "text"
    label: str = "identical"
    summary: str = ""
    pays: str = ""
    paper: str = ""
    params: tuple[Mapping[str, Any], ...] = ()
    explains: str = ""
    plain: bool = False
    undrafted: str = ""
    other_nodes: str = ""


@cache
def known_methods() -> Mapping[str, Method]:
    """Return every method by name, in display order."""
    from ...engine.catalog import describe

    groups = list(GROUPS)
    methods = {}
    for entry in sorted(describe(), key=lambda entry: groups.index(entry["group"])):
        values = {field.name: entry[field.name] for field in fields(Method)}
        methods[entry["name"]] = Method(**values | {"params": tuple(entry["params"])})
    return methods


def served_method(info: ModelInfo) -> dict[str, Method]:
    """Return the method of a server's model by name; empty for a model on this machine."""
    if info.server is None:
        return {}
    name = info.server.method
    return {name: Method(name, "server", "", f"{info.device} decodes.")}


def get_method(name: str) -> Method:
    """Return the method of this name; one with the name alone if it is unknown."""
    return known_methods().get(name) or Method(name)


LENGTHS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
"""Sizes of a draft in tokens that the draft-length keys go through."""

BUDGETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Sizes of a tree in nodes."""


class DraftLength(NamedTuple):
    """A method's draft length: the setting, its value and its limits."""

    setting: str
    value: int
    low: int
    high: int

    def next_size(self, direction: int) -> int:
        """Return the next size up (1) or down (−1) within the limits, the current one if there is none."""
        sizes = BUDGETS if self.setting == "nodes" else LENGTHS
        if direction > 0:
            return min(self.high, next((size for size in sizes if size > self.value), self.high))
        return max(self.low, next((size for size in reversed(sizes) if size < self.value), self.low))


def draft_length(method: Method, settings: MethodSettings) -> DraftLength | None:
    """Return the draft length of a method with these settings; None if it has none."""
    params = {param["name"]: param for param in method.params}
    for name, param in params.items():
        # Whether the keys change it, or "other=value": while another setting has that value.
        other, _, value = str(param.get("length", "")).partition("=")
        if other == "True" or (value and str(settings.get(other, params[other]["default"])) == value):
            low, high = param.get("low"), param.get("high")
            length = int(settings.get(name, param["default"]))
            return DraftLength(name, length, low=1 if low is None else int(low), high=int(high or BUDGETS[-1]))
    return None


def why_no_length(method: Method) -> str:
    """Explain why a method has no draft length."""
    if method.undrafted:
        return f"{method.name} drafts nothing: {method.undrafted}."
    return f"{method.name} has no setting for the length of its drafts."


# Which method a chat starts with, which ones ctrl+n goes through, which ones race.

PLAIN = "greedy"
"""The method that every other one is compared with."""

PROMISING = ("draft", "lookup", "early-exit", "fusion", "auto")
"""Methods offered after plain decoding and trained drafters. The first two differ most: one gives several tokens a pass on any
text, the other wins where text is copied, on the fastest models too. `auto` chooses among the others, so it comes last."""

SELDOM = ("recompute", "ngram", "recycle", "lookahead", "jacobi")
"""Methods that others beat nearly everywhere, offered last."""


def shortlist(methods: Mapping[str, Method], unavailable: Collection[str], model: str) -> list[str]:
    """Return the methods worth a try on a model: plain decoding, then those with the same text, the most promising first."""
    trained = [name for name, method in methods.items() if method.group == "trained" and method.label == "identical"]
    # Its files look like any other's: only the name shows that a model's first layers are trained to draft.
    early_exit = model == BUILTIN or "layerskip" in model.lower()
    left_out = {*unavailable, *(() if early_exit else ("early-exit",))}
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
    """Choose the method that a chat with a model starts with; `drafts` are the draft models that were asked for.

    If a pass over guesses costs too much, it is plain decoding (see `why_plain`). Else, with a draft model it is `draft`, and
    with a trained drafter its method: they give several tokens a pass on any text. Else it is `lookup`: it needs no trial, and
    a wrong draft costs it next to nothing.
    """
    preferred = ["lookup", PLAIN]
    if why_plain(info):
        preferred = [PLAIN]
    elif drafts or model == BUILTIN:
        # `draft` first: until the model is loaded, its draft models are unknown.
        trained = (name for name, method in methods.items() if method.group == "trained")
        preferred = ["draft", *trained, *preferred]
    return next((name for name in (*preferred, *methods) if name in methods and name not in unavailable), PLAIN)
