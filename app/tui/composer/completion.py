"""The list of suggestions above the input box."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ...attach.names import Suggestion
from ...text.cells import fit, one_line, width

ROWS = 7
"""Most rows of the list."""

TAIL = 6
"""Cells at the end of a row for the key, or for its place in the list."""


class Completion(Widget):
    """Suggestions, one of them chosen. Never focused: the input box keeps the keys."""

    DEFAULT_CSS = """
    Completion {
        height: auto; max-width: 106; margin: 0 1; padding: 0 2;
        background: $background; color: $foreground; display: none;
    }
    """

    class Taken(Message):
        """A suggestion was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.offers: list[Suggestion] = []
        self.at = 0
        self.moved = False
        """Whether the arrows were used, so that enter takes a name instead of sending."""

    def offer(self, offers: list[Suggestion]) -> None:
        """Show suggestions; none hides the list."""
        if offers != self.offers:
            self.offers = offers
            self.at = 0
            self.moved = False
            self.display = bool(offers)
            self.refresh(layout=True)

    def move(self, step: int) -> None:
        self.at = (self.at + step) % len(self.offers)
        self.moved = True
        self.refresh()

    @property
    def chosen(self) -> str:
        return self.offers[self.at].name if self.offers else ""

    @property
    def rows(self) -> int:
        """Rows of the list: fewer on a low terminal."""
        return min(len(self.offers), ROWS if self.app.size.height >= 24 else 4)

    @property
    def first(self) -> int:
        return max(0, min(self.at - self.rows // 2, len(self.offers) - self.rows))

    def render(self) -> Content:
        visible = self.offers[self.first : self.first + self.rows]
        cells = max(12, self.content_size.width - 2 - TAIL)
        column = min(max(width(one_line(offer.name)) for offer in visible), cells // 2) if visible else 0
        rows = []
        for index, offer in enumerate(visible, self.first):
            chosen = index == self.at
            name = fit(one_line(offer.name), column if offer.what else cells)
            what = fit(one_line(offer.what), cells - column - 2)
            left = Content.assemble(
                ("› " if chosen else "  ", "$accent"),
                (name, "bold $primary" if chosen else "$foreground"),
                (" " * (column - width(name) + 2) + what if what else "", "$quiet"),
            )
            end = f"{index + 1}/{len(self.offers)}" if len(self.offers) > len(visible) else "tab"
            room = cells + 2 + TAIL - left.cell_length if what else 3 + len(end)
            rows.append(Content.assemble(left, (end.rjust(room) if chosen else "", "$quiet")))
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        index = self.first + event.y
        if 0 <= index < len(self.offers):
            self.at = index
            self.post_message(self.Taken())
