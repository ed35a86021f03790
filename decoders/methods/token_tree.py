"""Token trees of a draft model, and the merge of several drafters' trees into one, verified in one pass.

Miao et al., "SpecInfer: Accelerating Large Language Model Serving with Tree-based Speculative Inference and Verification"
(2023), arXiv:2305.09781: an expansion ⟨k₁ … kₘ⟩ gives each node at depth i the draft model's kᵢ best successors. The shape
`best` follows the draft model's own confidence instead (growth.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import UserError
from ..base import Context, Elsewhere, param
from ..parts.elsewhere import draft_chain, noted
from ..parts.growth import MERGED, Grower
from ..parts.proposers import DraftModel, Proposer, mismatch


@dataclass(frozen=True, slots=True)
class TreeParams:
    """Settings of token trees."""

    nodes: int = param(20, "Most nodes in the tree, including the pending token", low=1, high=256, length=True)
    depth: int = param(5, "Most draft tokens on a path; best only", low=1, high=32)
    width: int = param(3, "Successors of each expanded node; best only", low=1, high=16)
    grow: int = param(4, "Nodes expanded at each depth; best only", low=1, high=32)
    expansion: str = param(
        "",
        "Successors at each depth, such as SpecInfer's 1,1,3,1,1,1,1,1; empty for best, which follows the draft model's "
        "confidence",
    )
    merge: str = param("", f"Drafters whose trees to merge in, separated by commas: {', '.join(MERGED)}")


class TokenTree(Grower):
    """A draft model's most probable tree (see `Grower`)."""

    name = "tree"
    group = "draft model"
    summary = (
        "Token trees: a draft model guesses several continuations, other drafters may join in, and one pass verifies them all."
    )
    pays = "When the draft model is often nearly right, and a pass over many nodes costs little more than a pass over one."
    explains = (
        "A draft model guesses several continuations instead of one, as a tree: where it is unsure the tree branches, where "
        "it is sure it grows deep. One pass of the large model checks all branches, and the one that it agrees with longest "
        "is kept. A wrong first guess no longer costs the whole draft."
    )
    paper = "SpecInfer: Accelerating LLM Serving with Tree-based Speculative Inference, Miao 2023, arXiv:2305.09781"
    needs_tree = True
    needs_draft_model = True
    Params = TreeParams
    params: TreeParams

    @classmethod
    def grid(cls, layers: int, *, gaps: bool = True) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("10", "20")]

    @classmethod
    def elsewhere(cls, params: TreeParams, draft_model: str) -> Elsewhere:
        return noted(draft_chain(draft_model, params.depth), "It drafts a chain, not a tree.")

    def __init__(self, params: TreeParams | None = None) -> None:
        super().__init__(params)
        self._source: object = None

    def prepare(self, context: Context) -> None:
        if context.draft_model is not None:
            self._open(context)

    def _open(self, context: Context) -> Proposer | None:
        model = context.draft_model
        if model is None:
            if self._merged:
                return None
            raise UserError("The method tree needs a draft model. Load one with --draft-model, or set merge=lookup,recycle.")
        if self._proposer is None or model is not self._source:
            self.close()
            reason = mismatch(context.model, model) if context.model is not None else ""
            if reason:
                raise UserError(
                    f"The draft model's tokenizer differs from the target's ({reason}). Choose a draft model of the same "
                    "family, or the method draft with reencode=on."
                )
            self._proposer, self._source = DraftModel(model, context.session.context), model
        return self._proposer

    def _expansion(self) -> list[int]:
        return _numbers(self.params.expansion) if self.params.expansion else []

    def close(self) -> None:
        super().close()
        self._source = None


def _numbers(text: str) -> list[int]:
    """The numbers of an expansion such as 1,1,3,1.

    Raises:
        UserError: it is none.
    """
    parts = text.replace(" ", "").replace("x", ",").split(",")
    if not all(part.isdigit() and 1 <= int(part) <= 64 for part in parts):
        raise UserError(f"tree.expansion is a list of numbers from 1 to 64 such as 1,1,3,1, not {text!r}.")
    return [int(part) for part in parts]
