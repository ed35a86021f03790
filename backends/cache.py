"""Where runtimes keep what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from ..plain_file import user_path


def cache_folder() -> Path:
    """The cache folder; SPECCHAT_CACHE names another."""
    named = os.environ.get("SPECCHAT_CACHE")
    return user_path(named).absolute() if named else platformdirs.user_cache_path("specchat", appauthor=False)
