"""Token trees of a draft model, or of several in one tree, verified in one pass.

The shape follows the draft model's own confidence (growth.py), in place of SpecInfer's fixed expansions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...backends.options import draft_label
from ...option import option
from .. import needs
from ..base import Context
from ..parts.elsewhere import llama_server, sglang, speculative
from ..parts.growth import MOST, Grower
from ..parts.proposers import DraftModelProposer, require_same_tokens


@dataclass(frozen=True, slots=True)
class TreeParams:
    nodes: int = option(20, "Most nodes in the tree, including the last token", low=1, high=MOST, length=True)
    depth: int = option(5, "Most draft tokens on a path", low=1, high=32)
    width: int = option(3, "Successors of each expanded node", low=1, high=16)
    grow: int = option(4, "Nodes expanded at each depth", low=1, high=32)


class TokenTree(Grower):
    """The most probable tree of a draft model, or of several (see `Grower`).

    Example:
        text     The capital of France
        guess    is, below it Paris and the, below "Paris" . : the paths that a draft model holds most probable
        verdict  is Paris . ✓ → It
    """

    name = "tree"
    group = "draft model"
    summary = "Token trees: one or more draft models guess several continuations, and one pass verifies them all."
    pays = (
        "When the draft model is often nearly right, and a pass over many nodes costs little more than a pass over one. A "
        "second draft model pays if it is right where the first one is not."
    )
    explains = (
        "A draft model guesses several continuations as a tree: where it is unsure the tree branches, where it is sure it "
        "grows deep. One pass of the large model checks all branches and keeps the longest that it agrees with. Several draft "
        "models (`--draft-model` more than once) grow one tree, and those that help more get more of its nodes."
    )
    paper = "SpecInfer: Accelerating LLM Serving with Tree-based Speculative Inference, Miao 2023, arXiv:2305.09781"
    requires = (needs.Trees(), needs.DraftModel())
    Params = TreeParams
    params: TreeParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("10", "20")]

    @classmethod
    def elsewhere(cls, params: TreeParams, draft_model: str) -> Mapping[str, str]:
        call = f"num_assistant_tokens={params.depth}, num_assistant_tokens_schedule='constant'"
        return {
            "transformers": f"model.generate(**inputs, assistant_model=draft, {call})",
            "llama-server": llama_server("draft-simple", draft_model, params.depth),
            "vLLM": speculative("draft_model", model=draft_model, num_speculative_tokens=params.depth),
            "SGLang": sglang("STANDALONE", draft_model, params.depth, params.width, params.nodes),
        }

    def __init__(self, params: TreeParams | None = None) -> None:
        super().__init__(params)
        self._models: dict[str, DraftModelProposer] = {}
        """The draft models that are open."""

    def prepare(self, context: Context) -> None:
        self._open(context)

    def _open(self, context: Context) -> Mapping[str, DraftModelProposer]:
        for number, model in enumerate(context.draft_models):
            name = draft_label(number)
            before = self._models.get(name)
            if before is not None and before.model is model:
                continue
            if before is not None:
                before.close()
                del self._models[name]
            require_same_tokens(context.model, model)
            self._models[name] = DraftModelProposer(model, context.session.context, number)
        return {name: self._models[name] for name in map(draft_label, range(len(context.draft_models)))}

    def close(self) -> None:
        self._proposers = self._models
        super().close()
        self._models = {}
