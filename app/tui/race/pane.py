"""The pane of a lane: its method and model, text, clock, figures, and the comparison of its tokens."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....errors import counted
from ...chat.entries import Answer
from ...race.lane import SHORT
from ...text.amounts import clock_of, rate, times
from ...text.cells import fit, one_line, width
from ...text.charts import eighths
from ...theming.colouring import LABEL_STYLES, bar_name
from ..transcript.rows import RunText
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
    figures = LaneFigures(1, "")

    def render(self) -> Content:
        figures, room = self.figures, self.size.width
        right: Parts = []
        if figures.place is not None:
            style = "bold $background on $success" if figures.place == 1 else "bold $foreground on $panel"
            right = [(f" {PLACES[figures.place - 1]} ", style)]
        used = 4 + sum(len(text) for text, _ in right)
        label = f" {figures.label} " if figures.label else " "
        # The model takes the cells after the method, and at least half of the row.
        model_room = min(width(figures.model) + 3, room // 2) if figures.model else 0
        name = fit(figures.method, max(4, room - used - model_room))
        model = f" · {fit(figures.model, room - used - width(name) - 3)}" if figures.model else ""
        used += width(model)
        if len(label) + width(name) + used <= room:
            right = [(label, f"{LABEL_STYLES.get(figures.label, '$quiet')} on $panel"), *right]
            used += len(label)
        gap = (" " * max(0, room - used - width(name)), "on $panel")
        named = [(f" {name}", "bold $foreground on $panel"), (model, "$foreground on $panel")]
        return Content.assemble((f" {figures.number} ", BADGE), *named, gap, *right)


class PaneFoot(Widget):
    """A pane's bar and figures, in three rows, two or one."""

    DEFAULT_CSS = "PaneFoot { height: 3; padding: 0 1; background: $background; color: $quiet; }"
    figures = LaneFigures(1, "")

    def render(self) -> Content:
        room, rows, figures = self.size.width, self.size.height, self.figures
        match rows:
            case 1:
                lines = [self._row(room, "sign", "speedup", "seconds", "speed", "amount")]
            case 2:
                lines = [self._bar(room), self._row(room, "sign", "speedup", "seconds", "speed", "step")]
            case _:
                lines = [self._bar(room), self._row(room, "seconds", "speed", "step"), self._row(room, "speedup", "mark")]
        if figures.doing and not (figures.running and figures.amount):
            lines[-1] = Content.styled(fit(figures.doing, room), "$quiet" if figures.running else "$warning")
        return Content("\n").join(lines)

    def _bar(self, room: int) -> Content:
        figures = self.figures
        right = f" {_amount(figures)}"
        cells = max(4, room - max(11, len(right)))
        filled = eighths(figures.amount / max(1, figures.expected), cells).ljust(cells)
        style = f"${bar_name(figures.tokens_per_step)} on $panel"
        return Content.assemble((filled, style), (right.rjust(room - cells), "$quiet"))

    def _row(self, room: int, *names: str) -> Content:
        """Draw figures in order, as many as fit."""
        figures = self.figures
        passes, _, noun = counted(figures.passes, "pass", "passes").partition(" ")

        def figure(value: str, unit: str = "") -> Parts:
            return [(value, "bold $foreground"), (f" {unit}" if unit else "", "$quiet")]

        parts: dict[str, Parts] = {
            "sign": [(figures.sign, f"bold {figures.mark_style}")],
            "speedup": figure(times(figures.speedup) if figures.speedup and figures.number > 1 else ""),
            "seconds": figure(passes, noun) if figures.slowed else figure(clock_of(figures.seconds)),
            "speed": [] if figures.slowed else figure(rate(figures.speed), f"{SHORT[figures.unit]}/s"),
            "step": figure(f"{figures.tokens_per_step:.2f}" if figures.tokens_per_step else "–", "tokens a pass"),
            "amount": figure(*_amount(figures).split(" ")),
            "mark": [(f"{figures.sign} {figures.mark}" if figures.mark else "", figures.mark_style)],
        }
        if sum(sum(width(text) for text, _ in parts[name]) + 2 for name in names) - 2 > room:
            parts["step"][1] = ("/pass", "$quiet")
        line: Parts = []
        used = 0
        for name in names:
            gap = 2 if line else 0
            if name == "mark":
                parts[name] = [(fit(text, room - used - gap), style) for text, style in parts[name]]
            size = sum(width(text) for text, _ in parts[name])
            if size and used + gap + size <= room:
                line += [(" " * gap, ""), *parts[name]]
                used += gap + size
        return Content.assemble(*line)


def _amount(figures: LaneFigures) -> str:
    return counted(figures.amount, SHORT[figures.unit].removesuffix("s"))


class RacePane(Vertical):
    """The pane of a lane: title, text, an error, figures."""

    DEFAULT_CSS = """
    RacePane {
        width: 1fr; height: 1fr; background: $background;
        & > RunText { height: 1fr; }
        & > Static { height: auto; max-height: 50%; padding: 0 1; color: $error; display: none; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.title = PaneTitle()
        self.text = RunText()
        self.note = Static(markup=False)
        self.foot = PaneFoot()

    def compose(self) -> ComposeResult:
        yield self.title
        yield self.text
        yield self.note
        yield self.foot

    def on_resize(self) -> None:
        self.foot.styles.height = 1 + sum(self.size.height >= least for least in (ROOMY, SNUG))

    def show(self, figures: LaneFigures, answer: Answer, note: str) -> None:
        self.text.show(answer)
        if bool(note) != self.note.display:
            self.note.update(one_line(note))
            self.note.display = bool(note)
        for part in (self.title, self.foot):
            if part.figures != figures:
                part.figures = figures
                part.refresh()
