"""A frame in the middle of the screen, over what is dimmed."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.screen import ModalScreen

Result = TypeVar("Result")


class Framed(ModalScreen[Result]):
    """A screen of one frame; a click outside closes it with None."""

    DEFAULT_CSS = """
    Framed {
        align: center middle;
        background: $background 60%;
        & > Vertical {
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

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)
