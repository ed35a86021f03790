"""What a model's files say about its own MTP layers before anything is loaded: how many there are, or why they cannot draft."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ....errors import UserError
from ...files.checkpoint import header
from ...files.gguf_file import Header
from .format import mtp_format

FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class OwnLayers:
    """The MTP layers in a model's own files."""

    count: int
    problem: str = ""
    """Why they cannot draft here, as a sentence; empty if nothing is known to be in the way."""

    @property
    def told(self) -> str:
        """A sentence: that they draft, or why not."""
        if self.problem:
            return f"Its own MTP layers cannot draft: {self.problem}"
        return f"Its own MTP {'layer drafts' if self.count == 1 else 'layers draft'} (method mtp)."


def in_folder(folder: Path, layers: int) -> OwnLayers | None:
    """Read the MTP layers of a folder of safetensors; None if there are none.

    Args:
        folder: the model's.
        layers: how many layers the model itself has.
    """
    try:
        found = mtp_format(folder, layers)
    except UserError as error:
        return OwnLayers(1, str(error))
    if found is None:
        return None
    kinds = {str(header(file)[name]["dtype"]) for tensors in found.layers for file, name in tensors.values()}
    quantized = sorted(kinds - set(FLOATS))
    return OwnLayers(len(found.layers), f"They are quantized ({quantized[0]})." if quantized else "")


def in_gguf(header: Header, names: Collection[str]) -> OwnLayers | None:
    """Find the MTP layers in a GGUF file; None if there are none. Only trying tells whether llama.cpp computes them for its
    architecture.

    Args:
        header: the file's.
        names: its tensors'.
    """
    count, layers = header.number("nextn_predict_layers"), header.number("block_count")
    if not count:
        return None
    # Of several, llama.cpp ends the process over the first in some architectures.
    if count > 1:
        return OwnLayers(count, f"On llama.cpp specchat drafts with a single one, and the file has {count}.")
    missing = f"blk.{layers - 1}.nextn.eh_proj.weight" not in names
    return OwnLayers(count, "The file was converted without their tensors." if missing else "")
