"""Speculative decoding with a draft model: a small model drafts a chain of K tokens, the target verifies it in one pass.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (2023), arXiv:2211.17192; Chen et al.,
"Accelerating Large Language Model Decoding with Speculative Sampling" (2023), arXiv:2302.01318. Under the exact rule the draft
shares the target's noise: Daliri et al., "Coupling without Communication and Drafter-Invariant Speculative Decoding" (2024),
arXiv:2408.07978.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from ...backends.base import Model
from ...errors import UserError
from .. import needs
from ..base import Context, Drafter, Elsewhere, Verified, param
from ..parts.ahead import Ahead, OwnThread
from ..parts.cascade import Copies, Worth, grow_chain
from ..parts.elsewhere import COPIED, draft_chain, noted
from ..parts.ppm import ContextModel
from ..parts.proposers import DraftModelProposer
from ..parts.schedules import SCHEDULES, Schedule
from ..parts.vocabularies import Reencoded, mismatch
from ..tree import Tree

_worth: WeakKeyDictionary[Model, Worth] = WeakKeyDictionary()
"""What drafting with each draft model was worth."""


@dataclass(frozen=True, slots=True)
class DraftParams:
    """Settings of a draft model."""

    tokens: int = param(
        4, "Draft tokens K (constant), or how many to start with (heuristic)", low=0, high=64, length="schedule=constant"
    )
    schedule: str = param("confidence", "How K changes from pass to pass", choices=SCHEDULES)
    most: int = param(16, "Largest K under the other schedules", low=1, high=64, length=True)
    threshold: float = param(0.4, "confidence: stop after a token less probable than this", low=0, high=1)
    cascade: bool = param(
        True, "Prompt lookup drafts for the draft model, so that a copied passage takes it one pass, not one per token"
    )
    ahead: bool = param(True, "Draft on while the target verifies, if the draft model has a device or CPU threads of its own")
    reencode: bool = param(False, "Allow a draft model with a different tokenizer, by way of text")


class Draft(Drafter):
    """A chain of a draft model's own choices, of a length that a schedule decides (schedules.py).

    Example:
        text     The capital of France
        guess    is Paris, which: what the draft model would write
        verdict  is Paris ✓, which ✗ → .
    """

    name = "draft"
    group = "draft model"
    reads_cache = False
    summary = "A small draft model guesses the next tokens; the target verifies them in one pass."
    pays = "On most text, if the draft model is several times faster than the target and often agrees with it."
    explains = (
        "A small model writes a few tokens ahead, one after the other, which is quick; what it copies from the text, it "
        "checks all at once. The large model then checks all of them in a single pass, keeps them up to the first that it "
        "would not have chosen, and adds its own choice there. The more often the two agree and the faster the small model "
        "is, the greater the gain."
    )
    paper = "Fast Inference from Transformers via Speculative Decoding, Leviathan 2023, arXiv:2211.17192"
    requires = (needs.DraftModel(),)
    Params = DraftParams
    params: DraftParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [*({"tokens": k} for k in ("2", "4", "8")), *({"schedule": name} for name in ("confidence", "cost"))]

    @classmethod
    def elsewhere(cls, params: DraftParams, draft_model: str) -> Elsewhere:
        found = draft_chain(
            *(draft_model, params.tokens or 4), schedule=params.schedule, most=params.most, threshold=params.threshold
        )
        return noted(found, COPIED) if params.cascade else found

    def __init__(self, params: DraftParams | None = None) -> None:
        super().__init__(params)
        self._proposer: DraftModelProposer | None = None
        self._reencoded: Reencoded | None = None
        self._opened: tuple[Model, bool] | None = None
        """The draft model, and whether its text may be encoded anew."""
        self._schedule = Schedule(self.params.schedule)
        self._asked = False
        """Whether anything was to be drafted in this round; else a note is one of another round."""
        self._index = ContextModel()
        self._copies: Copies | None = None

    def draft(self, context: Context) -> Tree:
        params = self.params
        if params.schedule != self._schedule.name:
            self._schedule = Schedule(params.schedule)
        self.prepare(context)
        length = min(self._schedule.length(params.tokens, params.most), context.max_depth)
        self._asked = length > 0
        if not self._asked:
            return Tree.root(context.pending)
        if self._reencoded is not None:
            line = self._reencoded.line(context, length)
            ends = next((i + 1 for i, token in enumerate(line) if token in context.eos_ids), len(line))
            return Tree.chain(context.pending, line[:ends])
        proposer = self._proposer
        assert proposer is not None
        enough = params.threshold if params.schedule == "confidence" else 0.0
        grow = partial(grow_chain, proposer, context, length, enough, self._copies if params.cascade else None)
        if not isinstance(proposer, Ahead):
            return grow()
        return proposer.draft(context, grow, length + 1 if params.ahead else 0)

    def prepare(self, context: Context) -> None:
        """Open the draft model's session, once."""
        model = context.draft_models[0]
        if (wanted := (model, self.params.reencode)) == self._opened:
            return
        self.close()
        target = context.model
        reason = mismatch(target, model) if target is not None else ""
        if reason and not self.params.reencode:
            raise UserError(
                f"The draft model's tokenizer differs from the target's ({reason}). Choose a draft model of the same family, "
                "or set reencode=on to draft by way of text."
            )
        if reason and target is not None:
            self._reencoded = Reencoded(target, model, context.session.context)
        else:
            size = context.session.context
            self._proposer = Ahead(model, size) if isinstance(model, OwnThread) else DraftModelProposer(model, size)
            self._copies = Copies(self._index, _worth.setdefault(model, Worth()))
        self._opened = wanted

    def learn(self, verified: Verified) -> None:
        proposer = self._proposer or self._reencoded
        seconds = proposer.seconds if proposer is not None else []
        if isinstance(self._proposer, Ahead):
            self._proposer.judge(verified)
        elif self._proposer is not None:
            evaluated = self._proposer.evaluated
            self._proposer.settle([node for node in verified.path if node < evaluated])
        self._schedule.learn(
            len(verified.tree.as_drafted(())[0]) - 1,
            len(verified.path) - 1,
            len(verified.tree),
            verified.forward_seconds,
            seconds,
        )

    @property
    def note(self) -> str:
        held = self._proposer or self._reencoded
        return held.note if held is not None and self._asked else ""

    def close(self) -> None:
        for held in (self._proposer, self._reencoded):
            if held is not None:
                held.close()
        self._proposer = self._reencoded = self._opened = None
