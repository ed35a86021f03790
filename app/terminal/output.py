"""Where commands write: what was asked for to standard output, progress and sentences to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

from ..text.cells import fit, sanitise
from .ansi import DIM, RESET, colour_depth


def stdout() -> TextIO:
    """Standard output, or nowhere if the caller closed it. What its encoding lacks is written as an escape."""
    stream = sys.stdout
    if stream is None:  # started with >&-
        return open(os.devnull, "w", encoding="utf-8")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


class Notes:
    """Standard error: sentences, and on a terminal one line of progress that goes away again.

    Args:
        color: `auto`, `always` or `never`.
        before: ends a line that somebody else has begun on the same terminal.
    """

    def __init__(self, color: str, before: Callable[[], object] | None = None) -> None:
        self._stream = sys.stderr
        self._before = before
        terminal = self._stream is not None and self._stream.isatty()
        self.depth = colour_depth(color, terminal)
        """Colours to write with."""
        # A dumb terminal cannot clear a line.
        self._moves = terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        self._shown = False
        self._thought = ""  # the end of one that is being written
        self.terminal = terminal
        """Whether people read it as it comes."""

    def progress(self, text: str) -> None:
        """Show what is going on, in place of what was shown before."""
        if self._moves and self._stream is not None:
            line = fit(sanitise(text), shutil.get_terminal_size().columns - 1)
            self._put(f"\r\x1b[K{DIM}{line}{RESET}" if self.depth else f"\r\x1b[K{line}")
            self._shown = True

    def clear(self) -> None:
        """Take the progress away."""
        if self._shown:
            self._put("\r\x1b[K")
            self._shown = False

    def thought(self, text: str) -> None:
        """Write on at a thought, dim."""
        self.clear()
        text = sanitise(text if self._thought else text.lstrip())
        if text:
            self._put(f"{DIM}{text}{RESET}" if self.depth else text)
            self._thought = text[-1]

    def end_thought(self) -> None:
        """A thought is over: what comes next stands apart from it."""
        if self._thought:
            self._put("\n" if self._thought == "\n" else "\n\n")
            self._thought = ""

    def sentence(self, text: str) -> None:
        """Print a message for people."""
        self.clear()
        self.end_thought()
        if self._before is not None:
            self._before()
        self._put(f"specchat: {sanitise(text)}\n")

    def figures(self, text: str) -> None:
        """Print the line of figures, dim where there are colours."""
        self.clear()
        self.end_thought()
        self._put(f"{DIM}{text}{RESET}\n" if self.depth else f"{text}\n")

    def painted(self, text: str) -> None:
        """Print a line that has its own colours."""
        self.clear()
        self._put(f"{text}\n")

    def _put(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # nobody reads our messages: the answer matters more
            self._stream = None
