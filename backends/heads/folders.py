"""Detection of the trained drafter in a folder, by its configuration and its tensors' names and shapes, never by its name."""

from __future__ import annotations

from pathlib import Path

from ..files.checkpoint import header, read_json
from .assistant.format import ASSISTANTS, assistant_format
from .dflash.format import NAMES as DFLASH
from .dflash.format import dflash_format, kind_of
from .eagle_format import eagle_format
from .formats import Checkpoint, Config, Format
from .medusa_format import medusa_format, medusa_name


def read_format(folder: Path, files: list[Path]) -> Format | None:
    """Identify the trained drafter in a folder whose files have been checked; None for anything else.

    Raises:
        UserError: its configuration is damaged; says where.
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
    checkpoint = Checkpoint(folder, Config(folder / "config.json", config), names, shapes)
    if config.get("model_type") in ASSISTANTS or shapes.keys() >= {"pre_projection.weight", "post_projection.weight"}:
        return assistant_format(checkpoint)
    if "medusa_num_heads" in config or config.get("model_type") == "medusa" or "0.lm_head.weight" in shapes:
        return medusa_format(checkpoint)
    if kind_of(config, shapes) is not None:
        return dflash_format(checkpoint)
    if "fc.weight" in shapes and "layers.0.self_attn.q_proj.weight" in shapes:
        return eagle_format(checkpoint)
    return None
