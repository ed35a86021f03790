"""The answer of `specchat run` on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from ...chat.runs import Run
from ...terminal.ansi import DIM, RESET, Depth, colour_depth, run_colour
from ...terminal.output import Notes
from ...text.cells import sanitise
from ...theming.colouring import Colouring, ink_name, legend


class AnswerOutput:
    """The answer's text. On a terminal harmless, and coloured as in the chat; piped, the text as it is."""

    def __init__(self, stream: TextIO, color: str, way: Colouring = "length") -> None:
        self._stream = stream
        self._way = way
        self.is_terminal = stream.isatty()
        self.depth: Depth = colour_depth(color, self.is_terminal)
        # Coloured text is for eyes even through a pipe (`| less -R`).
        self._safe = self.is_terminal or self.depth > 0
        self._ink = "plain"
        self._last = "\n"
        self._begun = False
        self.coloured = False
        """Whether a run with a colour was written."""

    def write(self, runs: Iterable[Run], notes: Notes | None = None) -> None:
        """Write some runs.

        Args:
            notes: get their thoughts; None: nobody does.

        Raises:
            OSError: nobody reads any more, or the disk is full.
        """
        shown: list[str] = []
        for run in runs:
            for thought, late, text in run.pieces():
                if thought:
                    self._put(shown)
                    if notes is not None:
                        notes.thought(text)
                    continue
                if notes is not None:
                    notes.end_thought()
                if not late:
                    self._ink = ink_name(self._way, run.shade, run.together)
                # Line breaks between a thought and the answer belong to neither.
                text = text if self._begun or not run.spans else text.lstrip("\n")
                self._begun = self._begun or bool(text)
                shown.append(self._coloured(text))
            self._ink = ink_name(self._way, run.shade, run.together)
        self._put(shown)

    def _put(self, shown: list[str]) -> None:
        if text := "".join(shown):
            self._stream.write(text)
            self._stream.flush()
        shown.clear()

    def line(self, text: str) -> None:
        """Write a line that is data, as it is."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def end_line(self) -> None:
        """End the last line, where the text did not."""
        if self._last != "\n":
            self._stream.write("\n")
            self._stream.flush()
            self._last = "\n"

    def _coloured(self, text: str) -> str:
        if not text:
            return ""
        self._last = text[-1]
        if self._safe:
            text = sanitise(text)
        colour = run_colour(self._ink, self.depth)
        self.coloured |= bool(colour)
        return f"{colour}{text}{RESET}" if colour else text

    def legend(self, depth: Depth) -> str:
        """What the colours of the answer mean, in as many of them; empty where it has none."""
        parts = legend(self._way) if self.coloured and depth else []
        return "".join(f"{run_colour(ink, depth) if ink else DIM}{text}{RESET}" for text, ink in parts)
