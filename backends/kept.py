"""Measurements of models, kept in the cache folder for each file, build and machine."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import __version__
from ..plain_file import cache_folder, read_json, write_json

GIVEN = "SPECCHAT_PASSES"
"""The variable that gives the seconds of passes in place of a measurement, so that every run drafts the same. What is kept
while it is set holds for runs with the same one alone."""

OLDEST = 30 * 86_400
"""Seconds for which a measurement is kept: a machine gets other firmware, and cooler or warmer."""


def identity(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Name each file with its size and when it was changed."""
    stats = [(str(file), file.stat()) for file in sorted(files) if file.is_file()]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def recall(kind: str, about: Sequence[Any]) -> dict[str, Any]:
    """Return what was kept, with the Unix time under "measured"; empty if there is nothing, or it is old or damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        measurement = read_json(_path(kind, about))
        if 0 <= time.time() - float(measurement["measured"]) < OLDEST:
            return dict(measurement)
    return {}


def keep(kind: str, about: Sequence[Any], measurement: dict[str, Any]) -> None:
    """Keep a measurement, of plain data, where the disk lets us. `about` is different wherever it may come out
    otherwise: the file, the runtime's version, threads, settings; our version and the machine are added."""
    with suppress(OSError):
        write_json(_path(kind, about), {**measurement, "measured": time.time()})


def _path(kind: str, about: Sequence[Any]) -> Path:
    machine = platform.node(), platform.machine(), os.cpu_count(), os.environ.get(GIVEN, "")
    key = hashlib.sha256(json.dumps((__version__, *machine, *about), sort_keys=True, default=str).encode()).hexdigest()[:16]
    return cache_folder() / kind / f"{key}.json"
