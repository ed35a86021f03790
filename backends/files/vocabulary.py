"""The text of a model's tokens, read from its files alone: enough to tell whether one model can draft for another."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from ...errors import UserError
from ...plain_file import read_bytes
from .checkpoint import read_json
from .gguf_file import MOST_STRINGS, Layout

MOST_BYTES = 200_000_000
"""Largest size of a tokenizer's file; the largest known, Gemma's, has 33 MB."""

TOLERATED = 1000
"""One id in this many may differ: reserved and unused ids have made-up names, which vary between the files of a family."""

UNUSED = 5
"""GGUF's token type for ids that pad the vocabulary."""


class Vocabulary(Protocol):
    """The text of each token, by id."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


def difference(ours: Vocabulary, theirs: Vocabulary) -> int | None:
    """Find the first id whose text differs between two vocabularies; None if they are the same.

    Vocabularies padded to different sizes are the same, as long as nearly all ids in both have the same text.
    """
    most = min(len(ours), len(theirs)) // TOLERATED
    different: list[int] = []
    for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            different.append(i)
            if len(different) > most:
                return different[0]
    return None


def folder_source(folder: Path) -> bytes:
    """Read the bytes that determine `folder_vocabulary`; the folder's name if there are none."""
    for name in ("tokenizer.json", "vocab.json"):
        file = folder / name
        with suppress(OSError):
            return name.encode() + read_bytes(file, MOST_BYTES)
    return str(folder).encode("utf-8", "surrogateescape")


def gguf_source(layout: Layout) -> bytes:
    """Read the bytes that determine `gguf_vocabulary`."""
    keys = ("tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
    return b"".join(layout.pairs.get(key, b"") for key in keys)


def folder_vocabulary(folder: Path) -> list[str]:
    """Read the text of each token of a model in a folder, by id.

    Raises:
        UserError: it has no file with the vocabulary, or a damaged one.
    """
    whole = folder / "tokenizer.json"
    if whole.is_file():
        data = read_json(whole, MOST_BYTES)
        model = data.get("model")
        vocabulary: Any = model.get("vocab") if isinstance(model, Mapping) else None
        by_bytes = '"ByteLevel"' in json.dumps([data.get("decoder"), data.get("pre_tokenizer")])
        if isinstance(vocabulary, list):  # Unigram: [piece, score] by id
            names = {i: entry[0] for i, entry in enumerate(vocabulary) if isinstance(entry, list) and entry}
        elif isinstance(vocabulary, Mapping):
            names = {i: name for name, i in vocabulary.items()}
        else:
            raise UserError(f"{whole} has no vocabulary. Download it again.")
        added = data.get("added_tokens")
        for token in added if isinstance(added, list) else ():
            if isinstance(token, Mapping) and isinstance(token.get("id"), int):
                names[token["id"]] = token.get("content")
    elif (plain := folder / "vocab.json").is_file():
        names, by_bytes = {i: name for name, i in read_json(plain, MOST_BYTES).items()}, True
    else:
        raise UserError(f"{folder} has no tokenizer.json, so its tokens are not known yet. Load it first.")
    texts = {i: name for i, name in names.items() if isinstance(i, int) and 0 <= i < MOST_STRINGS and isinstance(name, str)}
    if not texts or max(texts) > 4 * len(texts) + 1024:
        raise UserError(f"The vocabulary in {folder} is damaged. Download it again.")
    return [_text(texts[i], by_bytes) if i in texts else f"<{i}>" for i in range(max(texts) + 1)]


def gguf_vocabulary(layout: Layout) -> list[str]:
    """Read the text of each token in a GGUF file, by id.

    Raises:
        UserError: the file has none.
    """
    names = _strings(layout.pairs.get("tokenizer.ggml.tokens", b""), "tokenizer.ggml.tokens")
    if not names:
        raise UserError(f"{layout.file} has no vocabulary. Download it again.")
    kinds = _integers(layout.pairs.get("tokenizer.ggml.token_type", b""), "tokenizer.ggml.token_type")
    by_bytes = layout.header.metadata.get("tokenizer.ggml.model") == "gpt2"
    texts = [_text(name, by_bytes) for name in names]
    for i, kind in enumerate(kinds[: len(texts)]):
        if kind == UNUSED:
            texts[i] = f"<{i}>"
    return texts


def _array(record: bytes, key: str) -> tuple[int, int, int] | None:
    """Read type, number and offset of the elements of a metadata record that holds an array; None if it does not."""
    at = 8 + len(key.encode())
    if len(record) < at + 16 or struct.unpack_from("<I", record, at)[0] != 9:
        return None
    kind, length = struct.unpack_from("<IQ", record, at + 4)
    return kind, length, at + 16


def _strings(record: bytes, key: str) -> list[str]:
    array = _array(record, key)
    if array is None or array[0] != 8:
        return []
    _, length, at = array
    out: list[str] = []
    unpack = struct.Struct("<Q").unpack_from
    for _ in range(min(length, MOST_STRINGS)):
        (size,) = unpack(record, at)
        out.append(record[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        at += 8 + size
    return out


def _integers(record: bytes, key: str) -> Sequence[int]:
    array = _array(record, key)
    if array is None or array[0] not in (4, 5):
        return ()
    _, length, at = array
    return struct.unpack_from(f"<{min(length, (len(record) - at) // 4)}i", record, at)


@lru_cache(1)
def _bytes_by_sign() -> dict[str, int]:
    """Build GPT-2's alphabet, in which byte-level tokenizers write bytes: printable Latin-1 as itself, others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    further = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(further)}


def _text(name: str, by_bytes: bool) -> str:
    """Decode a token's name in the file to its text."""
    if by_bytes:
        if name.isascii() and " " not in name:
            return name
        signs = _bytes_by_sign()
        if all(sign in signs for sign in name):
            return bytes(signs[sign] for sign in name).decode("utf-8", "replace")
        return name
    if len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
        try:
            return bytes([int(name[3:5], 16)]).decode("utf-8", "replace")
        except ValueError:
            return name
    return name.replace("▁", " ")
