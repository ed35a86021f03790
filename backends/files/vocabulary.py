"""The names of a model's tokens, read from its files alone: enough to tell whether one model can draft for another."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from ...errors import UserError
from ...plain_file import opened, read_bytes
from .checkpoint import read_json
from .gguf_file import read_layout

MOST_BYTES = 200_000_000
"""Largest size of a tokenizer's file; the largest known, Gemma's, has 33 MB."""

TOLERATED = 1000
"""One id in this many may differ: reserved and unused ids have made-up names, which vary between the files of a family."""


class Vocabulary(Protocol):
    """The text of each token, by id."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


def difference(ours: Vocabulary, theirs: Vocabulary) -> int | None:
    """Find the first id whose text differs between two vocabularies; None if they are the same.

    Vocabularies padded to different sizes are the same, as long as nearly all ids in both have the same text.
    """
    most = min(len(ours), len(theirs)) // TOLERATED
    different = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
    return different[0] if len(different) > most else None


def vocabulary_source(path: Path) -> bytes:
    """Read the bytes that determine `read_vocabulary`: its array in a GGUF file, or the tokenizer's file in a folder.

    Raises:
        UserError: there is no vocabulary.
    """
    if path.is_file():
        layout = read_layout(path)[0]
        begin, end = layout.spans.get("tokenizer.ggml.tokens", (0, 0))
        with opened(path) as file:
            file.seek(begin + 8 + len("tokenizer.ggml.tokens") + 4)
            return file.read(end - file.tell())
    for name in ("tokenizer.json", "vocab.json"):
        if (path / name).is_file():
            return name.encode() + read_bytes(path / name, MOST_BYTES)
    raise UserError(f"{path} has no tokenizer.json, so its tokens are not known yet. Load it first.")


def read_vocabulary(path: Path) -> list[str]:
    """Read the name of each token of a model in a folder or a GGUF file, by id.

    Raises:
        UserError: its files have no vocabulary, or a damaged one.
    """
    if path.is_file():
        return _gguf_strings(vocabulary_source(path))
    if (path / "tokenizer.json").is_file():
        content = read_json(path / "tokenizer.json", MOST_BYTES)
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, Mapping):
            names = {i: name for name, i in vocabulary.items()}
        else:  # Unigram: [piece, score] by id
            names = {i: piece for i, (piece, _) in enumerate(vocabulary)}
        names |= {token["id"]: token["content"] for token in content.get("added_tokens", ())}
    else:
        names = {i: name for name, i in read_json(path / "vocab.json", MOST_BYTES).items()}
    return [names.get(i, f"<{i}>") for i in range(max(names) + 1)]


def _gguf_strings(array: bytes) -> list[str]:
    """Split an array of strings: type and number of the elements, then length and bytes of each."""
    names: list[str] = []
    at = 12
    while at < len(array):
        (size,) = struct.unpack_from("<Q", array, at)
        at += 8 + size
        names.append(array[at - size : at].decode("utf-8", "replace"))
    return names
