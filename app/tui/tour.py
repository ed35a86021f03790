"""The tour: one token at a time, the same text in runs, a race; then it is the user's turn. It runs live on the loaded model,
slowly enough to watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from time import monotonic
from typing import Literal

from textual.content import Content
from textual.widget import Widget
from textual.worker import Worker

from ...errors import counted
from ..chat.entries import Answer
from ..chat.methods import get_method
from ..race.entry import drafts, race_prompt, suggest_methods
from ..race.race import FEWEST, Race
from ..render.verdict import against
from ..settings import actions
from ..settings.keymap import shown_keys
from ..text.cells import width
from .actions.dispatch import runs
from .host import Host
from .race.races import Races
from .race.state import standings

TEXT = (
    "A small model runs ahead and guesses. The large one checks all the guesses in one pass, keeps those that it agrees with, "
    "and writes the next word itself. So the text stays the same, and it takes fewer passes."
)
"""The answer: it explains the picture, and both a draft model and a lookup guess it well."""
PROMPT = f"Repeat this text exactly: {TEXT}"
BEGINNING = f"{TEXT}\n\n{TEXT}\n\nA small model"
"""The prompt for a base model, which continues a text."""
NEXT = "Turn this into a JSON array: lantern, compass, telescope, notebook"
"""Message in the input box at the end."""
NEXT_BEGINNING = "Rivers of Europe:\n- Danube\n- Rhine\n-"
"""The same for a base model."""

PLAIN = "Plain decoding: one pass through the model, one token."
GUESSES = {"draft": "A draft model guesses ahead", "lookup": "Guesses from the text so far"}
"""Methods that the tour prefers, those easiest to explain first → their sentences."""

TICK = 1 / 30
"""Seconds between two checks."""
PLAIN_BEAT, PLAIN_SECONDS = 0.3, 4.5
"""Seconds for a pass of one token, and for all of them."""
RUN_BEAT, RUN_SECONDS = 1.0, 8.0
"""Seconds for a pass of several tokens, and for all of them."""
REST_SECONDS = 3.0
"""Longest rest of the answer, at full speed."""
RACE_SECONDS, LONGEST_RACE = 7.0, 9.0
"""Seconds for the slowest lane, and for the race at most."""
LOOK_SECONDS, READ_SECONDS = 2.0, 4.0
"""Time to look at the whole answer, and to read the result of the race."""

STEPS = 4
GUTTER = 10
"""Cells before the sentence of the caption."""

ENDS = {"died": "the engine stopped.", "error": "the model could not answer."}
"""Finish reason that ends the tour → its sentence."""

TourStart = Literal["begin", "offer", ""]
"""The start of a new chat: begin the tour, offer it to a new user in a line, or neither."""


class Caption(Widget):
    """The caption of the tour, below the chat or the race that it explains: at the left the step and the key that ends the
    tour, then a sentence and its figures or keys."""

    DEFAULT_CSS = """
    Caption { height: 2; max-width: 106; padding: 0 1; background: $surface; color: $foreground; border-left: outer $accent; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.state: tuple[int, str, str] = (0, "", "")
        """Step, sentence, and its figures or keys."""

    def say(self, step: int, sentence: str, detail: str = "") -> None:
        if self.state != (step, sentence, detail):
            self.state = (step, sentence, detail)
            self.refresh()

    def render(self) -> Content:
        """Wrap the sentence; the detail takes the second line if it is free."""
        step, sentence, detail = self.state
        room = max(1, self.size.width - GUTTER)
        text = Content.assemble((sentence, "$foreground"), "\n" if width(sentence) <= room else "  ", (detail, "bold $accent"))
        lines = [*text.wrap(room), Content(""), Content("")][:2]
        gutter = (Content.styled(f"{step} of {STEPS}", "bold $primary"), Content.styled("esc ends", "$quiet"))
        rows = zip(gutter, lines, strict=True)
        return Content("\n").join(Content.assemble(left, " " * (GUTTER - left.cell_length), line) for left, line in rows)


class Tours:
    """Starts the tour and ends it; at most one runs."""

    def __init__(self, host: Host, races: Races) -> None:
        self.host = host
        self._races = races
        self._worker: Worker[None] | None = None
        self._tour: Tour | None = None

    @runs(actions.TOUR)
    def start(self) -> None:
        self.host.dialogue.must_be_idle("take the tour")
        self.leave()
        self._tour = Tour(self.host, self._races)
        self._worker = self.host.box.run_worker(self._tour.play(), group="tour")

    def leave(self) -> bool:
        """End the tour; False if there is none."""
        worker, self._worker = self._worker, None
        if worker is None or worker.is_finished or self._tour is None:
            return False
        self._tour.clear_box()
        worker.cancel()
        return True


class TourOver(Exception):
    """The tour ends early; the text is a reason to show, or empty."""


class Tour:
    """The running tour."""

    def __init__(self, host: Host, races: Races) -> None:
        self.host = host
        self.dialogue = host.dialogue
        self._races = races
        self._screen = host.box.screen
        self._chat = host.dialogue.transcript
        self._text = host.box.text
        self._caption = self._screen.query_one(Caption)
        self._clock = 0.0
        """Seconds of the tour, without those below another screen or in a paused race."""
        self._answer: Answer | None = None
        self._race: Race | None = None
        self._method = host.dialogue.method
        self._before = host.dialogue.method if host.dialogue.chosen else None
        """Method chosen before the tour; None for the model's default."""
        self._pace = host.dialogue.pace
        """Pace set by the tour."""
        self._cut = False
        """Whether the tour has stopped the answer."""
        self._user_took_over = False

    async def play(self) -> None:
        try:
            await self._begin()
            await self._one_by_one()
            names = (name for name in (*GUESSES, *suggest_methods(self.dialogue)) if name in self.dialogue.methods)
            able = (name for name in names if name not in self.dialogue.unavailable and drafts(self.dialogue, name))
            if fast := next(able, ""):
                await self._in_runs(fast)
                await self._race_methods()
            await self._hand_over(fast)
        except TourOver as over:
            if str(over):
                self.host.tell(f"The tour ends here: {over} /tour starts it again.", "warning")
        finally:
            self._end()

    def clear_box(self) -> None:
        """Remove the tour's message from the input box, unless the user has changed it."""
        if self.host.box.text in (NEXT, NEXT_BEGINNING):
            self.host.box.put("")

    # The steps

    async def _begin(self) -> None:
        if self._chat.entries:
            self.host.new_chat()
        self._chat = self.dialogue.transcript
        self._text = self.host.box.text
        self.host.box.focus()
        self._caption.display = True
        self._caption.say(1, "The tour begins as soon as the model is loaded.")
        await self._until(lambda: self.dialogue.phase != "loading")
        if self.dialogue.phase != "ready":
            raise TourOver("no model is loaded.")
        if self.dialogue.info.server:
            raise TourOver("it needs a model on this machine. Load one with /model builtin.")

    async def _one_by_one(self) -> None:
        self._switch(suggest_methods(self.dialogue)[0])
        self._set_pace(1 / PLAIN_BEAT)
        self.dialogue.submit(BEGINNING if self.dialogue.completes else PROMPT)
        self._answer = self.dialogue.answer
        self._screen.add_class("-tour")
        self.host.view.follow()
        await self._passes(1, PLAIN, PLAIN_SECONDS)

    async def _in_runs(self, fast: str) -> None:
        if not self._writing:  # a short answer
            return
        self._switch(fast)
        self._set_pace(1 / RUN_BEAT)
        sentence = f"{GUESSES.get(fast, f'{fast} guesses ahead')}: each coloured stretch took one pass."
        await self._passes(2, sentence, RUN_SECONDS)
        self._set_pace(0.0)
        if not await self._until(lambda: not self._writing, REST_SECONDS):
            self._cut = self.dialogue.cancel()
            await self._until(lambda: not self._writing)
        await self._until(lambda: False, LOOK_SECONDS)

    async def _race_methods(self) -> None:
        races, answer = self._races, self._answer
        names, subject = suggest_methods(self.dialogue), race_prompt(self.dialogue, None)
        if len(names) < FEWEST or subject is None or answer is None:
            return
        race = self._race = Race(self.dialogue, *subject, [races.entry(name) for name in names], races.ids)
        tokens = len(answer.log.tokens)
        if self._cut:  # the model finds no end
            race.max_tokens = tokens
        rate, figures = tokens / RACE_SECONDS, answer.figures
        race.pace = rate if rate * figures.decode_seconds < figures.steps else 0.0
        chat, self._caption = self._caption, Caption()
        slowly = ", in slow motion" if race.pace else ""
        self._caption.say(3, f"A race of {len(names)} methods on the same message{slowly}.")
        screen = races.begin(race, self._caption)
        stopped = False
        try:
            for seconds, then in ((LONGEST_RACE, partial(race.set_pace, 0.0)), (REST_SECONDS, race.cancel)):
                if stopped := not await self._until(lambda: not race.running, seconds):
                    then()
            await self._until(lambda: not (race.running or race.settling))
            ends = {racer.answer.reason for racer in race.racers}
            if "died" in ends or ("cancelled" in ends and not stopped):
                raise TourOver(ENDS["died"] if "died" in ends else "")
            self._caption.say(3, outcome(race))
            await self._until(lambda: races.screen is not screen, READ_SECONDS)
            await self._until(lambda: races.screen is not screen or not race.running)  # run again by the user
        finally:
            if races.screen is screen and screen.is_active and screen.app.is_running:
                screen.dismiss(None)
            self._caption = chat

    async def _hand_over(self, fast: str) -> None:
        box, keymap = self.host.box, self.host.live.keymap
        if not box.text.strip():
            box.put(NEXT_BEGINNING if self.dialogue.completes else NEXT)
        self._text = box.text
        self._give_back()
        switch, race, keys = (shown_keys(id, keymap) for id in ("next_method", "race", "help"))
        if fast:
            detail = f"{switch} next method   {race} race   {keys} all keys"
            self._caption.say(4, "Your turn: enter sends this message.", detail)
        else:
            self._caption.say(4, "No method can guess ahead for this model. /model builtin loads one where several can.")
        await self._until(lambda: False)

    # Parts of the steps

    @property
    def _writing(self) -> bool:
        return self._answer is not None and self.dialogue.answer is self._answer

    def _switch(self, name: str | None) -> None:
        self.dialogue.switch(name)
        self._method = self.dialogue.switching or self.dialogue.method
        self.host.expect_events()
        self.host.changed()

    def _set_pace(self, passes: float) -> None:
        self._pace = passes
        self.dialogue.set_pace(passes)

    def _give_back(self) -> None:
        """Restore pace and method, unless the user has changed them."""
        if self.dialogue.pace == self._pace:
            self._set_pace(self.host.live.settings.pace)
        if (self.dialogue.switching or self.dialogue.method) == self._method:
            self._switch(self._before)

    async def _passes(self, step: int, sentence: str, seconds: float) -> None:
        """Count the passes of the answer for some seconds, or until it ends."""
        answer = self._answer
        if answer is None or answer.done:
            return
        log = answer.log
        first, tokens = len(log), len(log.tokens)
        self._caption.say(step, sentence)
        await self._until(lambda: answer.done or len(log) > first)
        end = self._clock + seconds
        while not answer.done and self._clock < end:
            await self._tick()
            passes, more = len(log) - first, len(log.tokens) - tokens
            self._caption.say(step, sentence, f"{counted(more, 'token')}, {counted(passes, 'pass', 'passes')}")

    async def _until(self, condition: Callable[[], bool], most: float = inf) -> bool:
        """Wait for a condition; False if it does not hold within `most` seconds."""
        end = self._clock + most
        while not condition():
            if self._clock >= end:
                return False
            await self._tick()
        return True

    async def _tick(self) -> None:
        """Sleep for a tick, and longer below another screen or in a paused race.

        Raises:
            TourOver: the user took over, or the answer ended unexpectedly.
        """
        start = monotonic()
        await asyncio.sleep(TICK)
        self._clock += monotonic() - start
        while self._covered:
            await asyncio.sleep(TICK)
        if not self._screen.app.is_running:
            raise TourOver
        dialogue, answer = self.dialogue, self._answer
        switched = (dialogue.switching or dialogue.method) != self._method
        steered = self._writing and (switched or dialogue.paused)
        typed = self.host.box.text != self._text
        if typed or steered or dialogue.pace != self._pace or dialogue.transcript is not self._chat:
            self._user_took_over = True
            raise TourOver
        if answer is not None and (answer.reason in ENDS or (answer.reason == "cancelled" and not self._cut)):
            raise TourOver(ENDS.get(answer.reason, ""))

    @property
    def _covered(self) -> bool:
        race_screen = self._races.screen
        if self._race is not None and race_screen is not None and self._race.paused:
            return True
        return not (self._screen.is_active or (race_screen is not None and race_screen.is_active))

    def _end(self) -> None:
        if not self._screen.app.is_running:
            return
        self._caption.display = False
        self._screen.remove_class("-tour")
        if self._writing and not self._user_took_over:
            self.dialogue.cancel()
        self._give_back()
        self.host.expect_events()
        self.host.changed()


def outcome(race: Race) -> str:
    """Describe the result of a race; in slow motion by passes, which are the same at any pace."""
    rows, first = standings(race), race.racers[0]
    best = rows[0]
    same = all(racer.through and race.mark(racer) in ("reference", "identical") for racer in race.racers)
    other = "plain decoding" if get_method(first.entry.method).plain else first.entry.name
    level = [row.name for row in rows if row.place == 1]
    if len(level) > 1 and not race.slowed:
        return f"{' and '.join(level)}: too close to call."
    if best.number == 1:
        return f"{best.name} came first here: the guesses saved too little."
    if not race.slowed:
        return f"{best.name} was {against(best.speedup, other)[0]}{', with the same text' if same else ''}."
    if same:
        passes = counted(best.passes, "pass", "passes")
        return f"{best.name} wrote the same text in {passes}, {other} in {first.answer.figures.steps:,}."
    return f"{best.name} wrote {best.tokens_per_step:.1f} tokens a pass."
