"""F1: the keys that matter here, and a search over everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from textual.notifications import Notification

from ...text.cells import fit, one_line, width
from ...text.lines import StyledLine, ends, line
from ...theming.colouring import Colouring, legend_line
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen
from .context import Hint, hints
from .entries import HelpRow, found, notice_id

KEY_CELLS = 17
"""Cells of the keys before what they do: `alt+right  ^o →`."""

TALL = 24
"""Rows of a terminal from which on it is tall."""

DETAIL_ROWS = (4, 7)
"""Rows about the item under the cursor, the line above them among them: on a low terminal, and on a tall one."""

LIST_ROWS = 5
"""Rows that are left to the box and the list, however long a notice is."""


class HelpScreen(SearchScreen[Callable[[], object], HelpRow]):
    """The help; answers with what is to be done."""

    def __init__(
        self, rows: Sequence[HelpRow], keymap: Mapping[str, str], way: Colouring, unread: Notification | None = None
    ) -> None:
        listed = PickList[HelpRow](lambda entry: entry.id or None, self._row)
        listed.empty = "No key, command or method matches."
        super().__init__(listed, keymap, "Help", "Search every key, command and method")
        self._rows = rows
        self._legend = tuple(legend_line(way))
        self._unread = notice_id(unread) if unread is not None else None

    def on_mount(self) -> None:
        self.listed.show(found(self._rows, ""), self._unread)

    def tell(self) -> None:
        """Little is told of a row where the terminal is low; a notice is told in full."""
        item, least = self.listed.item, DETAIL_ROWS[self.app.size.height >= TALL]
        text = " ".join(line for line, _ in self.about(item)) if item is not None and item.notice else ""
        most = max(least, self.frame.size.height - LIST_ROWS)
        self.detail.styles.height = min(most, max(least, len(wrap(text, self.cells)) + 1))
        super().tell()

    def search(self, text: str) -> None:
        self.listed.show(found(self._rows, text))

    def item_hints(self) -> Iterator[Hint]:
        if self.listed.item is not None and self.listed.item.run is not None:
            yield Hint(("list_choose",), "run it")
        yield Hint((), "to search", "type")

    def ways_out(self) -> tuple[Hint, ...]:
        return hints(("list_leave", ""))

    def about(self, item: HelpRow | None) -> Iterable[tuple[str, str]]:
        return item.about if item is not None else ()

    def choose(self, item: HelpRow) -> None:
        if item.run is None:
            self.app.bell()
        else:
            self.dismiss(item.run)

    def _row(self, entry: HelpRow, cells: int) -> tuple[StyledLine]:
        if not entry.id:
            legend = self._legend if entry is self._rows[0] else ()
            return (ends(((entry.title, "bold $primary"),), legend, cells) if entry.title else (),)
        room = min(KEY_CELLS, cells // 3)
        keys = fit(entry.keys, room - 1)
        tag = fit(one_line(entry.tag), cells // 3) if cells >= 60 or not entry.keys else ""
        left = line((keys, "bold $foreground"), " " * (room - width(keys)))
        told = fit(one_line(entry.title), max(4, cells - room - (width(tag) + 2 if tag else 0)))
        return (
            ends((*left, (told, "$foreground" if entry.run is not None else "$quiet")), line((tag, entry.tag_style)), cells),
        )
