"""The welcome of an empty chat: an introduction, and numbered prompts to start with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ...chat.entries import Notice, Severity
from ...settings.keymap import shown_keys
from ...theming.colouring import INKS
from ..composer.starters import OPENINGS, STARTERS, TITLE_WIDTH, TOUR, Starter

STYLES: dict[Severity, str] = {"information": "italic $quiet", "warning": "$warning", "error": "$error"}
"""Severity of a notice → its style."""


class Welcome(VerticalScroll, can_focus=False):
    """The welcome of an empty chat: notices, three lines, and prompts to start with."""

    DEFAULT_CSS = """
    Welcome {
        align: center middle; height: 1fr; scrollbar-size-vertical: 1; padding: 1 0;
        & > Static { width: 76; max-width: 92%; height: auto; color: $quiet; }
        & > #starters {
            margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis;
            link-color: $foreground; link-background: transparent; link-style: none;
            link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
        }
    }
    """

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._state: tuple[object, ...] = ()
        self._starters: tuple[Starter, ...] = ()
        self._text = Static(id="welcome-text")
        self._rows = Static(id="starters")

    def compose(self) -> ComposeResult:
        yield self._text
        yield self._rows

    def show(self, *, tiny: bool, base: bool, offer: bool, notices: Iterable[object]) -> None:
        """Adapt to the loaded model.

        Args:
            tiny: whether it is the built-in one.
            base: whether it is a base model.
            offer: offer the tour.
            notices: entries of the chat.
        """
        state = (tiny, base, offer, *notices)
        if state == self._state:
            return
        self._state = state
        self._starters = (TOUR, *(OPENINGS if base else STARTERS))
        parts = [Content.styled(f"{note.text}\n\n", STYLES[note.severity]) for note in notices if isinstance(note, Notice)]
        letters = ("spec", f"bold {INKS['heat-3'].style}"), ("chat", f"bold {INKS['heat-5'].style}")
        parts += [Content.assemble(*letters, "  see how every token is decoded\n\n"), self._introduction(base), Content("\n\n")]
        if offer:
            enter = ("enter", "bold $accent")
            parts.append(Content.assemble("New here? Press ", enter, " for the tour, or just type.\n\n"))
        model = " · builtin is a tiny demo model" if tiny else ""
        parts.append(Content(f"Try one: type its number, then enter{model}"))
        self._text.update(Content("").join(parts))
        self._rows.update(Content("\n").join(self._row(number, starter) for number, starter in enumerate(self._starters, 1)))
        self.scroll_home(animate=False)

    def _row(self, number: int, starter: Starter) -> Content:
        title = Content(f"{starter.title:<{TITLE_WIDTH}}").stylize(f"@click=screen.starter('{number % 10}')")
        return Content.assemble((f"{number % 10} ", "$quiet"), title, f"  {starter.why}")

    def _introduction(self, base: bool) -> Content:
        if base:
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

    def pick(self, number: str) -> Starter | None:
        """Return the prompt with a number, as typed; None if there is none, or while they are hidden."""
        typed = number.strip()
        numbers = [str(number % 10) for number in range(1, len(self._starters) + 1)]
        return self._starters[numbers.index(typed)] if self.display and typed in numbers else None
