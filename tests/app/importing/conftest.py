"""Imports into a history of their own, and files to import."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.history.chats import Chats
from specchat.app.history.store import Store
from specchat.app.importing.run import Report, import_files

DATA = Path(__file__).parent / "data"


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own history, empty."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "config"))
    return tmp_path / "data" / "history.db"


@pytest.fixture
def chats(history: Path) -> Iterator[Chats]:
    with Store(history) as store:
        yield Chats(store)


@pytest.fixture
def bring(history: Path) -> Callable[..., Report]:
    """Imports files into it."""

    def bring(*paths: Path, **more: Any) -> Report:
        return import_files(paths, history=history, **more)

    return bring


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file: JSON lines of several values, else JSON of one."""

    def write(name: str, *values: Any) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
        return path

    return write


@pytest.fixture
def llm_logs(tmp_path: Path) -> Callable[[str], Path]:
    """A database that some version of llm wrote itself (its tables and rows, without the full-text index)."""

    def make(version: str) -> Path:
        path = tmp_path / f"logs-{version}.db"
        db = sqlite3.connect(path)
        db.executescript((DATA / f"llm-{version}.sql").read_text(encoding="utf-8"))
        db.close()
        return path

    return make


def said(chat: Any) -> list[tuple[str, str]]:
    """What a chat shows, without the notice at its beginning."""
    return [(type(entry).__name__.lower(), entry.text) for entry in chat.transcript.entries[1:]]
