"""The terminal: input of every kind without surprises, and modes restored however the chat ends."""

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
from dataclasses import dataclass
from math import inf
from threading import Timer
from time import monotonic
from typing import IO, Any

from textual import constants
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.message import Message

from .textual_compat import Parser, XTermParser, key_name

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""Signals that end the chat. In the chat ctrl+c is a key and sends none."""

GRACE_SECONDS = 10.0
"""Longest end in order; only a terminal that no longer reads takes as long."""

LOOK_SECONDS = 0.1
"""Longest wait for input; also tells a lone escape from the start of a sequence."""

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
"""Marks around a paste."""

ESCAPE = "\x1b"

SIGNS = string.digits + "".join(set(string.punctuation) - set("[]^_\\"))
"""Characters that follow the escape of an alt key, and that no longer sequence begins with."""

PARTS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[^\x1b]*|[^\x1b]+")
"""One sequence, or text without any."""

REPLY = re.compile(
    r"\x1b(?:\](?=\d)|P(?=[>!$\d])|_(?=\w)|\^(?=\w))[^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, APC, PM
    r"|\x1b\[(?:[?>=](?![\d;]*\$y)[\d;:]*[ -/]*[@-~]|[\d;]*[cnx]|(?!48;)\d+(?:;\d+)+t)"  # attributes, status, sizes
    r"|\x1b\[48;(?:0+|\d+;0+);[\d;]*t"  # a screen without rows or columns
)
"""The terminal's reply about its colours, name, attributes or modes. A late one would count as typed text."""

REPLY_BEGUN = re.compile(
    r"\x1b(?:\]\d[^\x07\x1b]*|P[>!$\d][^\x07\x1b]*|_\w[^\x07\x1b]*|\^\w[^\x07\x1b]*)\x1b?\Z"
    r"|\x1b(?:\[[?>=]?[\d;:$]*|[\]P_^])\Z"
)
"""The first part of a reply."""

REPLY_SECONDS = 0.5
"""Longest wait for the end of a reply, so that one cut off does not hide text typed after it."""

BURST_SECONDS = 0.003
"""Longest gap inside a burst of input. Between two keys a hand takes ten times as long."""

MOST_BURST = 1 << 20
"""Most bytes of a burst."""

BURST = re.compile(r"[\r\n][^\r\n]|[^\x00-\x1f\x7f]\t+[^\x00-\x1f\x7f]")
"""Text after a line break or a tab, within a burst: a paste in a terminal without bracketed paste."""

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)|[\x00-\x1f\x7f]")
"""A key, a report or a control: no text."""

POINTER = re.compile(r"\x1b\[(?:<[\d;]+[Mm]|[IO])")
"""A report of the mouse or the focus."""

PASTE_SECONDS = 3.0
"""Longest gap in a bracketed paste, so that one without an end does not hide text typed after it."""

KITTY_FLAGS = 29
"""Flags for the kitty keyboard protocol: Textual's 25, and 4 for each key's place on a Latin layout."""

KITTY_KEY = re.compile(r"\x1b\[(\d+):(\d*)(?::(\d+))?(;(\d*)[\d:;]*)?u")
"""A key of that protocol with alternates: its code, with shift, and on the base layout; its modifiers."""

ALT_OR_CTRL = 2 | 4
"""Bits of the modifiers, less one."""

ASCII = 127

LATIN = "qwertyuiop[]asdfghjkl;'zxcvbnm,."
LAYOUTS = {
    letter: key_name(latin)
    for letters in ("йцукенгшщзхъфывапролджэячсмитьбю", ";ςερτυθιοπ[]ασδφγηξκλ΄'ζχψωβνμ,.", "/'קראטוןםפ[]שדגכעיחלךף,זסבהנמצתץ")
    for letter, latin in zip(letters, LATIN, strict=True)
    if ord(letter) > ASCII
}
"""Letters of the Russian, Greek and Hebrew layouts → the keys in the same place of a Latin one."""

PLAIN_KEYS = {"shift+backspace": "backspace", "shift+delete": "delete", "ctrl+h": "backspace"}
"""Keys of that protocol → their names without it."""


class TerminalParser(XTermParser):
    """Textual's parser, except that pastes are text, replies are dropped, and shortcuts go by place on other layouts.

    Textual finds sequences in a paste as well, such as the colours of a log, and takes unknown ones for keys; one of these is
    enter, which sends.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._before = ""
        """Last characters before a paste: they may begin its mark."""
        self._tail = ""
        """Last characters of a paste: they may begin its end mark."""
        self._parts: list[str] = []
        """Parts of an incomplete paste."""
        self._pasted: list[str] = []
        """Complete pastes."""
        self._reply = ""
        """First part of a reply."""
        self._reply_at = 0.0
        self._fed_at = 0.0

    def feed(self, data: str) -> Iterator[Message]:
        """Parse a burst of input."""
        now = self._fed_at = monotonic()
        # Two characters may be a key with alt.
        if self._reply and (now - self._reply_at < REPLY_SECONDS or len(self._reply) == 2):
            data, now = self._reply + data, self._reply_at
        self._reply = ""
        if not self._pasting and PASTE not in self._before + data:
            data = self._drop_replies(data, now)
            text = POINTER.sub("", data)
            if BURST.search(text) and SEQUENCE.sub("", text):
                data = "".join((*POINTER.findall(data), PASTE, text.replace(PASTED, ""), PASTED))
        # One by one, so that an invalid sequence does not affect the next.
        for part in PARTS.findall(self._cut_pastes(data)):
            try:
                for message in super().feed(part):
                    yield Paste(self._pasted.pop(0)) if isinstance(message, Paste) else message
            except (ArithmeticError, ValueError):  # an impossible number: a key beyond Unicode, a screen without width
                Parser.__init__(self)

    def tick(self) -> Iterator[Message]:
        """End an overdue sequence or paste."""
        if self._pasting and monotonic() - self._fed_at > PASTE_SECONDS:
            yield from self.feed(PASTED)
        yield from super().tick()

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterator[Key]:
        if kitty := KITTY_KEY.fullmatch(sequence):
            code, _, base, modifiers, bits = kitty.groups()
            if base and (int(bits or 1) - 1) & ALT_OR_CTRL and int(code) > ASCII:
                code = base
            sequence = f"\x1b[{code}{modifiers or ';1'}u"
        # Textual knows alt with letters alone: it drops the alt of a sign, or takes it for a character of some keyboard.
        elif len(sequence) == 2 and sequence[0] == ESCAPE and sequence[1] in SIGNS:
            for event in super()._sequence_to_key_events(sequence[1]):
                yield Key(f"alt+{event.key}", event.character)
            return
        for event in super()._sequence_to_key_events(sequence, alt):
            *held, name = event.key.split("+")
            if {"alt", "ctrl"} & {*held}:
                name = LAYOUTS.get(name, name)
            key = "+".join((*held, name))
            yield Key(PLAIN_KEYS.get(key, key), event.character)

    def _drop_replies(self, data: str, now: float) -> str:
        data = REPLY.sub("", data)
        if partial := REPLY_BEGUN.search(data):
            self._reply = partial[0]
            self._reply_at = now
        return data.removesuffix(self._reply)

    def _cut_pastes(self, data: str) -> str:
        """Move the text between the marks of pastes to `_pasted`."""
        data, self._tail, out = self._tail + data, "", ""
        while data:
            if self._pasting:
                text, end, data = data.partition(PASTED)
                if not end:
                    self._tail = next((PASTED[:n] for n in range(len(PASTED) - 1, 0, -1) if text.endswith(PASTED[:n])), "")
                    text = text.removesuffix(self._tail)
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
        terminal = sys.__stderr__ if sys.__stderr__ is not None and sys.__stderr__.isatty() else sys.__stdout__
        assert terminal is not None
        terminal.reconfigure(encoding="utf-8")
        self._file: Any = _SafeFile(terminal)

    def start_application_mode(self) -> None:
        """Take over the terminal, and handle signals, since it must be restored from here on."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._end)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if not constants.DISABLE_KITTY_KEY:
            self.write(f"\x1b[={KITTY_FLAGS}u")

    def _end(self, number: int, frame: object) -> None:
        for ending in ENDING:
            signal.signal(ending, signal.SIG_IGN)  # a closing shell sends several
        if self._loop.is_closed():  # the chat has ended, and is being saved
            return
        timer = Timer(GRACE_SECONDS, self._give_up, [number])
        timer.daemon = True
        timer.start()
        self.send_message(self.Ended(number))

    def _give_up(self, number: int) -> None:
        if self._auto_restart:  # else an editor has the terminal, and the chat ends after it
            if self.attrs_before is not None:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
            os._exit(128 + number)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Measure this terminal; COLUMNS and LINES may be of another one."""
        try:
            columns, lines = os.get_terminal_size(self._file.fileno())
        except OSError:
            return super()._get_terminal_size()
        return columns or 80, lines or 25

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
                data = self._read()
                if not data:
                    self.send_message(self.Ended(signal.SIGHUP))
                    return
                text = decode(data)
            for message in (*parser.feed(text), *parser.tick()):
                self.process_message(message)

    def _read(self) -> bytes:
        """Read a burst of input; empty if the terminal is lost."""
        data = b""
        with contextlib.suppress(OSError):
            while part := os.read(self.fileno, 65536):
                data += part
                # A single byte is a key; a longer part may be the first of a paste.
                wait = BURST_SECONDS if len(part) > 1 else 0.0
                if len(data) >= MOST_BURST or not select.select([self.fileno], [], [], wait)[0]:
                    break
        return data


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
