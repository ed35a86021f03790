"""One verification pass, as it is drawn, kept and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one verification pass gave: plain data, the same on the wire, in an answer's log and in files.

    A field that is added here crosses, is kept and is saved; its default stands for nothing. The fields of the tree are empty
    where nothing was drafted; under beam search they are the open texts, and `path` is what of them is certain.
    """

    method: str
    tokens: Sequence[int]
    """The tokens from this pass: the accepted draft tokens, then the target's own choice."""
    text: str = ""
    """The text that these tokens completed. The last character is held back until the next one comes, as a combining mark may
    follow, or until the answer ends."""
    drafted: int = 0
    """How many draft tokens were verified."""
    accepted: int = 0
    """How many draft tokens were accepted."""
    nodes: int = 1
    """How many nodes the model evaluated."""
    draft_seconds: float = 0.0
    forward_seconds: float = 0.0
    other_seconds: float = 0.0
    tree_tokens: Sequence[int] = field(default_factory=list)
    """The tree that was verified; node 0 is the token that was pending before."""
    tree_parents: Sequence[int] = field(default_factory=list)
    path: Sequence[int] = field(default_factory=list)
    """Nodes of the tree on the accepted path."""
    carried: int = 0
    """How many characters at the start of `text` belong to the step before."""
    probs: Sequence[float] = field(default_factory=list)
    """If the answer is watched, the target's probability (plain softmax) of each node's token after node 0, in node order, then
    of the pass's last token, the target's own choice."""
    note: str = ""
    """What there is to say about this step."""
    prefilled: int = 0
    """How many prompt tokens this pass evaluated as well. Of its time, `forward_seconds` is the share of the tree's nodes; the
    rest is prefill."""
    earlier: int = 0
    """How many of `tokens` were found by earlier passes, one each, and made certain by this one (beam search). The others are
    this pass's own."""
    held: str = ""
    """The character held back, if it can be shown meanwhile. The next text begins with it, or with what it becomes."""
    ahead: int = 0
    """How many tokens the draft model drafted on while this pass ran."""
    wasted: int = 0
    """How many tokens drafted on this pass proved useless."""
    drafters: Sequence[str] = field(default_factory=list)
    """Names of the drafters that grew the tree together; empty if the method drafted alone."""
    sources: Sequence[int] = field(default_factory=list)
    """By tree node, where there are `drafters`: bit i is set if `drafters[i]` guessed it."""
    grammar: int = 0
    """How many of `tokens` a constraint left no choice about: all of them in a step of no nodes, which the constraint wrote
    without a pass. Drafted and accepted do not count them."""
    shares: Sequence[float] = field(default_factory=list)
    """What part of the nodes each of the first of `drafters`, the draft models, had learned to get."""
    declined: Sequence[float] = field(default_factory=list)
    """Nodes of a draft that was declined because its pass promised less than it costs, and that cost in plain passes."""
    spans: Sequence[Sequence[int]] = field(default_factory=list)
    """Thought and answer, of a model that thinks: rows of [1 for a thought or 0 for the answer, characters of `text`, tokens],
    in order, which add up to `text` and `tokens`. Empty: all of it is answer. The marks around a thought are no text, and their
    tokens count as the thought's. `held`, and what follows, belong to the part that the last row is of."""

    @property
    def seconds(self) -> float:
        """Seconds that the whole step took."""
        return self.draft_seconds + self.forward_seconds + self.other_seconds


_NOTHING = StepRecord("", ())
FIELDS: dict[str, Any] = {each.name: getattr(_NOTHING, each.name) for each in fields(StepRecord)}
"""The record's fields in their order, with what stands for nothing."""
