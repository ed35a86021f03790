"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.engine.client import EngineClient

from ..fakes.engines import BareEngine


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "engine.log"


@pytest.fixture
def engine(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BareEngine]:
    """An engine whose pipes the test holds itself."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path / "cache"))
    engine = BareEngine(log)
    yield engine
    engine.close()


@pytest.fixture
def client(log: Path) -> Iterator[EngineClient]:
    with EngineClient(log=log, patience=3) as client:
        yield client
