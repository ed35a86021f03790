"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.engine.client import EngineClient


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log file of this test's own."""
    return tmp_path / "logs" / "engine.log"


@pytest.fixture
def client(log: Path) -> Iterator[EngineClient]:
    """A client with a process of its own."""
    with EngineClient(log=log) as client:
        yield client
