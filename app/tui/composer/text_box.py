"""A text area that moves by visible characters, however many code points they have."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.widgets import TextArea
from textual.widgets.text_area import Location

from ...text.cells import graphemes


def next_stop(text: str, at: int, step: int) -> int:
    """Move an offset in a line over one visible character, to the right (1) or left (−1)."""
    if step > 0:
        return next((end for _, end in graphemes(text) if end > at), len(text))
    return max((start for start, _ in graphemes(text) if start < at), default=0)


class TextBox(TextArea):
    """Textual's text area; left, right and backspace take whole characters."""

    DEFAULT_CSS = """
    TextBox {
        border: none; color: $foreground; scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & .text-area--cursor-line { background: transparent; }
        & .text-area--placeholder { color: $faint; }
        &:light .text-area--cursor { color: $input-cursor-foreground; background: $input-cursor-background; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("alt+d", "delete_word_right", "Delete the word to the right", show=False)]

    def __init__(
        self, text: str = "", *, tab_behavior: Literal["focus", "indent"], placeholder: str, id: str | None = None
    ) -> None:
        super().__init__(text, tab_behavior=tab_behavior, placeholder=placeholder, highlight_cursor_line=False, id=id)
        self.cursor_blink = False  # it would repaint the screen twice a second

    def get_cursor_left_location(self) -> Location:
        row, column = self.cursor_location
        return (row, next_stop(self.document.get_line(row), column, -1)) if column else super().get_cursor_left_location()

    def get_cursor_right_location(self) -> Location:
        row, column = self.cursor_location
        line = self.document.get_line(row)
        return (row, next_stop(line, column, 1)) if column < len(line) else super().get_cursor_right_location()
