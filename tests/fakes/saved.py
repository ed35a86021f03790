"""Saved files whose kind is known."""

from __future__ import annotations

from pathlib import Path

from specchat.app.race.record import RaceRecord
from specchat.app.saved.chat_json import SavedChat
from specchat.app.saved.race_json import read_saved


def read_chat(path: Path) -> SavedChat:
    saved = read_saved(path)
    assert isinstance(saved, SavedChat)
    return saved


def read_race(path: Path) -> RaceRecord:
    saved = read_saved(path)
    assert isinstance(saved, RaceRecord)
    return saved
