"""An editor for a text of several lines: a system prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from ...settings.keymap import HELP, TEXT, shown_keys
from ...text.cells import sanitise
from ..composer.text_box import TextBox
from ..keys.context import Hint, bindings_of, hints
from .framed import FramedScreen

TYPING = (
    Hint((), "move the cursor", "←→↑↓"),
    Hint((), "beginning and end of the line", "home/end"),
    Hint((), "undo", "^z"),
    Hint((), "redo", "^y"),
    Hint((), "cut the selection, or the line", "^x"),
    Hint((), "paste", "^v"),
    Hint((), "indent", "tab"),
)
"""Keys of Textual's text area."""


class TextScreen(FramedScreen[str]):
    """An editor for a text of several lines; answers with the text once it is saved.

    Args:
        about: a line on the text's purpose.
    """

    DEFAULT_CSS = """
    TextScreen {
        & > Frame { width: 92; height: 70%; min-height: 12; padding: 1 1 0 1; }
        & TextBox { height: 1fr; padding: 0 1; background: $surface; }
        & #text-about { height: auto; max-height: 3; padding: 1 1 0 1; color: $quiet; }
        & #text-about.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "TextBox"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*TEXT, HELP), after_box=("text_keep",))

    def __init__(self, title: str, text: str, about: str, keymap: Mapping[str, str]) -> None:
        super().__init__(title, keymap)
        self._about = about
        self._text = sanitise(text)  # a chat from elsewhere may have any
        self._warned = False

    def compose(self) -> ComposeResult:
        with self.frame:
            yield TextBox(self._text, tab_behavior="indent", placeholder="Nothing yet")
            yield Static(Content(self._about), id="text-about")

    def on_mount(self) -> None:
        area = self.query_one(TextBox)
        area.move_cursor(area.document.end)

    def hints(self) -> tuple[Hint, ...]:
        return hints(("text_keep", ""))

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("text_leave", ""), ("help", ""))

    def moves(self) -> Iterator[Hint]:
        yield from TYPING

    @property
    def text(self) -> str:
        return self.query_one(TextBox).text

    def _show_warning(self, warning: str) -> None:
        self._warned = bool(warning)
        about = self.query_one("#text-about", Static)
        about.set_class(self._warned, "-wrong")
        about.update(Content(warning or self._about))

    def on_text_area_changed(self) -> None:
        """Remove the warning, which was about another text."""
        if self._warned:
            self._show_warning("")

    def action_keep(self) -> None:
        self.dismiss(self.text)

    def close(self) -> None:
        self.action_leave()

    def action_leave(self) -> None:
        """Close without saving; a changed text takes a second press."""
        if self.text == self._text or self._warned:
            self.dismiss(None)
            return
        keep, leave = shown_keys("text_keep", self._keymap), shown_keys("text_leave", self._keymap)
        self._show_warning(f"Not saved yet. {keep} saves it, {leave} again discards it.")
