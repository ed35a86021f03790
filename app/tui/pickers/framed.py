"""A frame in the middle of the screen, over what is dimmed. Its edge has the keys that count; the help has all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual import events
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ...text.cells import width
from ..closing import ClosingScreen, Result
from ..keys.context import Hint, KeyContext, shown

CORNERS = 6
"""Cells of an edge that are not its text's: at each end a corner, a line and a blank."""


class Frame(Vertical):
    """The frame of such a screen."""

    def on_resize(self) -> None:
        if isinstance(self.screen, FramedScreen):
            self.screen.show_keys()


class FramedScreen(ClosingScreen[Result], ModalScreen[Result]):
    """A screen of one frame; a click outside closes it with None.

    A subclass puts its widgets into `frame` and names its keys: those that count (`hints`), how to leave and the key for help
    (`ways_out`), and those that everybody guesses (`moves`). The edge of the frame and the help are both made of these.
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
        self._heading, self._keymap = title, keymap
        self.frame = Frame()
        self.frame.border_title = Content(title)

    def on_mount(self) -> None:
        """Cover what is typed into below, and notices: this screen shows them too."""
        for screen in self.app.screen_stack:
            screen.set_class(screen is not self, "-covered")

    def on_unmount(self) -> None:
        """Show it again, if no other frame is over it."""
        framed = False
        for screen in reversed([screen for screen in self.app.screen_stack if screen is not self]):
            screen.set_class(framed, "-covered")
            # What is hidden lost the focus, and could not take it back before.
            lost = not framed and screen.focused is None and screen.AUTO_FOCUS
            for box in screen.query(screen.AUTO_FOCUS) if lost and screen.AUTO_FOCUS else ():
                screen.call_after_refresh(box.focus)
            framed = framed or isinstance(screen, FramedScreen)

    def room(self, width: int, around: int) -> int:
        """Cells of a line in a frame of `width`, or of most of the screen where that is narrower, less those around it."""
        return max(20, min(width, self.app.size.width * 94 // 100) - around)

    def hints(self) -> Iterable[Hint]:
        """The keys that count now, the most telling first."""
        raise NotImplementedError

    def ways_out(self) -> tuple[Hint, ...]:
        """How to leave, and the key for help."""
        raise NotImplementedError

    def moves(self) -> Iterable[Hint]:
        """Keys that only the help has."""
        return ()

    @property
    def key_context(self) -> KeyContext:
        return KeyContext(self._heading, (*self.hints(), *self.ways_out(), *self.moves()), self)

    def show_keys(self) -> None:
        """Write on the edge as many keys as it has room for; the ways out always."""

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

    def close(self) -> None:
        """Close with None, for a click outside."""
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.close()
