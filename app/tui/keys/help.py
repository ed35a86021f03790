"""F1: the keys that matter here, and a search over everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...text.cells import fit, one_line, width
from ...text.lines import Line, ends, line
from ...theming.colouring import Way, legend_line
from ..actions.dispatch import Actions
from ..pickers.pick_list import PickList
from ..pickers.search_screen import SearchScreen
from .entries import Entry, entries, found
from .moment import Hint, Moment, hints

KEY_CELLS = 17
"""Of the keys before what they do: `alt+right  ^o →`."""

TALL = 24
"""Rows of a terminal in which DETAIL_ROWS[1] lines are told of a row, else DETAIL_ROWS[0]."""

DETAIL_ROWS = (4, 7)
"""With the line above them."""


class HelpScreen(SearchScreen[Callable[[], object], Entry]):
    """The help; answers with what is to be done.

    Args:
        here: what one is in the midst of.
        actions: everything that can be done.
        keymap: binding id → keys, where not the default.
        way: of colouring, as `effective` has it, to say what the colours mean.
        in_chat: whether the chat is what one looks at.
    """

    def __init__(self, here: Moment, actions: Actions, keymap: Mapping[str, str], way: Way, *, in_chat: bool) -> None:
        listed = PickList[Entry](lambda entry: entry.id or None, self._row)
        listed.empty = "No key, command or method matches."
        super().__init__(listed, keymap, "Help", "Search every key, command and method")
        self._rows = entries(here, actions, keymap, in_chat=in_chat)
        self._legend = tuple(legend_line(way))

    def on_mount(self) -> None:
        """Begin with what is here."""
        self.search("")

    def on_resize(self) -> None:
        """Less is told of a row where the terminal is low."""
        self.detail.styles.height = DETAIL_ROWS[self.app.size.height >= TALL]
        self.tell()

    def search(self, text: str) -> None:
        """List what has these words."""
        self.listed.show(found(self._rows, text))

    def item_hints(self) -> Iterator[Hint]:
        """The keys that count now."""
        if self.listed.item is not None and self.listed.item.run is not None:
            yield Hint(("list_choose",), "run it")
        yield Hint((), "to search", "type")

    def ways_out(self) -> tuple[Hint, ...]:
        """How to leave: this is the help."""
        return hints(("list_leave", ""))

    def about(self, item: Entry | None) -> Iterable[tuple[str, str]]:
        """All there is to say of a row."""
        return item.about if item is not None else ()

    def choose(self, item: Entry) -> None:
        """Do it, if it can be done here."""
        if item.run is None:
            self.app.bell()
        else:
            self.dismiss(item.run)

    def _row(self, entry: Entry, cells: int) -> tuple[Line]:
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
