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
from dataclasses import dataclass
from math import inf
from threading import Timer
from time import monotonic
from typing import IO, Any

from textual import constants
from textual._parser import Parser
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Paste
from textual.keys import _character_to_key
from textual.message import Message

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
"""Signals that ask the chat to end. In the chat ctrl+c is a key and sends none."""

GRACE_SECONDS = 10.0
"""Time for an end in order. It takes longer where the terminal takes nothing any more."""

LOOK_SECONDS = 0.1
"""Between looks at whether the chat still wants keys; a lone escape is told from a longer sequence by it too."""

PASTE, PASTED = "\x1b[200~", "\x1b[201~"
"""Stand around what is pasted."""

ESCAPE = "\x1b"
"""Begins a sequence."""

SIGNS = string.digits + "".join(set(string.punctuation) - set("[]^_\\"))
"""What a key with alt sends behind the escape and no longer sequence begins with."""

PARTS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[^\x1b]*|[^\x1b]+")
"""What comes, sequence by sequence."""

REPLY = re.compile(
    r"\x1b(?:\](?=\d)|P(?=[>!$\d])|_(?=\w)|\^(?=\w))[^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, APC, PM
    r"|\x1b\[(?:[?>=](?![\d;]*\$y)[\d;:]*[ -/]*[@-~]|[\d;]*[cnx]|(?!48;)\d+(?:;\d+)+t)"  # attributes, status, sizes
    r"|\x1b\[48;(?:0+|\d+;0+);[\d;]*t"  # a screen without rows or columns
)
"""What a terminal says when it is asked: its colours, name, attributes, modes. It may come late, and would be typed."""

REPLY_BEGUN = re.compile(
    r"\x1b(?:\]\d[^\x07\x1b]*|P[>!$\d][^\x07\x1b]*|_\w[^\x07\x1b]*|\^\w[^\x07\x1b]*)\x1b?\Z"
    r"|\x1b(?:\[[?>=]?[\d;:$]*|[\]P_^])\Z"
)
"""The beginning of one, whose end is still to come."""

REPLY_SECONDS = 0.5
"""Longest wait for the end: one that was cut off must not hide what is typed after it."""

BURST_SECONDS = 0.003
"""Between two parts of what arrives at once. A hand takes ten times as long between two keys."""

MOST_BURST = 1 << 20
"""Bytes that are taken in together."""

BURST = re.compile(r"[\r\n][^\r\n]|[^\x00-\x1f\x7f]\t+[^\x00-\x1f\x7f]")
"""Text that goes on behind a line break or a tab, in what arrives at once: a paste in a terminal without bracketed paste."""

SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)|[\x00-\x1f\x7f]")
"""A key, a report or a control: no text."""

POINTER = re.compile(r"\x1b\[(?:<[\d;]+[Mm]|[IO])")
"""What the mouse and the focus report."""

PASTE_SECONDS = 3.0
"""Longest gap within a bracketed paste. One whose end was lost must not hide what is typed after it."""

KITTY_FLAGS = 29
"""Flags of the kitty keyboard protocol that the chat asks for: Textual's 25, and 4 for each key's place on a Latin layout."""

KITTY_KEY = re.compile(r"\x1b\[(\d+):(\d*)(?::(\d+))?(;(\d*)[\d:;]*)?u")
"""A key of that protocol with alternates: its code, with shift, and in the place of the base layout; its modifiers."""

ALT_OR_CTRL = 2 | 4
"""Bits of the modifiers, less one."""

ASCII = 127

LATIN = "qwertyuiop[]asdfghjkl;'zxcvbnm,."
LAYOUTS = {
    letter: _character_to_key(latin)
    for letters in ("йцукенгшщзхъфывапролджэячсмитьбю", ";ςερτυθιοπ[]ασδφγηξκλ΄'ζχψωβνμ,.", "/'קראטוןםפ[]שדגכעיחלךף,זסבהנמצתץ")
    for letter, latin in zip(letters, LATIN, strict=True)
    if ord(letter) > ASCII
}
"""Letters of the Russian, Greek and Hebrew layouts → the keys in the same place of a Latin one."""

PLAIN_KEYS = {"shift+backspace": "backspace", "shift+delete": "delete", "ctrl+h": "backspace"}
"""Keys that are another one in terminals without that protocol."""


class TerminalParser(XTermParser):
    """Textual's parser, with pastes as text alone, replies of the terminal left out, and shortcuts by place on other layouts.

    Textual looks for sequences in a paste too, as in a log with its colours, and gives out as keys what it does not know: enter
    among them, which sends.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._before, self._held = "", ""
        """The last characters outside of a paste, where one may begin; the last of a paste, where it may end."""
        self._parts: list[str] = []
        """Parts of the paste that is coming in."""
        self._pasted: list[str] = []
        """Pastes that are whole."""
        self._begun, self._begun_at = "", 0.0
        """The beginning of a reply, and when it came."""
        self._fed_at = 0.0
        """When something came."""

    def feed(self, data: str) -> Iterator[Message]:
        """Keys, pastes and what else comes at once."""
        now = self._fed_at = monotonic()
        # Two characters may be a key with alt as well.
        if self._begun and (now - self._begun_at < REPLY_SECONDS or len(self._begun) == 2):
            data, now = self._begun + data, self._begun_at
        self._begun = ""
        if not self._pasting and PASTE not in self._before + data:
            data = self._without_replies(data, now)
            text = POINTER.sub("", data)
            if BURST.search(text) and SEQUENCE.sub("", text):
                data = "".join((*POINTER.findall(data), PASTE, text.replace(PASTED, ""), PASTED))
        # Sequence by sequence, so that a bad one costs nothing behind it.
        for part in PARTS.findall(self._without_pasted(data)):
            try:
                for message in super().feed(part):
                    yield Paste(self._pasted.pop(0)) if isinstance(message, Paste) else message
            except (ArithmeticError, ValueError):  # a number that no terminal sends: a key beyond Unicode, a screen of no width
                Parser.__init__(self)

    def tick(self) -> Iterator[Message]:
        """Keys that no sequence followed; and a paste whose end was lost."""
        if self._pasting and monotonic() - self._fed_at > PASTE_SECONDS:
            yield from self.feed(PASTED)
        yield from super().tick()

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterator[Key]:
        if found := KITTY_KEY.fullmatch(sequence):
            code, _, base, rest, bits = found.groups()
            if base and (int(bits or 1) - 1) & ALT_OR_CTRL and int(code) > ASCII:
                code = base
            sequence = f"\x1b[{code}{rest or ';1'}u"
        # Textual knows alt with letters alone: of a sign it forgets the alt, or takes it for what some keyboards type.
        elif len(sequence) == 2 and sequence[0] == ESCAPE and sequence[1] in SIGNS:
            for event in super()._sequence_to_key_events(sequence[1]):
                yield Key(f"alt+{event.key}", event.character)
            return
        for event in super()._sequence_to_key_events(sequence, alt):
            *modifiers, name = event.key.split("+")
            if {"alt", "ctrl"} & {*modifiers}:
                name = LAYOUTS.get(name, name)
            key = "+".join((*modifiers, name))
            yield Key(PLAIN_KEYS.get(key, key), event.character)

    def _without_replies(self, data: str, now: float) -> str:
        data = REPLY.sub("", data)
        begun = REPLY_BEGUN.search(data)
        self._begun, self._begun_at = (begun[0], now) if begun else ("", 0.0)
        return data[: len(data) - len(self._begun)]

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
    """Textual's own driver, but for four things: what is pasted or replied is no key, bytes that are no UTF-8 become U+FFFD, a
    signal that ends programs ends the chat in order, and so does a terminal that has gone."""

    @dataclass
    class Ended(Message):
        """The chat is to end."""

        number: int
        """The signal that asks for it; SIGHUP where the terminal has gone."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        # Textual draws on standard error, which may go elsewhere; standard output is a terminal, or the chat would not begin.
        shown = sys.__stderr__ if sys.__stderr__ is not None and sys.__stderr__.isatty() else sys.__stdout__
        assert shown is not None
        shown.reconfigure(encoding="utf-8")
        self._file: Any = _Lasting(shown)

    def start_application_mode(self) -> None:
        """Take the terminal over. From here on it must be given back, so the signals are heeded from here on."""
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup asks
                signal.signal(number, self._asked)
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if not constants.DISABLE_KITTY_KEY:
            self.write(f"\x1b[={KITTY_FLAGS}u")

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

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal alone: COLUMNS and LINES in the environment may be those of another one."""
        try:
            columns, lines = os.get_terminal_size(self._file.fileno())
        except OSError:
            return super()._get_terminal_size()
        return columns or 80, lines or 25

    def write(self, data: str) -> None:
        """Write, unless the terminal is somebody else's for now: nothing would take it, and the chat wait for ever."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self._writer_thread.write(data)

    @property
    def write_seconds(self) -> float:
        """How long the last write took; infinite while one is under way."""
        seconds: float = self._file.seconds
        return seconds

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")

    def run_input_thread(self) -> None:
        """Read keys until the chat wants none."""
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
        """What arrives at once; nothing where the terminal has gone."""
        data = b""
        try:
            while part := os.read(self.fileno, 65536):
                data += part
                # Keys come one by one; a longer part may be one of several of the same paste.
                wait = BURST_SECONDS if len(part) > 1 else 0.0
                if len(data) >= MOST_BURST or not select.select([self.fileno], [], [], wait)[0]:
                    break
        except OSError:
            pass
        return data


class _Lasting:
    """A file that takes what is written when the terminal behind it has gone as well: else the writing thread would end, and
    the chat would wait for it for ever."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.fileno = file.fileno
        self._begun: float | None = None
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """How long the last write took; infinite while one is under way."""
        return self._seconds if self._begun is None else inf

    def write(self, text: str) -> None:
        begun = self._begun = monotonic()
        with contextlib.suppress(OSError):
            self._file.write(text)
            self._file.flush()
        self._seconds, self._begun = monotonic() - begun, None

    def flush(self) -> None:
        """All that is written has been flushed."""
