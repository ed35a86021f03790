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
from ...option import option
from .. import needs
from ..base import Context, Elsewhere, Verified
from ..parts.ahead import Ahead, OwnThread
from ..parts.cascade import ChainDrafter, Copies, Experience
from ..parts.elsewhere import COPIED, draft_chain, with_note
from ..parts.proposers import DraftModelProposer, require_same_tokens
from ..parts.schedules import SCHEDULES
from ..tree import Tree

_experience: WeakKeyDictionary[Model, Experience] = WeakKeyDictionary()
"""Experience with each draft model."""


@dataclass(frozen=True, slots=True)
class DraftParams:
    tokens: int = option(
        4, "Draft tokens K (constant), or how many to start with (heuristic)", low=0, high=64, length="schedule=constant"
    )
    schedule: str = option("confidence", "How K changes from pass to pass", choices=SCHEDULES)
    most: int = option(16, "Largest K under the other schedules", low=1, high=64, length=True)
    threshold: float = option(0.4, "confidence: stop after a token less probable than this", low=0, high=1)
    cascade: bool = option(
        True, "Prompt lookup drafts for the draft model, so that a copied passage takes it one pass, not one per token"
    )
    ahead: bool = option(True, "Draft on while the target verifies, if the draft model has a device or CPU threads of its own")


class Draft(ChainDrafter):
    """A chain of a draft model's own choices, of a length that a schedule decides (schedules.py).

    Example:
        text     The capital of France
        guess    is Paris, which: what the draft model would write
        verdict  is Paris ✓, which ✗ → .
    """

    name = "draft"
    group = "draft model"
    summary = "A small draft model guesses the next tokens; the model verifies them in one pass."
    pays = "On most text, if the draft model is several times faster than the model and often agrees with it."
    explains = (
        "A small model writes a few tokens ahead, one after the other; a passage copied from the text it checks all at once. "
        "The large model then checks all of them in a single pass, keeps them up to the first that it would not have chosen, "
        "and adds its own choice there."
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
        equivalents = draft_chain(
            draft_model,
            params.tokens or 4,
            schedule=params.schedule,
            most=params.most,
            threshold=params.threshold,
        )
        return with_note(equivalents, COPIED) if params.cascade else equivalents

    def __init__(self, params: DraftParams | None = None) -> None:
        super().__init__(params)
        self._proposer: DraftModelProposer | None = None
        self._drafting = False
        """Whether there was room to draft in this round; else the proposer's note is from another round."""

    def draft(self, context: Context) -> Tree:
        self.prepare(context)
        length = self._length(context)
        self._drafting = length > 0
        if not self._drafting:
            return Tree.root(context.pending)
        proposer = self._proposer
        assert proposer is not None
        if not isinstance(proposer, Ahead):
            return self._chain(proposer, context, length)
        grow = partial(self._chain, proposer, context, length)
        return proposer.draft(context, grow, length + 1 if self.params.ahead else 0)

    def prepare(self, context: Context) -> None:
        """Open the draft model's session, once."""
        model, size = context.draft_models[0], context.session.context
        if self._proposer is not None and self._proposer.model is model:
            return
        self.close()
        require_same_tokens(context.model, model)
        self._proposer = Ahead(model, size) if isinstance(model, OwnThread) else DraftModelProposer(model, size)
        self._copies = Copies(_experience.setdefault(model, Experience()))

    def learn(self, verified: Verified) -> None:
        proposer = self._proposer
        seconds = proposer.seconds if proposer is not None else []
        if isinstance(proposer, Ahead):
            proposer.judge(verified)
        elif proposer is not None:
            proposer.settle([node for node in verified.path if node < proposer.evaluated])
        self._learn(verified, seconds)

    @property
    def note(self) -> str:
        return self._proposer.note if self._proposer is not None and self._drafting else ""

    def close(self) -> None:
        if self._proposer is not None:
            self._proposer.close()
        self._proposer = None
