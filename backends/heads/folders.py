"""Detection of the trained drafter in a folder, by its configuration and its tensors' names and shapes, never by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..files.checkpoint import header, read_json
from .dflash.format import NAMES as DFLASH
from .dflash.format import dflash_format, kind_of
from .formats import ASSISTANTS, Checkpoint, Format, assistant_format, eagle_format, medusa_format, medusa_name, unreadable


def read_format(folder: Path, files: list[Path]) -> Format | None:
    """Identify the trained drafter in a folder whose files have been checked; None for anything else.

    Raises:
        UserError: its configuration cannot be used; says why.
    """
    config = read_json(folder / "config.json")
    names: dict[str, tuple[Path, str]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        for name, tensor in header(file).items():
            bare = name.removeprefix("model.")
            ours = DFLASH.get(bare) or medusa_name(bare.replace("midlayer.", "layers.0.", 1))
            names[ours] = file, name
            shapes[ours] = tuple(tensor["shape"])
    read: Callable[[Checkpoint], Format]
    if config.get("model_type") in ASSISTANTS:
        read = assistant_format
    elif "medusa_num_heads" in config or "0.lm_head.weight" in shapes:
        read = medusa_format
    elif kind_of(config, shapes) is not None:
        read = dflash_format
    elif "fc.weight" in shapes and "layers.0.self_attn.q_proj.weight" in shapes:
        read = eagle_format
    else:
        return None
    try:
        return read(Checkpoint(folder, config, names, shapes))
    except (LookupError, TypeError, ValueError) as error:
        raise unreadable(folder, error) from None
