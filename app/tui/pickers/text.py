"""A text of several lines, written in a screen of its own: a system prompt, a preset's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from ....errors import UserError
from ...settings.keymap import HELP, TEXT, shown_keys
from ...text.cells import sanitise
from ..bindings import bindings_of


class TextScreen(ModalScreen[str | None]):
    """Asks for a text; answers with it, None if it is left as it was.

    Args:
        title: what is written.
        text: as it is.
        about: a line on what it is for.
        keymap: binding id → keys, where not the default.
        check: raises a `UserError` for a text that cannot be kept.
    """

    DEFAULT_CSS = """
    TextScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 92; max-width: 96%; height: 70%; min-height: 12; max-height: 94%;
            background: $surface; border: round $border; padding: 1 1 0 1;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & TextArea {
            height: 1fr; border: none; padding: 0 1; background: $surface; color: $foreground; scrollbar-size-vertical: 1;
            &:focus { border: none; }
            & .text-area--cursor-line { background: $surface; }
            & .text-area--placeholder { color: $faint; }
            &:light .text-area--cursor { color: $input-cursor-foreground; background: $input-cursor-background; }
        }
        & #text-about { height: auto; max-height: 3; padding: 1 1 0 1; color: $quiet; }
        & #text-about.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "TextArea"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*TEXT, HELP), after_box=("text_keep",))

    def __init__(
        self, title: str, text: str, about: str, keymap: Mapping[str, str], check: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        self._keep_key, self._leave_key = shown_keys("text_keep", keymap), shown_keys("text_leave", keymap)
        self._title, self._about, self._check = title, about, check
        self._text = sanitise(text)  # of a chat that came from elsewhere it may be anything
        self._warned = False

    def compose(self) -> ComposeResult:
        """A box to write in, and a line about it."""
        with Vertical() as frame:
            frame.border_title = Content(self._title)
            # The tab key leads nowhere here, so it may as well be what it is in a text.
            area = TextArea(
                self._text, soft_wrap=True, show_line_numbers=False, tab_behavior="indent", placeholder="Nothing yet"
            )
            area.highlight_cursor_line = False
            area.cursor_blink = False
            yield area
            yield Static(Content(self._about), id="text-about")

    def on_mount(self) -> None:
        """The cursor goes to the end."""
        self.query_one(Vertical).border_subtitle = f"{self._keep_key} save · {self._leave_key} cancel"
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)

    @property
    def text(self) -> str:
        """What is written there now."""
        return self.query_one(TextArea).text

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
        """Answer with the text, if it can be kept."""
        try:
            if self._check is not None:
                self._check(self.text)
        except UserError as error:
            self._say(str(error))
            return
        self.dismiss(self.text)

    def action_leave(self) -> None:
        """Leave it as it was; what was written goes only at the second press."""
        if self.text == self._text or self._warned:
            self.dismiss(None)
            return
        self._warned = True
        self._say(f"Not saved yet. {self._keep_key} saves it, {self._leave_key} again discards it.")
