"""The race on the screen: two to four panes, and the results below them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget

from ...race.lane import Racer
from ...race.race import Race
from ...race.record import RaceRecord
from ...render.numbers_page import SURE
from ...render.thoughts import Thoughts
from ...settings.keymap import RACE
from ...text.amounts import pace_of
from ...text.cells import fit, one_line
from ...theming.colouring import Colouring, effective, legend_line
from ..closing import ClosingScreen
from ..host import Host
from ..keys.bar import KeyBar
from ..keys.context import KeyContext, bindings_of, hints
from .pane import RacePane
from .photo_finish import PhotoFinish, too_close
from .state import live_state, standings

SIDE_BY_SIDE = 36
"""Cells that a pane needs beside another."""

FIGURES_SECONDS = 0.12
"""Between two updates of the figures: as fast as they can be read."""

LEGEND_FROM = 110
"""Narrower headers have no room for the legend beside the prompt."""


class RaceHeader(Widget):
    """One line: what is raced on, what the colours mean, and how it stands."""

    DEFAULT_CSS = "RaceHeader { height: 1; padding: 0 1; background: $surface; color: $quiet; }"

    def __init__(self, prompt: str) -> None:
        super().__init__()
        self._prompt = one_line(prompt)
        self._way: Colouring = "off"
        self.state: tuple[str, str] = ("", "")

    def say(self, text: str, style: str) -> None:
        if self.state != (text, style):
            self.state = (text, style)
            self.refresh()

    def colouring(self, way: Colouring) -> None:
        self._way = way
        self.refresh()

    def render(self) -> Content:
        left, right = Content.styled("race", "bold $primary"), Content.styled(*self.state)
        if self.size.width >= LEGEND_FROM:
            right = Content.assemble(*legend_line(self._way), "   ", right)
        room = self.size.width - left.cell_length - right.cell_length - 8
        if room > 8:
            left = Content.assemble(left, ("  ·  ", "$faint"), (fit(self._prompt, room), "$foreground"))
        return Content.assemble(left, " " * max(1, self.size.width - left.cell_length - right.cell_length), right)


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
        self._host, self._export = host, export
        self.panes = [RacePane() for _ in race.racers]
        self._header = RaceHeader(race.prompt)
        self._lanes = Container(*self.panes, id="lanes")
        self._caption = caption
        self._finish = PhotoFinish(id="finish")
        self._keys = KeyBar(host.live.keymap)
        self._stopping = False
        self._drawn = 0.0
        self._state: tuple[object, ...] = ()
        self._later: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._lanes
        if self._caption is not None:
            yield self._caption
        yield self._finish
        yield self._keys

    def on_mount(self) -> None:
        self.colouring(self._host.view.colouring)
        self.thoughts(self._host.view.thoughts)
        self.refresh_race(now=True)

    def on_resize(self) -> None:
        self._arrange()

    # Showing

    def refresh_race(self, now: bool = False) -> None:
        """Show what changed: texts at once, figures a few times a second."""
        if not self._lanes.is_attached:
            return
        race = self.race
        self._stopping = self._stopping and race.running
        lanes = tuple(racer.done for racer in race.racers)
        state = (race.running, race.settling, race.round, race.paused, race.pace, lanes)
        due = FIGURES_SECONDS - (monotonic() - self._drawn)
        full = now or state != self._state or due <= 0
        if full:
            self._state, self._drawn = state, monotonic()
        elif self._later is None:
            self._later = self.set_timer(due, self._catch_up)
        for i, (pane, racer) in enumerate(zip(self.panes, race.racers, strict=True)):
            shown = live_state(race, i) if full else pane.foot.state
            pane.show(shown, racer.answer, note=racer.error or _about_runs(racer))
        if full:
            self._around()

    def _catch_up(self) -> None:
        self._later = None
        self.refresh_race(now=True)

    def _around(self) -> None:
        race = self.race
        if race.running:
            racing = pace_of(race.pace) if race.pace else "racing"
            word = "‖ paused" if race.paused else "● loading" if race.models.loading is not None else f"● {racing}"
            word = "stopping" if self._stopping else word
            self._header.say(word, "$warning" if self._stopping else "bold $accent" if race.paused else "$success")
        elif race.settling:
            self._header.say(f"● round {race.round}", "$success")
        else:
            self._header.say("photo finish" if too_close(standings(race)) else "finished", "bold $primary")
        self._keys.key_context = self.key_context
        shown = not (race.running or race.settling)
        if shown:
            self._finish.show(standings(race))
        self._finish.set_class(shown, "-shown")

    @property
    def key_context(self) -> KeyContext:
        """What the user is doing, and the keys that matter for it."""
        race = self.race
        around = (("race_help", ""), ("race_theme", ""), ("race_colours", ""), ("race_up race_down", "scroll"))
        if race.running:
            pause = ("race_pause", "continue" if race.paused else "pause")
            now = hints(("race_leave", "stop"), pause, ("race_pace", ""), ("race_rerun", ""), *around)
            return KeyContext("A race is running", now, self)
        done = (("race_leave", ""), ("race_rerun", ""), ("race_export", ""))
        return KeyContext("A race is finished", hints(*done, *around), self)

    def _arrange(self) -> None:
        """Side by side where there is room for it, else two by two, else one below the other."""
        count, cells = len(self.panes), self.app.size.width
        columns = count if cells // count >= SIDE_BY_SIDE else 2 if count > 2 and cells // 2 >= SIDE_BY_SIDE else 1
        rows = -(-count // columns)
        self._lanes.styles.grid_size_columns = columns
        self._lanes.styles.grid_size_rows = rows
        for i, pane in enumerate(self.panes):
            # The last of three takes the room of two.
            pane.styles.column_span = columns if i == count - 1 and columns > 1 and count % columns else 1

    # Keys

    def action_leave(self) -> None:
        if self.race.running and not self._stopping:
            self.race.cancel()
            self._stopping = True
            self._host.stir()
            self.refresh_race(now=True)
        else:
            self.dismiss(None)

    def action_rerun(self) -> None:
        self.race.start()
        self._stopping = False
        self._host.stir()
        self.refresh_race(now=True)

    def action_pause(self) -> None:
        if self.race.running:
            served = [racer for racer in self.race.served if not racer.done]
            if served and not self.race.paused:
                rest = " The other panes wait." if len(served) < sum(not racer.done for racer in self.race.racers) else ""
                self._host.tell(f"A server's answer cannot be paused; esc stops it.{rest}")
                if not rest:
                    return
            self.race.pause()
            self._host.stir()
        else:
            self._host.tell("Nothing is running. r runs the race again.")
        self.refresh_race(now=True)

    def action_export(self) -> None:
        if not any(racer.answer.runs for racer in self.race.racers):
            self._host.tell("There is nothing to export yet: no pane has any text.")
            return
        self._export(self.race.record())

    def colouring(self, way: Colouring) -> None:
        self._header.colouring(effective(way, self.app.no_color))
        for pane in self.panes:
            pane.text.colouring = way

    def thoughts(self, way: Thoughts) -> None:
        for pane in self.panes:
            pane.text.thoughts = way

    def action_scroll_texts(self, direction: int) -> None:
        for pane in self.panes:
            pane.text.scroll_relative(y=direction * max(1, pane.text.size.height // 2), animate=False)


def _about_runs(racer: Racer) -> str:
    """A sentence where a server does not tell which tokens came together."""
    return SURE["unknown"] if racer.done and racer.answer.figures.certainty == "unknown" else ""
