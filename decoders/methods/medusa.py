"""Medusa: heads trained for the target guess the positions ahead from its last hidden state, all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...backends.base import Scores
from ...backends.heads.base import PositionHead
from ...option import option
from .. import needs
from ..base import Context, Drafter
from ..parts.elsewhere import speculative
from ..parts.position_tree import draft_positions
from ..parts.proposers import Proposer
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class MedusaParams:
    nodes: int = option(24, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    width: int = option(4, "Most tokens considered for a position; 1 drafts a chain", low=1, high=32)
    floor: float = option(-1.0, "Lowest probability of a path; -1 drafts what pays by the cost of passes", low=-1, high=1)


class HeadPositions(Proposer):
    """Guesses of heads that read the target's last state alone: node 0 is the pending token, the others are positions."""

    def __init__(self, head: PositionHead) -> None:
        super().__init__()
        self._head = head

    def _open(self, context: Context, line: Sequence[int]) -> Scores | None:
        session, last = context.session, context.session.length
        if not last == len(context.tokens) - 1 > 0:
            return None
        return self._head.guess(session.states(last - 1, last), last + 1, 1 + len(line))


class Medusa(Drafter):
    """The heads' likeliest tokens, as a tree of the most probable paths.

    Example:
        text     The capital of France
        guess    is or was from the first head, Paris or the from the second, which does not know the first
        verdict  is Paris ✓ → .
    """

    name = "medusa"
    group = "trained"
    reads_cache = True
    summary = "Heads trained for this model each guess one position ahead, all at once; the model verifies a tree of them."
    pays = "If there are Medusa heads for your model: a draft takes next to no time."
    explains = (
        "A model has one head, which turns its last hidden state into the next token. Medusa adds heads for the tokens after "
        "it. All guess at once, without each other's guesses, so the likeliest combinations become a tree, and one pass checks "
        "them all. Farther heads are right less often."
    )
    paper = "Medusa: Simple LLM Inference Acceleration with Multiple Decoding Heads, Cai 2024, arXiv:2401.10774"
    requires = (needs.TrainedDrafter("medusa"),)
    Params = MedusaParams
    params: MedusaParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"width": "1"}, *({"nodes": nodes} for nodes in ("12", "24", "48"))]

    @classmethod
    def elsewhere(cls, params: MedusaParams, draft_model: str) -> Mapping[str, str]:
        return {"vLLM": speculative("medusa", model=draft_model, num_speculative_tokens=4)}

    def draft(self, context: Context) -> Tree:
        head, floor = context.head, self.sizes.least(context, self.params.floor)
        assert isinstance(head, PositionHead)
        positions = min(head.positions, context.max_depth)
        # The token at a position is not known yet: the pending token stands in, which penalties count anyway.
        return draft_positions(HeadPositions(head), context, self.params, positions, context.pending, floor)
