"""A Textual app for any terminal: sizes, screens, safe output, notices, and work in threads. Independent of the chat."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from rich.cells import cell_len
from rich.console import RenderableType
from rich.segment import Segment
from textual import events
from textual.app import ActionError, App
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Size
from textual.notifications import Notification, Notify
from textual.screen import Screen
from textual.widgets import Input, TextArea

from ...errors import UserError
from ..chat.entries import Severity
from ..text.cells import HOSTILE, sanitise
from .driver import Terminal
from .textual_compat import notices_of, remove_notice
from .themes import NoColours

_CONTROLS = re.compile(f"[{HOSTILE}\t\n]")


def harmless(text: str) -> str:
    """Replace characters that a terminal might obey by marks of the width that Textual assumed; most take no cells."""
    return text if text.isprintable() else _CONTROLS.sub(lambda match: "�" * cell_len(match[0]), text)


class Harmless(LineFilter):
    """The last filter of drawn rows, which removes control characters."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(harmless(text), style, control) for text, style, control in segments]


T = TypeVar("T")
Result = TypeVar("Result")

LEAST = Size(20, 6)
"""Smallest size that screens are laid out for: header, two lines of text, the input box and the keys."""

SLOW_SECONDS = 0.7
"""Seconds before work in a thread shows a notice."""

RECENT = 10
"""Notices kept for the help."""


class Key(events.Key):
    """A key whose character is text unless it is a control. Textual asks `str.isprintable`, which is about `repr`: it refuses
    all spaces but one, joiners, marks of direction, and recent additions to Unicode."""

    @property
    def is_printable(self) -> bool:
        """Whether the key types its character; with alt it never does."""
        if self.character is None or "alt+" in self.key:
            return False
        return not any(unicodedata.category(character) in ("Cc", "Cs") for character in self.character)

    def copy(self) -> Key:
        return Key(self.key, self.character)


class ClosingScreen(Screen[Result]):
    """A screen that closes once; keys pressed after the one that closed it go to the screen below.

    Textual queues events: keys pressed before the screen left the stack still reach it, and a second `dismiss` would close
    the screen below, or end the app.
    """

    @property
    def closed(self) -> bool:
        """Whether the screen has left the stack."""
        return self not in self.app.screen_stack

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with an answer, and close the screens above; do nothing once it is closed."""
        if self.closed:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.screen.dismiss(None)
        return super().dismiss(result)

    async def on_event(self, event: events.Event) -> None:
        if not (isinstance(event, events.InputEvent | events.Paste) and self.closed):
            await super().on_event(event)
        elif isinstance(event, events.Key):
            self.app.post_message(type(event)(event.key, event.character))
        elif isinstance(event, events.Paste):
            self.app.post_message(events.Paste(event.text))


class TerminalApp(App[None]):
    """A Textual app for terminals of every size, without harmful output."""

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        # Textual's filters paint greys, and the terminal's default colours over them. An empty NO_COLOR counts as unset.
        self.no_color = bool(os.environ.get("NO_COLOR"))
        self._filters = [line_filter for line_filter in self._filters if not isinstance(line_filter, Monochrome | NoColor)]
        if self.no_color:
            self._filters.append(NoColours(self))
        self._harmless = Harmless()
        self._early: list[events.Event] | None = []
        """Keys and pastes before the first frame, when nothing has the focus; None afterwards."""
        self._conditional: list[tuple[Notification, Callable[[], bool]]] = []
        self.recent: deque[Notification] = deque(maxlen=RECENT)
        """Last notices, with their full text."""

    async def on_event(self, event: events.Event) -> None:
        """Convert keys to our class, and sizes to at least LEAST."""
        if isinstance(event, events.Key) and not isinstance(event, Key) and not event.is_forwarded:
            event = Key(event.key, event.character)
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
            return
        if isinstance(event, events.MouseDown):
            # Textual asks a widget for its parent, even if it has been removed since it was drawn.
            widget, _ = self.screen.get_widget_and_offset_at(event.x, event.y)
            if widget is not None and widget is not self.screen and widget.parent is None:
                return
        if isinstance(event, events.Resize):
            size = Size(max(event.size.width, LEAST.width), max(event.size.height, LEAST.height))
            event = events.Resize(size, size, size, event.pixel_size)
        await super().on_event(event)

    async def on_ready(self) -> None:
        """Handle early keys in their order."""
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)

    async def run_action(
        self, action: Any, default_namespace: DOMNode | None = None, namespaces: Mapping[str, DOMNode] | None = None
    ) -> bool:
        """Run an action; ignore one of the focused widget if the key before has closed that widget."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except ActionError:
            if self.focused is not None:
                raise
            return False

    def get_driver_class(self) -> type[Driver]:
        driver = super().get_driver_class()
        return Terminal if driver is LinuxDriver else driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._harmless]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Draw a screen. Input methods go by the terminal's cursor, which moves with the layout too."""
        if isinstance(self.focused, Input | TextArea):
            self.cursor_position = self.focused.cursor_screen_offset
        super()._display(screen, renderable)

    @property
    def write_seconds(self) -> float:
        """Duration of the terminal's last write; infinite during one."""
        return self._driver.write_seconds if isinstance(self._driver, Terminal) else 0.0

    def tell(self, text: str, severity: Severity = "information", until: Callable[[], bool] | None = None) -> None:
        """Show a notice above the bar of keys for a few seconds, next to the last warning at most.

        Args:
            text: a sentence or two.
            severity: colours the notice.
            until: removes the notice early, once it is true.
        """
        seconds = 4 if severity == "information" else 8
        notice = Notification(sanitise(text), severity=severity, timeout=seconds, markup=False)
        self.recent.append(notice)
        if until is not None:
            self._conditional.append((notice, until))
        self.post_message(Notify(notice))

    def on_notify(self, event: Notify) -> None:
        """Remove all notices but the last warning; Textual then adds the new one."""
        message = event.notification.message
        warnings = [old for old in notices_of(self) if old.severity != "information" and old.message != message]
        for old in notices_of(self):
            if old not in warnings[-1:]:
                remove_notice(self, old, refresh=False)

    def clear_settled_notices(self) -> None:
        """Remove notices whose condition holds."""
        for notice, settled in list(self._conditional):
            if settled():
                self._conditional.remove((notice, settled))
                if notice in notices_of(self):
                    remove_notice(self, notice)

    def in_background(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        slow: str = "",
        failed: Callable[[UserError], object] = lambda _: None,
    ) -> None:
        """Call a function in a thread, which completes even if the app ends first.

        Args:
            work: the function; a UserError becomes a notice.
            done: called with its result, in the app's thread.
            slow: notice to show after SLOW_SECONDS.
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
                self.clear_settled_notices()
                if timer is not None:
                    timer.stop()

        self.run_worker(run(), group="background")

    def ask(self, screen: Screen[T], then: Callable[[T], object] | None = None) -> None:
        """Show a screen; `then` gets its answer, if there is one."""

        def close(answer: T | None) -> None:
            if then is not None and answer is not None:
                then(answer)

        self.push_screen(screen, close)
