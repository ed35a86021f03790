"""The search in messages sent before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType

from ....errors import counted
from ...history.typed import matching
from ...settings.keymap import PROMPTS
from ...text.cells import fit, one_line, sanitise
from ...text.lines import StyledLine
from ..keys.context import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

PREVIEW_ROWS = 3
"""Lines of the message under the cursor, below the list."""


class PromptSearch(SearchScreen[str, str]):
    """The search in messages sent before; answers with a message."""

    DEFAULT_CSS = "PromptSearch > Frame { width: 84; height: auto; } PromptSearch #detail { height: 4; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(PROMPTS)

    def __init__(self, history: Sequence[str], keymap: Mapping[str, str], query: str = "") -> None:
        listed = PickList[str](lambda text: text, self._row)
        listed.empty = "No message contains these words."
        super().__init__(listed, keymap, "Sent before", "Search your messages", query)
        self.box.select_on_focus = True
        self._history = history

    def on_mount(self) -> None:
        self.search(self.box.value)

    def on_resize(self) -> None:
        """Keep the height for all messages, so that the frame does not jump during typing."""
        self.grow(len(set(self._history)))

    def search(self, text: str) -> None:
        self.listed.show(matching(self._history, text))

    def item_hints(self) -> tuple[Hint, ...]:
        return hints(("list_choose", "insert"), ("prompts_older", ""))

    def about(self, item: str | None) -> Iterator[tuple[str, str]]:
        lines = sanitise(item or "").strip().splitlines()
        hidden = len(lines) - PREVIEW_ROWS
        more = f"  (+{counted(hidden, 'line')})" if hidden > 0 else ""
        rows = [fit(row.expandtabs(4), self.cells - len(more)) for row in lines[:PREVIEW_ROWS]]
        yield "\n".join(rows) + more, "$quiet"

    def choose(self, item: str) -> None:
        self.dismiss(item)

    def action_leave(self) -> None:
        self.dismiss(None)

    def _row(self, text: str, cells: int) -> tuple[StyledLine]:
        words = "|".join(re.escape(word) for word in self.box.value.split())
        row = fit(one_line(" ⏎ ".join(line for line in text.splitlines() if line.strip())), cells - 2)
        pieces = re.split(f"({words})", row, flags=re.IGNORECASE) if words else [row]
        return ((("  ", ""), *((piece, "bold $accent" if i % 2 else "") for i, piece in enumerate(pieces) if piece)),)
