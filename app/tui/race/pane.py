"""The pane of a lane: its method and model, text, clock, figures, and the comparison of its tokens."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from ....errors import counted
from ...chat.entries import Answer
from ...race.clock import SHORT
from ...text.amounts import clock_of, rate, times
from ...text.cells import fit, one_line, width
from ...text.charts import eighths
from ...theming.colouring import LABEL_STYLES, bar_name
from ..transcript.run_text import RunText
from .state import LaneFigures

ROOMY, SNUG = 11, 7
"""Fewest rows of a pane with three rows of figures, and with two."""

PLACES = ("1st", "2nd", "3rd", "4th")

BADGE = "bold $background on $primary"
"""Style of a lane's number."""

Parts = list[tuple[str, str]]
"""Texts, each with its style."""


class PaneTitle(Widget):
    """The row at the top of a pane."""

    DEFAULT_CSS = "PaneTitle { height: 1; background: $panel; }"

    def __init__(self) -> None:
        super().__init__()
        self.state = LaneFigures(1, "")

    def render(self) -> Content:
        state, room = self.state, self.size.width
        right: Parts = []
        if state.place is not None:
            style = "bold $background on $success" if state.place == 1 else "bold $foreground on $panel"
            right = [(f" {PLACES[state.place - 1]} ", style)]
        elif state.paused:
            right = [("‖ ", "bold $accent on $panel")]
        used = 4 + sum(len(text) for text, _ in right)
        label = f" {state.label} " if state.label else " "
        # The model takes the cells after the method, and at least half of the row.
        model_room = min(width(state.model) + 3, room // 2) if state.model else 0
        name = fit(state.name, max(4, room - used - model_room))
        model = f" · {fit(state.model, room - used - width(name) - 3)}" if state.model else ""
        used += width(model)
        if len(label) + width(name) + used <= room:
            right = [(label, f"{LABEL_STYLES.get(state.label, '$quiet')} on $panel"), *right]
            used += len(label)
        gap = (" " * max(0, room - used - width(name)), "on $panel")
        badge = (f" {state.number} ", BADGE)
        named = [(f" {name}", "bold $foreground on $panel"), (model, "$foreground on $panel")]
        return Content.assemble(badge, *named, gap, *right)


class PaneFoot(Widget):
    """A pane's bar and figures, in three rows, two or one."""

    DEFAULT_CSS = "PaneFoot { height: 3; padding: 0 1; background: $background; color: $quiet; }"

    def __init__(self) -> None:
        super().__init__()
        self.state = LaneFigures(1, "")

    def render(self) -> Content:
        room, rows = self.size.width, self.size.height
        state = self.state
        if rows >= 3:
            lines = [
                self._bar(room),
                self._figures(room, ("seconds", "speed", "other" if state.unit != "tokens" else "step")),
                self._compared(room),
            ]
        elif rows == 2:
            lines = [self._bar(room), self._figures(room, ("sign", "speedup", "seconds", "speed", "step"))]
        else:
            lines = [self._figures(room, ("sign", "speedup", "seconds", "speed", "amount"))]
        if state.doing and not state.amount:
            lines[-1] = Content.styled(fit(state.doing, room), "$quiet")
        return Content("\n").join(lines)

    def _bar(self, room: int) -> Content:
        state = self.state
        right = f" {_amount(state)}"
        cells = max(4, room - max(11, len(right)))
        share = state.amount / state.expected if state.expected else 0.0
        filled = eighths(share, cells).ljust(cells)
        style = f"${bar_name(state.tokens_per_step)} on $panel"
        return Content.assemble((filled, style), (right.rjust(room - cells), "$quiet"))

    def _figures(self, room: int, names: tuple[str, ...]) -> Content:
        """Draw figures in order, as many as fit."""
        state = self.state
        if state.slowed:
            names = tuple(name for name in names if name not in ("speed", "other"))
        passes, _, unit = counted(state.passes, "pass", "passes").partition(" ")

        def figure(value: str, unit: str = "") -> Parts:
            return [(value, "bold $foreground"), (f" {unit}" if unit else "", "$quiet")]

        parts: dict[str, Parts] = {
            "sign": [(state.sign, f"bold {state.mark_style}")],
            "speedup": figure(times(state.speedup) if state.speedup else ""),
            "seconds": figure(passes, unit) if state.slowed else figure(clock_of(state.seconds)),
            "speed": figure(rate(state.speed), f"{SHORT[state.unit]}/s"),
            "other": figure(rate(state.tokens_per_second), "tokens/s"),
            "step": figure(_step(state), "tokens a pass"),
            "amount": figure(*_amount(state).split(" ")),
        }
        if sum(sum(width(text) for text, _ in parts[name]) + 2 for name in names) - 2 > room:
            parts["step"][1] = ("/pass", "$quiet")
        line: Parts = []
        used = 0
        for name in names:
            size = sum(width(text) for text, _ in parts[name])
            gap = 2 if line else 0
            if size and used + gap + size <= room:
                line += [(" " * gap, ""), *parts[name]]
                used += gap + size
        return Content.assemble(*line)

    def _compared(self, room: int) -> Content:
        state = self.state
        if state.doing and not state.running:
            return Content.styled(fit(state.doing, room), "$warning")
        speedup = times(state.speedup) if state.speedup else ""
        mark = f"{state.sign} {state.mark}" if state.mark else ""
        parts = [(speedup, "bold $foreground"), ("  " if speedup and mark else "", "")]
        mark = fit(mark, room - sum(len(text) for text, _ in parts))
        line = Content.assemble(*parts, (mark, state.mark_style))
        if state.unit == "tokens" or not state.amount:
            return line
        # The row above has characters and tokens, so this one has the tokens a pass.
        step = _step(state)
        for words in (" tokens a pass", "/pass"):
            if (gap := room - line.cell_length - len(step) - len(words)) >= 2:
                return Content.assemble(line, " " * gap, (step, "bold $foreground"), (words, "$quiet"))
        return line


def _step(state: LaneFigures) -> str:
    return "–" if state.unknown else f"{state.tokens_per_step:.2f}"


def _amount(state: LaneFigures) -> str:
    return counted(state.amount, SHORT[state.unit].removesuffix("s"))


class RacePane(Vertical):
    """The pane of a lane: title, text, figures."""

    DEFAULT_CSS = "RacePane { width: 1fr; height: 1fr; background: $background; & > RunText { height: 1fr; } }"

    def __init__(self) -> None:
        super().__init__()
        self.title = PaneTitle()
        self.text = RunText()
        self.foot = PaneFoot()

    def compose(self) -> ComposeResult:
        yield self.title
        yield self.text
        yield self.foot

    def on_resize(self) -> None:
        self.foot.styles.height = 1 + sum(self.size.height >= least for least in (ROOMY, SNUG))

    def show(self, state: LaneFigures, answer: Answer, note: str = "") -> None:
        self.text.show(answer, one_line(note))
        for part in (self.title, self.foot):
            if part.state != state:
                part.state = state
                part.refresh()
