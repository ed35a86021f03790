"""The answer of `specchat run` on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from ...chat.entries import Run
from ...terminal.ansi import DIM, RESET, Depth, colour_depth, run_colour
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
        self.coloured = False
        """Whether a run with a colour was written."""

    def write(self, runs: Iterable[Run]) -> None:
        """Write some runs.

        Raises:
            OSError: nobody reads any more, or the disk is full.
        """
        shown = []
        for run in runs:
            shown.append(self._coloured(run.text[: run.carried]))  # of the run before
            self._ink = ink_name(self._way, run.shade, run.together)
            shown.append(self._coloured(run.text[run.carried :]))
        if text := "".join(shown):
            self._stream.write(text)
            self._stream.flush()

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
        """Text in the colour of the run that is written."""
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
