"""The screen of a race: two to four panes, and the results below them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ...race.race import Race
from ...race.record import RaceRecord
from ...render.numbers_page import SURE
from ...settings.keymap import RACE
from ...text.amounts import pace_of
from ...text.cells import one_line
from ...theming.colouring import Colouring, effective, legend_line
from ..host import Host
from ..keys import KeyBar, KeyContext, bindings_of, hints
from ..terminal_app import ClosingScreen
from .pane import RacePane
from .photo_finish import PhotoFinish
from .state import lane_figures, standings

SIDE_BY_SIDE = 36
"""Fewest cells of a pane next to another."""

FIGURES_SECONDS = 0.12
"""Between two updates of the figures: as fast as they can be read."""

LEGEND_FROM = 110
"""Fewest cells of a header with a legend."""


class RaceHeader(Horizontal):
    """The line at the top: prompt, legend, and the state of the race."""

    DEFAULT_CSS = """
    RaceHeader {
        height: 1; padding: 0 1; background: $surface;
        & > Static { text-wrap: nowrap; text-overflow: ellipsis; }
        & > #prompt { width: 1fr; }
        & > #state { width: auto; padding: 0 0 0 3; }
    }
    """

    def __init__(self, prompt: str) -> None:
        title = Content.assemble(("race", "bold $primary"), ("  ·  ", "$faint"), (one_line(prompt), "$foreground"))
        self._status = Static(id="state")
        super().__init__(Static(title, id="prompt"), self._status)
        self.state: tuple[str, str, Colouring] = ("", "", "off")

    def say(self, text: str, style: str, colouring: Colouring) -> None:
        state = (text, style, colouring if self.app.size.width >= LEGEND_FROM else "off")
        if state != self.state:
            self.state = state
            self._status.update(Content.assemble(*legend_line(state[2]), ("   ", ""), (text, style)))


class RaceScreen(ClosingScreen[None]):
    """The screen of a race, from the start to the results."""

    AUTO_FOCUS = None
    DEFAULT_CSS = """
    RaceScreen {
        background: $background; color: $foreground;
        & #lanes { height: 1fr; layout: grid; grid-gutter: 0 1; grid-rows: 1fr; background: $panel; }
        & PhotoFinish { display: none; }
        & PhotoFinish.-shown { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(RACE)

    def __init__(
        self,
        race: Race,
        host: Host,
        export: Callable[[RaceRecord], None],
        caption: Widget | None = None,
    ) -> None:
        super().__init__()
        self.race = race
        self._host = host
        self._export = export
        self.panes = [RacePane() for _ in race.racers]
        self._header = RaceHeader(race.prompt)
        self._lanes = Container(*self.panes, id="lanes")
        self._caption = caption
        self._finish = PhotoFinish(id="finish")
        self._keys = KeyBar(host.live.keymap)
        self._stopping = False
        self._drawn = 0.0
        self._state: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._lanes
        if self._caption is not None:
            yield self._caption
        yield self._finish
        yield self._keys

    def on_mount(self) -> None:
        self.refresh_race(now=True)

    # Drawing

    def refresh_race(self, now: bool = False) -> None:
        """Redraw: texts at once, figures no faster than they can be read."""
        if not self._lanes.is_attached:
            return
        race = self.race
        self._stopping = self._stopping and race.running
        lanes = tuple(racer.done for racer in race.racers)
        state = (race.running, race.paused, race.pace, lanes)
        full = now or state != self._state or not race.running or monotonic() - self._drawn >= FIGURES_SECONDS
        if full:
            self._state = state
            self._drawn = monotonic()
        for pane, racer in zip(self.panes, race.racers, strict=True):
            unknown = racer.done and racer.answer.figures.certainty == "unknown"  # a server does not show its passes
            figures = lane_figures(race, racer) if full else pane.foot.figures
            pane.text.colouring = self._host.view.colouring
            pane.text.thoughts = self._host.view.thoughts
            pane.show(figures, racer.answer, racer.error or (SURE["unknown"] if unknown else ""))
        if full:
            self._header.say(*self._status(), effective(self._host.view.colouring, self.app.no_color))
            self._keys.key_context = self.key_context
            over = not (race.running or race.settling)
            if over:
                self._finish.show(standings(race))
            self._finish.set_class(over, "-shown")

    def _status(self) -> tuple[str, str]:
        """Describe the state of the race in a word, with its style."""
        race = self.race
        if race.running and self._stopping:
            return "stopping", "$warning"
        if race.running and race.paused:
            return "‖ paused", "bold $accent"
        if race.running and race.models.loading is not None:
            return "● loading", "$success"
        if race.running:
            return f"● {pace_of(race.pace) if race.pace else 'racing'}", "$success"
        if race.settling:
            return f"● round {race.round}", "$success"
        return "finished", "bold $primary"

    @property
    def key_context(self) -> KeyContext:
        race = self.race
        around = (("race_help", ""), ("race_theme", ""), ("race_colours", ""), ("race_up race_down", "scroll"))
        if race.running:
            pause = ("race_pause", "continue" if race.paused else "pause")
            now = hints(("race_leave", "stop"), pause, ("race_pace", ""), ("race_rerun", ""), *around)
            return KeyContext("A race is running", now, self)
        done = (("race_leave", ""), ("race_rerun", ""), ("race_export", ""))
        return KeyContext("A race is finished", hints(*done, *around), self)

    def on_resize(self) -> None:
        """Arrange the panes side by side if there is room, else two by two, else one below the other."""
        count, cells = len(self.panes), self.app.size.width
        columns = next((columns for columns in (count, 2) if cells // columns >= SIDE_BY_SIDE), 1)
        rows = -(-count // columns)
        self._lanes.styles.grid_size_columns = columns
        self._lanes.styles.grid_size_rows = rows
        for i, pane in enumerate(self.panes):
            # The last of three is as wide as two.
            pane.styles.column_span = columns if i == count - 1 and columns > 1 and count % columns else 1

    # Keys

    def action_leave(self) -> None:
        if self.race.running and not self._stopping:
            self.race.cancel()
            self._stopping = True
            self._host.expect_events()
            self.refresh_race(now=True)
        else:
            self.dismiss(None)

    def action_rerun(self) -> None:
        self.race.start()
        self._stopping = False
        self._host.expect_events()
        self.refresh_race(now=True)

    def action_pause(self) -> None:
        if self.race.served:
            self._host.tell("A server's answer cannot be paused; esc stops it.")
        elif self.race.running:
            self.race.pause()
            self._host.expect_events()
            self.refresh_race(now=True)

    def action_export(self) -> None:
        if not any(racer.answer.runs for racer in self.race.racers):
            self._host.tell("There is nothing to export yet: no pane has any text.")
            return
        self._export(self.race.record())

    def action_scroll_texts(self, direction: int) -> None:
        for pane in self.panes:
            pane.text.scroll_relative(y=direction * max(1, pane.text.size.height // 2), animate=False)
