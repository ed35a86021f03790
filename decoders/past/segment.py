"""Some past answers in one file, sorted so that one binary search finds the tokens that followed a context.

Each position is sorted by the tokens *before* it, read backwards, as in the Burrows-Wheeler transform. So the positions that
share the longest context with a text stand together where its context would stand, and one search finds contexts of all
lengths. A suffix array (Manber and Myers 1990, https://doi.org/10.1137/0222058) of the reversed tokens, by doubling.

The file: a header of HEADER bytes (JSON, padded with spaces), then three arrays.

    tokens   uint32, big-endian [n]   the answers in reverse: a context is read forwards, and bytes compare as tokens do;
                                      SEPARATOR in front of each answer and behind the last one
    order    uint32, little-endian [n]   indices into `tokens` where contexts begin, sorted
    answers  uint64, little-endian [2, answers]   key of each answer, and its start in the text that is not reversed
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SEPARATOR = 0xFFFFFFFF
"""The token between answers: no context reaches across it."""

DEEPEST = 32
"""Tokens of a context that are compared."""

HEADER = 4096
FORMAT = "specchat past answers"
VERSION = 2

NEAR = 24
"""Positions compared on either side of a context's place in the order."""

BLOCK = 1 << 18
"""Positions handled together when answers are removed: as many as fit in a processor's cache."""

AHEAD = np.arange(512)
"""More than the longest context or draft."""

Array = Any
"""A numpy array."""


class Damaged(Exception):
    """A file was not written by `Segment.write`, or is incomplete."""


class Segment:
    """Past answers with their index, in memory or mapped from a file.

    Attributes:
        keys: of the answers, the oldest first [answers] (uint64).
        size: tokens, separators included.
        path: its file, if it is in one.
    """

    def __init__(self, data: Any, size: int, answers: int, path: Path | None = None) -> None:
        """Use `data`: bytes of the three arrays, one after the other, behind HEADER others."""
        self._data = data
        self.size = size
        self.path = path
        self._tokens = np.frombuffer(data, ">u4", size, HEADER)
        self._order = np.frombuffer(data, "<u4", size, HEADER + 4 * size)
        table = np.frombuffer(data, "<u8", 2 * answers, HEADER + 8 * size).reshape(2, answers)
        self.keys = table[0]
        self._starts = table[1]
        self._places = memoryview(data)[HEADER + 4 * size : HEADER + 8 * size].cast("I")

    @classmethod
    def build(cls, answers: Sequence[tuple[int, Array]]) -> Segment:
        """Index some answers: seconds for millions of tokens, most of it without the interpreter's lock.

        Args:
            answers: (key, token ids [n]) each, the oldest first.
        """
        parts, starts, at = [], [], 0
        wall = np.array([SEPARATOR], ">u4")
        for _, tokens in answers:
            starts.append(at)
            parts += [wall, np.asarray(tokens, ">u4")]
            at += 1 + len(tokens)
        text = np.concatenate([*parts, wall])[::-1]
        return cls._assemble(text, _sorted(text), np.array([[key for key, _ in answers], starts], "<u8"))

    @classmethod
    def _assemble(cls, tokens: Array, order: Array, table: Array) -> Segment:
        facts = {"format": FORMAT, "version": VERSION, "tokens": len(tokens), "answers": table.shape[1]}
        body = (np.ascontiguousarray(tokens, ">u4").data, np.ascontiguousarray(order, "<u4").data, table.data)
        return cls(b"".join((json.dumps(facts).encode().ljust(HEADER), *body)), len(tokens), table.shape[1])

    @classmethod
    def open(cls, path: Path) -> Segment:
        """Map a file; only the header is read.

        Raises:
            OSError: it cannot be read.
            Damaged: it is another kind of file, or a part is missing.
        """
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER:
                raise Damaged
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            header = json.loads(data[:HEADER])
            tokens, answers = int(header["tokens"]), int(header["answers"])
            if (header["format"], header["version"]) != (FORMAT, VERSION) or tokens < 1 or answers < 0:
                raise Damaged
            if size != HEADER + 8 * tokens + 16 * answers:
                raise Damaged
            return cls(data, tokens, answers, path)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Damaged from None

    def write(self, path: Path) -> None:
        """Write a file for this user alone, atomically.

        Raises:
            OSError: it cannot be written.
        """
        new = path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(self._data)
        new.replace(path)

    def answers(self) -> list[tuple[int, Array]]:
        """List (key, token ids) of each answer, as for `build`."""
        text = self._tokens[::-1]
        ends = [*self._starts[1:].tolist(), self.size - 1]
        return [
            (key, text[start + 1 : end])
            for key, start, end in zip(self.keys.tolist(), self._starts.tolist(), ends, strict=True)
        ]

    def without(self, keys: Collection[int]) -> Segment:
        """Copy it without some answers; the rest need not be sorted again."""
        removed = np.isin(self.keys, np.array([*keys], "<u8"))
        ends = np.append(self._starts[1:], np.uint64(self.size - 1))
        sizes = (ends - self._starts)[~removed]
        table = np.array([self.keys[~removed], np.cumsum(sizes) - sizes], "<u8")
        # Starts and ends of removed answers in `tokens`, without those between two removed answers.
        edges = np.concatenate([self._starts[removed], ends[removed]])
        edges, times = np.unique(np.uint64(self.size) - edges, return_counts=True)
        edges = edges[times == 1].astype("<u4")
        shift = np.zeros(len(edges) + 1, "<u4")
        shift[2::2] = np.cumsum(edges[1::2] - edges[::2])
        order = []
        for at in range(0, self.size, BLOCK):
            block = self._order[at : at + BLOCK]
            passed = np.searchsorted(edges, block, "right")
            order.append((block - shift[passed])[passed & 1 == 0])  # an odd number of edges: inside
        return Segment._assemble(np.concatenate(np.split(self._tokens, edges)[::2]), np.concatenate(order), table)

    def find(self, context: Array, most: int, reach: int) -> tuple[Array, Array]:
        """Find the tokens that followed the contexts that share most with a text's; of equal ones the latest first.

        Args:
            context: the text's last tokens, at most DEEPEST, the last one first, and behind them one that no text has (uint32,
                big-endian).
            most: most contexts.
            reach: tokens that followed each.

        Returns:
            (tokens shared [k], tokens that followed [k, reach]): int32; an answer's end is -1, behind it anything may stand.
        """
        key = context[:-1].tobytes()
        data, places, width = self._data, self._places, len(key)
        low, high = 0, self.size
        while low < high:
            middle = (low + high) >> 1
            at = HEADER + 4 * places[middle]
            if data[at : at + width] < key:
                low = middle + 1
            else:
                high = middle
        near = self._order[max(0, low - NEAR) : low + NEAR].astype(np.int64)
        # There are separators at both ends, so no match or draft reaches beyond them.
        tokens = self._tokens
        shared = (tokens.take(near[:, None] + AHEAD[: len(context)], mode="clip") != context).argmax(1)
        shared[tokens.take(near - 1, mode="clip") == SEPARATOR] = 0  # an answer's end
        best = np.argsort(near - (shared << 32))[:most]
        near, shared = near[best], shared[best]
        return shared, tokens.take(near[:, None] - AHEAD[1 : reach + 1], mode="clip").astype(np.uint32).view(np.int32)


def _sorted(tokens: Array) -> Array:
    """Sort the starts of contexts of up to DEEPEST tokens; of equal ones the latest first.

    By doubling: contexts sorted by their first h tokens get ranks, and pairs of ranks sort them by their first 2h.
    """
    size = len(tokens)
    _, rank = np.unique(tokens, return_inverse=True)
    rank, step = rank.astype(np.int64), 1
    while step < DEEPEST:
        pair = (rank + 1) << 32
        pair[:-step] += rank[step:] + 1
        order = np.argsort(pair)
        pair = pair[order]
        new = np.empty(size, np.int64)
        new[order] = np.cumsum(np.concatenate(([False], pair[1:] != pair[:-1])))
        rank, step = new, 2 * step
    return np.sort((rank << 32) + np.arange(size)) & 0xFFFFFFFF
