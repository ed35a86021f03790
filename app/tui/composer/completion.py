"""The list above the input box: what the word that is being typed may become."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from ...attach.names import Suggestion
from ...text.cells import fit, one_line, width

ROWS = 7
"""Names that are shown at once; the others are a scroll away."""

TAIL = 6
"""Cells at the end of a row for the key, or for where in the list it is."""


class Completion(Widget):
    """The list of suggestions above the input box, one of them chosen. Never focused: the input box keeps the keys."""

    DEFAULT_CSS = """
    Completion {
        height: auto; max-width: 106; margin: 0 1; padding: 0 2;
        background: $background; color: $foreground; display: none;
    }
    """

    class Taken(Message):
        """A name was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.offers: list[Suggestion] = []
        self.at = 0
        self.moved = False
        """The arrows were used, so enter takes a name and does not send."""

    @property
    def names(self) -> list[str]:
        return [offer.name for offer in self.offers]

    def offer(self, offers: Sequence[Suggestion]) -> None:
        """Show these; none hides the list."""
        if list(offers) != self.offers:
            self.offers, self.at, self.moved = list(offers), 0, False
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
        """Names that are shown at once: fewer where the screen is low."""
        return min(len(self.offers), ROWS if self.app.size.height >= 24 else 4)

    @property
    def first(self) -> int:
        return max(0, min(self.at - self.rows // 2, len(self.offers) - self.rows))

    def render(self) -> Content:
        shown = self.offers[self.first : self.first + self.rows]
        cells = max(12, self.content_size.width - 2 - TAIL)
        told = any(offer.what for offer in shown)
        # Names of a column, so that what is said about them stands below each other.
        column = min(max(width(one_line(offer.name)) for offer in shown), cells // 2 if told else cells) if shown else 0
        rows = []
        for index, offer in enumerate(shown, self.first):
            here = index == self.at
            name = fit(one_line(offer.name), column)
            gap = " " * (column - width(name) + 2)
            what = fit(one_line(offer.what), cells - column - 2) if told else ""
            more = f"{index + 1}/{len(self.offers)}" if len(self.offers) > len(shown) else "tab"
            fill = " " * max(2, cells - column - 2 - width(what) + TAIL - len(more)) if told else "   "
            rows.append(
                Content.assemble(
                    ("› " if here else "  ", "$accent"),
                    (name, "bold $primary" if here else "$foreground"),
                    (gap + what if told else "", "$quiet"),
                    (fill + more if here else "", "$quiet"),
                )
            )
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        index = self.first + event.y
        if 0 <= index < len(self.offers):
            self.at = index
            self.post_message(self.Taken())
