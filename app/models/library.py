"""The models on this machine: looked for in a thread, each told as it is found, looked into once."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
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
        self._cards: dict[Path, tuple[tuple[int, int], Card]] = {}
        self._words: dict[Path, tuple[tuple[int, int], Pieces | str]] = {}
        self._shared: dict[bytes, Pieces] = {}
        """Checksum of the file → its texts: the models of a family share one."""
        self._lock = threading.Lock()

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
        state = _state(path)
        with self._lock:
            known = self._cards.get(path)
        if known is not None and known[0] == state:
            return known[1]
        card = read_card(path)
        with self._lock:
            self._cards[path] = state, card
        return card

    def vocabulary(self, path: Path) -> Pieces:
        """The text of each token of a model, by id.

        Raises:
            UserError: its files do not tell.
        """
        state = _state(path)
        with self._lock:
            known = self._words.get(path)
        if known is None or known[0] != state:
            try:
                words: Pieces | str = self._read_words(path)
            except UserError as error:
                words = str(error)
            except Exception as error:  # others' files: nothing in them may end the list
                words = f"Cannot read the vocabulary of {path} ({type(error).__name__})."
            known = state, words
            with self._lock:
                self._words[path] = known
        if isinstance(known[1], str):
            raise UserError(known[1])
        return known[1]

    def _read_words(self, path: Path) -> Pieces:
        layout = read_layout(path)[0] if path.is_file() else None
        source = gguf_source(layout) if layout is not None else folder_source(path)
        digest = hashlib.blake2b(source).digest()
        if (known := self._shared.get(digest)) is None:
            known = Pieces(gguf_vocabulary(layout) if layout is not None else folder_vocabulary(path))
            self._shared[digest] = known
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
