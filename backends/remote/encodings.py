"""Encodings of text on its way from a server: compressed bodies, and keys in any spelling."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, quote_plus

import httpx2

ZIPPED = ("gzip", "x-gzip", "deflate")
UNREAD = ("br", "zstd", "compress", "x-compress")
"""Compressions that nobody asked for, and that take a library. Any other name, such as a charset, stands around plain text."""


TEXTS = (b"{", b"[", b"<", b":", b" ", b"\n", b"\r", b"da", b"ev", b"id", b"re")
"""First bytes of JSON, of a page and of a stream of events."""


class _Layer:
    """One compression, or plain text that is only called so."""

    def __init__(self, name: str) -> None:
        self._raw = name == "deflate"  # some send it without its header
        self._first = b""
        self._unzip: Any = None
        self._plain = False

    def push(self, data: bytes) -> bytes:
        if self._plain:
            return data
        if self._unzip is None:
            self._first += data
            if len(self._first) < 2:
                return b""
            data, self._first = self._first, b""
            zipped = data[:2] == b"\x1f\x8b" or (data[0] & 15 == 8 and int.from_bytes(data[:2], "big") % 31 == 0)
            self._plain = not zipped and (not self._raw or data.startswith(TEXTS))
            if self._plain:
                return data
            self._unzip = zlib.decompressobj(zlib.MAX_WBITS | 32 if zipped else -zlib.MAX_WBITS)
        out = b""
        while data:
            out += self._unzip.decompress(data)
            data = self._unzip.unused_data
            if data:  # a second file behind the first
                self._unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return out


async def unpacked(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The bytes of a body as they come, without the compressions that its header names.

    Raises:
        httpx2.HTTPError: the connection failed, or they cannot be unpacked.
    """
    names = [name.strip().lower() for name in response.headers.get("Content-Encoding", "").split(",")]
    if unread := [name for name in names if name in UNREAD]:
        raise httpx2.DecodingError(f"compressed as {unread[0]}, which was not asked for")
    layers = [_Layer(name) for name in names if name in ZIPPED]
    async for data in response.aiter_raw():
        try:
            for layer in layers:
                data = layer.push(data)
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from None
        yield data


def spellings(key: str) -> re.Pattern[str]:
    """Matches a key as it is, and in the encodings in which an echo may have it."""
    data = key.encode("utf-8", "surrogatepass")
    found = {key, quote(key, safe=""), quote(key), quote_plus(key), json.dumps(key)[1:-1], html.escape(key), data.hex()}
    for ahead in range(3):  # in base64 it looks otherwise behind what is not a multiple of three bytes
        packed = base64.b64encode(bytes(ahead) + data).decode().rstrip("=")
        sure = packed[(0, 2, 3)[ahead] : len(packed) - ((ahead + len(data)) % 3 > 0)]
        found |= {sure, sure.replace("+", "-").replace("/", "_")} if len(sure) > 3 else set()
    return re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))), re.IGNORECASE)
