"""An editor for a text: a system prompt, a title, the value of a setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input, Static

from ....errors import UserError
from ...settings.keymap import HELP, TEXT, shown_keys
from ...text.cells import sanitise
from ..composer.text_box import TextBox
from ..keys import Hint, bindings_of, hints
from .framed import FramedScreen


class TextScreen(FramedScreen[None]):
    """An editor for a text of several lines, or of one.

    Args:
        about: a line on the text's purpose.
        keep: saves the text. After a UserError the editor stays open and shows it.
        one_line: enter saves, in place of a line break.
    """

    DEFAULT_CSS = """
    TextScreen {
        & > Frame { width: 92; height: 70%; min-height: 12; padding: 1 1 0 1; }
        &.-one-line > Frame { height: auto; min-height: 0; }
        & TextBox { height: 1fr; padding: 0 1; background: $surface; }
        & #text-about { height: auto; max-height: 3; padding: 1 1 0 1; color: $quiet; }
        & #text-about.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "#text"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*TEXT, HELP), after_box=("text_keep",))

    def __init__(
        self,
        title: str,
        text: str,
        about: str,
        keymap: Mapping[str, str],
        keep: Callable[[str], object],
        *,
        one_line: bool = False,
    ) -> None:
        super().__init__(title, keymap, classes="-one-line" if one_line else "")
        self._about = about
        self._text = sanitise(text)  # a chat from elsewhere may have any
        self._keep = keep
        self._warned = False
        self.box: Input | TextBox
        if one_line:
            self.box = Input(self._text, select_on_focus=False, placeholder="Nothing yet", compact=True, id="text")
            self.box.cursor_blink = False
        else:
            self.box = TextBox(self._text, tab_behavior="indent", placeholder="Nothing yet", id="text")

    def compose(self) -> ComposeResult:
        with self.frame:
            yield self.box
            yield Static(Content(self._about), id="text-about")

    def on_mount(self) -> None:
        if isinstance(self.box, TextBox):
            self.box.move_cursor(self.box.document.end)

    def hints(self) -> tuple[Hint, ...]:
        return (Hint((), "save", "enter"),) if isinstance(self.box, Input) else hints(("text_keep", ""))

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("text_leave", ""), ("help", ""))

    @property
    def text(self) -> str:
        return self.box.value if isinstance(self.box, Input) else self.box.text

    def _warn(self, warning: str) -> None:
        self._warned = bool(warning)
        about = self.query_one("#text-about", Static)
        about.set_class(self._warned, "-wrong")
        about.update(Content(warning or self._about))

    @on(TextBox.Changed)
    @on(Input.Changed)
    def _changed(self) -> None:
        """Remove the warning, which was about another text."""
        if self._warned:
            self._warn("")

    @on(Input.Submitted)
    def action_keep(self) -> None:
        try:
            self._keep(self.text)
        except UserError as error:
            self._warn(str(error))
        else:
            self.dismiss(None)

    def action_leave(self) -> None:
        """Close without saving; a changed text takes a second press."""
        if self.text == self._text or self._warned:
            self.dismiss(None)
            return
        keep = "enter" if isinstance(self.box, Input) else shown_keys("text_keep", self._keymap)
        self._warn(f"Not saved yet. {keep} saves it, {shown_keys('text_leave', self._keymap)} again discards it.")
