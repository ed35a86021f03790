"""`specchat keys`: what each key that is pressed arrives as, what it runs, and which keys do not arrive from this terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic

from textual import events, on
from textual._xterm_parser import XTermParser
from textual.app import ComposeResult
from textual.content import Content
from textual.driver import Driver
from textual.message import Message
from textual.widgets import Static

from ...settings.keymap import GROUPS, KeyBinding, every_way, keys_of, spell
from ...settings.locations import config_folder
from ...terminal.keys import lost, readable, terminals_here
from ..driver import Terminal
from ..terminal_app import TerminalApp
from ..themes import Themes
from .context import KEYS

TWICE_SECONDS = 1.0
"""Between two presses of a key that leaves."""

KEY_CELLS, SENT_CELLS = 14, 14
"""Cells of a key's name, and of what came for it."""

_REPORT = re.compile(r"\x1b\[\?[\d;]*\$y")
"""A terminal's answer to a question about its modes."""


@dataclass
class Pressed(Message):
    """A key has arrived."""

    key: str
    sent: str


class NotingParser(XTermParser):
    """A parser that tells with each key what came for it."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._came = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Letter by letter, so that one knows what belongs to which key."""
        for letter in data:
            self._came += letter
            yield from self._noted(super().feed(letter))

    def tick(self) -> Iterable[Message]:
        """A lone escape is known for one after a while."""
        return self._noted(super().tick())

    def _noted(self, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            sent, self._came = _REPORT.sub("", self._came), ""
            yield Pressed(message.key, sent) if isinstance(message, events.Key) else message


class Listening(Terminal):
    """A terminal whose keys are looked at, not obeyed."""

    parser = NotingParser


class KeyCheck(TerminalApp):
    """The app of `specchat keys`: shows keys as they arrive, the last one at the end."""

    CSS = """
    Screen { background: $background; color: $foreground; padding: 1 2; }
    #here { height: auto; margin-bottom: 1; }
    #pressed { height: 1fr; }
    #leave { height: 1; color: $quiet; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = []  # noqa: RUF012

    def __init__(self, keymap: Mapping[str, str], theme: str, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__()
        self._keymap, self._environment = keymap, environment
        self._shown_keys: list[Content] = []
        self._last = ("", 0.0)
        Themes(self, config_folder() / "themes", theme)

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return Listening if found is Terminal else found

    def compose(self) -> ComposeResult:
        yield Static(self._here(), id="here")
        yield Static(id="pressed")
        yield Static("esc twice or ctrl+c twice quits", id="leave")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self.pressed(event.key, event.character or "")
        else:
            await super().on_event(event)

    @on(Pressed)
    def _pressed(self, event: Pressed) -> None:
        self.pressed(event.key, event.sent)

    def pressed(self, key: str, sent: str) -> None:
        now = monotonic()
        if key in ("escape", "ctrl+c") and self._last[0] == key and now - self._last[1] < TWICE_SECONDS:
            self.exit()
            return
        self._last = (key, now)
        runs = [(f"{place}: ", binding.what) for place, binding in bound_to(key, self._keymap)]
        left = Content.assemble((spell(key), "bold $primary")).pad_right(max(0, KEY_CELLS - len(spell(key))))
        left = Content.assemble(left, (readable(sent).ljust(SENT_CELLS), "$accent"))
        for n, (place, what) in enumerate(runs or [("runs nothing", "")]):
            head = left if n == 0 else " " * (KEY_CELLS + SENT_CELLS)
            self._shown_keys.append(Content.assemble(head, (place, "$quiet"), (what, "$foreground")))
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        shown = self.query_one("#pressed", Static)
        rows = self._shown_keys[-max(1, shown.size.height) :]
        if rows:
            shown.update(Content("\n").join(row.truncate(shown.size.width, ellipsis=True) for row in rows))

    def _here(self) -> Content:
        here = terminals_here(self._environment)
        name = self._environment.get("TERM_PROGRAM") or self._environment.get("TERM", "")
        parts = [("Keys", "bold $primary"), (f"  in {' in '.join(here) or name}\n", "$foreground")]
        missing = [line for terminal in here for line in not_arriving(terminal, self._keymap)]
        if not missing:
            return Content.assemble(*parts, ("Press the keys you want to use.", "$quiet"))
        leader = every_way(KEYS["leader"], self._keymap)
        parts.append(("According to its documentation, some keys do not arrive unless you configure it:\n", "$quiet"))
        for keys, reason in missing:
            parts += [(f"{keys}  ", "bold $foreground"), (f"{reason}\n", "$quiet")]
        instead = f"{leader} and then the letter of an alt key, or the number of an F key, does the same."
        return Content.assemble(*parts, (instead, "$foreground"))


def bound_to(key: str, keymap: Mapping[str, str]) -> list[tuple[str, KeyBinding]]:
    """The bindings that a key runs, each with where it holds."""
    return [(place, binding) for place, keys in GROUPS.items() for binding in keys if key in keys_of(binding, keymap)]


def not_arriving(terminal: str, keymap: Mapping[str, str]) -> list[tuple[str, str]]:
    """The keys that do not arrive from a terminal, together where they have the same reason, and the reason."""
    found: dict[str, list[str]] = {}
    for binding in (binding for keys in GROUPS.values() for binding in keys):
        for key in keys_of(binding, keymap):
            if reason := lost(key, terminal):
                found.setdefault(reason, []).append(spell(key))
    return [(" ".join(dict.fromkeys(keys)), reason.replace("`", "").replace("*", "")) for reason, keys in found.items()]


def run_check(keymap: Mapping[str, str], theme: str) -> int:
    app = KeyCheck(keymap, theme)
    app.run()
    return app.return_code or 0
