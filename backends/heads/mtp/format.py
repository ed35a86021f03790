"""MTP layers in a model's own checkpoint, identified by their tensors' names: those of DeepSeek and GLM, of MiMo, and of Qwen.

transformers leaves these tensors in the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ....errors import UserError
from ...files.checkpoint import check_folder, header
from ...files.gguf_file import Header

SHARED = ("embed_tokens.weight", "shared_head.head.weight")
"""Copies of the model's own; those are used."""

OUTSIDE = ("enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight")
"""The tensors before and after a layer, by DeepSeek's names."""

MIMO = {
    "token_layernorm": "enorm",
    "hidden_layernorm": "hnorm",
    "input_proj": "eh_proj",
    "final_layernorm": "shared_head.norm",
}
"""MiMo's names for them, in `model.mtp_layers.N`."""

QWEN = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
"""Qwen's, in `mtp`; its layer is `mtp.layers.0`."""

KINDS = re.compile(r"model\.layers\.(?P<behind>\d+)\.|model\.mtp_layers\.(?P<mimo>\d+)\.|mtp\.(?:layers\.(?P<qwen>\d+)\.)?")

FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class MtpFormat:
    """The MTP layers of a checkpoint."""

    names: Mapping[str, tuple[Path, str]]
    """The tensors of the first layer: name in DeepSeek's layout → its file and its name there."""
    count: int
    """Number of layers."""
    states_first: bool
    """Whether a layer's input has the hidden state before the embedding."""
    full_attention: bool
    """Whether it is a layer of full attention, even if the model's last one is not."""


@dataclass(frozen=True, slots=True)
class OwnLayers:
    """The MTP layers in a model's own files, as far as known before anything is loaded."""

    count: int
    problem: str = ""
    """The reason that they cannot draft here, as a sentence; empty if there is none."""

    @property
    def sentence(self) -> str:
        """A sentence that says that they draft, or why not."""
        if self.problem:
            return f"Its own MTP layers cannot draft: {self.problem}"
        return "Its own MTP layer drafts (method mtp)."


def mtp_format(folder: Path, layers: int) -> MtpFormat | None:
    """Find the MTP layers in a model's folder; None if there are none.

    Args:
        folder: the model's.
        layers: number of the model's own layers.

    Raises:
        UserError: a file is damaged, the first layer is missing, or their kind cannot be used here; says why.
    """
    layers_found: dict[tuple[str, int], dict[str, tuple[Path, str]]] = {}
    for file in check_folder(folder):
        for name in header(file):
            place = KINDS.match(name)
            if place is None:
                continue
            kind = place.lastgroup or "qwen"
            number, inner = int(place[kind] or 0), name[place.end() :]
            if kind == "behind":
                number -= layers
            else:
                first, _, rest = inner.rpartition(".")
                inner = f"{(MIMO if kind == 'mimo' else QWEN).get(first, first)}.{rest}".lstrip(".")
            if number >= 0:
                layers_found.setdefault((kind, number), {})[inner] = file, name
    # Layers behind the last may hold something else, or be layers that the model does not use.
    kinds = {kind for (kind, _), tensors in layers_found.items() if set(OUTSIDE) & set(tensors)}
    if not kinds:
        return None
    kind = min(kinds)
    if (kind, 0) not in layers_found:
        raise UserError("The checkpoint has MTP layers but not the first of them. Download the model again.")
    count = sum(layer_kind == kind for layer_kind, _ in layers_found)
    return MtpFormat(layers_found[kind, 0], count, kind == "mimo", kind == "qwen")


def in_folder(folder: Path, layers: int) -> OwnLayers | None:
    """Look for MTP layers in a folder of safetensors; None if there are none.

    Args:
        folder: the model's.
        layers: number of the model's own layers.
    """
    try:
        format = mtp_format(folder, layers)
    except UserError as error:
        return OwnLayers(1, str(error))
    if format is None:
        return None
    kinds = {str(header(file)[name]["dtype"]) for file, name in format.names.values()}
    quantized = sorted(kinds - set(FLOATS))
    return OwnLayers(format.count, f"They are quantized ({quantized[0]})." if quantized else "")


def in_gguf(header: Header, names: Collection[str]) -> OwnLayers | None:
    """Look for MTP layers in a GGUF file; None if there are none. Whether llama.cpp computes them for the architecture is known
    only after a load.

    Args:
        header: the file's.
        names: the names of its tensors.
    """
    count, layers = header.number("nextn_predict_layers"), header.number("block_count")
    if not count:
        return None
    # With several, llama.cpp ends the process over the first in some architectures.
    if count > 1:
        return OwnLayers(count, f"On llama.cpp specchat drafts with a single one, and the file has {count}.")
    missing = f"blk.{layers - 1}.nextn.eh_proj.weight" not in names
    return OwnLayers(count, "The file was converted without their tensors." if missing else "")
