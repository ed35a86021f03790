"""The output of commands: results on standard output, progress and sentences on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import TextIO

from ..text.cells import fit, sanitise
from .ansi import DIM, RESET, colour_depth


def use_utf8() -> None:
    """Write UTF-8 whatever the locale: almost every terminal uses it, and containers often have none. Lone surrogates become
    escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # started with >&-, there is none
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def stdout() -> TextIO:
    """Return standard output, or a null device if it is closed."""
    return sys.stdout or open(os.devnull, "w", encoding="utf-8")


class Notes:
    """Standard error: sentences, and on a terminal a line of progress that is erased again.

    Args:
        before: ends an unfinished line of other output on the same terminal.
    """

    def __init__(self, before: Callable[[], object] | None = None) -> None:
        self._stream = sys.stderr
        self._before = before
        terminal = self._stream is not None and self._stream.isatty()
        self.depth = colour_depth(terminal)
        """Number of colours."""
        # A dumb terminal cannot clear a line.
        self._moves = terminal and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
        self._has_progress = False
        self._thought = ""  # last character of an unfinished thought
        self.terminal = terminal
        """Whether standard error is a terminal."""

    def progress(self, text: str) -> None:
        """Replace the line of progress."""
        if self._moves and self._stream is not None:
            line = fit(sanitise(text), shutil.get_terminal_size().columns - 1)
            self._put(f"\r\x1b[K{DIM}{line}{RESET}" if self.depth else f"\r\x1b[K{line}")
            self._has_progress = True

    def clear(self) -> None:
        """Erase the line of progress."""
        if self._has_progress:
            self._put("\r\x1b[K")
            self._has_progress = False

    def thought(self, text: str) -> None:
        """Append to a thought, in dim text."""
        self.clear()
        text = sanitise(text if self._thought else text.lstrip())
        if text:
            self._put(f"{DIM}{text}{RESET}" if self.depth else text)
            self._thought = text[-1]

    def end_thought(self) -> None:
        """End a thought with a blank line."""
        if self._thought:
            self._put("\n" if self._thought == "\n" else "\n\n")
            self._thought = ""

    def sentence(self, text: str) -> None:
        """Print a message to the user."""
        self.clear()
        self.end_thought()
        if self._before is not None:
            self._before()
        self._put(f"specchat: {sanitise(text)}\n")

    def figures(self, text: str) -> None:
        """Print the line of figures, dim if there are colours."""
        self.clear()
        self.end_thought()
        self._put(f"{DIM}{text}{RESET}\n" if self.depth else f"{text}\n")

    def painted(self, text: str) -> None:
        """Print a line with escape sequences in it."""
        self.clear()
        self._put(f"{text}\n")

    def _put(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # a closed standard error must not end the answer
            self._stream = None
