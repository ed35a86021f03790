"""The terminal that the chat is drawn on: whatever comes from it, and however the chat is ended, it is left as it was."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterator
from threading import Timer
from typing import IO, Any

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste
from textual.message import Message

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""Signals that ask the chat to end. In the chat ctrl+c is a key and sends none."""

GRACE_SECONDS = 10.0
"""For an end in order. It takes longer where the terminal takes nothing any more."""

LOOK_SECONDS = 0.1
"""Between looks at whether the chat still wants keys; a lone escape is told from a longer sequence by it too."""


PASTE, PASTED = "\x1b[200~", "\x1b[201~"
"""Stand around what is pasted."""

ESCAPE, HIDDEN = "\x1b", "\ufdd0"
"""What begins a sequence, and a character that no text has, for one that begins none."""


class PasteParser(XTermParser):
    """Textual's own parser, but what is pasted is text and nothing else. Textual looks for sequences there too, as in a log
    with its colours, and what it does not know it gives out as keys: enter among them, which sends."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._before, self._held = "", ""
        """The last characters outside of a paste, where one may begin; the last of a paste, where it may end."""

    def feed(self, data: str) -> Iterator[Message]:
        """Keys, pastes and what else comes."""
        # Nothing at all would mean the end of all input.
        for message in super().feed(plain) if (plain := self._hidden(data)) else ():
            yield Paste(message.text.replace(HIDDEN, ESCAPE)) if isinstance(message, Paste) else message

    def _hidden(self, data: str) -> str:
        """What came, with every escape in a paste hidden."""
        data, self._held, out = self._held + data, "", ""
        while data:
            if self._pasting:
                text, end, data = data.partition(PASTED)
                if not end:  # it may have come in part
                    held = next((n for n in range(len(PASTED) - 1, 0, -1) if text.endswith(PASTED[:n])), 0)
                    text, self._held = text[: len(text) - held], text[len(text) - held :]
                out += text.replace(ESCAPE, HIDDEN) + end
            else:
                text, end, data = (self._before + data).partition(PASTE)
                out += (text + end)[len(self._before) :]
                self._before = "" if end else text[1 - len(PASTE) :]
            self._pasting ^= bool(end)
        return out


class Terminal(LinuxDriver):
    """Textual's own driver, but for four things: what is pasted is only text, bytes that are no UTF-8 become U+FFFD, a signal
    that ends programs ends the chat in order, and so does a terminal that has gone."""

    class Ended(Message):
        """The chat is to end.

        Args:
            number: the signal that asks for it; SIGHUP where the terminal has gone.
        """

        def __init__(self, number: int) -> None:
            self.number = number
            super().__init__()

    parser: type[XTermParser] = PasteParser
    """Makes keys of what comes."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        assert sys.__stderr__ is not None
        sys.__stderr__.reconfigure(encoding="utf-8")
        self._file: Any = _Lasting(sys.__stderr__)

    def start_application_mode(self) -> None:
        """Take the terminal over. From here on it must be given back, so the signals are heeded from here on."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks
                signal.signal(number, self._asked)
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def _asked(self, number: int, frame: object) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)  # a shell that goes sends several
        if self._loop.is_closed():  # the chat has ended, and is being kept
            return
        last = Timer(GRACE_SECONDS, self._give_up, [number])
        last.daemon = True
        last.start()
        self.send_message(self.Ended(number))

    def _give_up(self, number: int) -> None:
        if self._auto_restart:  # else an editor has the terminal, and the chat ends after it
            if self.attrs_before is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
            os._exit(128 + number)

    def write(self, data: str) -> None:
        """Write, unless the terminal is somebody else's for now: nothing would take it, and the chat wait for ever."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.write(data)

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")

    def run_input_thread(self) -> None:
        """Read keys until the chat wants none."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser = self.parser(self._debug)
        while not self.exit_event.is_set():
            text = None
            if select.select([self.fileno], [], [], LOOK_SECONDS)[0]:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    self.send_message(self.Ended(signal.SIGHUP))
                    return
                text = decode(data)
            try:
                for message in (*(parser.feed(text) if text else ()), *parser.tick()):
                    self.process_message(message)
            except (ArithmeticError, ValueError):
                # A sequence with a number that no terminal sends (a key beyond Unicode, a screen of no width): left out.
                parser = _renewed(parser, self._debug)


def _renewed(parser: XTermParser, debug: bool) -> XTermParser:
    """A parser at the beginning of a sequence, which knows what this one knows of the terminal."""
    fresh = type(parser)(debug)
    fresh.mouse_pixels = parser.mouse_pixels
    fresh.terminal_size, fresh.terminal_pixel_size = parser.terminal_size, parser.terminal_pixel_size
    return fresh


class _Lasting:
    """A file that takes what is written when the terminal behind it has gone as well: else the writing thread would end, and
    the chat would wait for it for ever."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()
