"""Looks at a checkpoint folder before torch does, so that what is wrong with it comes out as one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .base import UserError

PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "consolidated*.pth")
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


MOST_HEADER = 100_000_000
"""Bytes of a safetensors header, by its specification."""


def check_folder(folder: Path) -> list[Path]:
    """The safetensors files of a model folder, each checked to be whole.

    Raises:
        UserError: it is no model folder; there are only pickles, or nothing; a file is missing or cut short.
    """
    if not folder.exists():
        raise UserError(f"There is no folder {folder}: check the path.")
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: name the folder that holds config.json and the safetensors files.")
    if not any(folder.iterdir()):
        raise UserError(f"{folder} is empty: put a model there (config.json, *.safetensors and the tokenizer's files).")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no config.json: name the folder of a transformers model, or use `builtin`.")
    index = folder / "model.safetensors.index.json"
    files = sorted(folder.glob("*.safetensors"))
    if index.is_file():
        named = sorted(set(read_json(index).get("weight_map", {}).values()))
        missing = [name for name in named if not (folder / name).is_file()]
        if missing:
            raise UserError(f"{folder} lacks {len(missing)} of {len(named)} weight files, such as {missing[0]}: get them.")
        files = [folder / name for name in named]
    if not files:
        if any(next(folder.glob(pattern), None) for pattern in PICKLES):
            raise UserError(
                f"{folder} holds pickled weights only, which can run code when they are opened, so specchat does not: convert "
                "them once with transformers (`model.save_pretrained(folder)` writes safetensors), or look for a safetensors "
                "version of the model."
            )
        raise UserError(f"{folder} holds no weights (*.safetensors): get the model again.")
    for file in files:
        header(file)
    return files


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object in a file.

    Raises:
        UserError: it is not one.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{file} is not valid JSON: get the file again.") from None
    if not isinstance(data, dict):
        raise UserError(f"{file} is not a JSON object: get the file again.")
    return data


def header(file: Path) -> dict[str, Any]:
    """The header of a safetensors file: name → dtype, shape and byte range of each tensor.

    Raises:
        UserError: the file is not whole.
    """
    broken = UserError(f"{file} is damaged or was not copied completely: get the file again.")
    size = file.stat().st_size
    with file.open("rb") as stream:
        first = stream.read(8)
        length = int.from_bytes(first, "little")
        if len(first) < 8 or not 2 <= length <= min(size - 8, MOST_HEADER):
            raise broken
        try:
            found = json.loads(stream.read(length))
        except (ValueError, RecursionError):
            raise broken from None
    if not isinstance(found, dict):
        raise broken
    tensors = {name: value for name, value in found.items() if name != "__metadata__"}
    if max((value["data_offsets"][1] for value in tensors.values()), default=0) + 8 + length != size:
        raise broken
    return tensors


def weight_bytes(files: list[Path], item_bytes: int | None) -> int:
    """Bytes of all weights once loaded.

    Args:
        files: the safetensors files.
        item_bytes: size of a floating-point weight in memory; None for the file's own.
    """
    total = 0
    for file in files:
        for tensor in header(file).values():
            begin, end = tensor["data_offsets"]
            own = ITEM_BYTES.get(tensor["dtype"], 1)
            floating = tensor["dtype"] in ("F64", "F32", "F16", "BF16")
            total += (end - begin) // own * item_bytes if floating and item_bytes else end - begin
    return total
