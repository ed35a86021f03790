"""A text of several lines, written in a screen of its own: a system prompt."""

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
"""What Textual's text area does with these keys."""


class TextScreen(FramedScreen[str]):
    """An editor for a text of several lines; answers with it, None if it is left as it was.

    Args:
        title: what is written.
        text: as it is.
        about: a line on what it is for.
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
        self._keep_key, self._leave_key = shown_keys("text_keep", keymap), shown_keys("text_leave", keymap)
        self._about = about
        self._text = sanitise(text)  # of a chat that came from elsewhere it may be anything
        self._warned = False

    def compose(self) -> ComposeResult:
        with self.frame:
            # The tab key leads nowhere here, so it may as well be what it is in a text.
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

    def _say(self, text: str) -> None:
        about = self.query_one("#text-about", Static)
        about.set_class(True, "-wrong")
        about.update(Content(text))

    def on_text_area_changed(self) -> None:
        """What was said of an earlier text says nothing of this one."""
        if self._warned or self.query_one("#text-about").has_class("-wrong"):
            self._warned = False
            about = self.query_one("#text-about", Static)
            about.set_class(False, "-wrong")
            about.update(Content(self._about))

    def action_keep(self) -> None:
        self.dismiss(self.text)

    def close(self) -> None:
        """A click beside it is no reason to lose what was written."""
        self.action_leave()

    def action_leave(self) -> None:
        """Leave it as it was; what was written goes only at the second press."""
        if self.text == self._text or self._warned:
            self.dismiss(None)
            return
        self._warned = True
        self._say(f"Not saved yet. {self._keep_key} saves it, {self._leave_key} again discards it.")
