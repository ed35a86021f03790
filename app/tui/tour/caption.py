"""The caption of the tour: a bar of two lines below the chat or the race that it explains."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ...text.cells import width

STEPS = 4
"""Steps of the tour."""

GUTTER = 10
"""Cells before the sentence."""


class Caption(Widget):
    """The caption of the tour: at the left the step and the key that ends the tour, then a sentence
    and its figures or keys."""

    DEFAULT_CSS = """
    Caption { height: 2; max-width: 106; padding: 0 1; background: $surface; color: $foreground; border-left: outer $accent; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state: tuple[int, str, str] = (0, "", "")
        """Step, sentence, and its figures or keys."""

    def say(self, step: int, sentence: str, detail: str = "") -> None:
        if self.state != (step, sentence, detail):
            self.state = (step, sentence, detail)
            self.refresh()

    def render(self) -> Content:
        """Wrap the sentence; the detail takes the second line if it is free."""
        step, sentence, detail = self.state
        room = max(1, self.size.width - GUTTER)
        text = Content.assemble((sentence, "$foreground"), "\n" if width(sentence) <= room else "  ", (detail, "bold $accent"))
        lines = [*text.wrap(room), Content(""), Content("")][:2]
        gutter = (Content.styled(f"{step} of {STEPS}", "bold $primary"), Content.styled("esc ends", "$quiet"))
        rows = zip(gutter, lines, strict=True)
        return Content("\n").join(Content.assemble(left, " " * (GUTTER - left.cell_length), line) for left, line in rows)
