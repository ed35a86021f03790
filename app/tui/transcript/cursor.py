"""Which run of the transcript is being looked into: the one under the mouse, or the one that a cursor moved by keys is on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ...chat.entries import Answer
from ...render.inspection_rows import strip_rows
from ...render.runs import Place, RunSpot, adjacent_run, best_example, find_place, outermost, run_above, run_at
from .stack import BlockStack

Move = Literal["previous", "next", "above", "below", "first", "last"]


class RunCursor:
    """The run cursor of a view. The mouse's run is a passing one; keys take the focus and keep theirs in sight.

    Args:
        view: the transcript's.
        told: called with the answer of which another run is looked into, or none any more.
    """

    def __init__(self, view: BlockStack, told: Callable[[Answer], object]) -> None:
        self.view = view
        self._told = told
        self.spot: RunSpot | None = None
        """Block and run; None if no run is looked into."""
        self.place: Place | None = None
        """The rows that show it."""
        self.by_keys = False
        """Whether keys move it."""
        self.at_end = False
        """Whether it is the last run of all, or was when the text last grew."""
        self._cell = 0  # what moves up and down keep to
        self._followed = False  # whether the view followed the end before

    @property
    def answer(self) -> Answer | None:
        entry = self.view.blocks[self.spot.block].entry if self.spot is not None else None
        return entry if isinstance(entry, Answer) else None

    def lit(self, block: int, row: int) -> int:
        """The run to show as chosen in a row; −1 if there is none."""
        if self.spot is None or self.place is None or self.spot.block != block:
            return -1
        return self.spot.run if self.place.first <= row <= self.place.last else -1

    @property
    def sign(self) -> str:
        """Stands for a run of which nothing is to be seen; empty for others."""
        answer = self.answer
        if self.place is None or self.place.visible or self.spot is None or answer is None:
            return ""
        own = answer.own_text(self.spot.run)
        return "⏎" if "\n" in own else "␣" if own.isspace() else "◌"

    # By keys

    def _make_room(self) -> None:
        self.view.make_room(strip_rows(self.view.size.height) if self.by_keys else 0)

    def start(self, spot: RunSpot | None = None) -> bool:
        """Put the cursor on a run, else on the mouse's, else on the most telling one in sight; False if there is none."""
        view = self.view
        spot = spot or self.spot
        # Rendered Markdown has no runs to go to.
        view.markdown = False
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
        """The most telling run in sight of the last answer there; the last run of one that is being written."""
        view = self.view
        last = outermost(view.blocks, 1)
        if last is None or (view.following and not self._answer_of(last.block).done):
            return last
        top, bottom = view.scroll_offset.y, view.scroll_offset.y + view.size.height - 1
        if not view.following:
            bottom -= strip_rows(view.size.height) + 1
        seen, shown = set[int](), None
        for y in range(bottom, top - 1, -1):
            place = view.row_at(y)
            if place is None or not isinstance(view.blocks[place[0]].entry, Answer) or place[0] != (shown or place)[0]:
                continue
            runs = {run for _, run in view.blocks[place[0]].row(place[1]).pieces if run >= 0}
            shown, seen = shown or (place if runs else None), seen | runs
        found = best_example(self._answer_of(shown[0]), seen) if shown is not None else None
        return RunSpot(shown[0], found) if shown is not None and found is not None else last

    def _answer_of(self, block: int) -> Answer:
        entry = self.view.blocks[block].entry
        assert isinstance(entry, Answer)
        return entry

    def stop(self) -> None:
        """No run is looked into any more; the view goes back to the end if it was there before."""
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
        """Go to another run; where there is none the cursor stays."""
        blocks, spot = self.view.blocks, self.spot
        if spot is None:
            return
        match where:
            case "previous" | "next":
                found = adjacent_run(blocks, spot, -1 if where == "previous" else 1)
            case "above" | "below":
                found = run_above(blocks, spot, -1 if where == "above" else 1, self._cell)
            case "first" | "last":
                found = outermost(blocks, -1 if where == "first" else 1)
        if found is not None:
            self._choose(found, keep=where in ("above", "below"))

    # By the mouse

    def hover(self, x: int, y: int) -> None:
        if self.by_keys:
            return
        under = self.at(x, y)
        if under is None and self.spot is not None:
            # Gaps in an answer change nothing: the strip would come and go as the mouse passes over them.
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
        """The view has scrolled: a run that the mouse chose and that is not to be seen any more is let go."""
        if self.by_keys or self.spot is None or self.place is None:
            return
        first, last = self.rows
        top = self.view.scroll_offset.y
        if last < top or first >= top + self.view.size.height:
            self._choose(None)

    # Where it is

    @property
    def rows(self) -> tuple[int, int]:
        """First and last row of the whole transcript that show the run."""
        assert self.spot is not None
        assert self.place is not None
        top = self.view.tops[self.spot.block]
        return top + self.place.first, top + self.place.last

    def relocate(self) -> None:
        """The text was wrapped anew, or has grown."""
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
        """Whether the strip is better off over the upper rows: over the lower ones it would hide the run, or what is being
        written.
        """
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
        """Whether the run would be seen with the end of that many rows at the bottom."""
        return self.place is None or self.rows[0] >= height + self.view.room - self.view.size.height

    def reveal(self) -> None:
        """Scroll the run into sight, with a row around it."""
        if self.spot is None or self.place is None:
            return
        view = self.view
        first, last = self.rows
        top, shown = view.scroll_offset.y, view.size.height - view.room
        to = top
        if last + 1 >= top + shown:
            to = last + 2 - shown
        if first - 1 < to:
            to = max(0, first - 1)
        if to != top:
            view.scroll_to(y=to, animate=False, immediate=True, force=True)

    def _choose(self, spot: RunSpot | None, *, keep: bool = False) -> None:
        """Look into another run; `keep` leaves the cell that moves up and down keep to."""
        if spot == self.spot:
            return
        self._repaint()
        answer = self.answer
        self.spot = spot
        self.place = None if spot is None else find_place(self.view.blocks[spot.block], spot.run)
        self.at_end = self.on_last
        looked_into = self.answer
        if self.by_keys and spot is not None and looked_into is not None and looked_into.runs[spot.run].thought_tokens:
            looked_into.opened = True  # it does not fold under the reader's eyes
        if self.place is not None and not keep:
            self._cell = self.place.cell
        self._repaint()
        if self.by_keys:
            self.reveal()
        self.announce(answer)

    def announce(self, before: Answer | None = None) -> None:
        """Say which run it is; `before` is the answer that it was one of, for when it is none any more."""
        answer = self.answer or before
        if answer is not None:
            self._told(answer)

    def _repaint(self) -> None:
        if self.spot is not None and self.place is not None:
            first, last = self.rows
            self.view.refresh_lines(first, last - first + 1)
