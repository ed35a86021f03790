"""One engine for the tests of servers: each loads what it needs into it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specchat.engine.client import EngineClient


@pytest.fixture(scope="package")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    with EngineClient(log=tmp_path_factory.mktemp("servers") / "engine.log") as client:
        yield client
