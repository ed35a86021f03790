"""Past answers to draft from, in a few segments: each is some times as large as the next, so that an answer is added soon and
only a few places are searched (a log-structured merge; O'Neil et al. 1996, https://doi.org/10.1007/s002360050048)."""

from __future__ import annotations

import fcntl
import os
import time
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from threading import RLock

import numpy as np

from .segment import DEEPEST, SEPARATOR, Damaged, Segment

GROWTH = 16
"""A segment takes in every smaller one and those that are at most so many times as large as these together."""

SUFFIX = ".past"

COARSE = 50_000_000
"""Nanoseconds that a file system's clock may stand still."""

NOTHING = SEPARATOR - 1
"""A token that no text has."""


class Past:
    """An index of past answers, as token ids of one tokenizer.

    Several processes may use one folder: a segment is never changed, only replaced, and who adds or removes holds a lock for
    that moment. What another process did is seen at the next draft.

    Args:
        folder: where it is kept, created where missing; in memory only if None.
        vocabulary: answers with ids from here on are not drafted from.

    Raises:
        OSError: the folder cannot be used.
    """

    def __init__(self, folder: Path | None = None, vocabulary: int = SEPARATOR) -> None:
        self.folder = folder
        self._vocabulary = vocabulary
        self._segments: list[Segment] = []
        self._seen = -1
        self._using = RLock()
        """Held while `_segments` changes: one thread may draft and another add."""
        self._frequent: list[tuple[int, float]] = []
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.refresh()

    def __len__(self) -> int:
        """Tokens of all answers."""
        return sum(segment.size - len(segment.keys) - 1 for segment in self._segments)

    @property
    def keys(self) -> set[int]:
        """Keys of the answers that it has."""
        return {key for segment in self._segments for key in segment.keys.tolist()}

    @property
    def frequent(self) -> Sequence[tuple[int, float]]:
        """The most frequent tokens as (token, share of all), falling."""
        return self._frequent

    def refresh(self) -> None:
        """See what other processes did; next to no time where they did nothing. A damaged file is deleted: its answers are
        missing then, and whoever keeps them can add them again."""
        if self.folder is None or (changed := _changed(self.folder)) == self._seen:
            return
        if abs(time.time_ns() - changed) < COARSE:  # another change may get the same time
            changed = -1
        with self._using:
            self._read(changed)

    def _read(self, changed: int) -> None:
        assert self.folder is not None
        known = {segment.path: segment for segment in self._segments}
        found = []
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                found.append(known.get(path) or Segment.open(path))
            except Damaged:
                path.unlink(missing_ok=True)
            except FileNotFoundError:  # replaced just now
                changed = -1
        self._use(found)
        self._seen = changed

    def add(self, answers: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Take in answers: milliseconds, but seconds for a thousand of them, and whenever a large segment is due for that.

        Args:
            answers: (key, token ids) each, the oldest first; a key is a number below 2^64. One that it has already is left out.

        Raises:
            OSError: they cannot be written; nothing has changed.
        """
        self.refresh()
        known = self.keys
        new = [(key, np.asarray(tokens, ">u4")) for key, tokens in dict(answers).items() if key not in known and len(tokens)]
        if not new:
            return
        sources, size = [], sum(len(tokens) for _, tokens in new)
        for segment in sorted(self._segments, key=lambda segment: segment.size):
            if segment.size <= GROWTH * size:
                size += segment.size
                if segment.intact:
                    sources.append(segment)
                else:
                    self._drop(segment)
        old = [answer for segment in reversed(sources) for answer in segment.answers()]
        # Other processes may go on meanwhile: this takes the time.
        built = Segment.build([*old, *new])
        with self._alone():
            self.refresh()
            known = self.keys
            if lost := {key for key, _ in old if key not in known}:  # deleted meanwhile
                built = built.without(lost)
            self._replace(built)

    def forget(self, keys: Collection[int]) -> None:
        """Remove answers, also from the disk: less than a second for ten million tokens.

        Raises:
            OSError: they are still there.
        """
        with self._alone():
            self.refresh()
            for segment in list(self._segments):
                if not np.isin(segment.keys, np.array([*keys], "<u8")).any():
                    continue
                if segment.intact:
                    self._replace(segment.without(keys), segment)
                else:
                    self._drop(segment)

    def clear(self) -> None:
        """Remove all answers."""
        self.forget(self.keys)

    def lines(self, tokens: Sequence[int], most: int, reach: int) -> list[tuple[array[int], int]]:
        """What followed the last tokens of a text in past answers.

        Args:
            tokens: the text.
            most: most lines.
            reach: most tokens of a line, at least 1.

        Returns:
            (tokens that followed, how many of the text's last tokens stood before them, at most DEEPEST): the longest match
            first.
        """
        self.refresh()
        if not self._segments or not len(tokens):
            return []
        context = np.array([*tokens[: -DEEPEST - 1 : -1], NOTHING], ">u4")
        found: list[tuple[array[int], int]] = []
        for segment in self._segments:
            shared, follows = segment.find(context, most, reach)
            over = (follows < 0) | (follows >= self._vocabulary)
            ends = np.where(over.any(1), over.argmax(1), reach).tolist()
            lines = follows.tobytes()
            for row, (match, end) in enumerate(zip(shared.tolist(), ends, strict=True)):
                if match and end:
                    start = 4 * reach * row
                    found.append((array("i", lines[start : start + 4 * end]), match))
        if len(self._segments) > 1:
            found.sort(key=itemgetter(1), reverse=True)
        return found[:most]

    def _use(self, segments: Sequence[Segment]) -> None:
        """Search these from now on, the largest first; one that another contains is left over from a crash."""
        kept: list[Segment] = []
        for segment in sorted(segments, key=lambda segment: -segment.size):
            keys = segment.keys
            if len(keys) and not any(np.isin(keys, other.keys).all() for other in kept):
                kept.append(segment)
            elif segment.path is not None:
                with suppress(OSError):
                    segment.path.unlink()
        self._segments = kept
        counts = Counter[int]()
        for segment in kept:
            counts.update(dict(segment.frequent))
        total = len(self) or 1
        self._frequent = [(token, count / total) for token, count in counts.most_common() if token < self._vocabulary]

    def _replace(self, new: Segment, old: Segment | None = None) -> None:
        """Put a segment in the place of another, and of those that it contains. Nobody else writes meanwhile."""
        with self._using:
            self._put(new, old)

    def _put(self, new: Segment, old: Segment | None) -> None:
        if self.folder is not None:
            taken = [int(path.stem) for path in self.folder.glob(f"*{SUFFIX}") if path.stem.isdigit()]
            path = self.folder / f"{max(taken, default=0) + 1:08}{SUFFIX}"
            new.write(path)
            new = Segment.open(path)
            if old is not None and old.path is not None:
                old.path.unlink(missing_ok=True)
        self._use([new, *(segment for segment in self._segments if segment is not old)])

    def _drop(self, segment: Segment) -> None:
        if segment.path is not None:
            with suppress(OSError):
                segment.path.unlink()
        self._use([other for other in self._segments if other is not segment])

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """With no other process adding or removing."""
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


def _changed(folder: Path) -> int:
    """When something was put into the folder or taken out."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return -1
