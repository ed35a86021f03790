"""The strip that tells about a run: how it was drafted, what it cost, and why it ended where it did."""

from __future__ import annotations

from collections.abc import Mapping

from ...chat.entries import Answer
from ...chat.pieces import Pieces
from ...render.inspection import LIT, inspect
from ...render.inspection_rows import inspection_rows, strip_rows
from ...settings.keymap import shown_keys
from ...text.lines import PAD
from ...theming.colouring import INKS, Colouring, ink_name
from .line_view import LineView


class Inspector(LineView, can_focus=False):
    """The strip that tells about a run, over the lower rows of the transcript or the upper ones."""

    DEFAULT_CSS = """
    Inspector { height: 4; background: $surface; overflow: hidden hidden; }
    """

    def __init__(self, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keymap = keymap
        self._shown: tuple[object, ...] = ()

    @property
    def keys(self) -> str:
        moves = "".join(shown_keys(f"inspect_{name}", self._keymap) for name in ("previous", "next", "above", "below"))
        return f"{moves} other passes · {shown_keys('cancel', self._keymap)} back"

    def tell(
        self, answer: Answer, index: int, pieces: Pieces, margin: int, width: int, height: int, *, way: Colouring, by_keys: bool
    ) -> None:
        state = (answer, index, answer.done, pieces, margin, width, height, way, by_keys)
        if state == self._shown:
            return
        self._shown = state
        rows = strip_rows(height)
        run = answer.runs[index]
        ink = ink_name(way, run.shade, run.together)
        cells = max(20, width - 2 * margin)
        told = inspection_rows(inspect(answer, index, pieces), cells, rows, self.keys if by_keys else "")
        bar = (" " * max(0, margin - 2 - PAD), ""), ("▌ ", f"${INKS[ink].colour}")
        self.styles.height = rows
        lit = INKS[ink].style if INKS[ink].behind else "bold $foreground"
        drawn = [tuple((text, lit if style == LIT else style) for text, style in row) for row in told]
        self.show([(*bar, *row) for row in [*drawn, *[()] * (rows - len(drawn))]])
