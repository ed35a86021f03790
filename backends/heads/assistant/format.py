"""Gemma 4's assistants on the disk (`gemma4_assistant`): a few layers with queries only, for one Gemma 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ....errors import UserError, counted
from ..base import Kind
from ..formats import Format, Reading, Target, figure, part, whole

ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Their `model_type`."""

SLIDING, FULL = "sliding_attention", "full_attention"

ROPE: Mapping[str, Mapping[str, Any]] = {
    SLIDING: {"rope_theta": 10_000.0},
    FULL: {"rope_theta": 1_000_000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25},
}
"""Rotary positions where a configuration says nothing."""

ORDERING = "masked_embedding.token_ordering"
"""Which tokens each cluster of the vocabulary holds, as integers."""


@dataclass(frozen=True, slots=True)
class AssistantFormat(Format):
    """An assistant's folder."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True
    text: Mapping[str, Any]
    """The configuration of its layers."""
    width: int
    """Numbers in one hidden state of the target."""
    layers: tuple[str, ...]
    """The type of each layer."""
    window: int
    """Rows that sliding layers see."""
    epsilon: float
    clusters: int
    """Clusters of the vocabulary, of which it scores the best ones; 0 where it scores all tokens."""
    best: int
    """How many of them."""

    @property
    def borrows(self) -> bool:
        return False

    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The readings of transformers and of vLLM: whether its position is the pending token's, or the one before."""
        self.check_vocabulary(name, target)
        self.check_width(name, target, self.width)
        taps = (target.layers,)
        return [Reading(taps), Reading(taps, earlier=True, note="the position of the last verified token and one row less")]

    def frequencies(self, kind: str) -> list[float]:
        """By how much each pair of numbers turns from one position to the next, in layers of a type.

        Raises:
            UserError: they turn in a way that nobody knows.
        """
        rope = part(part(self.text, "rope_parameters"), kind) or ROPE[kind]
        form, half = rope.get("rope_type", "default"), self._head(kind) // 2
        if form not in ("default", "proportional"):
            raise UserError(
                f"{self.folder / 'config.json'} sets rope_type {str(form)[:40]}, unknown here. Use another drafter."
            )
        share = float(rope.get("partial_rotary_factor", 1.0)) if form == "proportional" else 1.0
        base, turning = float(rope.get("rope_theta") or ROPE[kind]["rope_theta"]), int(share * half)
        return [base ** (-i / half) / float(rope.get("factor", 1.0)) if i < turning else 0.0 for i in range(half)]

    def _head(self, kind: str) -> int:
        """Width of an attention head in layers of a type."""
        if kind == SLIDING:
            return figure(self.folder, self.text, "head_dim", 256)
        told = part(self.text, "per_layer_config")
        each = part(told, FULL if FULL in told else str(self.layers.index(FULL))).get("head_dim")
        return whole(each) or figure(self.folder, self.text, "global_head_dim", 512)


def assistant_format(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]]
) -> AssistantFormat:
    """An assistant.

    Raises:
        UserError: its configuration lacks a figure.
    """
    text = part(config, "text_config")
    count, kinds = figure(folder, text, "num_hidden_layers"), text.get("layer_types")
    if not isinstance(kinds, list) or len(kinds) != count or set(kinds) - {SLIDING, FULL}:
        raise UserError(f"{folder / 'config.json'} needs layer_types, one for each of {counted(count, 'layer')}.")
    return AssistantFormat(
        folder=folder,
        title="Gemma 4 assistant",
        names=names,
        shapes=shapes,
        vocabulary=whole(text.get("vocab_size")),
        trained_for="",
        text=text,
        width=figure(folder, config, "backbone_hidden_size"),
        layers=tuple(kinds),
        window=figure(folder, text, "sliding_window", 512),
        epsilon=float(text.get("rms_norm_eps") or 1e-6),
        best=figure(folder, config, "centroid_intermediate_top_k", 32),
        clusters=figure(folder, config, "num_centroids", 2048) if config.get("use_ordered_embeddings") else 0,
    )
