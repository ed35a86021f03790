"""Checks of a GGUF file before llama.cpp opens it, so that a fault becomes one sentence.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from math import isfinite
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

MOST_PAIRS, MOST_TENSORS, MOST_STRINGS, MOST_DIMENSIONS = 1 << 14, 1 << 17, 1 << 24, 4
"""Limits beyond any real model, so that a damaged count does not take hours."""

MOST_LAYERS = 512
"""Most layers in llama.cpp."""

FLOAT32 = 0
"""The ggml_type of norms."""

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
        if isinstance(tokens, Long):
            return tokens.length
        return len(tokens) if isinstance(tokens, list) else 0

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
        kv_heads = self.per_layer("attention.head_count_kv", layers, heads[0] if heads else 0)
        width = self.number("embedding_length") // max(heads[0] if heads else 1, 1)
        key, value = self.number("attention.key_length", width), self.number("attention.value_length", width)
        # Hybrids have attention in every fourth layer or so; most list it layer by layer.
        every = self.number("full_attention_interval") or 1
        heads_in_cache = sum(heads for layer, heads in enumerate(kv_heads, 1) if layer % every == 0)
        return heads_in_cache * key, heads_in_cache * value


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor in a file."""

    name: str
    entry: bytes
    """Its record in the header, without the offset at the end."""
    begin: int
    """Offset of its data from the start of the file, in bytes."""
    length: int
    """Bytes; 0 for an unknown type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions in torch's order, the length of a row last."""
        (name,) = struct.unpack_from("<Q", self.entry)
        (dimensions,) = struct.unpack_from("<I", self.entry, 8 + name)
        return struct.unpack_from(f"<{dimensions}Q", self.entry, 12 + name)[::-1]

    @property
    def kind(self) -> int:
        """Its ggml_type."""
        (kind,) = struct.unpack_from("<I", self.entry, len(self.entry) - 4)
        return int(kind)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of one file."""

    file: Path
    header: Header
    pairs: dict[str, bytes]
    """Each metadata key's record as in the file: key, type, value."""
    tensors: list[Tensor]


class _Truncated(Exception):
    """The file is shorter than its header says."""


class _Reader:
    """Little-endian values one after the other."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        if self.at + size > len(self.data):
            raise _Truncated
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += size
        return value

    def skip(self, size: int) -> None:
        if size > len(self.data) - self.at:
            raise _Truncated
        self.at += size

    def string(self) -> str:
        size = self.take("Q")
        begin = self.at
        self.skip(size)
        return self.data[begin : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self.take(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise ValueError(f"a value of type {kind}")
        element, length = self.take("I"), self.take("Q")
        if length <= SHORT:
            return [self.value(element) for _ in range(length)]
        if element in SCALARS:
            self.skip(length * struct.calcsize("<" + SCALARS[element]))
        elif element == STRING and length <= MOST_STRINGS:
            self._skip_strings(length)
        else:
            raise ValueError(f"an array of {length} values of type {element}")
        return Long(length)

    def _skip_strings(self, count: int) -> None:
        """Skip strings quickly: a vocabulary with its merges has some 300,000."""
        data, at, end, unpack = self.data, self.at, len(self.data), struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > end:
                raise _Truncated
            at += 8 + unpack(data, at)[0]
        if at > end:
            raise _Truncated
        self.at = at


def read_header(file: Path) -> Header:
    """Read the header of a complete GGUF file with a language model's weights.

    Raises:
        UserError: it is missing, damaged, or holds something else; says what to do.
    """
    if not file.exists():
        raise UserError(f"There is no file {file}. Check the path.")
    if file.is_dir():
        raise UserError(f"{file} is a folder. Give the GGUF file inside it.")
    layouts = read_layout(file)
    first, *further = [part.header for part in layouts]
    tensors = first.tensors + sum(other.tensors for other in further)
    weight_bytes = first.weight_bytes + sum(other.weight_bytes for other in further)
    return checked(file, Header(first.metadata, tensors, weight_bytes))


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
    parts = [layout]
    for part in range(2, count + 1):
        other = file.with_name(f"{name}-{part:05}-of-{count:05}.gguf")
        if not other.is_file():
            raise UserError(f"{file} needs {other.name} next to it, which is missing. Download all {count} parts.")
        parts.append(_read(other))
    return parts


def _read(file: Path) -> Layout:
    """Read the layout of one file, and check that its data is complete."""
    try:
        with opened(file) as stream:
            magic = stream.read(8)
            if magic[:4] != MAGIC:
                raise UserError(
                    f"{file} is not a GGUF file (it begins with {magic[:4]!r}). Download it again, or convert the model with "
                    "llama.cpp's convert_hf_to_gguf.py."
                )
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(file, data, len(data))
    except _Truncated:
        raise UserError(f"{file} is incomplete. Download it again.") from None
    except (ValueError, struct.error, OverflowError, MemoryError, RecursionError) as error:
        raise UserError(f"{file} is damaged ({error}). Download it again.") from None
    except OSError as error:
        raise UserError(f"Cannot read {file} ({error.strerror or error}). Check its permissions.") from None


def _parse(file: Path, data: mmap.mmap, size: int) -> Layout:
    reader = _Reader(data)
    reader.skip(len(MAGIC))
    version = reader.take("I")
    if version not in VERSIONS:
        if version and version & 0xFFFF == 0:
            raise UserError(f"{file} is for big-endian machines. Download a little-endian version.")
        raise UserError(
            f"{file} is GGUF version {version}, but specchat reads versions 2 and 3. Download a newer file of the model."
        )
    count, pairs = reader.take("Q"), reader.take("Q")
    if pairs > MOST_PAIRS or count > MOST_TENSORS:
        raise ValueError(f"{pairs} values and {count} tensors")
    metadata: dict[str, Any] = {}
    spans: dict[str, tuple[int, int]] = {}
    for _ in range(pairs):
        begin = reader.at
        key = reader.string()
        metadata[key] = value = reader.value(reader.take("I"))
        if any(
            isinstance(number, float) and not isfinite(number) for number in (value if isinstance(value, list) else [value])
        ):
            raise ValueError(f"{key} is {value}")
        spans[key] = (begin, reader.at)
    records = [_tensor(reader) for _ in range(count)]
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"an alignment of {alignment}")
    base = -(-reader.at // alignment) * alignment
    tensors = [Tensor(name, entry, base + offset, length) for name, entry, offset, length in records]
    if narrow := next(
        (number.name for number in tensors if number.name.endswith("norm.weight") and number.kind != FLOAT32), ""
    ):
        raise ValueError(f"{narrow} is not in float32")  # llama.cpp ends the process over it
    if any(tensor.begin + tensor.length > size for tensor in tensors):
        raise _Truncated
    header = Header(metadata, count, sum(tensor.length for tensor in tensors))
    return Layout(file, header, {key: data[a:b] for key, (a, b) in spans.items()}, tensors)


def _tensor(reader: _Reader) -> tuple[str, bytes, int, int]:
    """Read the next tensor's name, record without the offset, offset, and length."""
    begin = reader.at
    name = reader.string()
    elements = 1
    dimensions = reader.take("I")
    if dimensions > MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {dimensions} dimensions")
    for _ in range(dimensions):
        elements *= reader.take("Q")
    block, block_bytes = BLOCKS.get(reader.take("I"), (1, 0))
    entry = reader.data[begin : reader.at]
    return name, entry, reader.take("Q"), elements // block * block_bytes


def checked(file: Path, header: Header) -> Header:
    """Return the header if it is a language model's.

    Raises:
        UserError: it belongs to something else; says what.
    """
    what = {"mmproj": "a vision projector", "adapter": "a LoRA adapter", "imatrix": "an importance matrix"}
    kind = "mmproj" if header.architecture == "clip" else str(header.metadata.get("general.type", "model"))
    problem = ""
    if kind in what:
        problem = f"contains {what[kind]}, not a language model. Give the model's own file."
    elif not header.architecture:
        problem = "does not state its architecture. Download another file of the model."
    elif header.tensors == 0:
        problem = "contains only a vocabulary and no weights. Download the file with the model's weights."
    elif header.metadata.get("tokenizer.ggml.model", "none") in ("none", "no_vocab"):
        problem = "contains no tokenizer. Download another file of the model."
    if problem:
        raise UserError(f"{file} {problem}")
    return header
