"""What was sent before, found as you type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...history.prompts import found
from ...settings.keymap import PROMPTS
from ...text.cells import fit, one_line, sanitise

PREVIEW_ROWS = 3
"""Lines of the chosen message below the list."""

AROUND = 11
"""Rows that are not the list's: frame, padding, search box, preview."""


class PromptSearch(ModalScreen[str | None]):
    """Ask for one of the messages sent before; answers with its text, None if none was chosen.

    Args:
        history: the messages, oldest first.
        query: what to search for to begin with.
    """

    DEFAULT_CSS = """
    PromptSearch {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 84; max-width: 96%; height: auto; max-height: 94%;
            background: $surface; border: round $border; padding: 1 2;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #prompts-search { height: 1; margin-bottom: 1; }
        & #prompts-glyph { width: auto; color: $accent; text-style: bold; }
        & #prompts-input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & OptionList {
            height: auto; background: $surface; border: none; padding: 0; scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0; }
            & > .option-list--option-highlighted { color: $foreground; background: $block-cursor-background; text-style: none; }
        }
        & #prompts-preview { height: 4; padding: 1 0 0 2; color: $quiet; }
    }
    """
    AUTO_FOCUS = "#prompts-input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # What is typed fast goes through the box first: this key must not overtake it.
        Binding(key.keys, key.action, key.what, show=False, priority=key.id != "prompts_take", id=key.id, tooltip=key.what)
        for key in PROMPTS
    ]

    def __init__(self, history: Sequence[str], query: str = "") -> None:
        super().__init__()
        self._history, self._query = history, query
        self._shown: list[str] = []

    def compose(self) -> ComposeResult:
        """A box to search in, the messages, the beginning of the one under the cursor."""
        with Vertical() as frame:
            frame.border_title = "Sent before"
            frame.border_subtitle = "↑↓ choose · enter takes · esc"
            with Horizontal(id="prompts-search"):
                yield Static("› ", id="prompts-glyph")
                box = Input(self._query, placeholder="Search in what you sent", id="prompts-input", select_on_focus=True)
                box.cursor_blink = False  # a blinking one would repaint the screen twice a second for nothing
                yield box
            choices = OptionList()
            choices.can_focus = False
            yield choices
            yield Static(id="prompts-preview")

    def on_mount(self) -> None:
        """Show what there is."""
        self._look()

    def on_resize(self) -> None:
        """Keep to the screen."""
        # As high for few as for many, or it would jump about as one types.
        self.query_one(OptionList).styles.height = min(len(set(self._history)), max(3, self.app.size.height - AROUND - 2))
        self._look()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._look()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_take()

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._preview()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._shown[event.option_index])

    @property
    def _cells(self) -> int:
        return max(12, min(84, self.app.size.width * 96 // 100) - 8)

    def _look(self) -> None:
        query = self.query_one(Input).value
        self._shown = found(self._history, query)
        words = [re.escape(word) for word in query.split()]
        choices = self.query_one(OptionList)
        choices.clear_options()
        choices.add_options(Option(self._row(text, words)) for text in self._shown)
        if self._shown:
            choices.highlighted = 0
        self._preview()

    def _row(self, text: str, words: list[str]) -> Content:
        shown = fit(one_line(" ⏎ ".join(line for line in text.splitlines() if line.strip())), self._cells)
        return Content.assemble("  ", Content(shown).highlight_regex("|".join(words), style="bold $accent") if words else shown)

    def _preview(self) -> None:
        at = self.query_one(OptionList).highlighted
        note = self.query_one("#prompts-preview", Static)
        if at is None or at >= len(self._shown):
            note.update(Content("Nothing that was sent has these words." if not self._shown else ""))
            return
        lines = sanitise(self._shown[at]).strip().splitlines()
        left = len(lines) - PREVIEW_ROWS
        more = f"  (+{left} line{'s' * (left != 1)})" if left > 0 else ""
        shown = [fit(line.expandtabs(4), self._cells - len(more)) for line in lines[:PREVIEW_ROWS]]
        note.update(Content("\n".join(shown) + more))

    def action_move(self, step: int) -> None:
        """Another message; past the last the first."""
        choices = self.query_one(OptionList)
        if self._shown:
            choices.highlighted = ((choices.highlighted or 0) + step) % len(self._shown)

    def action_page(self, step: int) -> None:
        """A page up or down."""
        choices = self.query_one(OptionList)
        to = (choices.highlighted or 0) + step * max(1, choices.size.height - 1)
        choices.highlighted = max(0, min(to, len(self._shown) - 1)) if self._shown else None

    def action_take(self) -> None:
        """Answer with the message under the cursor."""
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._shown):
            self.dismiss(self._shown[at])

    def action_leave(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)
