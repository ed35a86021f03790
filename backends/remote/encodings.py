"""Compressed bodies: their first bytes tell how they are packed, as the header may be wrong."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from typing import Any, cast

import httpx2

ZIPPED = ("gzip", "x-gzip", "deflate")
"""Compressions that zlib reads. Any other name, such as a charset, stands around plain text."""

UNREADABLE = ("br", "zstd", "compress", "x-compress")
"""Compressions that nobody asked for and that take another library."""

MOST_LAYERS = 5
"""Most compressions inside each other."""

MOST_PIECE = 2**20
"""Most bytes that are unpacked at once."""

HEADED = zlib.MAX_WBITS | 32
"""The mode of zlib for gzip, and for deflate with zlib's header."""

TEXT = re.compile(rb"\xef\xbb|[{\[<:\s]|da|ev|id|re")
"""The first two bytes of JSON, of a page or of a stream of events."""


class Unpacked(httpx2.AsyncByteStream):
    """The body of a response without its compressions.

    Args:
        packed: the body as it comes.
        names: in lower case, of the compressions and whatever else the header names.
    """

    def __init__(self, packed: httpx2.AsyncByteStream, names: list[str]) -> None:
        self._packed = packed
        self._unreadable = [name for name in names if name in UNREADABLE]
        self._zipped = [name for name in names if name in ZIPPED]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._unreadable or len(self._zipped) > MOST_LAYERS:
            names = ", ".join(self._unreadable or self._zipped)
            raise httpx2.DecodingError(f"compressed as {names}, which was not asked for")
        layers = [Unpacker(name) for name in reversed(self._zipped)]
        try:
            async for data in self._packed:
                pieces = iter((data,))
                for layer in layers:
                    pieces = chain.from_iterable(map(layer.push, pieces))
                for piece in pieces:
                    yield piece
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None

    async def aclose(self) -> None:
        await self._packed.aclose()


class Unpacker:
    """Unpacks one compression, or plain text that is only called so.

    Args:
        name: of the compression.
    """

    def __init__(self, name: str) -> None:
        self._may_be_raw = name == "deflate"  # some servers send it without a header
        self._start: bytes | None = b""
        """The first bytes, as long as there are too few to tell what they are."""
        self._zip: Any = None
        """zlib's decompressor; None for plain text."""

    def push(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of the next bytes."""
        if self._start is not None:
            data = self._start + data
            self._start = data if len(data) < 2 else None
            if self._start is not None:
                return
            number = int.from_bytes(data[:2], "big")  # zlib's header is a multiple of 31
            if data[:2] == b"\x1f\x8b" or (data[0] & 15 == zlib.DEFLATED and number % 31 == 0):
                self._zip = zlib.decompressobj(HEADED)
            elif self._may_be_raw and not TEXT.match(data):
                self._zip = zlib.decompressobj(-zlib.MAX_WBITS)
        if self._zip is None:
            yield data
            return
        piece = data
        while data or piece:
            if data and self._zip.eof:
                self._zip = zlib.decompressobj(HEADED)  # gzip's files can follow each other
            piece = self._zip.decompress(data, MOST_PIECE)
            data = self._zip.unconsumed_tail or self._zip.unused_data
            yield piece


def unpack(response: httpx2.Response) -> None:
    """Make a response unpack its body in this way, as httpx2 would believe the header."""
    if names := response.headers.get_list("Content-Encoding", split_commas=True):
        packed = cast(httpx2.AsyncByteStream, response.stream)
        response.stream = Unpacked(packed, [name.strip().lower() for name in names])
        del response.headers["Content-Encoding"]
