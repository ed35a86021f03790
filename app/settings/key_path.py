"""Dotted keys as TOML writes them: `sampling.top_k`, `models."Qwen/Qwen3-0.6B".method`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def join(parts: Iterable[str]) -> str:
    """Write parts as one key; those with dots, spaces or the like in quotes."""
    return ".".join(
        part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False).replace("\x7f", r"\u007f") for part in parts
    )


@lru_cache(4096)
def split(key: str) -> tuple[str, ...]:
    """Split a key into its parts; () if it is none (a quote that is not closed, an empty part)."""
    try:
        table: Any = tomllib.loads(f"{key} = true")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    parts: list[str] = []
    while isinstance(table, dict):
        if len(table) != 1:  # several lines
            return ()
        part, table = next(iter(table.items()))
        parts.append(part)
    return tuple(parts) if table is True else ()
