"""An app on a terminal: its size, what is written on it, and work that must not hold it up. Knows nothing of a chat."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import RenderableType
from rich.segment import Segment
from textual import events
from textual._compositor import CompositorUpdate, LayoutUpdate
from textual.app import ActionError, App
from textual.color import Color
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Size
from textual.notifications import Notification, Notify
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input, TextArea

from ...errors import UserError
from ..chat.entries import Severity
from ..text.cells import HOSTILE, fit, sanitise
from .closing import ClosingScreen
from .driver import Terminal
from .themes import NoColours

_STEERING = re.compile(f"[{HOSTILE}\t\n]")


def _blank(match: re.Match[str]) -> str:
    """A mark that is as wide as Textual took the character for; most take no cells."""
    return "�" * cell_len(match[0])


def harmless(text: str) -> str:
    """A part of a row without anything that a terminal might obey; as many cells as before."""
    return text if text.isprintable() else _STEERING.sub(_blank, text)


class Harmless(LineFilter):
    """A filter over each row that is drawn, the last one."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(harmless(text), style, control) for text, style, control in segments]


T = TypeVar("T")

LEAST = Size(20, 6)
"""The smallest terminal that the chat is drawn on: header, two lines of text, the input box and the keys."""

SLOW_SECONDS = 0.7
"""Work beside the interface that takes longer says so."""

NOTICE_ROWS = 2
"""Rows of all notices together: they lie over the keys at the bottom and the edge above them."""

NOTICE_EDGE = 4
"""Cells of such a row that are not text's: its line, and a cell at each side."""

RECENT = 10
"""Notices that the help still has."""


class Key(events.Key):
    """A key whose character counts as text unless it steers something. Textual asks `str.isprintable`, which is about Python's
    own `repr`: no space but one, nothing that joins letters or turns their direction, nothing that Unicode added lately."""

    @property
    def is_printable(self) -> bool:
        """Whether its character is typed. A letter with alt is none: it is bound to something, or to nothing."""
        if self.character is None or "alt+" in self.key:
            return False
        return not any(unicodedata.category(each) in ("Cc", "Cs") for each in self.character)

    def copy(self) -> Key:
        return Key(self.key, self.character)


class TerminalApp(App[None]):
    """A Textual app for terminals of every size, which writes nothing on them that could do harm."""

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        self.terminal_size = LEAST
        """The size of the terminal itself; `size` is what the screens are laid out for."""
        # Textual's own filters paint greys, and the terminal's default colours over them; an empty NO_COLOR asks for nothing.
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self._filters = [each for each in self._filters if not isinstance(each, Monochrome | NoColor)]
        if self.no_color:
            self._filters.append(NoColours(self))
        self._harmless = Harmless()
        self._early: list[events.Event] | None = []
        """What was typed before the first frame, when nothing had the focus; None from then on."""
        self._told: list[tuple[Notification, Callable[[], bool]]] = []
        self.recent: deque[Notification] = deque(maxlen=RECENT)
        """The last notices, with their full text."""

    async def on_event(self, event: events.Event) -> None:
        """Make keys of ours of all keys. No screen is laid out for less than the least size."""
        if isinstance(event, events.Key) and not isinstance(event, Key) and not event.is_forwarded:
            event = Key(event.key, event.character)
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
            return
        if isinstance(event, events.MouseDown) and self._has_gone(event):
            return
        if isinstance(event, events.Resize):
            if not (fits(self.terminal_size) and fits(event.size)):
                self.refresh(layout=True)
            self.terminal_size = event.size
            size = Size(max(event.size.width, LEAST.width), max(event.size.height, LEAST.height))
            event = events.Resize(size, size, size, event.pixel_size)
        await super().on_event(event)

    def _has_gone(self, event: events.MouseDown) -> bool:
        """Whether what was clicked on has been removed since it was drawn; Textual asks it for its parent all the same."""
        widget, _ = self.screen.get_widget_and_offset_at(event.x, event.y)
        return widget is not None and widget is not self.screen and widget.parent is None

    async def on_ready(self) -> None:
        """Take in what was typed meanwhile, in its order."""
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)

    async def run_action(
        self, action: Any, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> bool:
        """Run an action. The key before may have closed what had the focus: then one of the focused widget's is not handled."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except ActionError:
            if self.focused is not None:
                raise
            return False

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return Terminal if found is LinuxDriver else found

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._harmless]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write what changed on the screen; a terminal that is too small for it says so instead, and the chat goes on."""
        if isinstance(renderable, CompositorUpdate) and not fits(self.terminal_size):
            renderable = refusal(self.terminal_size)
        # Where the caret is, input methods show what they offer. It moves with the layout too, of which the box knows nothing.
        focused = self.focused
        row = self.screen.chosen_row if isinstance(self.screen, ClosingScreen) else None
        if row is not None:  # screen readers tell the line that the cursor is on
            self.cursor_position = row
        elif isinstance(focused, Input | TextArea):
            self.cursor_position = focused.cursor_screen_offset
        super()._display(screen, renderable)

    @property
    def write_seconds(self) -> float:
        """How long the terminal took for the last write; infinite while it is at one."""
        return self._driver.write_seconds if isinstance(self._driver, Terminal) else 0.0

    def tell(self, text: str, severity: Severity = "information", until: Callable[[], bool] | None = None) -> None:
        """Say something over the keys at the bottom, where nobody reads, for some seconds. It takes the place of what is
        not urgent, and of the same said before.

        Args:
            text: one sentence or two.
            severity: colours it.
            until: it goes once this is true: its cause is gone.
        """
        seconds = 4 if severity == "information" else 6
        whole = Notification(sanitise(text), severity=severity, timeout=seconds, markup=False)
        note = replace(whole, message=self.cut(whole.message))
        for said in [said for said in self._notifications if said.severity == "information" or said.message == note.message]:
            self._unnotify(said, refresh=False)
        self.recent.append(whole)
        if until is not None:
            self._told.append((note, until))
        self.post_message(Notify(note))

    def on_notify(self, event: Notify) -> None:
        """Older notices give way where all of them have no room. Textual then adds the new one."""
        room = NOTICE_ROWS - len(self._notice_rows(event.notification.message))
        for said in reversed(list(self._notifications)):
            room -= len(self._notice_rows(said.message))
            if room < 0:
                self._unnotify(said, refresh=False)

    def untell(self) -> None:
        """Take away what was said of something that is over."""
        for told in [told for told in self._told if told[1]()]:
            self._told.remove(told)
            if told[0] in self._notifications:
                self._unnotify(told[0])

    @property
    def more(self) -> str:
        """Says how to read a notice that is cut."""
        return ""

    def cut(self, text: str) -> str:
        """A notice in no more than the rows that it may have."""
        lines = self._notice_rows(text)
        if len(lines) <= NOTICE_ROWS:
            return text
        more = f" {self.more}" if self.more else ""
        last = fit(" ".join(lines[NOTICE_ROWS - 1 :]), self._notice_cells - len(more))
        return "\n".join((*lines[: NOTICE_ROWS - 1], last + more))

    def _notice_rows(self, text: str) -> list[str]:
        return [part for line in text.splitlines() for part in wrap(line, self._notice_cells)]

    @property
    def _notice_cells(self) -> int:
        return max(20, self.size.width - NOTICE_EDGE)

    def unread(self) -> Notification | None:
        """The last notice, if it is cut and still on the screen; it goes: it is about to be read in full."""
        shown = {note.identity: note for note in self._notifications}
        last = self.recent[-1] if self.recent else None
        note = shown.get(last.identity) if last is not None else None
        if last is None or note is None or note.message == last.message:
            return None
        self._unnotify(note)
        return last

    def beside(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        slow: str = "",
        failed: Callable[[UserError], object] = lambda _: None,
    ) -> None:
        """Work in a thread, which ends its work even if the app is left; then tell.

        Args:
            work: a UserError of it is told.
            done: called with its result, in the app's own thread.
            slow: what to say where it takes a while.
            failed: called with the UserError.
        """

        async def run() -> None:
            over = threading.Event()
            timer = self.set_timer(SLOW_SECONDS, lambda: self.tell(slow, until=over.is_set)) if slow else None
            try:
                done(await asyncio.to_thread(work))
            except UserError as error:
                self.tell(str(error), "error")
                failed(error)
            finally:
                over.set()
                self.untell()
                if timer is not None:
                    timer.stop()

        self.run_worker(run(), group="beside")

    def ask(self, screen: Screen[T], then: Callable[[T], object] | None = None) -> None:
        """Show a screen; `then` is told what it was closed with, unless it was left."""

        def closed(answer: T | None) -> None:
            if then is not None and answer is not None:
                then(answer)

        self.push_screen(screen, closed)


def fits(terminal: Size) -> bool:
    return terminal.width >= LEAST.width and terminal.height >= LEAST.height


def refusal(terminal: Size) -> LayoutUpdate:
    """A screen that says that the terminal is too small: as much of the sentence as fits."""
    said = wrap(f"Too small: specchat needs {LEAST.width}×{LEAST.height}.", max(1, terminal.width))
    lines = [*said, *[""] * terminal.height][: terminal.height]
    return LayoutUpdate([[Strip([Segment(line.ljust(terminal.width))])] for line in lines], terminal.region)
