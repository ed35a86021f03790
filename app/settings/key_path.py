"""Dotted keys as TOML writes them: `sampling.top_k`, `models."Qwen/Qwen3-0.6B".method`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def join(parts: Iterable[str]) -> str:
    """Parts as one key; those with dots, spaces or the like in quotes."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in parts)


def split(key: str) -> tuple[str, ...]:
    """The parts of a key; () if it is none (a quote that is not closed, an empty part)."""
    parts: list[str] = []
    at = 0
    while True:
        rest = key[at:].lstrip()
        at = len(key) - len(rest)
        if rest[:1] == '"':
            try:
                part, length = json.JSONDecoder().raw_decode(rest)
            except ValueError:
                return ()
        elif rest[:1] == "'":
            part, quote, _ = rest[1:].partition("'")
            if not quote:
                return ()
            length = len(part) + 2
        else:
            part = rest.partition(".")[0]
            length = len(part)
            part = part.rstrip()
            if not part:
                return ()
        parts.append(part)
        rest = rest[length:].lstrip()
        if not rest:
            return tuple(parts)
        if rest[0] != ".":
            return ()
        at = len(key) - len(rest) + 1
