"""Commands in this process, on one engine for all of them: to start one takes longer than most commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.cli import main as cli
from specchat.engine.client import EngineClient

from ...fakes.engines import wait_until

Call = Callable[..., tuple[int, str, str]]


class LastingEngine(EngineClient):
    """Client whose engine stays for the next command."""

    def begin(self) -> LastingEngine:
        """Forget what came between two commands."""
        self.drain()
        return self

    def close(self) -> None:
        """Cancel what a command left running."""
        for id in [*self._running]:
            self.cancel(id)
        while self._running:
            self.wait(0.05)

    def end(self) -> None:
        super().close()


@pytest.fixture(scope="session")
def lasting_engine() -> Iterator[LastingEngine]:
    client = LastingEngine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        client.start()
        wait_until(lambda: client.pid)
    yield client
    client.end()


@pytest.fixture
def call(
    lasting_engine: LastingEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Run `specchat …` with empty folders; return exit code, output and error output."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    for name in ("data", "cache"):
        monkeypatch.setenv(f"SPECCHAT_{name.upper()}", str(tmp_path / name))
    monkeypatch.setenv("SPECCHAT_LOG", str(tmp_path / "engine.log"))
    for module in ("oneshot", "bench.lab"):
        monkeypatch.setattr(f"specchat.app.cli.{module}.EngineClient", lasting_engine.begin)

    def called(*args: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specchat", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return called
