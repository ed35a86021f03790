"""Medusa heads on the disk: FasterDecoding's (`0.0.linear.weight`) or as vLLM names them (`blocks.0.layers.0.weight`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ...errors import UserError
from .base import Kind
from .formats import Checkpoint, Format, Reading, Target

NAMES = (
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.linear\.(weight|bias)"), r"\1.\2.\3"),
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.\d+\.weight"), r"\1.lm_head.weight"),
    (re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)"), r"\1.\2.\3"),
    (re.compile(r"lm_heads\.(\d+)\.weight"), r"\1.lm_head.weight"),
)
"""Names of tensors → ours: `HEAD.BLOCK.weight`, `HEAD.BLOCK.bias` and `HEAD.lm_head.weight`."""


@dataclass(frozen=True, slots=True)
class MedusaFormat(Format):
    """A folder of Medusa heads."""

    kind: ClassVar[Kind] = "medusa"
    heads: int
    blocks: int
    """Residual blocks of each."""

    def fitting(self, name: str, target: Target) -> list[Reading]:
        self.check_vocabulary(name, target)
        shape = self.shapes.get("lm_head.weight", self.shapes.get("0.lm_head.weight", ()))  # shared, or each its own
        if len(shape) == 2:
            self.check_width(name, target, shape[1])
        return [Reading((target.layers,))]


def medusa_name(name: str) -> str:
    """Translate a Medusa tensor's name to ours; any other name stays."""
    for pattern, ours in NAMES:
        if match := pattern.fullmatch(name):
            return match.expand(ours)
    return name


def medusa_format(files: Checkpoint) -> MedusaFormat:
    """Read the format of Medusa heads. Their number comes from the tensors: the published configurations say 2 where there
    are 5.

    Raises:
        UserError: there are none.
    """
    matches = [match for name in files.shapes if (match := re.fullmatch(r"(\d+)\.(\d+|lm_head)\.weight", name))]
    heads = {int(match[1]) for match in matches}
    if not heads:
        raise UserError(f"{files.folder} says that it holds Medusa heads, but has none. Download it again.")
    blocks = [int(match[2]) for match in matches if match[2] != "lm_head"]
    base = files.config.get("base_model_name_or_path")
    return MedusaFormat(
        folder=files.folder,
        title="Medusa",
        names=files.names,
        shapes=files.shapes,
        vocabulary=files.config.count("vocab_size"),
        trained_for=base if isinstance(base, str) else "",
        heads=max(heads) + 1,
        blocks=max(blocks, default=-1) + 1,
    )
