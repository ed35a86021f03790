"""The size of a test: a sample in `make test`, everything in `make test-all`, which sets SPECCHAT_FULL=1."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

FULL = bool(os.environ.get("SPECCHAT_FULL"))

only_full = pytest.mark.skipif(not FULL, reason="make test-all runs it: it takes long")


def cases(full: int, quick: int = 60, **more: Any) -> settings:
    """Cases of a property. The sample is the same in each run, so that a failure is of what was changed."""
    if FULL:
        return settings(max_examples=full, deadline=None, **more)
    return settings(max_examples=min(quick, full), deadline=None, **{"derandomize": True, **more})
