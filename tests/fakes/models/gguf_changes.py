"""GGUF files with some of their metadata changed, to whatever the format can say."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specchat.backends.files.gguf_file import ALIGNMENT, ARRAY, STRING, read_layout

UINT32, FLOAT32 = 4, 6


def changed(source: Path, file: Path, values: Mapping[str, Any]) -> Path:
    """Write a file like `source` with these values: whole numbers, numbers, texts (str or bytes) or lists of texts."""
    (layout,) = read_layout(source)
    data = source.read_bytes()
    pairs = layout.pairs | {key: _text(key.encode()) + _value(value) for key, value in values.items()}
    # No more than a power of two makes sense, and 2^31 would make a file of that size.
    alignment = values.get("general.alignment", layout.alignment)
    alignment = alignment if 0 < alignment <= 4096 else ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", layout.version, len(layout.tensors), len(pairs)) + b"".join(pairs.values())
    body = b""
    for tensor in layout.tensors:
        head += tensor.entry + struct.pack("<Q", len(body))
        body += data[tensor.begin : tensor.begin + tensor.length]
        body += bytes(-len(body) % alignment)
        if alignment < ALIGNMENT and tensor is layout.tensors[0]:
            body += bytes(alignment)  # some weights at least lie at odd places, wherever the first ones do
    head += bytes(-len(head) % alignment)
    file.write_bytes(head + body)
    return file


def tokens(source: Path) -> list[bytes]:
    """The vocabulary of a file."""
    (layout,) = read_layout(source)
    record = layout.pairs["tokenizer.ggml.tokens"]
    at = 8 + len(b"tokenizer.ggml.tokens") + 16
    found = []
    while at < len(record):
        (size,) = struct.unpack_from("<Q", record, at)
        found.append(record[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _value(value: Any) -> bytes:
    match value:
        case int():
            return struct.pack("<II", UINT32, value)
        case float():
            return struct.pack("<If", FLOAT32, value)
        case str():
            return struct.pack("<I", STRING) + _text(value.encode())
        case bytes():
            return struct.pack("<I", STRING) + _text(value)
        case _:
            return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))
