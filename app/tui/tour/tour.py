"""The tour: one token at a time, the same text in runs, a race; then it is the user's turn. It runs live on the loaded model,
slowly enough to watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from ....errors import counted
from ...chat.entries import Answer
from ...chat.methods import get_method
from ...race.race import FEWEST, Race
from ...race.subject import drafts, race_prompt, suggest_methods
from ...render.verdict import against
from ...settings.keymap import shown_keys
from ..actions.history import ChatHistory
from ..host import Host
from ..race.races import Races
from ..race.state import standings
from .caption import Caption

if TYPE_CHECKING:
    from ..race.screen import RaceScreen

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

ENDS = {"died": "the engine stopped.", "error": "the model could not answer."}
"""Finish reason that ends the tour → its sentence."""


class TourOver(Exception):
    """The tour ends early; the text is a reason to show, or empty."""


class Tour:
    """The running tour."""

    def __init__(self, host: Host, races: Races, chat_history: ChatHistory) -> None:
        self.host = host
        self.dialogue = host.dialogue
        self._races = races
        self._chat_history = chat_history
        self._screen = host.box.screen
        self._chat = host.dialogue.transcript
        self._text = host.box.text
        self._caption = self._screen.query_one(Caption)
        self._clock = 0.0
        """Seconds of the tour, without those below another screen."""
        self._answer: Answer | None = None
        self._method = host.dialogue.method
        self._before = self._chosen()
        """Method chosen before the tour; None for the model's default."""
        self._pace = host.dialogue.pace
        """Pace set by the tour."""
        self._cut = False
        """Whether the tour has stopped the answer."""
        self._user_took_over = False
        self._pass_seconds = 0.0
        """Seconds of a pass of one token."""
        self._filled_box = False
        """Whether the message in the input box is the tour's."""

    async def play(self) -> None:
        try:
            await self._begin()
            await self._one_by_one()
            if fast := self._fast():
                await self._in_runs(fast)
                await self._race()
            await self._hand_over(fast)
        except TourOver as over:
            if str(over):
                self.host.tell(f"The tour ends here: {over} /tour starts it again.", "warning")
        finally:
            self._end()

    @property
    def _next(self) -> str:
        """Message for the input box at the end."""
        return NEXT_BEGINNING if self.dialogue.completes else NEXT

    def clear_box(self) -> None:
        """Remove the tour's message from the input box, unless the user has changed it."""
        if self._filled_box and self.host.box.text == self._next:
            self.host.box.put("")

    # The steps

    async def _begin(self) -> None:
        if self._chat.entries:
            self.host.new_chat()
        self._chat_history.tour_chat = self._chat = self.dialogue.transcript
        self._text = self.host.box.text
        self.host.box.focus()
        self._caption.display = True
        self._say(1, "The tour begins as soon as the model is loaded.")
        await self._until(lambda: self.dialogue.phase != "loading")
        if self.dialogue.phase != "ready":
            raise TourOver("no model is loaded.")
        if self.dialogue.info.server:
            raise TourOver("it needs a model on this machine. Load one with /model builtin.")

    async def _one_by_one(self) -> None:
        dialogue = self.dialogue
        self._before = self._chosen()
        self._switch(suggest_methods(dialogue)[0])
        self._set_pace(1 / PLAIN_BEAT)
        dialogue.submit(BEGINNING if dialogue.completes else PROMPT)
        self._answer = dialogue.answer
        self._screen.add_class("-tour")
        self.host.view.follow()
        await self._passes(1, PLAIN, PLAIN_SECONDS)
        if self._answer is not None and (figures := self._answer.figures).steps:
            self._pass_seconds = figures.decode_seconds / figures.steps

    def _fast(self) -> str:
        """Choose a method that drafts; empty if the model has none."""
        dialogue = self.dialogue
        names = (name for name in (*GUESSES, *suggest_methods(dialogue)) if name in dialogue.methods)
        return next((name for name in names if name not in dialogue.unavailable and drafts(dialogue, name)), "")

    async def _in_runs(self, fast: str) -> None:
        if not self._writing:  # a short answer
            return
        self._switch(fast)
        self._set_pace(1 / RUN_BEAT)
        sentence = f"{GUESSES.get(fast, f'{fast} guesses ahead')}: each coloured stretch took one pass."
        await self._passes(2, sentence, RUN_SECONDS)
        self._set_pace(0.0)
        if self._writing and not await self._until(lambda: not self._writing, REST_SECONDS):
            self._cut = self.dialogue.cancel()
            await self._until(lambda: not self._writing)
        await self._until(lambda: False, LOOK_SECONDS)

    async def _race(self) -> None:
        dialogue, races = self.dialogue, self._races
        names, subject = suggest_methods(dialogue), race_prompt(dialogue, None)
        if len(names) < FEWEST or subject is None or self._answer is None:
            return
        rate = len(self._answer.log.tokens) / RACE_SECONDS
        race = Race(dialogue, *subject, [races.entry(name) for name in names], races.closed_ids)
        race.pace = rate if rate * self._pass_seconds < 1 else 0.0
        if self._cut:  # the model finds no end: as many tokens as plain decoding writes in its share of the time
            most = LONGEST_RACE / len(names) / max(self._pass_seconds, TICK / 10)
            race.max_tokens = min(len(self._answer.log.tokens), round(most))
        chat, self._caption = self._caption, Caption()
        self._say(3, f"A race of {len(names)} methods on the same message{', in slow motion' if race.pace else ''}.")
        screen = races.begin(race, self._caption)
        try:
            await self._see_through(race, screen)
        finally:
            if races.screen is screen and screen.is_active and screen.app.is_running:
                screen.dismiss(None)
            self._caption = chat

    async def _see_through(self, race: Race, screen: RaceScreen) -> None:
        for left, then in ((LONGEST_RACE, partial(race.set_pace, 0.0)), (REST_SECONDS, race.cancel)):
            while race.running and left > 0:
                seconds = await self._tick()
                left -= 0 if race.paused else seconds
            if late := race.running:
                then()
        await self._until(lambda: not (race.running or race.settling))
        ends = {racer.answer.reason for racer in race.racers}
        if "died" in ends:
            raise TourOver(ENDS["died"])
        if "cancelled" in ends and not late:
            raise TourOver
        self._say(3, outcome(race))
        read = self._clock + READ_SECONDS
        while self._races.screen is screen and (self._clock < read or race.running):
            await self._tick()

    async def _hand_over(self, fast: str) -> None:
        box, keymap = self.host.box, self.host.live.keymap
        if not box.text.strip():
            box.put(self._next)
            self._filled_box = True
        self._text = box.text
        self._give_back()
        switch, race, keys = (shown_keys(id, keymap) for id in ("next_method", "race", "help"))
        if fast:
            detail = f"{switch} next method   {race} race   {keys} all keys"
            self._say(4, "Your turn: enter sends this message.", detail)
        else:
            self._say(4, "No method can guess ahead for this model. /model builtin loads one where several can.")
        await self._until(lambda: False)

    # Parts of the steps

    @property
    def _writing(self) -> bool:
        return self._answer is not None and self.dialogue.answer is self._answer

    def _say(self, step: int, sentence: str, detail: str = "") -> None:
        self._caption.say(step, sentence, detail)

    def _chosen(self) -> str | None:
        return self.dialogue.method if self.dialogue.chosen else None

    def _switch(self, name: str | None) -> None:
        self.dialogue.switch(name)
        self._method = self.dialogue.switching or self.dialogue.method
        self._redraw()

    def _set_pace(self, passes: float) -> None:
        self._pace = passes
        self.dialogue.set_pace(passes)

    def _give_back(self) -> None:
        """Restore pace and method, unless the user has changed them."""
        if self.dialogue.pace == self._pace:
            self._set_pace(self.host.live.settings.pace)
        if (self.dialogue.switching or self.dialogue.method) == self._method:
            self._switch(self._before)

    def _redraw(self) -> None:
        self.host.expect_events()
        self.host.changed()

    async def _passes(self, step: int, sentence: str, seconds: float) -> None:
        """Count the passes of the answer for some seconds, or until it ends."""
        answer = self._answer
        if answer is None or answer.done:
            return
        log = answer.log
        first, tokens = len(log), len(log.tokens)
        self._say(step, sentence)
        await self._until(lambda: answer.done or len(log) > first)
        end = self._clock + seconds
        while not answer.done and self._clock < end:
            await self._tick()
            passes, more = len(log) - first, len(log.tokens) - tokens
            self._say(step, sentence, f"{counted(more, 'token')}, {counted(passes, 'pass', 'passes')}")

    async def _until(self, condition: Callable[[], bool], most: float = inf) -> bool:
        """Wait for a condition; False if it does not hold within `most` seconds."""
        end = self._clock + most
        while not condition():
            if self._clock >= end:
                return False
            await self._tick()
        return True

    async def _tick(self) -> float:
        """Sleep for a tick, and longer below another screen; return the seconds of the tick.

        Raises:
            TourOver: the user took over, or the answer ended unexpectedly.
        """
        start = monotonic()
        await asyncio.sleep(TICK)
        seconds = monotonic() - start
        while not (self._screen.is_active or (self._races.screen is not None and self._races.screen.is_active)):
            await asyncio.sleep(TICK)
        if not self._screen.app.is_running:
            raise TourOver
        self._clock += seconds
        dialogue, answer = self.dialogue, self._answer
        typed, switched = self.host.box.text != self._text, (dialogue.switching or dialogue.method) != self._method
        steered = self._writing and (switched or dialogue.paused)
        if typed or steered or dialogue.pace != self._pace or dialogue.transcript is not self._chat:
            self._user_took_over = True
            raise TourOver
        if answer is not None and answer.reason in ENDS:
            raise TourOver(ENDS[answer.reason])
        if answer is not None and answer.reason == "cancelled" and not self._cut:
            raise TourOver
        return seconds

    def _end(self) -> None:
        dialogue = self.dialogue
        if not self._screen.app.is_running:
            return
        self._caption.display = False
        self._screen.remove_class("-tour")
        if self._writing and not self._user_took_over:
            dialogue.cancel()
        self._give_back()
        self._redraw()


def outcome(race: Race) -> str:
    """Describe the result of a race; in slow motion by passes, which are the same at any pace."""
    rows, first = standings(race), race.racers[0]
    best, level = rows[0], [row.name for row in rows if row.place == 1]
    if len(level) > 1 and not race.slowed:
        return f"{' and '.join(level)}: too close to call."
    if best.number == 1 and race.slowed:
        return f"No method needs fewer passes than {best.name} here."
    if best.number == 1:
        return f"{best.name} was fastest here: the guesses cost more than they saved."
    other = "plain decoding" if get_method(first.entry.method).plain else first.entry.name
    same = all(racer.through and race.mark(racer) in ("reference", "identical") for racer in race.racers)
    if not race.slowed:
        return f"{best.name} was {against(best.speedup, other)[0]}{', with the same text' if same else ''}."
    if same:
        passes = counted(best.passes, "pass", "passes")
        return f"{best.name} wrote the same text in {passes}, {other} in {first.answer.figures.steps:,}."
    return f"{best.name} wrote {best.tokens_per_step:.1f} tokens a pass."
