"""The record of one verification pass, as it is drawn, kept and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The results of one verification pass: plain data, the same on the wire, in an answer's log and in files.

    A new field is sent, kept and saved without further code; its default means that it is absent. The fields of the tree are
    empty where nothing was drafted; under beam search they are the open texts, and `path` is their certain part.
    """

    method: str
    tokens: Sequence[int]
    """The tokens from this pass: the accepted draft tokens, then the bonus token, the target's own choice."""
    text: str = ""
    """The text that these tokens completed. The last character is held back until the next one comes, as a combining mark may
    follow, or until the answer ends."""
    drafted: int = 0
    """Number of draft tokens verified."""
    accepted: int = 0
    """Number of draft tokens accepted."""
    nodes: int = 1
    """Number of nodes that the model evaluated."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    tree_tokens: Sequence[int] = field(default_factory=list)
    """The tree that was verified; node 0 is the token that was pending before."""
    tree_parents: Sequence[int] = field(default_factory=list)
    path: Sequence[int] = field(default_factory=list)
    """Nodes of the tree on the accepted path."""
    carried: int = 0
    """Number of characters at the start of `text` that belong to the step before."""
    probs: Sequence[float] = field(default_factory=list)
    """If probabilities are recorded, the target's (plain softmax) of each node's token after node 0, in node order, then of the
    bonus token."""
    note: str = ""
    prefilled: int = 0
    """Number of prompt tokens that this pass evaluated as well. `forward_seconds` is then the share of the tree's nodes in its
    time; the rest is prefill."""
    earlier: int = 0
    """Number of `tokens` that earlier passes chose, one each, and this one made certain (beam search)."""
    held: str = ""
    """The character held back, if it can be shown meanwhile. The next text begins with it, or with what it becomes."""
    ahead: int = 0
    """Number of tokens that the draft model drafted ahead while this pass ran."""
    wasted: int = 0
    """Number of tokens drafted ahead that this pass proved useless."""
    drafters: Sequence[str] = field(default_factory=list)
    """Names of the drafters that grew the tree together; empty if the method drafted alone."""
    sources: Sequence[int] = field(default_factory=list)
    """Bits of each tree node, where there are `drafters`: bit i is set if `drafters[i]` guessed it."""
    grammar: int = 0
    """Number of grammar-forced tokens among `tokens`, neither drafted nor accepted: all of them in a step of no nodes, which
    the constraint wrote without a pass."""
    shares: Sequence[float] = field(default_factory=list)
    """Shares of the nodes that the draft models, the first of `drafters`, had learned to get."""
    declined: Sequence[float] = field(default_factory=list)
    """Nodes of a draft that was declined because its pass promised less than it costs, and that cost in plain passes."""
    spans: Sequence[Sequence[int]] = field(default_factory=list)
    """Thought and answer, of a model that thinks: rows of [1 for a thought or 0 for the answer, characters of `text`, tokens],
    in order, which add up to `text` and `tokens`. Empty: all of it is answer. The marks around a thought are no text, and their
    tokens count as the thought's. `held` and the next text belong to the last row's part."""

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.draft_seconds + self.forward_seconds + self.other_seconds


_ABSENT = StepRecord("", ())
FIELDS: dict[str, Any] = {declared.name: getattr(_ABSENT, declared.name) for declared in fields(StepRecord)}
"""The record's fields in their order, with the values that mean they are absent."""
