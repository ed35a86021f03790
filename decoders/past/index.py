"""Past answers to draft from, in a few segments: each is some times as large as the next, so that adding an answer is quick and
only a few segments are searched (a log-structured merge; O'Neil et al. 1996, https://doi.org/10.1007/s002360050048)."""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from threading import RLock

import numpy as np

from .segment import DEEPEST, SEPARATOR, Damaged, Segment

GROWTH = 16
"""A new segment absorbs the existing ones, from the smallest on, that are at most so many times as large as it is so far."""

SUFFIX = ".past"

COARSE = 50_000_000
"""Nanoseconds that a file system's clock may stand still."""

NOTHING = SEPARATOR - 1
"""A token that no text has."""


class Past:
    """An index of past answers, as token ids of one tokenizer.

    Several processes may use one folder: a segment is never changed, only replaced, under a lock. Changes by other processes
    show at the next draft.

    Args:
        folder: of the segments, created if missing; in memory only if None.
        vocabulary: answers with ids from here on are not drafted from.

    Raises:
        OSError: the folder cannot be used.
    """

    def __init__(self, folder: Path | None = None, vocabulary: int = SEPARATOR) -> None:
        self.folder = folder
        self._vocabulary = vocabulary
        self._segments: list[Segment] = []
        self._loaded = -1
        """The folder's time of change when it was read."""
        self._using = RLock()
        """Held while `_segments` changes: one thread may draft and another add."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.refresh()

    def __len__(self) -> int:
        """Count the tokens of all answers."""
        return sum(segment.size - len(segment.keys) - 1 for segment in self._segments)

    @property
    def keys(self) -> set[int]:
        """Keys of the answers that it has."""
        return {key for segment in self._segments for key in segment.keys.tolist()}

    def refresh(self) -> None:
        """Load changes by other processes; next to no time if there are none. A damaged file is deleted; its answers can be
        added again."""
        if self.folder is None or (changed := _changed(self.folder)) == self._loaded:
            return
        if abs(time.time_ns() - changed) < COARSE:  # another change may get the same time
            changed = -1
        with self._using:
            self._read(changed)

    def _read(self, changed: int) -> None:
        assert self.folder is not None
        loaded = {segment.path: segment for segment in self._segments}
        segments = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                segments.append(loaded.get(path) or Segment.open(path))
            except Damaged:
                path.unlink(missing_ok=True)
            except FileNotFoundError:  # replaced just now
                changed = -1
        self._use(segments)
        self._loaded = changed

    def add(self, answers: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Add answers: milliseconds, but seconds for a thousand of them, and whenever a large segment is rebuilt.

        Args:
            answers: (key, token ids) each, the oldest first; a key is a number below 2^64. Keys that it has are skipped.

        Raises:
            OSError: they cannot be written; the index is unchanged.
        """
        self.refresh()
        keys = self.keys
        new = [(key, np.asarray(tokens, ">u4")) for key, tokens in dict(answers).items() if key not in keys and len(tokens)]
        if not new:
            return
        sources, size = [], sum(len(tokens) for _, tokens in new)
        for segment in sorted(self._segments, key=lambda segment: segment.size):
            if segment.size <= GROWTH * size:
                size += segment.size
                sources.append(segment)
        old = [answer for segment in reversed(sources) for answer in segment.answers()]
        # Building takes time, so it does not hold the lock.
        built = Segment.build([*old, *new])
        with self._locked():
            self.refresh()
            keys = self.keys
            if lost := {key for key, _ in old if key not in keys}:  # deleted meanwhile
                built = built.without(lost)
            self._replace(built)

    def forget(self, keys: Collection[int]) -> None:
        """Remove answers, also from the disk: less than a second for ten million tokens.

        Raises:
            OSError: they are still there.
        """
        with self._locked():
            self.refresh()
            for segment in list(self._segments):
                if np.isin(segment.keys, np.array([*keys], "<u8")).any():
                    self._replace(segment.without(keys), segment)

    def clear(self) -> None:
        """Remove all answers."""
        self.forget(self.keys)

    def lines(self, tokens: Sequence[int], most: int, reach: int) -> list[tuple[array[int], int]]:
        """Find the lines that followed a text's last tokens in past answers.

        Args:
            tokens: the text.
            most: most lines.
            reach: most tokens of a line, at least 1.

        Returns:
            (line, number of the text's last tokens before it, at most DEEPEST): the longest match first.
        """
        self.refresh()
        if not self._segments or not len(tokens):
            return []
        context = np.array([*tokens[: -DEEPEST - 1 : -1], NOTHING], ">u4")
        matches: list[tuple[array[int], int]] = []
        for segment in self._segments:
            shared, follows = segment.find(context, most, reach)
            over = (follows < 0) | (follows >= self._vocabulary)
            ends = np.where(over.any(1), over.argmax(1), reach).tolist()
            lines = follows.tobytes()
            for row, (match, end) in enumerate(zip(shared.tolist(), ends, strict=True)):
                if match and end:
                    start = 4 * reach * row
                    matches.append((array("i", lines[start : start + 4 * end]), match))
        if len(self._segments) > 1:
            matches.sort(key=itemgetter(1), reverse=True)
        return matches[:most]

    def _use(self, segments: Sequence[Segment]) -> None:
        """Search these from now on, the largest first; one that another contains is left over from a crash."""
        remaining: list[Segment] = []
        for segment in sorted(segments, key=lambda segment: -segment.size):
            keys = segment.keys
            if len(keys) and not any(np.isin(keys, larger.keys).all() for larger in remaining):
                remaining.append(segment)
            else:
                _delete(segment)
        self._segments = remaining

    def _replace(self, new: Segment, old: Segment | None = None) -> None:
        """Put a segment in the place of another, and of those that it contains, while holding the lock."""
        with self._using:
            if self.folder is not None:
                numbers = [int(path.stem) for path in self.folder.glob(f"*{SUFFIX}") if path.stem.isdigit()]
                path = self.folder / f"{max(numbers, default=0) + 1:08}{SUFFIX}"
                new.write(path)
                new = Segment.open(path)
                if old is not None and old.path is not None:
                    old.path.unlink(missing_ok=True)
            self._use([new, *(segment for segment in self._segments if segment is not old)])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from adding or removing."""
        if self.folder is None:
            yield
            return
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # some network disks have no such locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _delete(segment: Segment) -> None:
    if segment.path is not None:
        with suppress(OSError):
            segment.path.unlink()


def _changed(folder: Path) -> int:
    """Return the time of the folder's last change; -1 if it cannot be read."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return -1
