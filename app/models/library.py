"""The models on this machine. Each file is read once, until it changes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from ...backends.files.model_card import Card, read_card
from ...backends.files.vocabulary import read_vocabulary, vocabulary_source
from ...backends.options import SHIPPED, pip_command
from ...errors import UserError
from ...plain_file import user_path
from ..chat.runs import Pieces
from .places import PLACES, ModelSpot, spots


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on this machine: its place, and the description in its files."""

    spot: ModelSpot
    card: Card

    @property
    def key(self) -> tuple[str, str, str]:
        """Unique in a list."""
        return self.spot.place, str(self.spot.path), self.spot.backend

    @property
    def problem(self) -> str:
        """The reason why it cannot be loaded; empty if none is known."""
        if self.spot.remark:
            return self.spot.remark
        if self.card.problem:
            noun = "This file" if self.card.backend == "llama.cpp" else "This folder"
            return self.card.problem.replace(str(self.spot.path), noun)
        if self.card.head is not None:
            return (
                f"It is a trained drafter ({self.card.head.title}). Choose it as the draft model of the model it was made for."
            )
        if self.card.backend == "llama.cpp" and not _llama_here():
            return f"It runs on llama.cpp, which is not installed. Run: {pip_command()}"
        return ""


@cache
def _llama_here() -> bool:
    """Whether llama.cpp is installed. Each row asks at each drawing, so it is looked up once."""
    return find_spec("llama_cpp") is not None


class Library:
    """The models on this machine, with their files' contents in memory. Safe to use from several threads."""

    def __init__(self) -> None:
        self._card = lru_cache(None)(lambda path, _: read_card(path))
        self._words = lru_cache(None)(self._read_words)
        self._shared: dict[bytes, Pieces] = {}
        """Checksum of the file → its texts: the models of a family share one."""

    def look(self, named: Sequence[str] = (), stopped: Callable[[], bool] = lambda: False) -> Iterator[FoundModel]:
        """Yield every model in the known places, as it is found. Blocks while it reads."""
        for spot in spots(named):
            if stopped():
                return
            yield FoundModel(spot, Card(spot.path, "llama.cpp") if spot.remark else self.card(spot.path))

    def named(self, spec: str, folders: Sequence[str] = ()) -> FoundModel | None:
        """Find the model on this machine that a name loads; None if there is none."""
        path = user_path(spec)
        if spec not in SHIPPED and os.path.exists(path):
            return FoundModel(ModelSpot("This folder", spec, path, path.name), self.card(path))
        return next((model for model in self.look(named=folders) if model.spot.spec == spec), None)

    def card(self, path: Path) -> Card:
        """Read the card of a folder or file, again if it has changed."""
        return self._card(path, _state(path))

    def vocabulary(self, path: Path) -> Pieces:
        """Read the text of each token of a model, by id.

        Raises:
            UserError: its files do not have them.
        """
        return self._words(path, _state(path))

    def _read_words(self, path: Path, _: object) -> Pieces:
        try:
            digest = hashlib.blake2b(vocabulary_source(path)).digest()
            if digest not in self._shared:
                self._shared[digest] = Pieces(read_vocabulary(path))
            return self._shared[digest]
        except UserError:
            raise
        except Exception as error:  # others' files: nothing in them may end the list
            raise UserError(f"Cannot read the vocabulary of {path} ({type(error).__name__}). Download it again.") from None


def _state(path: Path) -> tuple[tuple[int, int], ...]:
    """Return what changes when the files of a model do."""
    try:
        files = (path, *(path.iterdir() if path.is_dir() else ()))
        return tuple((status.st_mtime_ns, status.st_size) for status in map(Path.stat, files))
    except OSError:
        return ()


def in_order(models: Sequence[FoundModel]) -> list[FoundModel]:
    """Sort models as they are listed: by place, then by name."""
    return sorted(models, key=lambda model: (PLACES.index(model.spot.place), model.spot.title.lower(), model.spot.backend))
