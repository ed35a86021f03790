"""The interface of a decoding method: a drafter that grows a token tree, and what the loop passes to it. Imports no runtime, so
listing the methods costs nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..backends.base import Model, Sampling, Scores, Session
from ..backends.heads.base import Head
from ..backends.info import Capabilities, Label
from ..errors import UserError, did_you_mean
from ..option import Option, declared_options
from ..option import option as option
from .acceptance import EXACT, Acceptance
from .needs import Need
from .parts.sizes import Sizes
from .tree import Tree

if TYPE_CHECKING:
    from ..backends.grammars.matcher import Matcher
    from .past.index import Past


@dataclass(slots=True)
class Context:
    """The state that a drafter sees before each step."""

    tokens: Sequence[int]
    """The prompt, the answer so far, and the pending token at the end. A live view that grows between steps."""
    session: Session
    """The target's KV cache; it holds `tokens[:-1]`."""
    sampling: Sampling
    max_depth: int
    """The greatest depth of the draft below the pending token, within the token limit and the context. May be 0."""
    eos_ids: frozenset[int]
    """Tokens that end an answer: never draft past one."""
    branching: bool = True
    """Whether the model can verify branching trees; if not, the tree must be a chain."""
    draft_models: Sequence[Model] = ()
    """The draft models loaded with the target, if any."""
    model: Model | None = None
    acceptance: Acceptance = EXACT
    """The acceptance rule in force. Under `exact`, a drafter that samples should share the target's noise (the same Sampling
    and position give the same pick); under the other rules its draws must be independent of it."""
    head: Head | None = None
    """The trained drafter loaded with the target, if any."""
    past: Past | None = None
    """Past answers to draft from as well, if any."""
    matcher: Matcher | None = None
    """The constraint on the answer, if any, advanced to the end of `tokens`."""

    @property
    def pending(self) -> int:
        """The last token chosen, not yet evaluated."""
        return self.tokens[-1]


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a step, for the drafter to learn from."""

    tree: Tree
    chosen: Sequence[int]
    """The target's choice after each node [n]."""
    path: Sequence[int]
    """Indices of the nodes on the accepted path, starting at node 0."""
    scores: Scores
    """Scores of all n nodes, for `top(k)`; valid during the call only."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    """Time of the pass, the choice from its scores and the commit in the cache; 0 if the pass read prompt tokens too."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The tokens, tree and counts that a step produced. Fields with the name of a `StepRecord` field are the same."""

    tokens: Sequence[int]
    """The tokens that are now certain, in order; may be empty."""
    tree: Tree
    """The tree that was verified, or the texts that a search has open; node 0 was the last certain token before the step."""
    path: Sequence[int] = ()
    """Nodes of `tree` that are certain now, from node 0 on."""
    drafted: int = 0
    accepted: int = 0
    earlier: int = 0
    done: bool = False
    """Whether the answer has ended."""
    probs: tuple[float, ...] = ()
    grammar: int = 0

    def first(self, count: int) -> StepOutcome:
        """Cut to the first `count` tokens. Nodes below them count as neither drafted nor accepted, as none past an EOS do."""
        if count >= len(self.tokens):
            return self
        path = self.path[: count + 1]
        nodes = self.tree.outside(path[-1]) if path else list(range(count + 1))
        tree = self.tree.only(nodes)
        path = [nodes.index(node) for node in path]
        probs = (*(self.probs[node - 1] for node in nodes[1:]), self.probs[-1]) if self.probs else ()
        return replace(
            self,
            tokens=self.tokens[:count],
            tree=tree,
            path=path,
            drafted=min(self.drafted, tree.drafted),
            accepted=min(self.accepted, tree.accepted(path)),
            earlier=min(self.earlier, count),
            grammar=min(self.grammar, count),
            probs=probs,
        )

    @property
    def note(self) -> str:
        """The step's note on grammar-forced tokens."""
        if not self.grammar:
            return ""
        if self.grammar == len(self.tokens):
            return "Written by the grammar: nothing else could follow, so no pass was needed."
        return f"The grammar wrote {self.grammar} of these tokens: neither drafted nor accepted."

    def record(self) -> dict[str, Any]:
        """Return the outcome in the fields of a `StepRecord`."""
        counts = {"drafted": self.drafted, "accepted": self.accepted, "earlier": self.earlier, "grammar": self.grammar}
        ahead = {"ahead": self.tree.ahead, "wasted": self.tree.wasted}
        return {"tokens": tuple(self.tokens), "probs": self.probs, **counts, **ahead, **self.tree.record(self.path)}


@dataclass(frozen=True, slots=True)
class NoParams:
    """A method without settings."""


Group = Literal["plain", "text", "draft model", "own layers", "trained", "automatic"]
"""The source of a method's draft: none (plain decoding), the text and earlier passes, a second model, the target's own layers,
a drafter trained for this target, or the source that is expected to be fastest."""


class Drafter(ABC):
    """A decoding method. Each subclass has its own file, named after the method, and sets these class attributes.

    An instance serves one conversation. It is kept when the user switches to another method and back, and for later turns, so
    `draft` must look at `context.tokens` and catch up with what was added meanwhile, or start over if the tokens differ from
    those it has seen.
    """

    name: ClassVar[str]
    Params: ClassVar[type[Any]] = NoParams
    label: ClassVar[Label] = "identical"
    summary: ClassVar[str]
    """One sentence on the method."""
    pays: ClassVar[str]
    """One or two sentences on the texts and models that it speeds up."""
    group: ClassVar[Group] = "text"
    """The methods that it is listed with."""
    paper: ClassVar[str] = ""
    """Title, first author, year, and a link if there is one."""
    explains: ClassVar[str] = ""
    """Two to four sentences on its mechanism, for someone who sees it for the first time."""
    undrafted: ClassVar[str] = ""
    """The reason why it never drafts, if so; completes the sentence "greedy drafts nothing: "."""
    other_nodes: ClassVar[str] = ""
    """One sentence on the nodes that its passes evaluate besides the draft, if any."""
    compared: ClassVar[bool] = True
    """Whether `bench` and `tune` include it by default; off for methods with different answers, or slow by design."""
    requires: ClassVar[Sequence[Need]] = ()
    """Its requirements; the first one that is not met is the one that the user reads (see `needs`)."""
    reads_cache: ClassVar[bool] = True
    """Whether `draft` uses more of the target's session than its size. If not, the first pass of an answer evaluates the end of
    the prompt together with the draft."""
    drafts: ClassVar[bool] = True
    """False for plain decoding, which needs neither trees nor chains."""
    searches: ClassVar[bool] = False
    """Whether it follows several texts in its own passes (`step`), so that the answer must not grow between two of them."""
    plain: ClassVar[bool] = False
    """Whether the others are compared with it: one node a pass."""

    def __init__(self, params: Any = None) -> None:
        self.params = self.Params() if params is None else params
        self.sizes = Sizes()

    @classmethod
    def needs(cls, *kinds: type[Need]) -> bool:
        """Return whether it has a requirement of one of these kinds."""
        return any(isinstance(need, kinds) for need in cls.requires)

    def prepare(self, context: Context) -> None:  # noqa: B027
        """Open resources such as a draft model's cache. Called when the method is chosen, so no step's time includes it.

        Raises:
            UserError: it cannot draft here; says why.
        """

    @abstractmethod
    def draft(self, context: Context) -> Tree:
        """Return the tree to verify in this step; node 0 is `context.pending`, and the depth is at most `context.max_depth`."""

    def sized(self, tree: Tree, context: Context) -> Tree:
        """Cut a drafted tree to the part that is worth a pass."""
        return self.sizes.cut(tree, context)

    def learn(self, verified: Verified) -> None:  # noqa: B027
        """Learn from a step. Called after each step that this drafter drafted. Where the target could not evaluate the whole
        tree, `verified.tree` is another one, of the nodes that it could, renumbered."""

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        """List the settings that `tune` compares; by default only the method's defaults.

        Args:
            layers: the model's number of them; 0 if it cannot stop early.
        """
        return ({},)

    @classmethod
    def elsewhere(cls, params: Any, draft_model: str) -> Mapping[str, str]:
        """Map other engines (`registry.ENGINES`) to the nearest setting that they have.

        Args:
            params: its settings.
            draft_model: name of the draft model.
        """
        return {}

    def step(self, context: Context, verify: Callable[[Drafter, Context], StepOutcome]) -> StepOutcome:
        """Run one pass: `verify` the draft. A method that does not draft and verify (beam search) runs another kind of pass,
        and may keep nodes alive in the session until the next one."""
        return verify(self, context)

    def leave(self, context: Context) -> Sequence[int]:
        """Finish before another method takes over or the answer ends. Frees every node; the returned tokens, now certain, are
        appended to `context.tokens`, and the session then holds `tokens[:-1]`."""
        return ()

    def horizon(self, session: Session) -> int:
        """Return the length from which on the whole text is read again (see `Session.horizon`)."""
        return session.horizon

    @property
    def note(self) -> str:
        """A short sentence about the last step, if worth saying (`auto` changed its mind)."""
        return ""

    def close(self) -> None:  # noqa: B027
        """Free the drafter's resources, such as a draft session."""


def effective_label(
    method: type[Drafter] | Drafter, acceptance: Acceptance, sampling: Sampling, model: Capabilities | None = None
) -> Label:
    """Weaken a method's label by an acceptance rule and a model. Rejection sampling at temperature 0 is exact match, and a
    method that drafts nothing has nothing to accept."""
    order: list[Label] = ["identical", "same distribution", "lossy"]
    if not method.drafts:
        return method.label
    exact = acceptance.rule == "rejection" and sampling.greedy
    label = method.label if exact else max(method.label, acceptance.label, key=order.index)
    return model.identical if label == "identical" and model is not None else label


def describe_params(method: type[Drafter]) -> list[dict[str, Any]]:
    """Describe each of a method's settings as plain data: name, type, default, range and documentation."""
    return [
        {
            "name": name,
            "type": param.type,
            "default": param.default,
            "low": param.low,
            "high": param.high,
            "choices": list(param.choices),
            "length": param.length,
            "doc": param.help,
        }
        for name, param in declared_options(method.Params).items()
    ]


def find_param(method: type[Drafter], name: str) -> Option:
    """Return the declaration of a method's setting.

    Raises:
        UserError: there is none of this name; suggests the nearest.
    """
    declared = declared_options(method.Params)
    if name not in declared:
        hint = did_you_mean(name, declared, None if declared else "it has no settings.")
        raise UserError(f"Method {method.name} has no setting {name!r}: {hint}")
    return declared[name]


def parse_params(method: type[Drafter], settings: Mapping[str, Any]) -> Any:
    """Make a method's `Params` from names and values (text as typed, or plain data).

    Raises:
        UserError: a name is unknown (suggests the nearest), or a value has the wrong type or is out of range.
    """
    values = {name: find_param(method, name).parse(value, f"{method.name}.{name}") for name, value in settings.items()}
    return method.Params(**values)
