"""What passes at a model's real lengths gave (`specchat doctor MODEL`), kept for each checkpoint. Loading it reads that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ... import __version__
from ...plain_file import cache_folder, read_json, write_json

NO_TREES = "Near {}, a branching tree did not give the logits of its paths, so methods draft chains only."
NO_CHAINS = "Near {}, a chain did not give the logits of one token at a time, so this model supports plain decoding only."
UNLIKE = "Near {}, one token at a time did not give the logits of the model's own pass, so longer answers may not be its own."


class Tried(NamedTuple):
    """What held near a length, in texts on both sides of it; None for what was not tried, or where that is unclear."""

    length: int
    plain: bool | None = None
    """One token at a time has the logits of the model's own pass over the whole text."""
    chain: bool | None = None
    tree: bool | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything kept of one checkpoint, by the names of its lengths."""

    path: Path
    tried: dict[str, Tried] = field(default_factory=dict)

    def keep(self, name: str, found: Tried) -> bool:
        """Keep what was found now beside what was not tried again; whether it could be written."""
        before = self.tried.get(name)
        if before is not None and before.length == found.length:
            found = Tried._make(old if new is None else new for new, old in zip(found, before, strict=True))
        self.tried[name] = found
        try:
            write_json(self.path, self.tried)
        except OSError:
            return False
        return True

    def failed(self, what: Literal["plain", "chain", "tree"]) -> str:
        """The shortest length near which something failed, as a sentence names it; empty if it held wherever it was tried."""
        return shortest({name: found.length for name, found in self.tried.items() if getattr(found, what) is False})

    @property
    def refusal(self) -> str:
        """Why nothing may be drafted; empty if it may."""
        return NO_CHAINS.format(where) if (where := self.failed("chain")) else ""

    def unproven(self, lengths: Mapping[str, int], *, tree: bool) -> dict[str, int]:
        """Those of some lengths near which nothing is known of chains, or of the trees that a model takes elsewhere."""
        known = {
            (name, found.length)
            for name, found in self.tried.items()
            if found.chain is not None and (found.tree is not None or not tree)
        }
        return {name: length for name, length in lengths.items() if (name, length) not in known}


def shortest(lengths: Mapping[str, int]) -> str:
    """The shortest of some lengths as a sentence names it; empty if there are none."""
    found = sorted((length, name) for name, length in lengths.items())
    return f"{found[0][0]:,} tokens ({found[0][1]} in its configuration)" if found else ""


def kept(*about: Any) -> Verdict:
    """What is kept of a checkpoint; nothing of it where its file is damaged.

    Args:
        about: plain data that is different where passes may be: its configuration, its type, versions. Ours is added.
    """
    key = hashlib.sha256(json.dumps((__version__, *about), sort_keys=True, default=str).encode()).hexdigest()[:16]
    path = cache_folder() / "proofs" / f"{key}.json"
    try:
        tried = {name: Tried(*row) for name, row in read_json(path).items()}
        if all(type(row.length) is int and set(row[1:]) <= {True, False, None} for row in tried.values()):
            return Verdict(path, tried)
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    return Verdict(path)
