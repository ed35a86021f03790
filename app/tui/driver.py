"""The terminal that the chat is drawn on: whatever comes from it, and however the chat is ended, it is left as it was."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import string
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterator
from functools import lru_cache
from threading import Timer
from typing import IO, Any

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.keys import Keys
from textual.message import Message

from ..text.cells import cluster_width, graphemes

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""Signals that ask the chat to end. In the chat ctrl+c is a key and sends none."""

GRACE_SECONDS = 10.0
"""Time for an end in order. It takes longer where the terminal takes nothing any more."""

LOOK_SECONDS = 0.1
"""Between looks at whether the chat still wants keys; a lone escape is told from a longer sequence by it too."""


PASTE, PASTED = "\x1b[200~", "\x1b[201~"
"""Stand around what is pasted."""

SIGNS = string.digits + "".join(set(string.punctuation) - set("[]^_\\"))
"""What a key with alt sends behind the escape and no longer sequence begins with."""

BURST = re.compile(r"[\r\n]+[^\x00-\x1f\x7f]")
"""A line that goes on behind its end, in what arrives at once: pasted in a terminal that does not say so, since nobody types a
key in the same moment as enter."""

STYLE = re.compile(r"(\x1b\[[\d;]*m)")

DISPUTED = re.compile("[\u200d\u20e3\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f]")
"""In characters that terminals disagree on how wide they are: pictures, above all those of several code points."""

COMMAND = "\x1b]"
"""Begins what is no text on the screen: a title, a notification, what is copied."""


class TerminalParser(XTermParser):
    """Textual's own parser, but what is pasted is text and nothing else. Textual looks for sequences in a paste too (a log has
    colours), and what it does not know it gives out as keys: enter among them, which sends."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._before, self._held = "", ""
        """The last characters outside of a paste, where one may begin; the last of a paste, where it may end."""
        self._parts: list[str] = []
        """Parts of the paste that is coming in."""
        self._pasted: list[str] = []
        """Pastes that are whole."""

    def feed(self, data: str) -> Iterator[Message]:
        if not self._pasting and BURST.search(data) and "\x1b" not in data:
            data = f"{PASTE}{data}{PASTED}"
        # Nothing at all would mean the end of all input.
        for message in super().feed(plain) if (plain := self._without_pasted(data)) else ():
            yield Paste(self._pasted.pop(0)) if isinstance(message, Paste) else message

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterator[Key]:
        # Textual knows alt with letters alone: of a sign it forgets the alt, or takes it for what some keyboards type.
        if len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] in SIGNS:
            for key in super()._sequence_to_key_events(sequence[1]):
                yield Key(f"alt+{key.key}", key.character)
            return
        try:
            yield from super()._sequence_to_key_events(sequence, alt)
        except (ArithmeticError, ValueError):  # a key beyond Unicode
            yield Key(Keys.Ignore, sequence)

    def _without_pasted(self, data: str) -> str:
        """What came, with nothing between the marks around a paste."""
        data, self._held, out = self._held + data, "", ""
        while data:
            if self._pasting:
                text, end, data = data.partition(PASTED)
                if not end:  # it may have come in part
                    held = next((n for n in range(len(PASTED) - 1, 0, -1) if text.endswith(PASTED[:n])), 0)
                    text, self._held = text[: len(text) - held], text[len(text) - held :]
                self._parts.append(text)
                if end:
                    self._pasted.append("".join(self._parts))
                    self._parts.clear()
                out += end
            else:
                text, end, data = (self._before + data).partition(PASTE)
                out += (text + end)[len(self._before) :]
                self._before = "" if end else text[1 - len(PASTE) :]
            self._pasting ^= bool(end)
        return out


class Terminal(LinuxDriver):
    """Textual's own driver, but for four things: what is pasted is no key, bytes that are no UTF-8 become U+FFFD, a signal that
    ends programs ends the chat in order, and so does a terminal that has gone."""

    class Ended(Message):
        """The chat is to end.

        Args:
            number: the signal that asks for it; SIGHUP where the terminal has gone.
        """

        def __init__(self, number: int) -> None:
            self.number = number
            super().__init__()

    parser: type[XTermParser] = TerminalParser
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

    @property
    def behind(self) -> bool:
        """Whether what was drawn before is still to be written: the link is slow."""
        return self._writer_thread is not None and self._writer_thread._queue.qsize() > 1

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")

    def run_input_thread(self) -> None:
        decode = getincrementaldecoder("utf-8")("replace").decode
        parser = self.parser(self._debug)
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], LOOK_SECONDS)[0]:
                if not (data := self._read()):
                    self.send_message(self.Ended(signal.SIGHUP))
                    return
                for message in parser.feed(decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 65536)
        except OSError:
            return b""


class _Lasting:
    """A file that takes what is written when the terminal behind it has gone as well: else the writing thread would end, and
    the chat would wait for it for ever."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(steady(text))
            self._file.flush()

    def flush(self) -> None:
        """All that is written has been flushed."""


def steady(data: str) -> str:
    """What is to be written, with each character where it was laid out, however wide the terminal takes it to be."""
    if data.isascii() or COMMAND in data or not DISPUTED.search(data):
        return data
    return "".join(_placed(part[a:b]) for part in STYLE.split(data) for a, b in graphemes(part))


@lru_cache(4096)
def _placed(cluster: str) -> str:
    """A character, and the cursor where it was laid out to be behind it: saved before it (ESC 7), the cursor goes on from there
    (ESC 8). Where the character is narrower, its other cell is blank.

    Some terminals restore what they saved only once.
    """
    cells = cluster_width(cluster)
    if not cells or not DISPUTED.search(cluster):
        return cluster
    return f"\x1b7{' ' * cells}\x1b8\x1b7{cluster}\x1b8\x1b[{cells}C"
