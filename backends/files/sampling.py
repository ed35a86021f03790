"""The sampling that a model's makers recommend in its files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...plain_file import read_json
from ..base import Sampling

GGUF = {
    "temperature": "general.sampling.temp",
    "top_k": "general.sampling.top_k",
    "top_p": "general.sampling.top_p",
    "min_p": "general.sampling.min_p",
    "repetition_penalty": "general.sampling.penalty_repeat",
}
"""Setting → its key in a GGUF file's metadata."""

OLLAMA = {name: name for name in ("temperature", "top_k", "top_p", "min_p")} | {"repetition_penalty": "repeat_penalty"}
"""Setting → its name among Ollama's parameters."""


def read_recommended(folder: Path) -> dict[str, float]:
    """Read `generation_config.json`; empty if it does not ask for sampling, as transformers reads it."""
    try:
        config = read_json(folder / "generation_config.json")
    except (OSError, ValueError):
        return {}
    if not isinstance(config, dict) or config.get("do_sample") is not True:
        return {}
    return recommended({"temperature": 1.0, **config}, {name: name for name in GGUF})


def recommended(metadata: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    """Pick the sampling settings out of metadata, except those out of range or equal to the default.

    Args:
        metadata: by key.
        names: setting → its key there.
    """
    usable: dict[str, float] = {}
    for name, key in names.items():
        value, default = metadata.get(key), getattr(Sampling(), name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        value = int(value) if isinstance(default, int) else round(float(value), 6)  # GGUF has float32: 0.6 is 0.6000000238
        with suppress(UserError):
            replace(Sampling(), **{name: value})  # type: ignore[arg-type]
            usable |= {name: value} if value != default else {}
    return usable
