"""The strip about a run: its draft, its cost, and the reason of its end."""

from __future__ import annotations

from collections.abc import Mapping

from ...chat.runs import Pieces
from ...render.inspection import RUN, inspection_rows, strip_rows
from ...settings.keymap import shown_keys
from ...text.lines import PAD
from ...theming.colouring import INKS, effective, ink_name
from .rows import LineView
from .view import TranscriptView


class Inspector(LineView, can_focus=False):
    """The strip about a run, over the lower or the upper rows of the transcript."""

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
        """Describe the run under a view's cursor; `pieces` has the token texts for answers without any."""
        answer, spot, margin = view.cursor.answer, view.cursor.spot, view.margin
        assert answer is not None
        assert spot is not None
        colouring, by_keys = effective(view.colouring, self.app.no_color), view.cursor.by_keys
        state = (answer, spot.run, answer.done, pieces, margin, view.size, colouring, by_keys)
        if state == self._shown:
            return
        self._shown = state
        height = strip_rows(view.size.height)
        run = answer.runs[spot.run]
        ink = INKS[ink_name(colouring, run.shade, run.together)]
        pieces = answer.pieces if len(answer.pieces) else pieces
        cells = max(20, view.size.width - 2 * margin)
        rows = inspection_rows(answer, spot.run, pieces, cells, height, self.keys if by_keys else "")
        bar = (" " * max(0, margin - 2 - PAD), ""), ("▌ ", f"${ink.colour}")
        self.styles.height = height
        run_style = ink.style if ink.behind else "bold $foreground"
        styled = [tuple((text, run_style if style == RUN else style) for text, style in row) for row in rows]
        self.show([(*bar, *row) for row in [*styled, *[()] * (height - len(styled))]])
