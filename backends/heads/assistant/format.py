"""Gemma 4's assistants on the disk (`gemma4_assistant`): a few layers with queries only, for one Gemma 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ....errors import UserError
from ..base import Kind
from ..formats import Checkpoint, Config, Format, Reading, Target

ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Values of `model_type`."""

SLIDING, FULL = "sliding_attention", "full_attention"

ROPE: Mapping[str, Mapping[str, Any]] = {
    SLIDING: {"rope_theta": 10_000.0},
    FULL: {"rope_theta": 1_000_000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25},
}
"""Defaults of the rotary positions."""

ORDERING = "masked_embedding.token_ordering"
"""The token ids of each cluster of the vocabulary, as integers."""


@dataclass(frozen=True, slots=True)
class AssistantFormat(Format):
    """An assistant's folder."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True
    text: Config
    """The configuration of its layers."""
    width: int
    """Width of the target's hidden states."""
    layers: tuple[str, ...]
    """The type of each layer."""
    window: int
    """Rows that sliding layers see."""
    epsilon: float
    clusters: int
    """Clusters of the vocabulary; 0 if every token is scored."""
    best: int
    """Number of clusters whose tokens are scored."""

    @property
    def borrows(self) -> bool:
        return False

    def fitting(self, name: str, target: Target) -> list[Reading]:
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.width)
        return [Reading((target.layers,))]

    def frequencies(self, kind: str) -> list[float]:
        """Compute the rotary frequencies (radians per position) of each pair of channels, for layers of one type.

        Raises:
            UserError: the configuration names an unknown kind of rotation.
        """
        rope = self.text.part("rope_parameters").part(kind).values or ROPE[kind]
        form, half = rope.get("rope_type", "default"), self._head_width(kind) // 2
        if form not in ("default", "proportional"):
            raise UserError(f"{self.text.file} sets rope_type {str(form)[:40]}, unknown here. Use another drafter.")
        share = float(rope.get("partial_rotary_factor", 1.0)) if form == "proportional" else 1.0
        base, turning = float(rope.get("rope_theta") or ROPE[kind]["rope_theta"]), int(share * half)
        return [base ** (-i / half) / float(rope.get("factor", 1.0)) if i < turning else 0.0 for i in range(half)]

    def _head_width(self, kind: str) -> int:
        """Read the width of an attention head in layers of one type."""
        if kind == SLIDING:
            return self.text.figure("head_dim", 256)
        layers = self.text.part("per_layer_config")
        width = layers.part(FULL if FULL in layers.values else str(self.layers.index(FULL))).count("head_dim")
        return width or self.text.figure("global_head_dim", 512)


def assistant_format(files: Checkpoint) -> AssistantFormat:
    """Read an assistant's configuration.

    Raises:
        UserError: a figure is missing from it.
    """
    config = files.config
    text = config.part("text_config")
    return AssistantFormat(
        folder=files.folder,
        title="Gemma 4 assistant",
        names=files.names,
        shapes=files.shapes,
        vocabulary=text.count("vocab_size"),
        trained_for="",
        text=text,
        width=config.figure("backbone_hidden_size"),
        layers=tuple(text.layer_types(text.figure("num_hidden_layers"))),
        window=text.figure("sliding_window", 512),
        epsilon=float(text.get("rms_norm_eps") or 1e-6),
        best=config.figure("centroid_intermediate_top_k", 32),
        clusters=config.figure("num_centroids", 2048) if config.get("use_ordered_embeddings") else 0,
    )
