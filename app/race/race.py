"""A race: two to four methods (or models) on one prompt, each in its lane, on one device."""

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
from ..chat.compare import Mark
from ..chat.dialogue import Dialogue
from ..chat.entries import Answer
from ..chat.methods import PLAIN
from .clock import Unit, finish_line, idle, speedup
from .entry import RaceEntry
from .guests import RaceGuest, RaceModels
from .lane import Racer
from .record import RaceLane, RaceRecord

FEWEST, MOST = 2, 4
"""Lanes of a race."""

NEAR = 0.1
"""Logit gap of two tokens below which another order of arithmetic may turn one into the other."""

MOST_ROUNDS = 9

MOST_SECONDS = 10.0
"""Most seconds of all lanes' clocks together, with the next round: a race of a large model has one round."""

SURE = 3.0
"""Standard errors between a draw and the mean of three rounds or more from which a lane is surely slower."""

LEAST, LONG, SHORT = 1.01, 1.05, 1.8
"""Least ratio of a lane's clock to another's to be surely slower: over three rounds or more; in each of one or two long ones;
in each of one or two short ones, where a machine's other work may stretch a clock."""


def slower(ratios: Sequence[float], *, last: bool) -> bool:
    """Whether a lane is surely slower than another.

    Args:
        ratios: its clock divided by the other's, for each round.
        last: no further round will be run, as they are long or many.
    """
    logs = [log(ratio) for ratio in ratios]
    if len(logs) < 3:
        return min(logs) > log(LONG if last else SHORT)
    return fmean(logs) > max(SURE * stdev(logs) / sqrt(len(logs)), log(LEAST))


class Race:
    """Two to four lanes, from the start to the photo finish.

    Args:
        dialogue: the chat, which lends its engine and its settings, and stays unchanged.
        prompt: the prompt, as shown.
        messages: the messages for the model, the prompt last.
        entries: the methods; the first one is the reference.
        old_ids: ids of earlier races, whose late events are dropped.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        prompt: str,
        messages: list[dict[str, str]],
        entries: Sequence[RaceEntry],
        old_ids: Collection[int] = (),
    ) -> None:
        assert FEWEST <= len(entries) <= MOST, "a race has two to four lanes"
        self.dialogue = dialogue
        self.prompt = prompt
        self.messages = messages
        self.racers = [self._racer(entry, f"race-{n}") for n, entry in enumerate(entries, 1)]
        self.paused = False
        self.pace = dialogue.pace
        """Most passes a second of each lane; 0 for full speed."""
        self.max_tokens = dialogue.options.max_tokens
        """Longest text of a lane; None for as many tokens as fit."""
        self.slowed = False
        """Whether passes were slowed down for viewing: unequally, so that no speeds are shown."""
        self.loading: Loading | None = None
        """Progress of the engine's loading the model again after its end."""
        self.models = RaceModels(dialogue)
        self._rounds: list[list[Racer]] = []
        """Lanes of each round that is over."""
        self._repeats: list[Racer] = []
        """Lanes of the current round if it is not the first. Their texts, the same again, are not shown."""
        self.tied: set[str] = set()
        """Lanes that may be as fast as the one ranked before them."""
        self._ids: set[int] = set(old_ids)
        """Ids of all answers and MeasureGaps, whose late events nothing else must see."""

    @property
    def ids(self) -> set[int]:
        """Ids of all commands of the race."""
        return self._ids | self.models.ids

    def _racer(self, entry: RaceEntry, lane: str) -> Racer:
        return Racer(lane, entry, Answer(entry.method, self.dialogue.effective_label(entry.method)))

    # User actions

    def start(self) -> None:
        # New lanes, with empty caches and pools: a drafter that has seen the answer before would only repeat it.
        self._clear_rounds()
        for i, racer in enumerate(self.racers):
            self._close(racer)
            self.racers[i] = self._racer(racer.entry, racer.lane)
        self.paused = False
        self.slowed = self.pace > 0
        self.loading = None
        self.models.load([racer.entry for racer in self.racers])
        for racer in self.racers:
            self._run(racer)

    def pause(self) -> None:
        """Pause every lane, or continue them."""
        self.paused = not self.paused
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pause(racer.id, self.paused))

    def set_pace(self, passes: float) -> None:
        """Set the most passes a second of each lane; 0 for full speed. Repeated rounds, which are not shown, run at full
        speed."""
        self.pace = passes
        self.slowed = self.slowed or (passes > 0 and self.running)
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pace(racer.id, passes))

    def cancel(self) -> None:
        """Stop every lane within a pass, and loads; the texts so far stay."""
        self._clear_rounds()
        self.models.cancel()
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Cancel(racer.id))

    def close(self) -> None:
        """Cancel what runs, and free the lanes and all models but the chat's."""
        self._repeats = []
        for racer in self.racers:
            self._close(racer)
            if not racer.done:
                racer.answer.finish("cancelled")
        self.models.close()

    def _run(self, racer: Racer) -> None:
        engine = self.dialogue.engine
        racer.id = engine.next_id()
        self._ids.add(racer.id)
        request = self.dialogue.request() | {"method": racer.entry.method, "settings": dict(racer.entry.settings)}
        request |= {"sampling": asdict(self.dialogue.race_sampling), "max_tokens": self.max_tokens}
        if racer.entry.key:  # another model has another template
            request["think"] = word_for(self.models.info(racer.entry.key), self.dialogue.options.think)
            request.pop("template_vars", None)
        engine.send(
            Generate(
                racer.id,
                racer.lane,
                messages=self.messages,
                pace=0.0 if self._repeats else self.pace,
                model=racer.entry.key,
                **generate_fields(request),
            )
        )

    def _close(self, racer: Racer) -> None:
        self.dialogue.engine.send(CloseLane(racer.lane))

    # Rounds

    def _clear_rounds(self) -> None:
        for racer in self._repeats:
            if not racer.done:
                self.dialogue.engine.send(Cancel(racer.id))
        self._rounds = []
        self._repeats = []
        self.tied = set()

    def _end_round(self) -> None:
        """Once all lanes have ended, run another round if chance may have decided the order; else show each lane's median
        round."""
        lanes = self._repeats or self.racers
        if not all(racer.done for racer in lanes) or self.slowed:
            return
        self._repeats = []
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
        # The same method on the same model does the same work: its clocks differ by chance.
        equal = {lane for ahead, lane in pairwise(order) if lanes[ahead].entry == lanes[lane].entry}
        tied = equal | {
            lane
            for ahead, lane in pairwise(order)
            if not slower([one / other for one, other in zip(clocks[lane], clocks[ahead], strict=True)], last=last)
        }
        self.tied = {self.racers[lane].lane for lane in tied}
        if tied > equal and not last:
            self._repeats = [self._racer(racer.entry, racer.lane) for racer in self.racers]
            for racer in self._repeats:
                self._close(racer)
                self._run(racer)
            return
        for lane, racer in enumerate(self.racers):
            median = self._rounds[clocks[lane].index(medians[lane])][lane]
            racer.answer = median.answer
            racer.track = median.track
        self._measure()

    def _measure(self) -> None:
        """Record the speedups of the lanes on the chat's model."""
        if self.racers[0].entry.key or self.racers[0].entry.method != PLAIN:
            return
        for racer in self.racers[1:]:
            if not racer.entry.key and racer.through:
                self.dialogue.measure(racer.answer, self.speedup(racer))

    @property
    def round(self) -> int:
        """Number of the current round, or of the last one, from 1."""
        return len(self._rounds) + bool(self._repeats) or 1

    # Results

    @property
    def settling(self) -> bool:
        """Whether a further round is run until the order is certain."""
        return bool(self._repeats)

    @property
    def served(self) -> list[Racer]:
        """The lanes on servers, which cannot be paused."""
        return [racer for racer in self.racers if self.models.info(racer.entry.key).server]

    @property
    def running(self) -> bool:
        """Whether a lane has not come to its end."""
        return not all(racer.done for racer in self.racers)

    @property
    def unit(self) -> Unit:
        """Unit of the comparison: tokens if they are the same for all lanes, else characters."""
        guessed = any(racer.answer.figures.certainty == "unknown" for racer in self.racers)
        shared = self.models.share_tokens({racer.entry.key for racer in self.racers})
        return "tokens" if shared and not guessed else "characters"

    @property
    def expected(self) -> int:
        """Length of a full bar: that of the longest answer that is through, else the limit, else the next power of two."""
        unit = self.unit
        lengths = [racer.track.amount(unit) for racer in self.racers if racer.through]
        if lengths:
            return max(1, *lengths)
        ahead = max((racer.track.amount(unit) for racer in self.racers), default=0)
        limit = self.max_tokens if unit == "tokens" else None
        return limit or max(64, 1 << ahead.bit_length())

    @property
    def model_names(self) -> list[str]:
        """Name of each lane's model; all empty if there is one."""
        return self.models.names([racer.entry for racer in self.racers])

    def reference(self, racer: Racer) -> Racer:
        """Return the lane that a lane's tokens are compared with: the first of its model, which may be itself."""
        return next(other for other in self.racers if other.entry.key == racer.entry.key)

    def mark(self, racer: Racer) -> Mark:
        """Compare a lane's tokens with those of the first lane of its model."""
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
        """Length at which places are given: that of the shortest answer that is through; 0 while there is none."""
        return finish_line(self.racers, self.unit)

    def speedup(self, racer: Racer) -> float:
        """Return a lane's speedup over the first one (see `clock.speedup`); 0 if there is none yet, or the race was slowed."""
        return 0.0 if self.slowed else speedup(self.racers[0], racer, self.unit, 0 if self.running else self.finish_line)

    def prompt_seconds(self, racer: Racer) -> float:
        """Return the prefill time: the shortest among the lanes of a model, which do the same work, as other programs disturbed
        it least."""
        seconds = racer.answer.figures.prefill_seconds
        if racer.served or not seconds:
            return seconds
        times = [other.answer.figures.prefill_seconds for other in self.racers if other.entry.key == racer.entry.key]
        return min(filter(None, times))

    def _at_line(self, racer: Racer) -> float:
        """Return a lane's clock at the finish line, in slow motion its passes, which are the same at any pace; 0 if it never
        got there."""
        return racer.answer.figures.steps if self.slowed else racer.time(self.finish_line, self.unit)

    def _arrival(self, racer: Racer) -> float | None:
        """Return a lane's clock at the finish line; None if it is not through, wrote nothing, or drafted nothing: plain
        decoding under another name differs from it by chance."""
        return self._at_line(racer) or None if racer.through and not idle(racer.answer) else None

    def ranking(self) -> list[Racer]:
        """Return the lanes that are through in the order of their arrival, then the others, the furthest first."""
        order = {racer.lane: n for n, racer in enumerate(self.racers)}
        arrivals = {racer.lane: self._arrival(racer) for racer in self.racers}

        def rank(racer: Racer) -> tuple[int, float, int]:
            arrival = arrivals[racer.lane]
            if arrival is None:
                return 1, -racer.track.amount(self.unit), order[racer.lane]
            return 0, arrival, order[racer.lane]

        return sorted(self.racers, key=rank)

    def place(self, racer: Racer) -> int | None:
        """Return 1 for the first over the finish line and for all that may be as fast; None if the lane is not through, or
        others may still come before it."""
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
            # A lane that still writes may have passed the line already.
            at_line = self._at_line(other) if other.through or not (other.done or self.slowed) else 0.0
            if at_line:
                place += at_line < arrival
            elif not other.done and (other.answer.figures.steps if self.slowed else other.seconds) < arrival:
                return None
        return place

    def record(self) -> RaceRecord:
        """Return the race as plain data. Its answers are those of the lanes, not copies."""
        from ... import __version__

        dialogue = self.dialogue
        lanes = [
            RaceLane(
                racer.entry.method,
                settings=dict(racer.entry.settings),
                answer=racer.answer,
                model=name if racer.entry.key else "",
                mark=self.mark(racer),
                position=racer.position,
                gap=racer.gap,
                info=public(self.models.info(racer.entry.key)) if racer.entry.key else {},
            )
            for racer, name in zip(self.racers, self.model_names, strict=True)
        ]
        return RaceRecord(
            self.prompt,
            dialogue.model,
            lanes,
            sampling={} if dialogue.race_sampling.greedy else asdict(dialogue.race_sampling),
            info=public(dialogue.info),
            saved=datetime.now().astimezone().isoformat(timespec="seconds"),
            version=__version__,
            pieces=dialogue.pieces,
            unit=self.unit,
            slowed=self.slowed,
            tied=tuple(i for i, racer in enumerate(self.racers) if racer.lane in self.tied),
        )

    # Engine events

    def handle(self, event: Event) -> bool:
        """Process an event; False if it is not about the race."""
        match event:
            case Failed(cause="died") if self.ids & {event.id, *event.other_ids}:
                self._died(event)
            case Loading() | LoadedSecondary() | Failed() | PieceTable() if event.id in self.models.ids:
                self.loading = None
                if (guest := self.models.handle(event)) is not None:
                    self._update_lanes(guest)
            case LoadedSecondary():
                pass  # of an earlier race
            case Loading() if event.id in self._ids:
                pass
            case Loading() if self.running and self.dialogue.info:
                self.loading = event
            case GapMeasured() | Failed(ended=False) if event.id in self._ids:
                self._judged(event)
            case Started() | Prefilling() | Steps() | Paused() | Finished() | Failed() if event.id in self._ids:
                for racer in (*self.racers, *self._repeats):
                    if racer.id == event.id and not racer.done:
                        self._progress(racer, event)
            case _:
                return False
        return True

    def _update_lanes(self, guest: RaceGuest) -> None:
        """Give a loaded model's token texts to its lanes, or end them if it failed."""
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
            self._end_round()

    def _compare(self) -> None:
        for racer in self.racers:
            first = self.reference(racer)
            if not racer.compare(first) or not (racer.label_is_exact and first.label_is_exact):
                continue
            at = racer.position
            if at is not None and at < min(len(racer.tokens), len(first.tokens)):
                racer.judging = self.dialogue.engine.next_id()
                self._ids.add(racer.judging)
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
        self._repeats = []
        self.models.forget()
        self.loading = None
