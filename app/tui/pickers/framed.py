"""A frame in the middle of a dimmed screen. Its edge shows the keys that matter; the help has all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual import events, on
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen

from ...text.cells import width
from ..keys import Hint, KeyContext, hints, shown
from ..terminal_app import ClosingScreen, Result

CORNERS = 6
"""Cells of an edge besides its text: at each end a corner, a line and a blank."""


class Frame(Vertical):
    """The frame of a screen."""

    class Resized(Message):
        """The frame has another size."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())


class FramedScreen(ClosingScreen[Result], ModalScreen[Result]):
    """A screen of one frame; a click outside closes it with None.

    A subclass fills `frame` and lists its keys: those that matter (`hints`), those that close and the one for help
    (`ways_out`).
    """

    DEFAULT_CSS = """
    FramedScreen {
        align: center middle;
        background: $background 60%;
        & > Frame {
            max-width: 96%; height: auto; max-height: 94%;
            background: $surface; border: round $border; padding: 1 2;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & OptionList {
            height: auto; max-height: 100%; background: $surface; border: none; padding: 0; scrollbar-size-vertical: 1;
            &:focus { border: none; background-tint: $surface 0%; }
            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-highlighted { color: $foreground; background: $block-cursor-background; text-style: none; }
            &:focus > .option-list--option-highlighted { color: $foreground; text-style: none; }
        }
    }
    """

    def __init__(self, title: str, keymap: Mapping[str, str], *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._heading = title
        self._keymap = keymap
        self.frame = Frame()
        self.frame.border_title = Content(title)

    def on_mount(self) -> None:
        """Hide input boxes and notices below; notices appear here as well."""
        for screen in self.app.screen_stack:
            screen.set_class(screen is not self, "-covered")

    def on_unmount(self) -> None:
        """Show them again, except below another frame."""
        framed = False
        for screen in reversed([screen for screen in self.app.screen_stack if screen is not self]):
            screen.set_class(framed, "-covered")
            # A hidden box has lost the focus.
            if not framed and screen.focused is None and screen.AUTO_FOCUS:
                for box in screen.query(screen.AUTO_FOCUS):
                    screen.call_after_refresh(box.focus)
            framed = framed or isinstance(screen, FramedScreen)

    def room(self, width: int, around: int) -> int:
        """Cells for a line in a frame of `width`, limited by the screen, minus the cells around it."""
        return max(20, min(width, self.app.size.width * 94 // 100) - around)

    def hints(self) -> Iterable[Hint]:
        """List the keys that matter now, the most useful first."""
        raise NotImplementedError

    def ways_out(self) -> tuple[Hint, ...]:
        """List the keys that close, and the one for help."""
        return hints(("menu_leave", ""), ("menu_help", ""))

    @property
    def key_context(self) -> KeyContext:
        return KeyContext(self._heading, (*self.hints(), *self.ways_out()), self)

    @on(Frame.Resized)
    def show_keys(self) -> None:
        """Show as many keys on the edge as fit, and always the ways out."""

        def text(hint: Hint) -> str:
            return f"{shown(hint, self._keymap)} {hint.label}"

        room = self.frame.outer_size.width - CORNERS
        last = " · ".join(map(text, self.ways_out()))
        line = ""
        for hint in self.hints():
            longer = f"{line}{text(hint)} · "
            if width(longer + last) > room:
                break
            line = longer
        self.frame.border_subtitle = Content(line + last)

    def action_leave(self) -> None:
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_leave()
