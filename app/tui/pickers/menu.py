"""A menu over the chat: arrows or an item's key choose, escape closes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from ...settings.keymap import HELP, MENU
from ...text.cells import one_line, sanitise
from ..keys.context import Hint, bindings_of, hints, pick_bindings
from .framed import FramedScreen

PICKS = "1234567890abcdefghilmnopqrstuvwxyz"
"""Keys of the items, in order; j and k move the cursor."""

MOVES = hints(
    ("menu_above menu_below", "move the cursor"),
    ("menu_page_up menu_page_down", "move by a page"),
    ("menu_first menu_last", "to the first item or the last"),
)


@dataclass(frozen=True, slots=True)
class MenuItem:
    """An item of a menu."""

    id: str
    title: str
    tag: str = ""
    tag_style: str = "$quiet"
    detail: str = ""
    sample: tuple[tuple[str, str], ...] = ()
    """Colours to show: pieces of text, each with its style."""
    reason: str = ""
    """Reason why it cannot be chosen; empty if it can."""
    group: str = ""
    """Heading above it."""
    more: str = ""
    """Sentences after the detail."""
    lead: str = ""
    """Sentence before the detail."""


class Menu(FramedScreen[str]):
    """A menu; answers with the id of the chosen item.

    Args:
        items: each gets a key: digits, then letters.
        current: id of the item in force.
        preview: called with the id under the cursor; such a menu stands at the side and dims nothing.
    """

    DEFAULT_CSS = """
    Menu {
        & > Frame { width: 76; max-width: 94%; max-height: 90%; }
        &.-beside { align: right middle; background: $background 0%; }
        &.-beside > Frame { width: 48; }
        & OptionList > .option-list--option { padding: 0 1 1 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of((*MENU, HELP)), *pick_bindings(PICKS, 1, "menu")]

    def __init__(
        self,
        title: str,
        items: Sequence[MenuItem],
        current: str,
        keymap: Mapping[str, str],
        preview: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(title, keymap, classes="-beside" if preview else "")
        self._items = items
        self._current = current
        self._preview = preview

    def hints(self) -> Iterator[Hint]:
        yield from hints(("menu_choose", ""))
        yield Hint((), "choose at once", picks(len(self._items)))

    def moves(self) -> tuple[Hint, ...]:
        return MOVES

    def compose(self) -> ComposeResult:
        with self.frame:
            # Not disabled where unavailable: the cursor would skip them, and the reason.
            options = [Option(self._prompt(i, item), id=item.id) for i, item in enumerate(self._items)]
            yield OptionList(*options)

    def on_mount(self) -> None:
        ids = [item.id for item in self._items]
        choices = self.query_one(OptionList)
        choices.highlighted = choices.get_option_index(self._current if self._current in ids else ids[0])

    def _prompt(self, index: int, item: MenuItem) -> Content:
        able = not item.reason
        mark = ("● ", "$primary") if item.id == self._current else ("  ", "")
        digit = (f"{PICKS[index]}  ", "bold $primary" if able else "$faint") if index < len(PICKS) else ("   ", "")
        longest = max((len(other.title) for other in self._items if other.sample), default=0)  # samples stand in a column
        parts: list[tuple[str, str]] = [digit, mark, (one_line(item.title).ljust(longest), "bold" if able else "$faint")]
        if item.tag:
            parts.append((f"  {one_line(item.tag)}", item.tag_style if able else "$faint"))
        parts += [("  ", ""), *item.sample] if item.sample else []
        below = item.detail if able else f"{item.detail}\nNot available: {item.reason}".strip()
        room = self.room(48 if self._preview else 76, 14)  # frame, padding, scrollbar, indentation
        for line in sanitise(below).splitlines():
            parts += [(f"\n     {part}", "$quiet") for part in wrap(line, room)]
        return Content.assemble(*parts)

    def _choose(self, index: int) -> None:
        item = self._items[index]
        if item.reason:
            self.app.bell()
            return
        self.dismiss(item.id)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(next(i for i, item in enumerate(self._items) if item.id == event.option.id))

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self._preview is not None and event.option.id is not None:
            self._preview(event.option.id)

    def action_pick(self, number: int) -> None:
        if number <= len(self._items):
            self._choose(number - 1)

    def action_choose(self) -> None:
        self.query_one(OptionList).action_select()


def picks(items: int, keys: str = PICKS) -> str:
    """Format the keys of a number of items: `1–7`, `0–9 a–f`."""
    last = keys[min(items, len(keys)) - 1]
    if items < 10:
        return f"1–{last}" if items > 1 else last
    letters = {10: "", 11: " a"}.get(items, f" a–{last}")
    return f"0–9{letters}"
