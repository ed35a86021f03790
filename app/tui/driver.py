"""The terminal: pastes as text, shortcuts on any layout, and modes restored when a signal ends the chat."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import IO, Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.message import Message

from .textual_compat import XTermParser, key_name

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""Signals that end the chat. In the chat ctrl+c is a key and sends none."""

LOOK_SECONDS = 0.1
"""Longest wait for input; also tells a lone escape from the start of a sequence."""

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
"""Marks around a paste."""

LATIN = "qwertyuiop[]asdfghjkl;'zxcvbnm,."
LAYOUTS = {
    letter: key_name(latin)
    for letters in ("йцукенгшщзхъфывапролджэячсмитьбю", ";ςερτυθιοπ[]ασδφγηξκλ΄'ζχψωβνμ,.", "/'קראטוןםפ[]שדגכעיחלךף,זסבהנמצתץ")
    for letter, latin in zip(letters, LATIN, strict=True)
    if not letter.isascii()
}
"""Letters of the Russian, Greek and Hebrew layouts → the keys in the same place of a Latin one."""

PLAIN_KEYS = {"shift+backspace": "backspace", "shift+delete": "delete", "ctrl+h": "backspace"}
"""Keys of the kitty protocol → their names without it."""


class TerminalParser(XTermParser):
    """Textual's parser, except that pastes are text, whatever they hold, and shortcuts go by place on other layouts.

    Textual finds sequences in a paste as well, such as the colours of a log, and takes unknown ones for keys; one of these is
    enter, which sends.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._paste: str | None = None
        """Text of an incomplete paste."""

    def feed(self, data: str) -> Iterator[Message]:
        while data:
            if self._paste is None:
                keys, mark, data = data.partition(PASTE)
                if keys:
                    yield from super().feed(keys)
                self._paste = "" if mark else None
            else:
                self._paste, mark, data = (self._paste + data).partition(PASTED)
                if mark:
                    yield Paste(self._paste)
                    self._paste = None

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterator[Key]:
        for event in super()._sequence_to_key_events(sequence, alt):
            *held, name = event.key.split("+")
            if "alt" in held or "ctrl" in held:
                name = LAYOUTS.get(name, name)
            key = "+".join((*held, name))
            yield Key(PLAIN_KEYS.get(key, key), event.character)


class Terminal(LinuxDriver):
    """Textual's driver with TerminalParser. Invalid UTF-8 becomes U+FFFD, and signals or the loss of the terminal end the chat
    in order."""

    @dataclass
    class Ended(Message):
        """The chat has to end."""

        number: int
        """Signal; SIGHUP for a lost terminal."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # Textual draws on standard error, which may be a file; standard output is a terminal, as the shell has checked.
        assert sys.__stdout__ is not None
        sys.__stdout__.reconfigure(encoding="utf-8")
        self._file: Any = _SafeFile(sys.__stdout__)

    def start_application_mode(self) -> None:
        """Take over the terminal, and handle signals, since it must be restored from here on."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._end)
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def _end(self, number: int, frame: object) -> None:
        for ending in ENDING:
            signal.signal(ending, signal.SIG_IGN)  # a closing shell sends several
        if not self._loop.is_closed():  # else the chat has ended, and is being saved
            self.send_message(self.Ended(number))

    def write(self, data: str) -> None:
        """Write, unless the chat is suspended: without a writing thread it would wait forever."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.write(data)

    @property
    def write_seconds(self) -> float:
        """Duration of the last write; infinite during one."""
        seconds: float = self._file.seconds
        return seconds

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")

    def run_input_thread(self) -> None:
        """Read input until the chat ends."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser = TerminalParser(self._debug)
        while not self.exit_event.is_set():
            text = ""
            if select.select([self.fileno], [], [], LOOK_SECONDS)[0]:
                data = b""
                with contextlib.suppress(OSError):
                    data = os.read(self.fileno, 65536)
                if not data:  # the terminal is lost
                    self.send_message(self.Ended(signal.SIGHUP))
                    return
                text = decode(data)
            for message in (*parser.feed(text), *parser.tick()):
                self.process_message(message)


class _SafeFile:
    """A file that ignores the loss of its terminal: an error would end the writing thread, for which the chat waits."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno
        self.seconds = 0.0
        """Duration of the last write; infinite during one."""

    def write(self, text: str) -> None:
        start = monotonic()
        self.seconds = inf
        with contextlib.suppress(OSError):
            self._file.write(text)
            self._file.flush()
        self.seconds = monotonic() - start

    def flush(self) -> None:
        """Do nothing: `write` flushes."""
