"""What the tests in a real terminal share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SPECCHAT = str(Path(sys.executable).parent / "specchat")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own."""
    names = {"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "s", "SPECCHAT_DATA": "d"}
    return {"HOME": str(tmp_path), **{name: str(tmp_path / folder) for name, folder in names.items()}}
