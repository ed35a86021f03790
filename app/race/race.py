"""A race: two to four methods (or models) on one prompt, each in a lane of its own on one device. No widgets."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import pairwise
from math import log, sqrt
from statistics import fmean, median_low, stdev

from ...engine.messages import (
    Cancel,
    CloseLane,
    Event,
    Failed,
    Finished,
    GapMeasured,
    Generate,
    LoadedSecondary,
    Loading,
    MeasureGap,
    Pace,
    Pause,
    Paused,
    PieceTable,
    Prefilling,
    Started,
    Steps,
)
from ..chat.about import generate_fields, public, word_for
from ..chat.choosing import PLAIN
from ..chat.compare import Mark
from ..chat.dialogue import Dialogue
from ..chat.entries import Answer
from .clock import Unit, finish_line, idle, speedup
from .entry import RaceEntry
from .guests import RaceGuest, RaceModels
from .lane import Racer
from .record import RaceLane, RaceRecord

FEWEST, MOST = 2, 4
"""Lanes of a race."""

NEAR = 0.1
"""Logits: where two tokens are nearer than this, arithmetic in another order may turn one into the other."""


MOST_ROUNDS = 9
"""Rounds of a race."""

MOST_SECONDS = 10.0
"""Seconds of all lanes' clocks together that no further round may exceed: a race of a large model has one."""

SURE = 3.0
"""Standard errors that the mean of three rounds or more must be away from a draw."""

LEAST, LONG, SHORT = 1.01, 1.05, 1.8
"""Times as long as the other that a lane must take at least, to be surely slower: by three rounds or more; in each of one or
two that were long; in each of one or two that were short, where a machine's other work may stretch a clock."""


def slower(ratios: Sequence[float], *, last: bool) -> bool:
    """Whether a lane is surely slower than another.

    Args:
        ratios: its clock by the other one's, for each round.
        last: no further round will be run, as they are long or many.
    """
    logs = [log(ratio) for ratio in ratios]
    if len(logs) < 3:
        return min(logs) > log(LONG if last else SHORT)
    return fmean(logs) > max(SURE * stdev(logs) / sqrt(len(logs)), log(LEAST))


class Race:
    """Two to four lanes, from the start to the photo finish.

    Args:
        dialogue: the chat, which lends its engine and its settings; it is left as it is.
        prompt: what is answered, as shown.
        messages: what the model is told, the prompt at the end.
        entries: who takes part; the first is compared with.
        heard: ids of races before: what is still said of them is for nobody else.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        prompt: str,
        messages: list[dict[str, str]],
        entries: Sequence[RaceEntry],
        heard: Collection[int] = (),
    ) -> None:
        assert FEWEST <= len(entries) <= MOST, "a race has two to four lanes"
        self.dialogue = dialogue
        self.prompt = prompt
        self.messages = messages
        self.racers = [self._racer(entry, f"race-{n}") for n, entry in enumerate(entries, 1)]
        self.paused = False
        self.pace = dialogue.pace
        """Passes a second that each lane takes at most; 0 for full speed."""
        self.max_tokens = dialogue.options.max_tokens
        """Longest text of a lane; None for as many tokens as fit."""
        self.slowed = False
        """Passes rested in between, for eyes. They take longer then, and not all alike: no speeds are told."""
        self.loading: Loading | None = None
        """The engine loads the model again, after its end."""
        self.models = RaceModels(dialogue)
        self._rounds: list[list[Racer]] = []
        """Rounds that are over: what each lane did."""
        self._again: list[Racer] = []
        """What each lane does in the round under way, where that is not the first. Nobody sees the texts: they are the same."""
        self.tied: set[str] = set()
        """Lanes that may be as fast as the one ranked before them."""
        self._own: set[int] = set(heard)
        """Every id that a lane or a question ever had: what is still said of them is for nobody else."""

    @property
    def ids(self) -> set[int]:
        """Every id that the race ever had."""
        return self._own | self.models.ids

    def _racer(self, entry: RaceEntry, lane: str) -> Racer:
        return Racer(lane, entry, Answer(entry.method, self.dialogue.effective_label(entry.method)))

    # What the person does

    def start(self) -> None:
        # New lanes, with empty caches and pools: a drafter that has seen the answer before would only repeat it.
        self._first_round()
        for i, racer in enumerate(self.racers):
            self._close(racer)
            self.racers[i] = self._racer(racer.entry, racer.lane)
        self.paused, self.slowed, self.loading = False, self.pace > 0, None
        self.models.want([racer.entry for racer in self.racers])
        for racer in self.racers:
            self._run(racer)

    def pause(self) -> None:
        """Hold every lane, or let them go on."""
        self.paused = not self.paused
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pause(racer.id, self.paused))

    def set_pace(self, passes: float) -> None:
        """Let every lane take so many passes a second at most; 0 for full speed. Further rounds, of which nothing is seen, keep
        theirs."""
        self.pace = passes
        self.slowed = self.slowed or (passes > 0 and self.running)
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pace(racer.id, passes))

    def cancel(self) -> None:
        """Stop every lane within a pass, and what is being loaded; what is there stays."""
        self._first_round()
        self.models.cancel()
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Cancel(racer.id))

    def close(self) -> None:
        """Free the lanes and the models beside the chat's; what runs is cancelled."""
        self._again = []
        for racer in self.racers:
            self._close(racer)
            if not racer.done:
                racer.answer.finish("cancelled")
        self.models.close()

    def _run(self, racer: Racer) -> None:
        engine = self.dialogue.engine
        racer.id = engine.next_id()
        self._own.add(racer.id)
        request = self.dialogue.request() | {"method": racer.entry.method, "settings": dict(racer.entry.settings)}
        request |= {"sampling": asdict(self.dialogue.race_sampling), "max_tokens": self.max_tokens}
        if racer.entry.key:  # another model has words and a template of its own
            request["think"] = word_for(self.models.info(racer.entry.key), self.dialogue.options.think)
            request.pop("template_vars", None)
        lane, model, pace = racer.lane, racer.entry.key, 0.0 if self._again else self.pace
        engine.send(Generate(racer.id, lane, messages=self.messages, pace=pace, model=model, **generate_fields(request)))

    def _close(self, racer: Racer) -> None:
        self.dialogue.engine.send(CloseLane(racer.lane))

    # Rounds

    def _first_round(self) -> None:
        """Forget the rounds there were."""
        for racer in self._again:
            if not racer.done:
                self.dialogue.engine.send(Cancel(racer.id))
        self._rounds, self._again, self.tied = [], [], set()

    def _round_over(self) -> None:
        """A lane has ended: if all have, race again as long as chance may have decided. Then each shows its median round."""
        lanes = self._again or self.racers
        if not all(racer.done for racer in lanes) or self.slowed:
            return
        self._again = []
        if self.served:
            self._measure()
            return
        whole = all(racer.through and racer.time(self.finish_line, self.unit) for racer in lanes)
        if whole:
            self._rounds.append(list(lanes))
        if not self._rounds:
            return
        seconds = sum(racer.seconds for racers in self._rounds for racer in racers)
        rounds = len(self._rounds)
        last = not whole or rounds >= MOST_ROUNDS or seconds * (1 + 1 / rounds) > MOST_SECONDS
        line, unit = self.finish_line, self.unit
        clocks = [[racers[lane].time(line, unit) for racers in self._rounds] for lane in range(len(self.racers))]
        medians = list(map(median_low, clocks))
        order = sorted((n for n, racer in enumerate(lanes) if not idle(racer.answer)), key=medians.__getitem__)
        # The same method on the same model does the same work: only chance sets the clocks apart.
        alike = {lane for ahead, lane in pairwise(order) if lanes[ahead].entry == lanes[lane].entry}
        tied = alike | {
            lane
            for ahead, lane in pairwise(order)
            if not slower([one / other for one, other in zip(clocks[lane], clocks[ahead], strict=True)], last=last)
        }
        self.tied = {self.racers[lane].lane for lane in tied}
        if tied > alike and not last:
            self._again = [self._racer(racer.entry, racer.lane) for racer in self.racers]
            for racer in self._again:
                self._close(racer)
                self._run(racer)
            return
        for lane, racer in enumerate(self.racers):
            shown = self._rounds[clocks[lane].index(medians[lane])][lane]
            racer.answer, racer.track = shown.answer, shown.track
        self._measure()

    def _measure(self) -> None:
        """Remember how the lanes on the chat's model fared against its plain decoding."""
        if self.racers[0].entry.key or self.racers[0].entry.method != PLAIN:
            return
        for racer in self.racers[1:]:
            if not racer.entry.key and racer.through:
                self.dialogue.measure(racer.answer, self.speedup(racer))

    @property
    def round(self) -> int:
        """The round under way, or the last one: from 1."""
        return len(self._rounds) + bool(self._again) or 1

    # What can be seen

    @property
    def settling(self) -> bool:
        """All lanes are done, and race again until the order is certain."""
        return bool(self._again)

    @property
    def served(self) -> list[Racer]:
        """The lanes that servers write, which cannot be held."""
        return [racer for racer in self.racers if self.models.info(racer.entry.key).get("server")]

    @property
    def running(self) -> bool:
        """Whether a lane has not come to its end."""
        return not all(racer.done for racer in self.racers)

    @property
    def unit(self) -> Unit:
        """What the lanes are compared in: tokens where they are the same for all, else characters."""
        guessed = any(racer.answer.figures.certainty == "unknown" for racer in self.racers)
        alike = self.models.alike({racer.entry.key for racer in self.racers})
        return "tokens" if alike and not guessed else "characters"

    @property
    def expected(self) -> int:
        """How much a full bar stands for: the length of the longest answer that is through, else the limit, else the next power
        of two."""
        unit = self.unit
        lengths = [racer.track.amount(unit) for racer in self.racers if racer.through]
        if lengths:
            return max(1, *lengths)
        ahead = max((racer.track.amount(unit) for racer in self.racers), default=0)
        limit = self.max_tokens if unit == "tokens" else None
        return limit or max(64, 1 << ahead.bit_length())

    @property
    def model_names(self) -> list[str]:
        """What each lane's model is called; empty for all where there is one."""
        return self.models.names([racer.entry for racer in self.racers])

    def reference(self, racer: Racer) -> Racer:
        """The lane whose tokens a lane's are compared with: the first of its model, which may be itself."""
        return next(other for other in self.racers if other.entry.key == racer.entry.key)

    def mark(self, racer: Racer) -> Mark:
        """Say how a lane's tokens compare with those of the first lane of its model."""
        first = self.reference(racer)
        if racer is first:
            return "reference" if racer is self.racers[0] else "another model"
        if racer.position is None:
            return "identical" if racer.compared else "unknown"
        if racer.judging:
            return "unknown"
        return "near tie" if racer.gap is not None and racer.gap < NEAR else "lossy"

    @property
    def finish_line(self) -> int:
        """The length at which places are given: that of the shortest answer that is through; 0 while there is none."""
        return finish_line(self.racers, self.unit)

    def speedup(self, racer: Racer) -> float:
        """How many times sooner than the first lane a racer had written what both have, by their clocks. 0 where there is
        nothing to compare yet, or the race was slowed."""
        return 0.0 if self.slowed else speedup(self.racers[0], racer, self.unit, 0 if self.running else self.finish_line)

    def prompt_seconds(self, racer: Racer) -> float:
        """The time of reading the prompt: one figure for the lanes of a model, which do the same work there. Each reads it into
        a cache of its own; what the quickest of them took is what other programs disturbed least."""
        own = racer.answer.figures.prefill_seconds
        if racer.served or not own:
            return own
        times = [other.answer.figures.prefill_seconds for other in self.racers if other.entry.key == racer.entry.key]
        return min(filter(None, times))

    def _at_line(self, racer: Racer) -> float:
        """Its clock at the finish line; in slow motion its passes, which are the same at any pace. 0 if it never got there."""
        return racer.answer.figures.steps if self.slowed else racer.time(self.finish_line, self.unit)

    def _arrival(self, racer: Racer) -> float | None:
        """Its clock at the finish line; None where it is not through, wrote nothing, or drafted nothing: what decodes plainly
        under another name is no faster or slower than plain decoding but by chance."""
        return self._at_line(racer) or None if racer.through and not idle(racer.answer) else None

    def ranking(self) -> list[Racer]:
        """The lanes that are through, as they reached the finish line; then the others, by how far they got."""
        order = {racer.lane: n for n, racer in enumerate(self.racers)}
        arrivals = {racer.lane: self._arrival(racer) for racer in self.racers}

        def rank(racer: Racer) -> tuple[int, float, int]:
            arrival = arrivals[racer.lane]
            if arrival is None:
                return 1, -racer.track.amount(self.unit), order[racer.lane]
            return 0, arrival, order[racer.lane]

        return sorted(self.racers, key=rank)

    def place(self, racer: Racer) -> int | None:
        """1 for the first over the finish line, and for all that may be as fast; None where it is not through, or others may
        still come before."""
        arrival = self._arrival(racer)
        if arrival is None or self.settling:
            return None
        if racer.lane in self.tied and not self.running:
            order = self.ranking()
            return self.place(order[order.index(racer) - 1])
        place = 1
        for other in self.racers:
            if idle(other.answer):
                continue
            # One that still writes may have been there already, whenever it will be done.
            there = self._at_line(other) if other.through or not (other.done or self.slowed) else 0.0
            if there:
                place += there < arrival
            elif not other.done and (other.answer.figures.steps if self.slowed else other.seconds) < arrival:
                return None
        return place

    def record(self) -> RaceRecord:
        """The race as plain data. Its answers are those of the lanes, not copies."""
        from ... import __version__

        dialogue = self.dialogue
        own = [name if racer.entry.key else "" for racer, name in zip(self.racers, self.model_names, strict=True)]
        return RaceRecord(
            self.prompt,
            dialogue.model,
            [
                RaceLane(
                    racer.entry.method,
                    dict(racer.entry.settings),
                    racer.answer,
                    model,
                    self.mark(racer),
                    racer.position,
                    racer.gap,
                    public(self.models.info(racer.entry.key)) if racer.entry.key else {},
                )
                for racer, model in zip(self.racers, own, strict=True)
            ],
            {} if dialogue.race_sampling.greedy else asdict(dialogue.race_sampling),
            public(dialogue.info),
            datetime.now().astimezone().isoformat(timespec="seconds"),
            __version__,
            dialogue.pieces,
            self.unit,
            self.slowed,
            tuple(i for i, racer in enumerate(self.racers) if racer.lane in self.tied),
        )

    # What the engine says

    def handle(self, event: Event) -> bool:
        """Take in an event; False if it is not about the race."""
        match event:
            case Failed(cause="died") if self.ids & {event.id, *event.other_ids}:
                self._died(event)
            case Loading() | LoadedSecondary() | Failed() | PieceTable() if event.id in self.models.ids:
                self.loading = None
                self._guest(self.models.handle(event))
            case LoadedSecondary():
                pass  # of a race before
            case Loading() if event.id in self._own:
                pass
            case Loading() if self.running and self.dialogue.info:
                self.loading = event
            case GapMeasured() | Failed(ended=False) if event.id in self._own:
                self._judged(event)
            case Started() | Prefilling() | Steps() | Paused() | Finished() | Failed() if event.id in self._own:
                for racer in [each for each in (*self.racers, *self._again) if each.id == event.id and not each.done]:
                    self._progress(racer, event)
            case _:
                return False
        return True

    def _guest(self, guest: RaceGuest | None) -> None:
        """A model was loaded, or cannot be: then its lanes are told so, and the others run."""
        if guest is None:
            return
        for racer in [racer for racer in self.racers if racer.entry.key == guest.key]:
            racer.answer.pieces = guest.pieces
            if guest.state in ("failed", "cancelled") and not racer.done:
                racer.error = guest.sentence if guest.state == "failed" else ""
                racer.answer.finish("error" if guest.state == "failed" else "cancelled")
        self._compare()

    def _progress(self, racer: Racer, event: Event) -> None:
        self.loading = None
        racer.take(event)
        if isinstance(event, Started):
            racer.answer.pieces = self.models.pieces(racer.entry.key)
        self._compare()
        if racer.done:
            self._round_over()

    def _compare(self) -> None:
        for racer in self.racers:
            first = self.reference(racer)
            if not racer.compare(first) or not (racer.label_is_exact and first.label_is_exact):
                continue
            at = racer.position
            if at is not None and at < min(len(racer.tokens), len(first.tokens)):
                racer.judging = self.dialogue.engine.next_id()
                self._own.add(racer.judging)
                self.dialogue.engine.send(MeasureGap(racer.judging, racer.lane, at, first.tokens[at]))

    def _judged(self, event: GapMeasured | Failed) -> None:
        for racer in self.racers:
            if racer.judging == event.id:
                racer.judging = 0
                racer.gap = event.gap if isinstance(event, GapMeasured) else None

    def _died(self, event: Failed) -> None:
        for racer in self.racers:
            racer.judging = 0
            if not racer.done:
                racer.take(event)
        self._again = []
        self.models.forget()
        self.loading = None
