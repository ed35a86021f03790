"""GGUF files with some of their metadata or tensors changed, to whatever the format can say."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.backends.files.gguf_file import ALIGNMENT, ARRAY, STRING, read_layout
from specchat.backends.files.vocabulary import read_vocabulary

UINT32, INT32, FLOAT32, BOOL = 4, 5, 6, 7
TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.int64): 27}
"""numpy's types of numbers → ggml's."""


def changed(
    source: Path, file: Path, values: Mapping[str, Any], tensors: Mapping[str, NDArray[Any] | None] | None = None
) -> Path:
    """Write a file like `source` with these values: truths, whole numbers, numbers, texts (str or bytes) or lists of texts,
    whole numbers or numbers; and with these tensors. None leaves one out."""
    (layout,) = read_layout(source)
    data = source.read_bytes()
    pairs = {key: data[begin:end] for key, (begin, end) in layout.spans.items()}
    pairs |= {key: _text(key.encode()) + _value(value) for key, value in values.items() if value is not None}
    for key in [key for key, value in values.items() if value is None]:
        pairs.pop(key, None)
    parts = {t.name: (_entry(t.name, t.shape, t.kind), data[t.begin : t.begin + t.length]) for t in layout.tensors}
    for name, tensor in (tensors or {}).items():
        parts.pop(name, None)
        if tensor is not None:
            parts[name] = _entry(name, tensor.shape, TYPES[tensor.dtype]), tensor.tobytes()
    # No more than a power of two makes sense, and 2^31 would make a file of that size.
    alignment = values.get("general.alignment", layout.header.metadata.get("general.alignment", ALIGNMENT))
    alignment = alignment if 0 < alignment <= 4096 else ALIGNMENT
    head = b"GGUF" + data[4:8] + struct.pack("<QQ", len(parts), len(pairs)) + b"".join(pairs.values())
    body = b""
    for index, (entry, content) in enumerate(parts.values()):
        head += entry + struct.pack("<Q", len(body))
        body += content
        body += bytes(-len(body) % alignment)
        if alignment < ALIGNMENT and not index:
            body += bytes(alignment)  # some weights at least lie at odd places, wherever the first ones do
    head += bytes(-len(head) % alignment)
    file.write_bytes(head + body)
    return file


def tokens(source: Path) -> list[bytes]:
    return [name.encode() for name in read_vocabulary(source)]


def _entry(name: str, shape: Sequence[int], kind: int) -> bytes:
    """A tensor's record without the offset."""
    return _text(name.encode()) + struct.pack(f"<I{len(shape)}QI", len(shape), *shape[::-1], kind)


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", BOOL, value)
        case int():
            return struct.pack("<II", UINT32, value)
        case float():
            return struct.pack("<If", FLOAT32, value)
        case str():
            return struct.pack("<I", STRING) + _text(value.encode())
        case bytes():
            return struct.pack("<I", STRING) + _text(value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", ARRAY, INT32, len(value), *value)
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", ARRAY, FLOAT32, len(value), *value)
        case _:
            return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))
