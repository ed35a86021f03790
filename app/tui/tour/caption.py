"""What the tour says: a slim bar below the text that it is about."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from ...text.cells import width

STEPS = 4
"""Steps of the tour."""

GUTTER = 10
"""Cells before the sentence."""


class Caption(Widget):
    """The caption of the tour: which step this is and how to leave, beside a sentence and its figures or keys."""

    DEFAULT_CSS = """
    Caption { height: 2; max-width: 106; padding: 0 1; background: $surface; color: $foreground; border-left: outer $accent; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.said: tuple[int, str, str] = (0, "", "")
        """Step, sentence, what goes with it."""

    def say(self, step: int, sentence: str, beside: str = "") -> None:
        if self.said != (step, sentence, beside):
            self.said = (step, sentence, beside)
            self.refresh()

    def render(self) -> Content:
        """The sentence wraps; what goes with it takes the second line where the sentence leaves it."""
        step, sentence, beside = self.said
        room = max(1, self.size.width - GUTTER)
        text = Content.assemble((sentence, "$foreground"), "\n" if width(sentence) <= room else "  ", (beside, "bold $accent"))
        lines = [*text.wrap(room), Content(""), Content("")][:2]
        gutter = (Content.styled(f"{step} of {STEPS}", "bold $primary"), Content.styled("esc ends", "$quiet"))
        rows = zip(gutter, lines, strict=True)
        return Content("\n").join(Content.assemble(left, " " * (GUTTER - left.cell_length), line) for left, line in rows)
