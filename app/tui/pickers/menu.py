"""A menu over the chat: a line for each item, below the headings of groups, and details about the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...settings.keymap import HELP, MENU
from ...text.cells import fit, one_line
from ..keys import Hint, bindings_of, hints, pick_bindings
from .framed import FramedScreen

PICKS = "1234567890abcdefghilmnopqrstuvwxyz"
"""Keys of the items, in order; j and k move the cursor."""

WIDTH, WIDTH_BESIDE = 80, 48
"""Most cells of the frame: in the middle, and at the side."""

ABOUT = 3
"""Lines about an item."""


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
    about: str = ""
    """Sentences about it below the list; the detail if empty."""


class Choices(OptionList):
    """Textual's list, whose page keys raise where it has no room."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self.scrollable_content_region) or not action.startswith("page_")


class Menu(FramedScreen[str]):
    """A menu; answers with the id of the chosen item.

    Args:
        items: ordered by group; each gets a key: digits, then letters. One without a possible item takes a line.
        current: id of the item in force.
        preview: called with the id under the cursor; such a menu stands at the side and dims nothing.
        group_hints: heading → words after it.
    """

    DEFAULT_CSS = """
    Menu {
        & > Frame { width: 80; max-width: 94%; max-height: 94%; padding: 0 2; }
        &.-beside { align: right middle; background: $background 0%; }
        &.-beside > Frame { width: 48; }
        & OptionList > .option-list--option-disabled { color: $foreground; background: $surface; }
        & #about { height: 3; margin: 1 1 0 1; }
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
        group_hints: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(title, keymap, classes="-beside" if preview else "")
        self._groups = [(heading, list(group)) for heading, group in groupby(items, key=lambda item: item.group)]
        self._items = [item for _, group in self._groups if not all(item.reason for item in group) for item in group]
        self._current = current
        self._preview = preview
        self._group_hints = group_hints or {}
        self._choices = Choices()  # an attribute, as a resize may come before the widgets are mounted
        self._about = Static(id="about")

    def hints(self) -> Iterator[Hint]:
        yield from hints(("menu_choose", ""))
        yield Hint((), "choose at once", picks(len(self._items)))

    def compose(self) -> ComposeResult:
        with self.frame:
            yield self._choices
            yield self._about

    def on_mount(self) -> None:
        self.on_resize()
        ids = [item.id for item in self._items]
        self._choices.highlighted = self._choices.get_option_index(self._current if self._current in ids else ids[0])

    def on_resize(self) -> None:
        """Cut lines to the width, and the details to the height."""
        at = self._choices.highlighted
        self._choices.set_options(self._options())
        self._choices.styles.max_height = self.app.size.height * 94 // 100 - 3 - ABOUT  # frame, gap and details
        self._choices.highlighted = at

    @property
    def _room(self) -> int:
        return self.room(WIDTH_BESIDE if self._preview else WIDTH, 9)  # frame, paddings and scrollbar

    def _options(self) -> Iterator[Option]:
        index = 0
        for heading, items in self._groups:
            able = items[0] in self._items
            hint = self._group_hints.get(heading) or ("" if able else items[0].reason)
            if heading:
                words = fit(one_line(hint), max(0, self._room - len(heading) - 2))
                styles = ("bold $primary", "$quiet") if able else ("bold $faint", "$faint")
                yield Option(Content.assemble((heading, styles[0]), (f"  {words}", styles[1])), disabled=True)
            for item in items if able else ():
                # Not disabled where unavailable: the cursor would skip it, and the reason.
                yield Option(self._line(index, item), id=item.id)
                index += 1

    def _line(self, index: int, item: MenuItem) -> Content:
        able = not item.reason
        key = f"{PICKS[index]} " if index < len(PICKS) else "  "
        mark = "● " if item.id == self._current else "  "
        title = one_line(item.title).ljust(max(len(other.title) for other in self._items))
        tag = one_line(item.tag).ljust(max(len(other.tag) for other in self._items))
        line = Content.assemble(
            (key, "bold $primary" if able else "$faint"),
            (mark, "$primary"),
            (title, "bold" if able else "$faint"),
            (f"  {tag}  " if tag else "  ", item.tag_style if able else "$faint"),
            *item.sample,
        )
        rest = self._room - line.cell_length
        detail = fit(one_line(item.detail), rest) if rest > 12 and not item.sample else ""
        return Content.assemble(line, (detail, "$quiet" if able else "$faint"))

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        item = next(item for item in self._items if item.id == event.option.id)
        text = f"{item.reason} {item.detail}" if item.reason else item.about or item.detail
        lines = wrap(one_line(text).replace("`", ""), self._room)
        if len(lines) > ABOUT:
            lines[ABOUT - 1 :] = [fit(" ".join(lines[ABOUT - 1 :]), self._room)]
        self._about.update(Content.styled("\n".join(lines), "$warning" if item.reason else "$foreground"))
        if self._preview is not None:
            self._preview(item.id)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(next(item for item in self._items if item.id == event.option.id))

    def _choose(self, item: MenuItem) -> None:
        if item.reason:
            self.app.bell()
        else:
            self.dismiss(item.id)

    def action_pick(self, number: int) -> None:
        if number <= len(self._items):
            self._choose(self._items[number - 1])

    def action_choose(self) -> None:
        self._choices.action_select()


def picks(items: int, keys: str = PICKS) -> str:
    """Format the keys of a number of items: `1–7`, `0–9 a–f`."""
    last = keys[min(items, len(keys)) - 1]
    if items < 10:
        return f"1–{last}" if items > 1 else last
    letters = {10: "", 11: " a"}.get(items, f" a–{last}")
    return f"0–9{letters}"
