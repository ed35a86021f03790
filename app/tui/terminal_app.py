"""An app on a terminal: its size, what is written on it, and work that must not hold it up. Knows nothing of a chat."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rich.console import RenderableType
from textual import events
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.notifications import Notification, Notify
from textual.screen import Screen

from ...errors import UserError
from ..terminal.clipboard import osc52
from ..text.cells import sanitise
from .driver import Terminal
from .garbage import Sweeper
from .harmless import Harmless
from .host import Severity
from .too_small import LEAST, fits, laid_out, refusal

T = TypeVar("T")

SLOW_SECONDS = 0.7
"""Work beside the interface that takes longer says so."""


class TerminalApp(App[None]):
    """Draws on terminals of every size, and writes nothing on them that could do harm."""

    def __init__(self) -> None:
        super().__init__()
        self.animation_level = "none"
        self.terminal_size = LEAST
        """Of the terminal itself; `size` is what the screens are laid out for."""
        self.sweeper = Sweeper()
        self._harmless = Harmless()
        self._told: list[tuple[Notification, Callable[[], bool]]] = []

    async def on_event(self, event: events.Event) -> None:
        """Note each key press on its way. No screen is laid out for less than the least size."""
        if isinstance(event, events.Key):
            self.sweeper.key()
        elif isinstance(event, events.Resize):
            if not (fits(self.terminal_size) and fits(event.size)):
                self.refresh(layout=True)
            self.terminal_size, size = event.size, laid_out(event.size)
            event = events.Resize(size, size, size, event.pixel_size)
        await super().on_event(event)

    def get_driver_class(self) -> type[Driver]:
        """Ours, unless the environment names another."""
        found = super().get_driver_class()
        return Terminal if found is LinuxDriver else found

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What each row goes through before it is written."""
        return [*super().get_line_filters(), self._harmless]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Write what changed on the screen; a terminal that is too small for it says so instead, and the chat goes on."""
        if isinstance(renderable, CompositorUpdate) and not fits(self.terminal_size):
            renderable = refusal(self.terminal_size)
        super()._display(screen, renderable)

    def tell(self, text: str, severity: Severity = "information", until: Callable[[], bool] | None = None) -> None:
        """Say something over the keys at the bottom, where nobody reads, for some seconds. It takes the place of what is
        neither urgent nor tied to a cause.

        Args:
            text: one sentence or two.
            severity: colours it.
            until: it goes once this is true: its cause is gone.
        """
        lasting = [note for note, _ in self._told]
        for said in [said for said in self._notifications if said.severity == "information" and said not in lasting]:
            self._unnotify(said, refresh=False)
        seconds = 4 if severity == "information" else 6
        note = Notification(sanitise(text), severity=severity, timeout=seconds, markup=False)
        if until is not None:
            self._told.append((note, until))
        self.post_message(Notify(note))

    def untell(self) -> None:
        """Take away what was said of something that is over."""
        for told in [told for told in self._told if told[1]()]:
            self._told.remove(told)
            if told[0] in self._notifications:
                self._unnotify(told[0])

    def beside(self, work: Callable[[], T], done: Callable[[T], None], slow: str = "") -> None:
        """Work in a thread, which ends its work even if the app is left; then tell.

        Args:
            work: a UserError of it is told.
            done: called with its result, in the app's own thread.
            slow: what to say where it takes a while.
        """

        async def run() -> None:
            over = threading.Event()
            timer = self.set_timer(SLOW_SECONDS, lambda: self.tell(slow, until=over.is_set)) if slow else None
            try:
                done(await asyncio.to_thread(work))
            except UserError as error:
                self.tell(str(error), "error")
            finally:
                over.set()
                self.untell()
                if timer is not None:
                    timer.stop()

        self.run_worker(run(), group="beside")

    def copy_to_clipboard(self, text: str) -> None:
        """Ask the terminal to copy, through tmux and screen too."""
        self.keep_copied(text, send=True)

    def keep_copied(self, text: str, send: bool) -> None:
        """Note what was copied, for pasting here; `send` asks the terminal to copy it."""
        self._clipboard = text
        if send and self._driver is not None:
            self._driver.write(osc52(text))
