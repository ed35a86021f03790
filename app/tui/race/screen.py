"""The race on the screen: two to four panes, and the results below them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.timer import Timer
from textual.widget import Widget

from ...race.choices import ModelChoice
from ...race.entry import RaceEntry
from ...race.guests import short_name
from ...race.lane import Racer
from ...race.race import FEWEST, MOST, Race
from ...race.record import RaceRecord
from ...render.numbers_page import SURE
from ...render.thoughts import Thoughts
from ...settings.keymap import RACE
from ...theming.colouring import Colouring, effective
from ..actions.switch import method_items
from ..closing import ClosingScreen
from ..host import Host
from ..keys.bar import KeyBar
from ..keys.context import KeyContext, bindings_of
from ..pickers.menu import Menu, MenuItem
from ..pickers.method_menu import MethodMenu
from .around import RaceHeader, race_keys
from .pane import RacePane
from .photo_finish import PhotoFinish, too_close
from .setup import AskModel
from .state import live_state, standings

SIDE_BY_SIDE = 36
"""Cells that a pane needs beside another."""

FIGURES_SECONDS = 0.12
"""Between two updates of the figures: as fast as they can be read."""


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
        entry: Callable[[str], RaceEntry],
        ask_model: AskModel,
        export: Callable[[RaceRecord], None],
        caption: Widget | None = None,
    ) -> None:
        super().__init__()
        self.race = race
        self._host, self._entry, self._ask_model, self._export = host, entry, ask_model, export
        self.panes: list[RacePane] = []
        self._header = RaceHeader(race.prompt)
        self._lanes = Container(id="lanes")
        self._caption = caption
        self._finish = PhotoFinish(id="finish")
        self._keys = KeyBar(host.live.keymap)
        self._finish_hidden = False
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
        self.refresh_race(now=True)

    def on_resize(self) -> None:
        self._arrange()

    # Showing

    def refresh_race(self, now: bool = False) -> None:
        """Show what changed: texts at once, figures a few times a second."""
        if not self._lanes.is_attached:
            return
        race = self.race
        self._sync()
        self._stopping = self._stopping and race.running
        lanes = tuple(racer.done for racer in race.racers)
        state = (race.running, race.settling, race.round, race.paused, lanes)
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
            word = "‖ paused" if race.paused else "● loading" if race.models.loading is not None else "● racing"
            word = "stopping" if self._stopping else word
            self._header.say(word, "$warning" if self._stopping else "bold $accent" if race.paused else "$success")
        elif race.settling:
            self._header.say(f"● round {race.round}", "$success")
        else:
            self._header.say("photo finish" if too_close(standings(race)) else "finished", "bold $primary")
        self._keys.key_context = self.key_context
        shown = not (race.running or race.settling) and not self._finish_hidden
        if shown:
            self._finish.show(standings(race))
        self._finish.set_class(shown, "-shown")

    @property
    def key_context(self) -> KeyContext:
        return race_keys(self.race, self._finish_hidden, self)

    def _sync(self) -> None:
        count = len(self.race.racers)
        if len(self.panes) == count:
            return
        while len(self.panes) > count:
            self.panes.pop().remove()
        new = [RacePane() for _ in range(count - len(self.panes))]
        for pane in new:
            pane.text.colouring, pane.text.thoughts = self._host.view.colouring, self._host.view.thoughts
        self.panes += new
        if new:
            self._lanes.mount(*new)
        self._arrange()

    def _arrange(self) -> None:
        """Side by side where there is room for it, else two by two, else one below the other."""
        count, cells = len(self.panes), self.app.size.width
        if not count:
            return
        columns = count if cells // count >= SIDE_BY_SIDE else 2 if count > 2 and cells // 2 >= SIDE_BY_SIDE else 1
        rows = -(-count // columns)
        self._lanes.styles.grid_size_columns = columns
        self._lanes.styles.grid_size_rows = rows
        for i, pane in enumerate(self.panes):
            # The last of three takes the room of two.
            pane.styles.column_span = columns if i == count - 1 and columns > 1 and count % columns else 1

    # Keys

    def _go(self) -> None:
        self._finish_hidden = self._stopping = False
        self._host.stir()
        self.refresh_race(now=True)

    def _has_text(self) -> bool:
        return any(racer.answer.runs for racer in self.race.racers)

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
        self._go()

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
        if not self._has_text():
            self._host.tell("There is nothing to export yet: no pane has any text.")
            return
        self._export(self.race.record())

    def action_finish(self) -> None:
        if not self.race.running:
            self._finish_hidden = not self._finish_hidden
            self.refresh_race(now=True)

    def action_swap(self, number: int) -> None:
        if number > len(self.race.racers):
            return
        current = self.race.racers[number - 1].entry
        guest = self.race.models.get(current.key)

        def answered(name: str) -> None:
            self._swap(number, replace(self._entry(name), model=current.model, backend=current.backend))

        items = method_items(self._host.dialogue, guest)
        title, keymap = f"Method of pane {number}", self._host.live.keymap
        self._host.ask(MethodMenu(title, items, current.method, {}, keymap), answered)

    def action_model(self) -> None:
        racers = self.race.racers
        own, names = short_name(self.race.dialogue.model), self.race.model_names
        items = [MenuItem(str(i), racer.entry.name, detail=names[i] or own) for i, racer in enumerate(racers)]

        def asked(index: str) -> None:
            entry = racers[int(index)].entry

            def chosen(choice: ModelChoice | None) -> None:
                if choice is not None and choice.key != entry.key:
                    self._swap(int(index) + 1, replace(entry, model=choice.model, backend=choice.backend))

            title = f"Model of pane {int(index) + 1}: {entry.name}"
            self._ask_model(title, {entry.key}, "It already runs in this pane.", chosen)

        last = str(len(items) - 1)
        self._host.ask(Menu("Change the model of which pane?", items, last, self._host.live.keymap), asked)

    def _swap(self, number: int, entry: RaceEntry) -> None:
        if number <= len(self.race.racers):
            self.race.swap(number - 1, entry)
            self._go()

    def action_add(self) -> None:
        if len(self.race.racers) >= MOST:
            self._host.tell(f"A race has at most {MOST} panes. 1–{MOST} change the method of one.")
            return

        def answered(name: str) -> None:
            self.race.add(self._entry(name))
            self._go()

        items = method_items(self._host.dialogue)
        self._host.ask(Menu("Add a pane", items, "", self._host.live.keymap), answered)

    def action_remove(self) -> None:
        racers = self.race.racers
        if len(racers) <= FEWEST:
            self._host.tell(f"A race needs {FEWEST} panes. Press a pane's number to change its method.")
            return
        names = self.race.model_names
        items = [MenuItem(str(i), racer.entry.name, detail=names[i]) for i, racer in enumerate(racers)]

        def answered(index: str) -> None:
            self.race.remove(int(index))
            self._go()

        self._host.ask(Menu("Remove which pane?", items, str(len(racers) - 1), self._host.live.keymap), answered)

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
