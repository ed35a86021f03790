"""The sampling that a model's makers recommend, as the model's files tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def of_folder(folder: Path) -> dict[str, float]:
    """What `generation_config.json` says; nothing where it does not ask for sampling, as transformers reads it."""
    try:
        told = read_json(folder / "generation_config.json")
    except (OSError, ValueError):
        return {}
    if not isinstance(told, dict) or told.get("do_sample") is not True:
        return {}
    return recommended({"temperature": 1.0, **told}, {name: name for name in GGUF})


def recommended(told: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    """The settings among some metadata, without those that are out of range or change nothing.

    Args:
        told: the metadata.
        names: setting → its key there.
    """
    return dict(_usable(told, names))


def _usable(told: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for name, key in names.items():
        value, default = told.get(key), getattr(Sampling(), name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        value = int(value) if isinstance(default, int) else round(float(value), 6)  # GGUF has float32: 0.6 is 0.6000000238
        try:
            replace(Sampling(), **{name: value})  # type: ignore[arg-type]
        except UserError:
            continue
        if value != default:
            yield name, value
