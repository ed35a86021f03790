"""PARD: a draft model that predicts K tokens in one pass, with mask tokens in the place of those that it does not know yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...option import option
from .. import needs
from ..base import Context, Drafter
from ..parts.elsewhere import speculative
from ..parts.position_tree import draft_positions
from ..parts.proposers import DraftModelProposer, require_same_tokens
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class PardParams:
    tokens: int = option(8, "Positions K that a pass of the draft model predicts", low=1, high=32)
    nodes: int = option(16, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    width: int = option(4, "Most tokens considered for a position; 1 drafts a chain", low=1, high=32)
    floor: float = option(-1.0, "Lowest probability of a path; -1 drafts what pays by the cost of passes", low=-1, high=1)


class Pard(Drafter):
    """Each position's likeliest tokens, as a tree. The mask tokens leave no trace: only true tokens stay in the cache.

    Example:
        text     The capital of France, then two masks
        guess    is Paris: one pass of the draft model in place of two
        verdict  is Paris ✓ → .
    """

    name = "pard"
    group = "trained"
    reads_cache = False
    summary = "PARD: a draft model trained for it guesses several tokens in one pass, and the model verifies a tree of them."
    pays = "With a PARD draft model: a draft takes one pass, however long it is."
    explains = (
        "A draft model usually needs a pass for each token that it guesses. This one was trained further to guess with gaps: "
        "mask tokens stand for the tokens in between, so one pass gives guesses for several positions. The likeliest "
        "combinations become a tree, and one pass of the large model checks them all. Later positions are guessed less well "
        "than by `draft`, but cost next to nothing."
    )
    paper = "PARD: Accelerating LLM Inference with Low-Cost PARallel Draft Model Adaptation, An 2025, arXiv:2504.18583"
    requires = (needs.DraftModel(), needs.PardModel())
    Params = PardParams
    params: PardParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("8", "16", "32")]

    @classmethod
    def elsewhere(cls, params: PardParams, draft_model: str) -> Mapping[str, str]:
        settings = {"num_speculative_tokens": params.tokens, "parallel_drafting": True}
        return {"vLLM": speculative("draft_model", model=draft_model, **settings)}

    def __init__(self, params: PardParams | None = None) -> None:
        super().__init__(params)
        self._proposer: DraftModelProposer | None = None

    def prepare(self, context: Context) -> None:
        self._open(context)

    def draft(self, context: Context) -> Tree:
        proposer, mask = self._open(context)
        # The pending token predicts the first position, so K of them take K - 1 masks.
        positions = min(self.params.tokens, context.max_depth, max(1, proposer.capacity(context)))
        floor = self.sizes.least(context, self.params.floor)
        tree = draft_positions(proposer, context, self.params, positions, mask, floor)
        proposer.settle([0])
        return tree

    def _open(self, context: Context) -> tuple[DraftModelProposer, int]:
        """Open the draft model; return it and its mask token."""
        model = next(model for model in context.draft_models if model.info.pard_token is not None)
        if self._proposer is None or model is not self._proposer.model:
            self.close()
            require_same_tokens(context.model, model)
            self._proposer = DraftModelProposer(model, context.session.context)
        assert model.info.pard_token is not None
        return self._proposer, model.info.pard_token

    @property
    def note(self) -> str:
        return self._proposer.note if self._proposer is not None else ""

    def close(self) -> None:
        if self._proposer is not None:
            self._proposer.close()
        self._proposer = None
