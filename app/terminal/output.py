"""Where `specchat run` writes: the answer to standard output, progress and sentences to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TextIO

from ...engine.messages import StepRecord
from ..chat.entries import Shades
from ..text.cells import fit, sanitise
from .ansi import DIM, RESET, Depth, colour_depth, run_colour


def stdout() -> TextIO:
    """Standard output, or nowhere if the caller closed it. What its encoding lacks is written as an escape."""
    stream = sys.stdout
    if stream is None:  # started with >&-
        return open(os.devnull, "w", encoding="utf-8")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


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


class Notes:
    """Standard error: sentences, and on a terminal one line of progress that goes away again."""

    def __init__(self, color: str) -> None:
        self._stream = sys.stderr
        terminal = self._stream is not None and self._stream.isatty()
        self._dim = colour_depth(color, terminal) > 0
        # A dumb terminal cannot clear a line.
        self._moves = terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        self._shown = False

    def progress(self, text: str) -> None:
        """Show what is going on, in place of what was shown before."""
        if self._moves and self._stream is not None:
            line = fit(sanitise(text), shutil.get_terminal_size().columns - 1)
            self._put(f"\r\x1b[K{DIM}{line}{RESET}" if self._dim else f"\r\x1b[K{line}")
            self._shown = True

    def clear(self) -> None:
        """Take the progress away."""
        if self._shown:
            self._put("\r\x1b[K")
            self._shown = False

    def sentence(self, text: str) -> None:
        """Print a message for people."""
        self.clear()
        self._put(f"specchat: {sanitise(text)}\n")

    def figures(self, text: str) -> None:
        """Print the line of figures, dim where there are colours."""
        self.clear()
        self._put(f"{DIM}{text}{RESET}\n" if self._dim else f"{text}\n")

    def _put(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # nobody reads our messages: the answer matters more
            self._stream = None
