"""Where runtimes keep what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The cache folder; SPECCHAT_CACHE names another."""
    named = os.environ.get("SPECCHAT_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("specchat", appauthor=False)
