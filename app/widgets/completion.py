"""The list above the input box: files that the name behind an @ may become."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ..cells import fit, one_line


class Completion(Widget):
    """Some names, one of them chosen. Never focused: the input box keeps the keys."""

    DEFAULT_CSS = """
    Completion {
        height: auto; max-width: 106; margin: 0 1; padding: 0 2;
        background: $background; color: $foreground; display: none;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.names: list[str] = []
        self.at = 0
        self.moved = False
        """The arrows were used, so enter takes a name and does not send."""

    def offer(self, names: list[str]) -> None:
        """Show these; none hides the list."""
        if names != self.names:
            self.names, self.at, self.moved = names, 0, False
            self.display = bool(names)
            self.refresh(layout=True)

    def move(self, step: int) -> None:
        """Choose the next name, or the one before."""
        self.at = (self.at + step) % len(self.names)
        self.moved = True
        self.refresh()

    @property
    def chosen(self) -> str:
        """The name under the cursor; empty if there is none."""
        return self.names[self.at] if self.names else ""

    def render(self) -> Content:
        """A row for each name."""
        rows = []
        for index, name in enumerate(self.names):
            shown = fit(one_line(name), max(8, self.content_size.width - 12))
            here = index == self.at
            style = "bold $primary" if here else "$foreground"
            rows.append(
                Content.assemble(("› " if here else "  ", "$accent"), (shown, style), ("   tab" if here else "", "$quiet"))
            )
        return Content("\n").join(rows)
