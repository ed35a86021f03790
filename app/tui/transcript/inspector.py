"""The strip that tells about a run: how it was drafted, what it cost, and why it ended where it did."""

from __future__ import annotations

from collections.abc import Mapping

from ...chat.pieces import Pieces
from ...render.inspection import RUN, inspect
from ...render.inspection_rows import inspection_rows, strip_rows
from ...settings.keymap import shown_keys
from ...text.lines import PAD
from ...theming.colouring import INKS, effective, ink_name
from .line_view import LineView
from .view import TranscriptView


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

    def tell(self, view: TranscriptView, pieces: Pieces) -> None:
        """Tell about the run that a view's cursor is on; `pieces`: token texts of answers that have none of their own."""
        answer, spot, margin = view.cursor.answer, view.cursor.spot, view.margin
        assert answer is not None
        assert spot is not None
        way, by_keys = effective(view.colouring, self.app.no_color), view.cursor.by_keys
        state = (answer, spot.run, answer.done, pieces, margin, view.size, way, by_keys)
        if state == self._shown:
            return
        self._shown = state
        rows = strip_rows(view.size.height)
        run = answer.runs[spot.run]
        ink = ink_name(way, run.shade, run.together)
        cells = max(20, view.size.width - 2 * margin)
        run_told = inspect(answer, spot.run, answer.pieces if len(answer.pieces) else pieces)
        told = inspection_rows(run_told, cells, rows, self.keys if by_keys else "")
        bar = (" " * max(0, margin - 2 - PAD), ""), ("▌ ", f"${INKS[ink].colour}")
        self.styles.height = rows
        lit = INKS[ink].style if INKS[ink].behind else "bold $foreground"
        drawn = [tuple((text, lit if style == RUN else style) for text, style in row) for row in told]
        self.show([(*bar, *row) for row in [*drawn, *[()] * (rows - len(drawn))]])
