"""Medusa heads on the disk: FasterDecoding's (`0.0.linear.weight`) or as vLLM names them (`blocks.0.layers.0.weight`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...errors import UserError
from .base import Kind
from .formats import Format, Reading, Target, whole

NAMES = (
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.linear\.(weight|bias)"), r"\1.\2.\3"),
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.\d+\.weight"), r"\1.lm_head.weight"),
    (re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)"), r"\1.\2.\3"),
    (re.compile(r"lm_heads\.(\d+)\.weight"), r"\1.lm_head.weight"),
)
"""Names of tensors → what they are called here: `HEAD.BLOCK.weight`, `HEAD.BLOCK.bias` and `HEAD.lm_head.weight`."""


@dataclass(frozen=True, slots=True)
class MedusaFormat(Format):
    """A folder of Medusa heads."""

    kind: ClassVar[Kind] = "medusa"
    heads: int
    blocks: int
    """Residual blocks of each."""

    def fitting(self, name: str, target: Target) -> list[Reading]:
        self.check_vocabulary(name, target)
        shape = self.shapes.get("lm_head.weight", self.shapes.get("0.lm_head.weight", ()))  # one for all, or each its own
        if len(shape) == 2:
            self.check_width(name, target, shape[1])
        return [Reading((target.layers,))]


def medusa_name(name: str) -> str:
    """What a tensor is called here; as before if it is none of Medusa's."""
    for pattern, ours in NAMES:
        if found := pattern.fullmatch(name):
            return found.expand(ours)
    return name


def medusa_format(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]]
) -> MedusaFormat:
    """Medusa heads. How many there are is told by their tensors: the published configurations say 2 where there are 5.

    Raises:
        UserError: there is none.
    """
    found = [match for name in shapes if (match := re.fullmatch(r"(\d+)\.(\d+|lm_head)\.weight", name))]
    heads = {int(match[1]) for match in found}
    if not heads:
        raise UserError(f"{folder} says that it holds Medusa heads, but has none. Download it again.")
    blocks = [int(match[2]) for match in found if match[2] != "lm_head"]
    base = config.get("base_model_name_or_path")
    return MedusaFormat(
        folder=folder,
        title="Medusa",
        names=names,
        shapes=shapes,
        vocabulary=whole(config.get("vocab_size")),
        trained_for=base if isinstance(base, str) else "",
        heads=max(heads) + 1,
        blocks=max(blocks, default=-1) + 1,
    )
