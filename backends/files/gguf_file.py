"""The header of a GGUF file, read before llama.cpp opens it, so that a fault becomes one sentence.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...plain_file import opened

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
"""Alignment of the tensors' data, unless the file says otherwise."""
SHORT = 1024
"""Longest array that is read; of longer ones (the vocabulary) only the length is."""

MOST_LAYERS = 512
"""Most layers in llama.cpp."""

STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value types → struct codes, except STRING and ARRAY."""

BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""ggml_type → (elements, bytes) of a block."""

_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


@dataclass(frozen=True, slots=True)
class Long:
    """A stand-in for an array longer than SHORT."""

    length: int


@dataclass(frozen=True, slots=True)
class Header:
    """The metadata and totals of a GGUF file."""

    metadata: dict[str, Any]
    tensors: int
    weight_bytes: int

    @property
    def architecture(self) -> str:
        """The architecture's name: llama, qwen3, gemma3 …"""
        return str(self.metadata.get("general.architecture", ""))

    def number(self, key: str, default: int = 0) -> int:
        """Read a hyperparameter of the architecture (`{architecture}.{key}`)."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        return int(value) if isinstance(value, int | float) else default

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary; 0 without a tokenizer."""
        tokens = self.metadata.get("tokenizer.ggml.tokens", ())
        return tokens.length if isinstance(tokens, Long) else len(tokens)

    def per_layer(self, key: str, layers: int, default: int = 0) -> list[int]:
        """Read a hyperparameter that may differ from layer to layer."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, list):
            numbers = [int(v) for v in value]
            return (numbers + [numbers[-1] if numbers else default] * layers)[:layers]
        return [int(value) if isinstance(value, int | float) else default] * layers

    @property
    def active(self) -> float:
        """Share of a mixture's experts that a token uses; 1 for a model without experts."""
        experts, used = self.number("expert_count"), self.number("expert_used_count")
        return used / experts if experts and used else 1.0

    def cache_numbers(self) -> tuple[int, int]:
        """Estimate the numbers in the KV cache for each token, of keys and of values."""
        layers = self.number("block_count")
        if not 0 < layers <= MOST_LAYERS:
            return 0, 0
        heads = self.per_layer("attention.head_count", layers)
        kv_heads = self.per_layer("attention.head_count_kv", layers, heads[0])
        width = self.number("embedding_length") // max(heads[0], 1)
        key, value = self.number("attention.key_length", width), self.number("attention.value_length", width)
        # Hybrids have attention in every fourth layer or so; most list it layer by layer.
        every = self.number("full_attention_interval") or 1
        heads_in_cache = sum(heads for layer, heads in enumerate(kv_heads, 1) if layer % every == 0)
        return heads_in_cache * key, heads_in_cache * value


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor in a file."""

    name: str
    shape: tuple[int, ...]
    """Dimensions in torch's order, the length of a row last."""
    kind: int
    """Its ggml_type."""
    begin: int
    """Offset of its data from the start of the file, in bytes."""

    @property
    def length(self) -> int:
        """Bytes of its data; 0 for an unknown type."""
        elements, size = BLOCKS.get(self.kind, (1, 0))
        return prod(self.shape) // elements * size


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of one file."""

    file: Path
    header: Header
    spans: dict[str, tuple[int, int]]
    """Begin and end in the file of each metadata key's record: key, type, value."""
    tensors: list[Tensor]


class _Reader:
    """Little-endian values one after the other. Beyond the end of the data, struct.error is raised."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def string(self) -> str:
        size = self.take("Q")
        self.at += size
        if self.at > len(self.data):
            raise struct.error
        return self.data[self.at - size : self.at].decode("utf-8", "replace")

    def value(self) -> Any:
        return self._value(self.take("I"))

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.take(SCALARS[kind])
        element, length = self.take("I"), self.take("Q")
        if length <= SHORT:
            return [self._value(element) for _ in range(length)]
        if element == STRING:
            self._skip_strings(length)
        else:
            self.at += length * struct.calcsize("<" + SCALARS[element])
        return Long(length)

    def _skip_strings(self, count: int) -> None:
        """Skip strings quickly: a vocabulary with its merges has some 300,000."""
        data, at, unpack = self.data, self.at, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + unpack(data, at)[0]
        self.at = at


def read_header(file: Path) -> Header:
    """Read the header of a complete GGUF file with a language model's weights.

    Raises:
        UserError: it is missing, damaged, or holds something else; says what to do.
    """
    layouts = read_layout(file)
    return checked(file, whole_header(layouts))


def whole_header(layouts: list[Layout]) -> Header:
    """Combine the headers of the parts of a model."""
    headers = [layout.header for layout in layouts]
    tensors = sum(header.tensors for header in headers)
    return Header(headers[0].metadata, tensors, sum(header.weight_bytes for header in headers))


def read_layout(file: Path) -> list[Layout]:
    """Read the layout of a GGUF file and, if it is the first of several, of its other parts.

    Raises:
        UserError: one of them is missing or damaged.
    """
    layout = _read(file)
    split = _SPLIT.fullmatch(file.name)
    if split is None:
        return [layout]
    # llama.cpp opens the other parts itself, by name, starting from the first.
    name, number, count = split[1], int(split[2]), int(split[3])
    if number != 1:
        raise UserError(f"{file} is part {number} of {count}. Give the first one, {name}-00001-of-{count:05}.gguf.")
    later_parts = [file.with_name(f"{name}-{part:05}-of-{count:05}.gguf") for part in range(2, count + 1)]
    if missing := [part.name for part in later_parts if not part.is_file()]:
        raise UserError(f"{file} needs {missing[0]} next to it, which is missing. Download all {count} parts.")
    return [layout, *map(_read, later_parts)]


def _read(file: Path) -> Layout:
    """Read the layout of one file, and check that its data is complete."""
    try:
        with opened(file) as stream:
            magic = stream.read(8)
            version = int.from_bytes(magic[4:], "little")
            if magic[:4] != MAGIC or version not in VERSIONS:
                raise UserError(
                    f"{file} is not a GGUF file of version 2 or 3 (it begins with {magic!r}). Download it again, or convert "
                    "the model with llama.cpp's convert_hf_to_gguf.py."
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(file, data)
    except FileNotFoundError:
        raise UserError(f"There is no file {file}. Check the path.") from None
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Give a GGUF file that you may read.") from None
    except (struct.error, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError):
        raise UserError(f"{file} is damaged or incomplete. Download it again.") from None


def _parse(file: Path, data: mmap.mmap) -> Layout:
    reader = _Reader(data)
    reader.at = 8
    count, pairs = reader.take("Q"), reader.take("Q")
    metadata: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(pairs):
        begin = reader.at
        key = reader.string()
        metadata[key] = reader.value()
        spans[key] = begin, reader.at
    records = []
    for _ in range(count):
        name = reader.string()
        shape = [reader.take("Q") for _ in range(reader.take("I"))][::-1]
        records.append((name, tuple(shape), reader.take("I"), reader.take("Q")))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    base = -(-reader.at // alignment) * alignment
    tensors = [Tensor(name, shape, kind, base + offset) for name, shape, kind, offset in records]
    if any(tensor.begin + tensor.length > len(data) for tensor in tensors):
        raise ValueError("its data ends too early")
    return Layout(file, Header(metadata, count, sum(tensor.length for tensor in tensors)), spans, tensors)


def checked(file: Path, header: Header) -> Header:
    """Return the header if it is a language model's.

    Raises:
        UserError: it belongs to something else, such as a vision projector or an adapter.
    """
    kind = "mmproj" if header.architecture == "clip" else header.metadata.get("general.type", "model")
    tokenizer = header.metadata.get("tokenizer.ggml.model", "none") not in ("none", "no_vocab")
    if kind != "model" or not (header.architecture and header.tensors and tokenizer):
        raise UserError(f"{file} is no language model with weights and tokenizer (type {kind}). Give the model's own file.")
    return header
