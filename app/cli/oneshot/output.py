"""The answer of `specchat run` on standard output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from ....engine.messages import StepRecord
from ...chat.entries import Shades
from ...terminal.ansi import RESET, Depth, colour_depth, run_colour
from ...text.cells import sanitise


class Output:
    """The answer's text. On a terminal harmless, and coloured as in the chat; piped, the text as it is."""

    def __init__(self, stream: TextIO, color: str) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.depth: Depth = colour_depth(color, self.is_terminal)
        # Coloured text is for eyes even through a pipe (`| less -R`).
        self._safe = self.is_terminal or self.depth > 0
        self._shades = Shades()
        self._shade = -1
        self._last = "\n"

    def write(self, steps: Iterable[StepRecord]) -> None:
        """Write what some steps gave.

        Raises:
            OSError: nobody reads any more, or the disk is full.
        """
        shown = []
        for step in steps:
            shown.append(self._run(step.text[: step.carried]))  # of the run before
            self._shade = self._shades.next(step)
            shown.append(self._run(step.text[step.carried :]))
        self._put("".join(shown))

    def tail(self, text: str) -> None:
        """Write text that was held back to the end: it belongs to the last run."""
        self._put(self._run(text))

    def _put(self, shown: str) -> None:
        if shown:
            self._stream.write(shown)
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

    def _run(self, text: str) -> str:
        """Text in the colour of the run that is written."""
        if not text:
            return ""
        self._last = text[-1]
        if self._safe:
            text = sanitise(text)
        colour = run_colour(self._shade, self.depth)
        return f"{colour}{text}{RESET}" if colour else text
