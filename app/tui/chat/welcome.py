"""The welcome of an empty chat: an introduction, and prompts to start with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...chat.entries import ChatEntry, Notice, Severity
from ...settings.keymap import MENU, shown_keys
from ...theming.colouring import INKS
from ..composer.starters import OPENINGS, STARTERS, TITLE_WIDTH, TOUR, Starter
from ..keys import KeyContext, bindings_of, hints

STYLES: dict[Severity, str] = {"information": "italic $quiet", "warning": "$warning", "error": "$error"}
"""Severity of a notice → its style."""

DIGITS = "1234567890"
"""Keys of the rows, in order."""


class Welcome(VerticalScroll, can_focus=False):
    """The welcome of an empty chat: three lines, and prompts to start with."""

    DEFAULT_CSS = """
    Welcome {
        align: center middle; height: 1fr; scrollbar-size-vertical: 1; padding: 1 0;
        & > Static { width: 76; max-width: 92%; height: auto; }
        & > #welcome-text { margin-bottom: 1; color: $quiet; }
        & > #welcome-offer, & > #welcome-notices { margin-bottom: 1; }
        & > OptionList {
            width: 76; max-width: 92%; height: auto; background: $background; border: none; padding: 0; overflow-x: hidden;
            text-wrap: nowrap; text-overflow: ellipsis;
            &:focus { border: none; background-tint: $background 0%; }
            & > .option-list--option { padding: 0; }
            & > .option-list--option-highlighted { background: $background; color: $foreground; text-style: none; }
            &:focus > .option-list--option-highlighted { background: $block-cursor-background; text-style: none; }
            & > .option-list--option-hover { background: $surface; }
        }
    }
    """
    # Only while the starters have the focus.
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(key for key in MENU if key.id != "menu_leave"),
        *(Binding(key, f"pick({at})", priority=True, show=False, tooltip=f"Starter {key}") for at, key in enumerate(DIGITS)),
    ]

    @dataclass
    class Picked(Message):
        """A starter was picked."""

        text: str

    def __init__(self, keymap: Mapping[str, str], offer: bool = False, *, tiny: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._offer = offer
        self._tiny = tiny
        self._base = False
        self._notices: tuple[ChatEntry, ...] = ()

    def compose(self) -> ComposeResult:
        notices = Static(id="welcome-notices")
        notices.display = False
        yield notices
        letters = ("spec", f"bold {INKS['heat-3'].style}"), ("chat", f"bold {INKS['heat-5'].style}")
        yield Static(Content.assemble(*letters, ("  see how every token is decoded\n", "$quiet")), id="welcome-title")
        yield Static(self._introduction(), id="welcome-text")
        if self._offer:
            enter = ("enter", "bold $accent")
            yield Static(Content.assemble("New here? Press ", enter, " for the tour, or just type."), id="welcome-offer")
        yield Static(self._instruction(), id="welcome-how")
        yield OptionList(*self._options(), id="starters")

    @property
    def rows(self) -> tuple[Starter, ...]:
        """The tour, and the starters for the model."""
        return (TOUR, *(OPENINGS if self._base else STARTERS))

    def _options(self) -> Iterator[Option]:
        for i, starter in enumerate(self.rows):
            digit = (f"{DIGITS[i : i + 1]:2}", "$quiet")
            title = (f"{starter.title:<{TITLE_WIDTH}}", "$foreground")
            yield Option(Content.assemble(digit, title, (f"  {starter.why}", "$quiet")), id=str(i))

    def _introduction(self) -> Content:
        if self._base:
            return Content.assemble(
                "This is a base model: it goes on from a text, and answers no messages. Type a beginning; ",
                (shown_keys("go_on", self._keymap), "bold $foreground"),
                " lets it write more. The stronger the colour, the more tokens came out of one pass.",
            )
        return Content.assemble(
            "A chat that shows how the model decodes. The stronger the colour, the more tokens came out of one pass; ",
            ("ctrl+n", "bold $foreground"),
            " changes the method, even in the middle of an answer, and the text stays the same.",
        )

    def _instruction(self) -> Content:
        model = " · builtin is a tiny demo model" if self._tiny else ""
        return Content.assemble(("Try one: ", "$quiet"), ("tab", "bold $foreground"), (f", then its number{model}", "$quiet"))

    def show_model(self, *, tiny: bool, base: bool) -> None:
        """Adapt to the loaded model: `tiny` for the built-in one, `base` for a base model."""
        if (tiny, base) == (self._tiny, self._base):
            return
        self._tiny = tiny
        self._base = base
        self.query_one("#welcome-text", Static).update(self._introduction())
        self.query_one("#welcome-how", Static).update(self._instruction())
        self.choices.set_options(self._options())

    def show_notices(self, notices: tuple[ChatEntry, ...]) -> None:
        """Show notices about the settings and the model, above everything else."""
        if notices == self._notices:
            return
        self._notices = notices
        box = self.query_one("#welcome-notices", Static)
        box.display = bool(notices)
        lines = [Content.styled(notice.text, STYLES[notice.severity]) for notice in notices if isinstance(notice, Notice)]
        box.update(Content("\n").join(lines))

    @property
    def choices(self) -> OptionList:
        return self.query_one(OptionList)

    @property
    def key_context(self) -> KeyContext:
        keys = (("menu_above menu_below", "choose"), ("menu_choose", "ask"), ("cancel", "back"), ("help", ""), ("quit", ""))
        return KeyContext("The starters: a digit asks at once", hints(*keys), self)

    def action_choose(self) -> None:
        self.choices.action_select()

    def answers(self, text: str) -> bool:
        """Pick a starter by a message that is its digit; False if it is not, or while the starters are hidden."""
        digit = text.strip()
        if not self.display or len(digit) != 1 or digit not in DIGITS:
            return False
        self.action_pick(DIGITS.index(digit))
        return True

    def action_pick(self, at: int) -> None:
        if at < len(self.rows):
            self.post_message(self.Picked(self.rows[at].prompt))

    @on(OptionList.OptionSelected)
    def _select(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_pick(event.option_index)
