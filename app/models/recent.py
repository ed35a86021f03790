"""The models that were loaded lately, by the names that loaded them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ... import plain_file
from ..settings.locations import data_folder

MOST = 20


def _file() -> Path:
    return data_folder() / "recent-models.json"


def recent() -> list[str]:
    """Names of the models that were loaded lately, the latest first."""
    try:
        found = plain_file.read_json(_file())
    except (OSError, ValueError):
        return []
    return [spec for spec in found if isinstance(spec, str)][:MOST] if isinstance(found, list) else []


def remember(spec: str) -> None:
    """Put one first. What cannot be written is not remembered: nothing depends on it."""
    known = recent()
    if known[:1] == [spec]:
        return
    with contextlib.suppress(OSError):
        plain_file.write_json(_file(), [spec, *(each for each in known if each != spec)][:MOST])
