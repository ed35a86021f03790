"""Fixtures of the tests in a real terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.app.history.store import Store

from ..fakes.records import recorded_model

SPECCHAT = str(Path(sys.executable).parent / "specchat")


def listed(env: dict[str, str]) -> list[dict[str, object]]:
    """The chats in the history."""
    command = [SPECCHAT, "chats", "list", "--json"]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    chats: list[dict[str, object]] = json.loads(done.stdout)["chats"]
    return chats


def typed(env: dict[str, str]) -> list[str]:
    """The text being typed, as the history has it."""
    with Store(Path(env["SPECCHAT_DATA"]) / "history.db") as store:
        rows = store.db.execute("SELECT json FROM drafts").fetchall()
    return [draft["text"] for (row,) in rows for drafts in json.loads(row)[1].values() for draft in drafts]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    names = {"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s", "SPECCHAT_DATA": "d"}
    return {"HOME": str(tmp_path), **{name: str(tmp_path / folder) for name, folder in names.items()}}


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A recorded model that greets."""
    return recorded_model(tmp_path, {"hello": "one two three"})
