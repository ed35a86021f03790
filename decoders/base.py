"""What a decoding method is: a drafter that grows a token tree, and what it is told. Imports no runtime, so that listing the
methods costs nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from math import isfinite
from typing import Any, ClassVar

from ..backends.base import Capabilities, Label, Model, Sampling, Scores, Session
from ..errors import UserError, did_you_mean
from .acceptance import EXACT, Acceptance
from .tree import Tree


@dataclass(slots=True)
class Context:
    """What a drafter sees before a step."""

    tokens: Sequence[int]
    """The prompt, the answer so far, and the pending token at the end. A live view; it grows between steps."""
    session: Session
    """The target's cache: holds `tokens[:-1]`."""
    sampling: Sampling
    room: int
    """Most draft tokens below the pending one, in depth: within the token limit and the context. May be 0."""
    eos_ids: frozenset[int]
    """Never draft past one of these."""
    branching: bool = True
    """Whether the model verifies branching trees; if not, the tree must be a chain."""
    draft_model: Model | None = None
    """The draft model that was loaded beside the target."""
    model: Model | None = None
    """The target."""
    acceptance: Acceptance = EXACT
    """The rule in force. Under `exact` a drafter that samples should share the target's noise (the same Sampling and
    position give the same pick); under the others its draws must be independent of it."""
    drafter: Callable[[str], Drafter] | None = None
    """The conversation's drafter of a name, pools and all: for methods that build on others."""

    @property
    def pending(self) -> int:
        """The token chosen last, not yet evaluated."""
        return self.tokens[-1]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a step showed, for its drafter to learn from."""

    tree: Tree
    chosen: Sequence[int]
    """The target's choice after each node [n]."""
    path: Sequence[int]
    """Indices of the nodes on the accepted path, from node 0 down."""
    scores: Scores
    """Of all n nodes, for `top(k)`; valid during the call only."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step of a method with a loop of its own did."""

    tokens: Sequence[int]
    """The tokens that are now certain, in order; may be none."""
    tree: Tree
    """What was evaluated, for display; parents may refer to nodes of earlier steps, then they are ROOT here."""
    path: Sequence[int] = ()
    drafted: int = 0
    accepted: int = 0
    earlier: int = 0
    """How many of `tokens` earlier passes found, a pass for each; this one only made them certain."""
    done: bool = False
    """The answer has ended."""
    probs: tuple[float, ...] = ()
    """As `loop.Step.probs`."""
    checked: int = 0
    """As `loop.Step.checked`."""


def param(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    length: bool | str = False,
) -> Any:
    """A field of a method's `Params`: its default, one line of documentation and its range.

    `length`: it bounds the draft, so that the keys for longer and shorter drafts change it; "setting=value": while that
    setting has that value. Of several such fields the first one counts.
    """
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "choices": tuple(choices), "length": length})


@dataclass(frozen=True, slots=True)
class NoParams:
    """A method without settings."""


Elsewhere = Mapping[str, tuple[str, str]]
"""Engine → the nearest setting that it has, to be copied (empty if there is none), and what differs, in a sentence."""


class Drafter(ABC):
    """One decoding method. Subclasses are one file each, named after the method, and state these class attributes.

    An instance serves one conversation. It outlives switches to other methods and back, and later turns: `draft` must look at
    `context.tokens` and catch up with what came in meanwhile (or start afresh if the tokens differ from those it has seen).
    """

    name: ClassVar[str]
    label: ClassVar[Label] = "identical"
    summary: ClassVar[str]
    """One sentence: what it does."""
    pays: ClassVar[str]
    """One sentence: when it pays."""
    paper: ClassVar[str] = ""
    """Title, authors' first name and year; a link if there is one."""
    explains: ClassVar[str] = ""
    """How it works, in two to four sentences for someone who sees it at work for the first time."""
    undrafted: ClassVar[str] = ""
    """What it does in place of drafting, if it drafts nothing; ends the sentence "greedy drafts nothing: "."""
    other_nodes: ClassVar[str] = ""
    """What its passes evaluate besides the draft, if anything; one sentence."""
    compared: ClassVar[bool] = True
    """Whether `bench` and `tune` take it along unasked: off for what answers differently, or is slower by its nature."""
    needs_tree: ClassVar[bool] = False
    """It cannot work without branching trees; others draft a chain where `Context.branching` is False."""
    needs_draft_model: ClassVar[bool] = False
    """It drafts with a second, smaller model."""
    needs_layers: ClassVar[bool] = False
    """It drafts with the target's first layers."""
    reads_cache: ClassVar[bool] = True
    """`draft` uses the target's session for more than its size. Where it does not, the first pass of an answer takes the end of
    the prompt along with the draft."""
    drafts: ClassVar[bool] = True
    """False for the plain methods, which need neither."""
    Params: ClassVar[type[Any]] = NoParams

    def __init__(self, params: Any = None) -> None:
        self.params = self.Params() if params is None else params

    @abstractmethod
    def draft(self, context: Context) -> Tree:
        """The tree to verify in this step; node 0 is `context.pending`. Depth at most `context.room`."""

    def learn(self, verified: Verified) -> None:  # noqa: B027
        """Told after each step that this drafter drafted."""

    @classmethod
    def grid(cls, layers: int, *, gaps: bool = True) -> Sequence[Mapping[str, str]]:
        """The settings that `tune` compares; the defaults alone unless a method says more.

        Args:
            layers: of the model; 0 if it has none to stop after.
            gaps: whether the model can leave out layers in the middle.
        """
        return ({},)

    @classmethod
    def elsewhere(cls, params: Any, draft_model: str) -> Elsewhere:
        """What is nearest to it in transformers, llama-server and vLLM; an engine that is left out has nothing like it.

        Args:
            params: its settings.
            draft_model: name of the draft model.
        """
        return {}

    own_loop: ClassVar[bool] = False
    """Its steps are not draft-and-verify (beam search): the loop calls `step` and `leave` instead of `draft` and `learn`."""

    def step(self, context: Context) -> Outcome:
        """One pass of a method with a loop of its own. Nodes may stay alive in the session between its steps."""
        raise NotImplementedError

    def leave(self, context: Context) -> Sequence[int]:
        """Settle before another method goes on, or the answer ends: free every node, so that the session holds
        `tokens[:-1]` with the returned tokens (now certain too) appended to `context.tokens`."""
        return ()

    @property
    def note(self) -> str:
        """Why the last step was as it was, if that is worth telling (`auto` changed its mind); one short sentence."""
        return ""

    def close(self) -> None:  # noqa: B027
        """Free what the drafter holds (a draft session)."""


def label_of(
    method: type[Drafter] | Drafter, acceptance: Acceptance, sampling: Sampling, model: Capabilities | None = None
) -> Label:
    """What holds of a method's tokens under an acceptance rule, on a model. Rejection sampling at temperature 0 is exact match,
    and a method that drafts nothing has nothing to accept."""
    order: list[Label] = ["identical", "same distribution", "lossy"]
    if not method.drafts or method.own_loop:
        return method.label
    exact = acceptance.rule == "rejection" and sampling.greedy
    label = method.label if exact else max(method.label, acceptance.label, key=order.index)
    return model.identical if label == "identical" and model is not None else label


ON_OFF = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
"""Words for a setting that is on or off."""

KINDS: dict[str, type[Any]] = {"int": int, "float": float, "bool": bool, "str": str}
"""Types that a setting may have."""


def setting_type(f: Any) -> str:
    """The type of a field of `Params` by name, whether or not its module postpones annotations."""
    return str(getattr(f.type, "__name__", f.type))


def describe_params(method: type[Drafter]) -> list[dict[str, Any]]:
    """Name, type, default, range and documentation of each setting of a method, as plain data."""
    return [
        {
            "name": f.name,
            "type": setting_type(f),
            "default": None if f.default is MISSING else f.default,
            "low": f.metadata.get("low"),
            "high": f.metadata.get("high"),
            "choices": list(f.metadata.get("choices", ())),
            "length": f.metadata.get("length", False),
            "doc": f.metadata.get("doc", ""),
        }
        for f in fields(method.Params)
    ]


def parse_params(method: type[Drafter], settings: dict[str, Any]) -> Any:
    """A method's `Params` from names and values (texts, as typed, or plain data).

    Raises:
        UserError: an unknown name (with the nearest known one), a value of the wrong type or out of its range.
    """
    known = {f.name: f for f in fields(method.Params)}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            hint = did_you_mean(name, known, f"it has {', '.join(known) or 'no settings'}.")
            raise UserError(f"Method {method.name} has no setting {name!r}: {hint}")
        values[name] = _convert(method.name, known[name], value)
    return method.Params(**values)


def _convert(method: str, f: Any, value: Any) -> Any:
    """One value in the type of its field, checked against the field's range."""
    kind = KINDS[setting_type(f)]
    if kind is bool and isinstance(value, str):
        if value.lower() not in ON_OFF:
            raise UserError(f"{method}.{f.name} is on or off, not {value!r}.")
        return ON_OFF[value.lower()]
    try:
        out = kind(value)
        if (kind is float and not isfinite(out)) or (kind is int and not isinstance(value, str) and out != value):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        wanted = {int: "a whole number", float: "a number"}.get(kind, "text")
        raise UserError(f"{method}.{f.name} takes {wanted}, not {value!r}.") from None
    low, high, choices = f.metadata.get("low"), f.metadata.get("high"), f.metadata.get("choices")
    if choices and out not in choices:
        raise UserError(f"{method}.{f.name} is one of {', '.join(choices)}, not {value!r}.")
    if (low is not None and out < low) or (high is not None and out > high):
        bounds = f"between {low} and {high}"
        if low is None or high is None:
            bounds = f"at most {high}" if low is None else f"at least {low}"
        raise UserError(f"{method}.{f.name} must be {bounds}, not {value}.")
    return out
