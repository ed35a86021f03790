"""The side panel: figures, a step's token tree, how the method works, or what held the answer back."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from ...chat.dialogue import Dialogue
from ...chat.entries import Answer
from ...chat.methods import Method
from ...chat.why import Diagnosis, diagnose
from ...race.models import short_name
from ...render.method_page import method_lines
from ...render.numbers_page import numbers_lines
from ...render.tree_page import choose_step, tree_lines
from ...render.why_page import why_lines
from ...settings.keymap import shown_keys
from ...text.lines import StyledLine
from ...theming.colouring import Colouring, effective
from ..transcript.rows import LineView

PAGES = ("numbers", "tree", "method", "speed")
"""Pages in the order of the key."""

UPDATE_SECONDS = 0.15
"""Between two updates while an answer streams: as fast as figures can be read."""


class PanelBar(Widget):
    """The names of the side panel's pages, as links."""

    DEFAULT_CSS = """
    PanelBar {
        height: 1; padding: 0 1; background: $surface; color: $quiet;
        link-color: $quiet; link-background: transparent; link-style: none;
        link-color-hover: $foreground; link-background-hover: $panel; link-style-hover: none;
    }
    """

    def __init__(self, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._keymap = keymap
        self.page = ""
        """Open page."""

    def render(self) -> Content:
        tabs = [
            Content.styled(f" {page} ", "bold $primary on $panel")
            if page == self.page
            else Content(f" {page} ").stylize(f"@click=app.do('panels', '{page}')")
            for page in PAGES
        ]
        left = Content("").join(tabs)
        right = Content.assemble(
            (shown_keys("panels", self._keymap), "bold $primary"), (" close" if PAGES[-1] == self.page else " next", "$quiet")
        )
        gap = self.size.width - left.cell_length - right.cell_length
        return Content.assemble(left, " " * gap, right) if gap > 0 else left


class SidePanel(Vertical):
    """The side panel: one of PAGES, or nothing."""

    DEFAULT_CSS = """
    SidePanel { display: none; background: $background; & > LineView { height: 1fr; } }
    """

    def __init__(self, dialogue: Dialogue, keymap: Mapping[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.dialogue = dialogue
        self.page = ""
        """Open page; empty if the panel is closed."""
        self.selected: tuple[Answer, int] | None = None
        """Inspected answer and run; None for the latest."""
        self.colouring: Colouring = "length"
        self._transcript = dialogue.transcript
        self._keymap = keymap
        self._bar = PanelBar(keymap)
        self._view = LineView()
        self._drawn = 0.0
        self._drawn_in = (0, 0)
        self._diagnosed: tuple[tuple[Answer, int], Diagnosis] | None = None
        """Cached diagnosis of an answer, given the number of answers to compare it with."""

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self._view

    def open(self, page: str) -> None:
        """Show a page; an empty name closes the panel."""
        if page == self.page:
            return
        self.page = page
        self.display = bool(page)
        self.dialogue.watch(page == "tree")
        self._view.scroll_home(animate=False)
        self.update(now=True)

    def next(self) -> None:
        """Show the next page, or close the panel after the last."""
        pages = ("", *PAGES)
        self.open(pages[(pages.index(self.page) + 1) % len(pages)])

    def select(self, answer: Answer, index: int | None) -> None:
        """Show a run's step and its answer's figures; the latest ones if `index` is None."""
        self.selected = None if index is None else (answer, index)
        self.update(now=True)

    def update(self, now: bool = False) -> None:
        """Redraw, at most every UPDATE_SECONDS while an answer is being written. Costs nothing while the panel is closed."""
        if not self.page or not self._view.container_size.width:  # not laid out yet: `on_resize` follows
            return
        dialogue = self.dialogue
        if dialogue.transcript is not self._transcript:  # another chat
            self._transcript = dialogue.transcript
            self.selected = None
            now = True
        still = dialogue.phase != "writing" or dialogue.paused
        if now or still or self._room != self._drawn_in or monotonic() - self._drawn >= UPDATE_SECONDS:
            self._drawn_in = self._room
            self._drawn = monotonic()
            if self._bar.page != self.page:
                self._bar.page = self.page
                self._bar.refresh()
            self._view.show(self.lines())

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.update, now=True)

    @property
    def _room(self) -> tuple[int, int]:
        """Cells and rows of a page."""
        return self._view.cells, self._view.container_size.height

    def _answer(self) -> Answer | None:
        """Choose the answer to show: the inspected one, the one being written, or the last with a step."""
        if self.selected is not None:
            return self.selected[0]
        if self.dialogue.answer is not None:
            return self.dialogue.answer
        return next((answer for answer in reversed(self.dialogue.transcript.answers()) if len(answer.log)), None)

    def lines(self) -> list[StyledLine]:
        dialogue, (cells, height) = self.dialogue, self._room
        answer = self._answer()
        match self.page:
            case "tree":
                return self._tree(answer, cells, height)
            case "speed":
                diagnosis = self.diagnosis()
                key = shown_keys("why", self._keymap)
                return why_lines(answer, diagnosis, cells, key, in_force=self.in_force(diagnosis))
            case "method":
                name = dialogue.switching or dialogue.method
                return method_lines(
                    dialogue.methods.get(name) or Method(name),
                    dialogue.effective_label(name),
                    dialogue.settings.get(name, {}),
                    next((a.by_method[name] for a in self._answers() if name in a.by_method), None),
                    cells,
                    unavailable=dialogue.unavailable.get(name, ""),
                    models={label: short_name(model) for label, model in dialogue.draft_models.items()},
                    keys=(shown_keys("draft_shorter", self._keymap), shown_keys("draft_longer", self._keymap)),
                )
            case _:
                last = answer.log.record(len(answer.log) - 1).method if answer is not None and len(answer.log) else ""
                return numbers_lines(answer, last, cells)

    def _tree(self, answer: Answer | None, cells: int, height: int) -> list[StyledLine]:
        dialogue = self.dialogue
        pieces = answer.pieces if answer is not None and len(answer.pieces) else dialogue.pieces
        index = self.selected[1] if self.selected is not None else None
        paused = dialogue.paused and answer is dialogue.answer and answer is not None
        step, pause = shown_keys("step", self._keymap), shown_keys("pause", self._keymap)
        keys = f"{step} one pass, {pause} continue" if paused else f"{pause} pauses, {step} takes one pass"
        weighing = False
        if answer is not None and answer.done and len(answer.log):
            weighing = dialogue.score_step(answer, choose_step(answer, index))
        colouring = effective(self.colouring, self.app.no_color)
        return tree_lines(answer, index, pieces, cells, height, colouring=colouring, paused=paused, keys=keys, scoring=weighing)

    def diagnosis(self) -> Diagnosis | None:
        """Diagnose why the shown answer was no faster; None before it is complete."""
        answer = self._answer()
        if answer is None or not answer.done or not answer.totals.steps:
            return None
        tried = self._answers()
        key = answer, len(tried)
        if self._diagnosed is None or self._diagnosed[0] != key:
            self._diagnosed = key, diagnose(answer, self.dialogue.info, tried, self.dialogue.unavailable)
        return self._diagnosed[1]

    def in_force(self, diagnosis: Diagnosis | None) -> bool:
        """Whether the proposed change has been made."""
        if diagnosis is None or diagnosis.change is None or not (method := diagnosis.change.method):
            return False
        current = self.dialogue.switching or self.dialogue.method
        return current == method and self.dialogue.settings.get(current, {}) == dict(diagnosis.change.settings)

    def _answers(self) -> list[Answer]:
        """List the answers, latest first, but the inspected one before the others."""
        answers = self.dialogue.transcript.answers()[::-1]
        return answers if self.selected is None else [self.selected[0], *answers]
