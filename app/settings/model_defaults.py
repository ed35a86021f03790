"""Defaults of one model, as changes to the settings file: what `specchat tune` found, and what the chat keeps for a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import locations
from .file import Settings, from_text, merged, read
from .key_path import join, split
from .precedence import model_table


def method_changes(model: str, method: str, settings: Mapping[str, Any], path: Path | None = None) -> dict[str, Any]:
    """Changes that make a method the model's own; settings that the file had of it for this model go.

    Args:
        model: as `model` names it.
        method: its name.
        settings: those of the method, as texts or plain data.
        path: the settings file; the user's own if None.
    """
    found = read(path or locations.settings_file())
    name, table = model_table(merged(Settings(), found.values).models, model)
    before = [key for key in table if split(key)[:2] == ("methods", method)]
    changes: dict[str, Any] = {join(("models", name, *split(key))): None for key in before}
    changes[join(("models", name, "method"))] = method
    for setting, value in settings.items():
        key = join(("models", name, "methods", method, setting))
        changes[key] = from_text(key, value) if isinstance(value, str) else value
    return changes
