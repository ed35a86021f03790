"""MTP: a layer that was trained with the model, in the same checkpoint, drafts from the model's last hidden state.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), arXiv:2412.19437; Gloeckle et al., "Better & Faster Large Language Models
via Multi-token Prediction" (2024), arXiv:2404.19737.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...option import option
from .. import needs
from ..parts.elsewhere import sglang, speculative
from .eagle import Eagle, EagleParams


@dataclass(frozen=True, slots=True)
class MtpParams(EagleParams):
    nodes: int = option(12, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    depth: int = option(3, "Most draft tokens on a path", low=1, high=32)
    width: int = option(3, "Successors of each expanded node; 1 for a chain", low=1, high=16)
    grow: int = option(3, "Nodes expanded at each depth", low=1, high=32)


class Mtp(Eagle):
    """The most probable tree of the model's own MTP layer, which reads the same pairs as an EAGLE head.

    Example:
        text     The capital of France, and the target's last states
        guess    is, from the layer that predicts one token further
        verdict  is ✓ → Paris
    """

    name = "mtp"
    summary = "A layer in the model's own checkpoint, trained to predict one token more, drafts a tree; the model verifies it."
    pays = "If your model has MTP layers, as DeepSeek-V3, GLM-4.5 and Qwen3.5 do: no other file is needed."
    explains = (
        "Some models are trained to predict not only the next token but the one after it too, with one more layer for that. It "
        "reads the model's last hidden state and the token that was just chosen. Run again on its own output it guesses "
        "further, less and less well. The guesses become a tree, and one pass of the model checks them all."
    )
    paper = "DeepSeek-V3 Technical Report, DeepSeek-AI 2024, arXiv:2412.19437"
    requires = (needs.TrainedDrafter("mtp"),)
    Params = MtpParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        chains = [{"width": "1", "depth": depth} for depth in ("1", "2", "3")]
        return [*chains, *({"nodes": nodes} for nodes in ("6", "12", "24"))]

    @classmethod
    def elsewhere(cls, params: EagleParams, draft_model: str) -> Mapping[str, str]:
        return {
            "transformers": "model.generate(**inputs, use_mtp=True)",
            "llama-server": f"--spec-type draft-mtp --spec-draft-n-max {params.depth}",
            "vLLM": speculative("mtp", num_speculative_tokens=params.depth),
            "SGLang": sglang("EAGLE", "", params.depth, params.width, params.nodes),
        }
