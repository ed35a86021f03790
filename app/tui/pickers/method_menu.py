"""The menu of decoding methods: a line each, below the headings of their groups, and details about the one under the cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...text.cells import fit, one_line
from .menu import PICKS, Menu, MenuItem

WIDTH = 80
"""Most cells of the frame."""

TALL = 26
"""Fewest rows of a tall terminal."""

ABOUT = (3, 4)
"""Lines about a method: on a low terminal, and on a tall one."""


class MethodMenu(Menu):
    """The menu of decoding methods, in groups.

    Args:
        items: ordered by group. A group without a method for this model takes one line.
        current: id of the method in force.
        group_hints: heading → words after it.
    """

    DEFAULT_CSS = """
    MethodMenu {
        & > Frame { width: 80; max-width: 94%; max-height: 94%; padding: 0 2; }
        & OptionList > .option-list--option { padding: 0 1; }
        & OptionList > .option-list--option-disabled { color: $foreground; background: $surface; }
        & #about { margin: 1 1 0 1; }
    }
    """

    def __init__(
        self, title: str, items: Sequence[MenuItem], current: str, group_hints: Mapping[str, str], keymap: Mapping[str, str]
    ) -> None:
        self._groups = [(heading, list(group)) for heading, group in groupby(items, key=lambda item: item.group)]
        unavailable = {heading for heading, group in self._groups if all(item.reason for item in group)}
        super().__init__(title, [item for item in items if item.group not in unavailable], current, keymap)
        self._group_hints = group_hints

    def compose(self) -> ComposeResult:
        with self.frame:
            yield OptionList(*self._options())
            yield Static(id="about")

    def _options(self) -> Iterator[Option]:
        index = 0
        for heading, items in self._groups:
            room = max(0, self._room - len(heading) - 2)
            if all(item.reason for item in items):
                why = fit(one_line(self._group_hints.get(heading) or items[0].reason), room)
                yield Option(Content.assemble((heading, "bold $faint"), (f"  {why}", "$faint")), disabled=True)
                continue
            hint = fit(one_line(self._group_hints.get(heading, "")), room)
            yield Option(Content.assemble((heading, "bold $primary"), (f"  {hint}", "$quiet")), disabled=True)
            for item in items:
                yield Option(self._prompt(index, item), id=item.id)
                index += 1

    def on_resize(self) -> None:
        """Cut lines to the width, and the details to the height."""
        choices, at = self.query_one(OptionList), self.query_one(OptionList).highlighted
        choices.set_options(self._options())
        self.query_one("#about", Static).styles.height = self._rows
        # Minus the frame, the gap and the details.
        choices.styles.max_height = self.app.size.height * 94 // 100 - 3 - self._rows
        choices.highlighted = at

    @property
    def _rows(self) -> int:
        return ABOUT[self.app.size.height >= TALL]

    @property
    def _room(self) -> int:
        return self.room(WIDTH, 9)  # frame, paddings and scrollbar

    def _prompt(self, index: int, item: MenuItem) -> Content:
        able = not item.reason
        key = f"{PICKS[index]} " if index < len(PICKS) else "  "
        mark = "● " if item.id == self._current else "  "
        title = one_line(item.title).ljust(max(len(other.title) for other in self._items))
        tag = item.tag.ljust(max(len(other.tag) for other in self._items))
        rest = self._room - len(key) - len(mark) - len(title) - len(tag) - 4
        detail = fit(one_line(item.detail), rest) if rest > 12 else ""
        return Content.assemble(
            (key, "bold $primary" if able else "$faint"),
            (mark, "$primary"),
            (title, "bold" if able else "$faint"),
            (f"  {tag}  ", item.tag_style if able else "$faint"),
            (detail, "$quiet" if able else "$faint"),
        )

    @on(OptionList.OptionHighlighted)
    def _show_details(self, event: OptionList.OptionHighlighted) -> None:
        item = next(item for item in self._items if item.id == event.option.id)
        rows = self._rows
        parts = (item.reason, item.detail) if item.reason else (item.lead, item.detail, item.more)
        lines = wrap(one_line(" ".join(filter(None, parts))).replace("`", ""), self._room)
        if len(lines) > rows:
            lines[rows - 1 :] = [fit(" ".join(lines[rows - 1 :]), self._room)]
        self.query_one("#about", Static).update(Content.styled("\n".join(lines), "$warning" if item.reason else "$foreground"))
