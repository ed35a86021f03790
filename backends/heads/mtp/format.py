"""MTP layers in a model's own checkpoint, told by their tensors' names: those of DeepSeek and GLM, of MiMo, and of Qwen.

transformers leaves these tensors in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....errors import UserError
from ...files.checkpoint import check_folder, header

SHARED = ("embed_tokens.weight", "shared_head.head.weight")
"""Copies of the model's own; those are used."""

OUTSIDE = ("enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight")
"""What stands before a layer and behind it, as DeepSeek names it."""

MIMO = {
    "token_layernorm": "enorm",
    "hidden_layernorm": "hnorm",
    "input_proj": "eh_proj",
    "final_layernorm": "shared_head.norm",
}
"""MiMo's names of them, in `model.mtp_layers.N`."""

QWEN = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
"""Qwen's, in `mtp`; its layer is `mtp.layers.0`."""

KINDS = re.compile(r"model\.layers\.(?P<behind>\d+)\.|model\.mtp_layers\.(?P<mimo>\d+)\.|mtp\.(?:layers\.(?P<qwen>\d+)\.)?")

LATER = re.compile(r"model\.mtp\.layers\.\d+\.")
"""MiMo-V2's: their attention has sinks and a window of its own."""


@dataclass(frozen=True, slots=True)
class MtpFormat:
    """The MTP layers of a checkpoint."""

    layers: tuple[Mapping[str, tuple[Path, str]], ...]
    """The tensors of each layer: name in DeepSeek's layout → its file and its name there. The first predicts the token after
    the next."""
    states_first: bool
    """Whether a layer's input has the hidden state before the embedding."""
    full_attention: bool
    """Whether it is a layer of full attention, whatever the model's last one is."""


def mtp_format(folder: Path, layers: int) -> MtpFormat | None:
    """The MTP layers in a model's folder; None if there are none.

    Args:
        folder: the model's.
        layers: how many layers the model itself has.

    Raises:
        UserError: a file is damaged, a layer is missing, or they are of a kind that cannot be used here; says why.
    """
    found: dict[tuple[str, int], dict[str, tuple[Path, str]]] = {}
    for file in check_folder(folder):
        for name in header(file):
            if LATER.match(name):
                raise UserError("specchat cannot draft with MiMo-V2's MTP layers yet. Use another method.")
            place = KINDS.match(name)
            kind = place.lastgroup or "qwen" if place is not None else ""
            if place is None:
                continue
            number, inner = int(place[kind] or 0), name[place.end() :]
            if kind == "behind":
                number -= layers
            else:
                first, _, rest = inner.rpartition(".")
                inner = f"{(MIMO if kind == 'mimo' else QWEN).get(first, first)}.{rest}".lstrip(".")
            if number >= 0:
                found.setdefault((kind, number), {})[inner] = file, name
    # Some models have other things in layers behind their last; others' checkpoints hold more layers than the model uses.
    kinds = {kind for (kind, _), tensors in found.items() if set(OUTSIDE) & set(tensors)}
    if not kinds:
        return None
    kind = min(kinds)
    numbers = sorted(number for its, number in found if its == kind)
    if numbers != list(range(len(numbers))):
        missing = next(number for number in range(len(numbers)) if number not in numbers)
        raise UserError(f"The checkpoint has MTP layers but not number {missing + 1} of them. Download the model again.")
    return MtpFormat(tuple(found[kind, number] for number in numbers), kind == "mimo", kind == "qwen")
