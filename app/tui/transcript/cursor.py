"""The run cursor: the run under the mouse, or the one that keys move to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ...chat.entries import Answer
from ...render.inspection import strip_rows
from ...render.runs import Place, RunSpot, adjacent_run, best_example, find_place, outermost, run_above, run_at
from .stack import BlockStack

Move = Literal["previous", "next", "above", "below", "first", "last"]


class RunCursor:
    """The run cursor of a view. The mouse inspects in passing; keys take the focus and keep the run in sight.

    Args:
        moved: called with the answer whose inspected run has changed.
    """

    def __init__(self, view: BlockStack, moved: Callable[[Answer], object]) -> None:
        self.view = view
        self._moved = moved
        self.spot: RunSpot | None = None
        """Block and index of the inspected run, if any."""
        self.place: Place | None = None
        """Rows of the run."""
        self.by_keys = False
        """Whether keys move it."""
        self.at_end = False
        """Whether it was on the last run when the text last grew."""
        self._cell = 0  # column for moves up and down
        self._followed = False  # whether the view followed the end before

    @property
    def answer(self) -> Answer | None:
        entry = self.view.blocks[self.spot.block].entry if self.spot is not None else None
        return entry if isinstance(entry, Answer) else None

    def run_in(self, block: int, row: int) -> int:
        """Find the inspected run in a row; −1 if it is elsewhere."""
        if self.spot is None or self.place is None or self.spot.block != block:
            return -1
        return self.spot.run if self.place.first <= row <= self.place.last else -1

    @property
    def sign(self) -> str:
        """Sign for a run without visible text; empty for others."""
        answer = self.answer
        if self.place is None or self.place.visible or self.spot is None or answer is None:
            return ""
        text = answer.own_text(self.spot.run)
        if "\n" in text:
            return "⏎"
        return "␣" if text.isspace() else "◌"

    # By keys

    def _make_room(self) -> None:
        self.view.make_room(strip_rows(self.view.size.height) if self.by_keys else 0)

    def start(self, spot: RunSpot | None = None) -> bool:
        """Move to a run, else to the mouse's, else to the most telling one in sight; False if there is none."""
        view = self.view
        spot = spot or self.spot
        view.markdown = False  # it has no runs
        spot = spot or self._in_sight()
        if spot is None:
            return False
        if not self.by_keys:
            self._followed = view.following
            self.by_keys = True
            self._make_room()
        view.focus(scroll_visible=False)
        self._choose(spot)
        return True

    def _in_sight(self) -> RunSpot | None:
        """Choose the most telling run of the last answer in sight, or the last run of one being written."""
        view = self.view
        last = outermost(view.blocks, 1)
        if last is None or (view.following and not self._answer_of(last.block).done):
            return last
        top, bottom = view.scroll_offset.y, view.scroll_offset.y + view.size.height - 1
        if not view.following:
            bottom -= strip_rows(view.size.height) + 1
        visible: dict[int, set[int]] = {}  # block → its runs in sight
        for y in range(top, bottom + 1):
            place = view.row_at(y)
            if place is not None and isinstance(view.blocks[place[0]].entry, Answer):
                runs = {run for _, run in view.blocks[place[0]].row(place[1]).pieces if run >= 0}
                visible.setdefault(place[0], set()).update(runs)
        for block, runs in reversed(visible.items()):
            if runs:
                run = best_example(self._answer_of(block), runs)
                return RunSpot(block, run) if run is not None else last
        return last

    def _answer_of(self, block: int) -> Answer:
        entry = self.view.blocks[block].entry
        assert isinstance(entry, Answer)
        return entry

    def stop(self) -> None:
        """End the inspection, and return to the end if the view followed it before."""
        if self.by_keys:
            self.by_keys = False
            self._choose(None)
            self._make_room()
            if self._followed:
                self.view.follow()
            else:
                self.view.watch_following(self.view.following)
        else:
            self._choose(None)

    def move(self, where: Move) -> None:
        """Move to another run, if there is one."""
        blocks, spot = self.view.blocks, self.spot
        if spot is None:
            return
        match where:
            case "previous" | "next":
                target = adjacent_run(blocks, spot, -1 if where == "previous" else 1)
            case "above" | "below":
                target = run_above(blocks, spot, -1 if where == "above" else 1, self._cell)
            case "first" | "last":
                target = outermost(blocks, -1 if where == "first" else 1)
        if target is not None:
            self._choose(target, keep_cell=where in ("above", "below"))

    # By the mouse

    def hover(self, x: int, y: int) -> None:
        if self.by_keys:
            return
        under = self.at(x, y)
        if under is None and self.spot is not None:
            # Gaps in an answer change nothing, or the strip would flicker as the mouse passes over them.
            place = self.view.row_at(y + self.view.scroll_offset.y)
            if place is not None and place[0] == self.spot.block and self.view.blocks[place[0]].row(place[1]).kind == "answer":
                return
        if under != self.spot:
            self._choose(under)

    def at(self, x: int, y: int) -> RunSpot | None:
        place = self.view.row_at(y + self.view.scroll_offset.y)
        if place is None:
            return None
        run = run_at(self.view.blocks[place[0]], place[1], x - self.view.margin)
        return None if run is None else RunSpot(place[0], run)

    def leave(self) -> None:
        if not self.by_keys and self.spot is not None:
            self._choose(None)

    def scrolled(self) -> None:
        """Let go of the mouse's run once it has scrolled out of sight."""
        if self.by_keys or self.spot is None or self.place is None:
            return
        first, last = self.rows
        top = self.view.scroll_offset.y
        if last < top or first >= top + self.view.size.height:
            self._choose(None)

    # Position

    @property
    def rows(self) -> tuple[int, int]:
        """First and last row of the run in the whole transcript."""
        assert self.spot is not None
        assert self.place is not None
        top = self.view.tops[self.spot.block]
        return top + self.place.first, top + self.place.last

    def relocate(self) -> None:
        """Find the run after the text has changed."""
        if self.spot is None:
            return
        block, run = self.spot
        entry = self.view.blocks[block].entry if block < len(self.view.blocks) else None
        if not isinstance(entry, Answer) or run >= len(entry.runs) or self.view.blocks[block].hides(run):
            self.stop()
            return
        self.place = find_place(self.view.blocks[block], run)

    @property
    def on_last(self) -> bool:
        return self.spot is not None and self.spot == outermost(self.view.blocks, 1)

    def strip_at_top(self, writing: bool) -> bool:
        """Whether the strip belongs at the top: at the bottom it would cover the run, or the text being written."""
        if self.by_keys or self.place is None:
            return False
        (first, last), top, height = self.rows, self.view.scroll_offset.y, self.view.size.height
        rows = strip_rows(height)
        if first < top + rows:
            return False
        full = self.view.virtual_size.height > height - rows
        return last >= top + height - rows or (writing and full and self.view.following)

    def resized(self) -> None:
        if self.spot is not None:
            if self.by_keys:
                self._make_room()
                self.reveal()
            self.announce()

    def stays(self, height: int) -> bool:
        """Whether the run would be in sight with the end of so many rows at the bottom."""
        return self.place is None or self.rows[0] >= height + self.view.room - self.view.size.height

    def reveal(self) -> None:
        """Scroll the run into sight, with a row around it."""
        if self.spot is None or self.place is None:
            return
        view = self.view
        first, last = self.rows
        top, rows = view.scroll_offset.y, view.size.height - view.room
        y = top
        if last + 1 >= top + rows:
            y = last + 2 - rows
        if first - 1 < y:
            y = max(0, first - 1)
        if y != top:
            view.jump_to(y)

    def _choose(self, spot: RunSpot | None, *, keep_cell: bool = False) -> None:
        """Inspect another run; `keep_cell` keeps the column of moves up and down."""
        if spot == self.spot:
            return
        self._repaint()
        answer = self.answer
        self.spot = spot
        self.place = None if spot is None else find_place(self.view.blocks[spot.block], spot.run)
        self.at_end = self.on_last
        inspected = self.answer
        if self.by_keys and spot is not None and inspected is not None and inspected.runs[spot.run].thought_tokens:
            inspected.opened = True  # so that it does not fold during inspection
        if self.place is not None and not keep_cell:
            self._cell = self.place.cell
        self._repaint()
        if self.by_keys:
            self.reveal()
        self.announce(answer)

    def announce(self, before: Answer | None = None) -> None:
        """Report the inspected run's answer, or `before` if there is none."""
        answer = self.answer or before
        if answer is not None:
            self._moved(answer)

    def _repaint(self) -> None:
        if self.spot is not None and self.place is not None:
            first, last = self.rows
            self.view.refresh_lines(first, last - first + 1)
