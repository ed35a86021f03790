"""The text of single tokens, which the engine sends once for each model: for trees and inspection."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping

from ..text.cells import sanitise


class Pieces:
    """Token id → its text. A vocabulary of 150,000 takes about 2 MB: one string and an array of offsets."""

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        self._ends = array("I")
        parts = []
        length = 0
        for piece in pieces:
            parts.append(piece)
            length += len(piece)
            self._ends.append(length)
        self._text = "".join(parts)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return map(self.raw, range(len(self)))

    def raw(self, token: int) -> str:
        """Return the tokenizer's own text, which may hold anything; empty if unknown."""
        if not 0 <= token < len(self._ends):
            return ""
        return self._text[self._ends[token - 1] if token else 0 : self._ends[token]]

    def text(self, token: int) -> str:
        """Return the text, safe to show on one line: line breaks and tabs as symbols, spaces as they are; `⟨id⟩` if unknown."""
        raw = self.raw(token)
        if not raw:
            return f"⟨{token}⟩"
        return sanitise(raw).replace("\n", "⏎").replace("\t", "⇥")


class SomePieces(Pieces):
    """The text of the tokens of a saved answer, by id."""

    def __init__(self, pieces: Mapping[int, str]) -> None:
        super().__init__()
        self._known = dict(pieces)

    def __len__(self) -> int:
        return len(self._known)

    def raw(self, token: int) -> str:
        return self._known.get(token, "")
