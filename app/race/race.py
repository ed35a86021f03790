"""A race: two to four methods (or models) on one prompt, each in its lane, on one device."""

from __future__ import annotations

from collections.abc import Sequence
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
from .entry import RaceEntry
from .lane import LaneClock, Racer, Unit, finish_line, idle, speedup
from .models import SecondaryModel, SecondaryModels
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
        ids: ids of all commands of races; those of earlier ones may have late events, which are dropped.
    """

    def __init__(
        self,
        dialogue: Dialogue,
        prompt: str,
        messages: list[dict[str, str]],
        entries: Sequence[RaceEntry],
        ids: set[int] | None = None,
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
        self._ids = set() if ids is None else ids
        self.models = SecondaryModels(dialogue, self._ids)
        self._rounds: list[list[Racer]] = []
        """Lanes of each round that is over."""
        self._repeats: list[Racer] = []
        """Lanes of the current round if it is not the first. Their texts, the same again, are not shown."""
        self.tied: set[str] = set()
        """Lanes that may be as fast as the one ranked before them."""

    def _racer(self, entry: RaceEntry, lane: str) -> Racer:
        return Racer(lane, entry, LaneClock(Answer(entry.method, self.dialogue.effective_label(entry.method))))

    # User actions

    def start(self) -> None:
        # New lanes, with empty caches and pools: a drafter that has seen the answer before would only repeat it.
        self._clear_rounds()
        for i, racer in enumerate(self.racers):
            self.dialogue.engine.send(CloseLane(racer.lane))
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
            self.dialogue.engine.send(CloseLane(racer.lane))
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
            return
        whole = all(racer.through and racer.clock.time(self.finish_line, self.unit) for racer in lanes)
        if whole:
            self._rounds.append(list(lanes))
        if not self._rounds:
            return
        seconds = sum(racer.clock.seconds for racers in self._rounds for racer in racers)
        rounds = len(self._rounds)
        last = not whole or rounds >= MOST_ROUNDS or seconds * (1 + 1 / rounds) > MOST_SECONDS
        line, unit = self.finish_line, self.unit
        clocks = [[racers[lane].clock.time(line, unit) for racers in self._rounds] for lane in range(len(self.racers))]
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
                self.dialogue.engine.send(CloseLane(racer.lane))
                self._run(racer)
            return
        for lane, racer in enumerate(self.racers):
            racer.clock = self._rounds[clocks[lane].index(medians[lane])][lane].clock

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
        lengths = [racer.clock.amount(unit) for racer in self.racers if racer.through]
        if lengths:
            return max(1, *lengths)
        ahead = max((racer.clock.amount(unit) for racer in self.racers), default=0)
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
        return finish_line((racer.clock for racer in self.racers), self.unit)

    def speedup(self, racer: Racer) -> float:
        """Return a lane's speedup over the first one (see `lane.speedup`); 0 if there is none yet, or the race was slowed."""
        if self.slowed:
            return 0.0
        return speedup(self.racers[0].clock, racer.clock, self.unit, 0 if self.running else self.finish_line)

    def _arrival(self, racer: Racer) -> float:
        """Return a lane's clock at the finish line, in slow motion its passes, which are the same at any pace; 0 if it is not
        through, wrote nothing, or drafted nothing: plain decoding under another name differs from it by chance."""
        if not racer.through or idle(racer.answer):
            return 0.0
        return racer.answer.figures.steps if self.slowed else racer.clock.time(self.finish_line, self.unit)

    def ranking(self) -> list[Racer]:
        """Return the lanes that are through in the order of their arrival, then the others, the furthest first."""

        def rank(racer: Racer) -> tuple[bool, float]:
            arrival = self._arrival(racer)
            return not arrival, arrival or -racer.clock.amount(self.unit)

        return sorted(self.racers, key=rank)

    def place(self, racer: Racer) -> int | None:
        """Return 1 for the first over the finish line and for all that may be as fast; None while lanes run, and for a lane
        that did not arrive."""
        if self.running or self.settling or not self._arrival(racer):
            return None
        order = self.ranking()
        at = order.index(racer)
        while at and (order[at].lane in self.tied or self._arrival(order[at]) == self._arrival(order[at - 1])):
            at -= 1
        return at + 1

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
        """Process an event; False if it is not about a race."""
        match event:
            case Failed(cause="died") if self._ids & {event.id, *event.other_ids}:
                self._died(event)
            case Loading() | LoadedSecondary() | Failed() | PieceTable() if (model := self.models.find(event.id)) is not None:
                self.loading = None
                self.models.take(model, event)
                self._update_lanes(model)
            case Loading() | LoadedSecondary() | PieceTable() if event.id in self._ids:
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

    def _update_lanes(self, model: SecondaryModel) -> None:
        """Give a model's token texts to its lanes, or end them if its load failed."""
        for racer in [racer for racer in self.racers if racer.entry.key == model.key]:
            racer.answer.pieces = model.pieces
            if model.state in ("failed", "cancelled") and not racer.done:
                racer.error = model.sentence if model.state == "failed" else ""
                racer.answer.finish("error" if model.state == "failed" else "cancelled")
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
        self.models = SecondaryModels(self.dialogue, self._ids)  # the engine took them with it
        self.loading = None
