"""Hidden states of a session's tokens, for drafters that read them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import torch
from torch import Tensor

from ..transfer import on_device

FIRST_ROWS = 256
"""Initial number of rows; they double when full."""


class States:
    """One row of hidden states per slot: those of committed token i in slot i, those of tentative nodes behind. Slots
    behind the last one in use are ignored, so a failed pass or a rewind needs no undoing.

    Args:
        taps: the places where the states are read, in the order of the columns.
        width: of one state.
        most: slots that the session can have.
        dtype: of the states.
        device: of the rows.
    """

    def __init__(self, taps: Sequence[int], width: int, most: int, dtype: torch.dtype, device: torch.device) -> None:
        self.taps = tuple(taps)
        self._width = width
        self._most = most
        self._rows = torch.empty((0, width * len(self.taps)), dtype=dtype, device=device)

    def write(self, tap: int, start: int, rows: Tensor) -> None:
        """Store a tap's states of the tokens in the slots from `start` on [n, width]."""
        end, width = start + len(rows), self._width
        if end > len(self._rows):
            self._reserve(end)
        for place, column in enumerate(self.taps):
            if column == tap:
                self._rows[start:end, place * width : (place + 1) * width] = rows

    def _reserve(self, slots: int) -> None:
        grown = max(FIRST_ROWS, 2 * len(self._rows))
        while grown < slots:
            grown *= 2
        rows = self._rows.new_empty((min(grown, self._most), self._rows.shape[1]))
        rows[: len(self._rows)] = self._rows
        self._rows = rows

    def move(self, source: Sequence[int], start: int) -> None:
        """Copy the slots `source` to `start` onwards."""
        index = on_device(source, self._rows.device)
        self._rows[start : start + len(source)] = self._rows[index]

    def read(self, first: int, end: int) -> Tensor:
        """Return the rows of the slots `first` to `end` - 1 [n, taps × width], as a view."""
        return self._rows[first:end]


class TreeStates(States):
    """States of a session whose runtime has no slots. Living nodes get slots here, behind the committed tokens, without holes.
    The arguments are those of `States`."""

    def __init__(self, taps: Sequence[int], width: int, most: int, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(taps, width, most, dtype, device)
        self.end = 0
        """Number of slots in use, where the next pass writes."""
        self._slots: dict[int, int] = {}

    def grown(self, first: int, places: Sequence[int]) -> None:
        """Add the nodes from `first` on, whose states the last pass wrote at these places among its rows."""
        for number, place in enumerate(places, first):
            self._slots[number] = self.end + place
        self.end += len(places)

    def commit(self, length: int, path: Sequence[int], living_nodes: Iterable[int]) -> None:
        """Move the slots of `path`, then those of the nodes that stay alive, behind the first `length`; free all others."""
        living = [*path, *sorted(living_nodes)]
        source = [self._slots[number] for number in living]
        done = next((i for i, slot in enumerate(source) if slot != length + i), len(source))
        if done < len(source):
            self.move(source[done:], length + done)
        self._slots = dict(zip(living[len(path) :], range(length + len(path), length + len(living)), strict=True))
        self.end = length + len(living)

    def drop(self, length: int, dropped: Container[int]) -> None:
        """Free the slots of these nodes."""
        self.commit(length, (), [number for number in self._slots if number not in dropped])
