"""The first layers of a GGUF model as a file of their own, for early exit on llama.cpp, which runs all layers or none.

The new file has the blocks 0 to N - 1, the embedding, the final norm and the head, with `block_count` N; everything else is
copied byte for byte. (Overriding `block_count` at load is no way: llama.cpp refuses a file with tensors left over.)
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import UserError, counted
from ...plain_file import cache_folder
from ..files.gguf_file import ARRAY, MAGIC, SCALARS, Layout, Tensor, read_header, read_layout
from .trial import known, works

ASK_ABOVE = 200_000_000
"""Bytes: a larger file is only written when the user says so."""

COPY_BYTES = 16 << 20
"""Copied at a time."""

STALE_SECONDS = 24 * 3600
"""After which an unfinished file is one that nobody finishes."""

NOT_BY_LAYER = ("rope.dimension_sections",)
"""Arrays of the architecture's own that may be as long as there are layers, and yet have no entry per layer."""

LEAST = {"llama4": 4}
"""Architecture → fewest layers that llama.cpp can run alone: it ends the process where none reads the positions that it sets.
Of Llama 4's layers, every fourth does."""

_BLOCK = re.compile(r"blk\.(\d+)\.")


def first_layers(file: Path, layers: int, name: str, *, write: bool = False, hybrid: bool = False) -> Path:
    """The file with the first layers of a model: the cached one, or one written now.

    Args:
        file: the whole model, or the first of its parts.
        layers: how many, at least 1 and fewer than it has.
        name: the model's, for messages.
        write: whether it may be written if it is larger than ASK_ABOVE.
        hybrid: whether the model's layers are of several kinds: llama.cpp may end the process where one is missing, so the file
            is tried in another one.

    Raises:
        UserError: it may not or cannot be written, or llama.cpp cannot run it; says how large it is and what to do.
    """
    least = LEAST.get(read_header(file).architecture, 1)
    if layers < least:
        raise UserError(f"llama.cpp cannot run fewer than {least} layers of {name}. Draft with more of them.")
    folder = cache_folder() / "layers"
    status = file.stat()
    whose = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]
    state = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:8]
    made = folder / f"{file.stem}-{whose}-{state}-first-{layers}.gguf"
    alone = UserError(f"llama.cpp cannot run the first {counted(layers, 'layer')} of {name} alone. Draft with more of them.")
    if not made.is_file():
        if hybrid and known("cut", made.name) is False:
            raise alone
        _make(made, file, layers, name, write=write)
    if hybrid and not works("cut", made.name, made):
        made.unlink(missing_ok=True)
        raise alone
    return made


def _make(made: Path, file: Path, layers: int, name: str, *, write: bool) -> None:
    """Write the first layers of a file (see `first_layers`)."""
    folder = made.parent
    parts = read_layout(file)
    kept = [(part, tensor) for part in parts for tensor in part.tensors if _block(tensor) < layers]
    if not all(tensor.length for _, tensor in kept):
        raise UserError(f"{file} has tensors of an unknown type. Choose a method other than early-exit.")
    size = sum(tensor.length for _, tensor in kept) + sum(map(len, parts[0].pairs.values()))
    if size > ASK_ABOVE and not write:
        raise UserError(
            f"early-exit needs the first {counted(layers, 'layer')} of {name} as a separate file ({size / 1e9:.1f} GB) in "
            f"{folder}. Set layers={layers} to have it written there once."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder).free < size:
            raise UserError(
                f"The first {counted(layers, 'layer')} of {name} take {size / 1e9:.1f} GB, more than is free in {folder}. Free "
                "some space, or set SPECCHAT_CACHE to another folder."
            )
        prefix, state = made.name.removesuffix(f"-first-{layers}.gguf").rsplit("-", 1)
        _tidy(folder, f"{prefix}-", state)
        _write(made, parts[0], kept, layers)
    except OSError as error:
        raise UserError(
            f"Could not write the first {counted(layers, 'layer')} of {name} to {folder} ({error.strerror or error}). Free "
            "some space, or set SPECCHAT_CACHE to another folder."
        ) from None


def _block(tensor: Tensor) -> int:
    """The layer that a tensor belongs to; -1 for those of none."""
    found = _BLOCK.match(tensor.name)
    return int(found[1]) if found else -1


def _tidy(folder: Path, prefix: str, state: str) -> None:
    """Remove what was cut from an older state of this model, and what others left unfinished."""
    for old in folder.glob("*.gguf"):
        if old.name.startswith(prefix) and not old.name.startswith(prefix + state):
            old.unlink(missing_ok=True)
    for part in folder.glob(".*.part"):
        if time.time() - part.stat().st_mtime > STALE_SECONDS:
            part.unlink(missing_ok=True)


def _write(made: Path, whole: Layout, kept: list[tuple[Layout, Tensor]], layers: int) -> None:
    """Write the file: readers see all of it or nothing."""
    pairs = list(_pairs(whole, layers))
    alignment = whole.alignment
    head = MAGIC + struct.pack("<IQQ", whole.version, len(kept), len(pairs)) + b"".join(pairs)
    offset = 0
    for _, tensor in kept:
        head += tensor.entry + struct.pack("<Q", offset)
        offset += -(-tensor.length // alignment) * alignment
    with tempfile.NamedTemporaryFile(dir=made.parent, prefix=".", suffix=".part", delete=False) as out:
        try:
            out.write(head)
            out.write(bytes(-len(head) % alignment))
            for part, tensor in kept:
                with part.file.open("rb") as source:
                    source.seek(tensor.begin)
                    left = tensor.length
                    while left:
                        chunk = source.read(min(left, COPY_BYTES))
                        if not chunk:
                            raise OSError(f"{part.file} has become shorter")
                        out.write(chunk)
                        left -= len(chunk)
                out.write(bytes(-tensor.length % alignment))
            out.close()
            os.replace(out.name, made)
        except BaseException:
            Path(out.name).unlink(missing_ok=True)
            raise


def _pairs(whole: Layout, layers: int) -> Iterator[bytes]:
    """The metadata, with what counts layers or has an entry for each of them cut to the first ones."""
    architecture, metadata = whole.header.architecture, whole.header.metadata
    count = metadata.get(f"{architecture}.block_count")
    for key, record in whole.pairs.items():
        own = key.removeprefix(f"{architecture}.")
        value = metadata[key]
        if key.startswith("split."):
            continue
        if key.startswith(("general.", "tokenizer.")):
            yield record
        elif own == "block_count":
            yield _scalar(record, key, layers)
        elif own == "nextn_predict_layers":
            yield _scalar(record, key, 0)  # they come after the others
        elif isinstance(value, list) and len(value) == count and own not in NOT_BY_LAYER:
            yield _cut(record, key, layers)
        else:
            yield record


def _start(key: str) -> int:
    """Where a record's value type stands: after the key and its length."""
    return 8 + len(key.encode())


def _scalar(record: bytes, key: str, value: int) -> bytes:
    """A record with another number of the same type."""
    at = _start(key)
    (kind,) = struct.unpack_from("<I", record, at)
    return record[: at + 4] + struct.pack("<" + SCALARS[kind], value)


def _cut(record: bytes, key: str, length: int) -> bytes:
    """A record of an array of numbers, cut to its first entries; one of texts as it is."""
    at = _start(key)
    kind, element = struct.unpack_from("<II", record, at)
    assert kind == ARRAY
    if element not in SCALARS:
        return record
    begin = at + 16
    end = begin + length * struct.calcsize("<" + SCALARS[element])
    return record[: at + 8] + struct.pack("<Q", length) + record[begin:end]
