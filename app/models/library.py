"""The models on this machine: looked for in a thread, each told as it is found, looked into once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from ...backends.files.gguf_file import read_layout
from ...backends.files.model_card import Card, read_card
from ...backends.files.vocabulary import folder_source, folder_vocabulary, gguf_source, gguf_vocabulary
from ...backends.options import SHIPPED, pip_command
from ...errors import UserError
from ...plain_file import user_path
from ..chat.pieces import Pieces
from .places import PLACES, ModelSpot, spots


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on this machine: where it lies and what its files say."""

    spot: ModelSpot
    card: Card

    @property
    def key(self) -> tuple[str, str, str]:
        """Tells it from every other one in a list."""
        return self.spot.place, str(self.spot.path), self.spot.backend

    @property
    def problem(self) -> str:
        """Why it cannot be loaded; empty if nothing is known to be in the way."""
        if self.spot.remark:
            return self.spot.remark
        if self.card.problem:
            what = "This file" if self.card.backend == "llama.cpp" else "This folder"
            return self.card.problem.replace(str(self.spot.path), what)
        if self.card.head is not None:
            return (
                f"It is a trained drafter ({self.card.head.title}). Choose it as the draft model of the model it was made for."
            )
        if self.card.backend == "llama.cpp" and not _llama_here():
            return f"It runs on llama.cpp, which is not installed. Run: {pip_command()}"
        return ""


@cache
def _llama_here() -> bool:
    """Whether llama.cpp is installed. Asked for each row at each drawing, so looked up once."""
    return find_spec("llama_cpp") is not None


class Library:
    """The models that were found on this machine, kept between two looks. Safe to use from several threads."""

    def __init__(self) -> None:
        self._card = lru_cache(None)(lambda path, _: read_card(path))
        self._words = lru_cache(None)(self._read_words)
        self._shared: dict[bytes, Pieces] = {}
        """Checksum of the file → its texts: the models of a family share one."""

    def look(
        self,
        recent: Sequence[str] = (),
        named: Sequence[str] = (),
        here: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[FoundModel]:
        """Every model in the known places, as it is found. Blocks while it reads."""
        for spot in spots(recent, named, here):
            if stopped():
                return
            yield FoundModel(spot, Card(spot.path, "llama.cpp") if spot.remark else self.card(spot.path))

    def named(self, spec: str, folders: Sequence[str] = ()) -> FoundModel | None:
        """The model on this machine that a name loads; None if it is not here."""
        path = user_path(spec)
        if spec not in SHIPPED and os.path.exists(path):
            return FoundModel(ModelSpot(PLACES[2], spec, path, path.name), self.card(path))
        spot = next((spot for spot in spots(named=folders) if spot.spec == spec), None)
        return FoundModel(spot, self.card(spot.path)) if spot is not None else None

    def card(self, path: Path) -> Card:
        """The card of a folder or file, read anew where it has changed."""
        return self._card(path, _state(path))

    def vocabulary(self, path: Path) -> Pieces:
        """The text of each token of a model, by id.

        Raises:
            UserError: its files do not tell.
        """
        found = self._words(path, _state(path))
        if isinstance(found, str):
            raise UserError(found)
        return found

    def _read_words(self, path: Path, _: object) -> Pieces | str:
        """A vocabulary, or what is wrong with it."""
        try:
            layout = read_layout(path)[0] if path.is_file() else None
            digest = hashlib.blake2b(gguf_source(layout) if layout is not None else folder_source(path)).digest()
            if (known := self._shared.get(digest)) is None:
                known = Pieces(gguf_vocabulary(layout) if layout is not None else folder_vocabulary(path))
                self._shared[digest] = known
        except UserError as error:
            return str(error)
        except Exception as error:  # others' files: nothing in them may end the list
            return f"Cannot read the vocabulary of {path} ({type(error).__name__})."
        return known


def _state(path: Path) -> tuple[int, int]:
    try:
        told = path.stat()
        if path.is_file():
            return told.st_mtime_ns, told.st_size
        inner = [file.stat() for file in path.iterdir()]
        return max([told.st_mtime_ns, *(file.st_mtime_ns for file in inner)]), sum(file.st_size for file in inner)
    except OSError:
        return 0, 0


def in_order(found: Sequence[FoundModel]) -> list[FoundModel]:
    """Models in the order of the list: by place, then by name."""
    return sorted(found, key=lambda each: (PLACES.index(each.spot.place), each.spot.title.lower(), each.spot.backend))
