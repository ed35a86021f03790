"""A race: two to four methods on one prompt, each in a lane of its own on one device. Lanes, clocks, identity; no widgets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ..engine.messages import (
    Cancel,
    CloseLane,
    Event,
    Failed,
    Finished,
    Generate,
    Judge,
    Judged,
    Loading,
    Pause,
    Paused,
    Prefilling,
    Started,
    StepRecord,
    Steps,
)
from .cells import one_line
from .dialogue import Dialogue
from .race_record import Mark, RaceLane, RaceRecord, pace
from .transcript import Answer

FEWEST, MOST = 2, 4
"""Lanes of a race."""

NEAR = 0.1
"""Logits: where two tokens are nearer than this, arithmetic in another order may turn one into the other."""

THROUGH = ("eos", "length", "stop", "context")
"""Reasons with which an answer has reached its end."""

FAVOURITES = ("fusion", "lookup", "auto", "tree", "draft", "recycle", "ngram", "early-exit", "lookahead", "jacobi")
"""Who is asked to race first."""

FULL = "The context is full: race on a shorter prompt, or load the model with a larger context."

_TEXT_END = ("eos", "length", "stop")


@dataclass(frozen=True)
class Entry:
    """A method that takes part, with its settings."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The method with its settings."""
        return one_line(" ".join((self.method, *(f"{key}={value}" for key, value in self.settings.items()))))


@dataclass(slots=True, eq=False)
class Racer:
    """One lane. The first of a race is the one that the others are compared with."""

    lane: str
    """Its name in the engine."""
    entry: Entry
    answer: Answer
    id: int = 0
    """Of its answer."""
    tokens: array[int] = field(default_factory=lambda: array("i"))
    prefill: tuple[int, int] = (0, 0)
    """Prompt tokens read, of how many."""
    error: str = ""
    """Why it could not go on, in a sentence."""
    started: bool = False
    paused: bool = False
    compared: int = 0
    """Tokens known to be those of the first lane."""
    position: int | None = None
    """The first token that differs; None while none does."""
    gap: float | None = None
    judging: int = 0
    """Id of the question how near a tie it was; 0 if none is open."""

    @property
    def done(self) -> bool:
        """Its answer has ended, one way or another."""
        return self.answer.done

    @property
    def through(self) -> bool:
        """It has reached the end of its answer."""
        return self.answer.reason in THROUGH

    @property
    def seconds(self) -> float:
        """The lane's own clock: what it has computed, from the prompt on, other lanes' turns left out."""
        return self.answer.figures.prefill_seconds + self.answer.figures.decode_seconds

    def compare(self, first: Racer) -> None:
        """Compare the tokens that have come since the last call with the first lane's."""
        if self.position is not None:
            return
        common = min(len(self.tokens), len(first.tokens))
        # In one piece: the bytes of both as they lie in memory.
        if self.tokens[self.compared : common] == first.tokens[self.compared : common]:
            self.compared = common
        else:
            while self.tokens[self.compared] == first.tokens[self.compared]:
                self.compared += 1
            self.position = self.compared
            return
        short, long = (self, first) if len(self.tokens) < len(first.tokens) else (first, self)
        if short.answer.reason in _TEXT_END and len(long.tokens) > common:
            self.position = common

    @property
    def label_is_exact(self) -> bool:
        """Whether its text is promised to be the plain method's."""
        return self.answer.label == "identical"


class Race:
    """Two to four lanes, from the start to the photo finish.

    Args:
        dialogue: the chat, which lends its engine and its settings; it is left as it is.
        prompt: what is answered, as shown.
        messages: what the model is told, the prompt at the end.
        entries: who takes part; the first is compared with.
    """

    def __init__(self, dialogue: Dialogue, prompt: str, messages: list[dict[str, str]], entries: Sequence[Entry]) -> None:
        assert FEWEST <= len(entries) <= MOST, "a race is of two to four lanes"
        self.dialogue = dialogue
        self.prompt = prompt
        self.messages = messages
        self.racers = [self._racer(entry, f"race-{n}") for n, entry in enumerate(entries, 1)]
        self.paused = False
        self.loading: Loading | None = None
        """The engine loads the model again, after its end."""
        self._own: set[int] = set()
        """Every id that a lane or a question ever had: what is still said of them is for nobody else."""

    def _racer(self, entry: Entry, lane: str) -> Racer:
        return Racer(lane, entry, Answer(entry.method, self.dialogue.label_of(entry.method)))

    # What the person does

    def start(self) -> None:
        """Let all lanes run, from the beginning."""
        # New lanes, with empty caches and pools: a drafter that has seen the answer before would only repeat it.
        for i, racer in enumerate(self.racers):
            self._close(racer)
            self.racers[i] = self._racer(racer.entry, racer.lane)
        self.paused, self.loading = False, None
        for racer in self.racers:
            self._run(racer)

    def swap(self, index: int, entry: Entry) -> None:
        """Let another method run in a lane; the others stay as they are."""
        self._close(self.racers[index])
        self.racers[index] = racer = self._racer(entry, self.racers[index].lane)
        self._run(racer)
        self._compare_anew(self.racers if index == 0 else [racer])

    def add(self, entry: Entry) -> None:
        """One lane more."""
        used = {racer.lane for racer in self.racers}
        lane = next(name for n in range(1, MOST + 1) if (name := f"race-{n}") not in used)
        racer = self._racer(entry, lane)
        self.racers.append(racer)
        self._run(racer)

    def remove(self, index: int) -> None:
        """One lane fewer."""
        self._close(self.racers.pop(index))
        if index == 0:
            self._compare_anew(self.racers)

    def pause(self) -> None:
        """Hold every lane, or let them go on."""
        self.paused = not self.paused
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Pause(racer.id, self.paused))

    def cancel(self) -> None:
        """Stop every lane within a pass; what is there stays."""
        for racer in self.racers:
            if not racer.done:
                self.dialogue.engine.send(Cancel(racer.id))

    def close(self) -> None:
        """Free the lanes; one that runs is cancelled."""
        for racer in self.racers:
            self._close(racer)
            if not racer.done:
                racer.answer.finish("cancelled")

    def _run(self, racer: Racer) -> None:
        dialogue = self.dialogue
        if all(other.done for other in self.racers if other is not racer):
            self.paused = False  # a pause of lanes that have ended since
        racer.id = dialogue.engine.next_id()
        racer.paused = self.paused
        self._own.add(racer.id)
        dialogue.engine.send(
            Generate(
                racer.id,
                lane=racer.lane,
                messages=self.messages,
                method=racer.entry.method,
                settings=dict(racer.entry.settings),
                sampling=asdict(dialogue.sampling),
                accept=dialogue.accept,
                max_tokens=dialogue.max_tokens,
                stop=list(dialogue.stop),
                paused=self.paused,
            )
        )

    def _close(self, racer: Racer) -> None:
        self.dialogue.engine.send(CloseLane(racer.lane))

    # What can be seen

    @property
    def running(self) -> bool:
        """Whether a lane has not come to its end."""
        return not all(racer.done for racer in self.racers)

    @property
    def expected(self) -> int:
        """How many tokens a full bar stands for: the length of the first lane's answer, else of one that is through, else the
        limit, else the next power of two."""
        lengths = [len(racer.tokens) for racer in self.racers if racer.through]
        if lengths:
            return max(1, *lengths)
        ahead = max((len(racer.tokens) for racer in self.racers), default=0)
        return self.dialogue.max_tokens or max(64, 1 << ahead.bit_length())

    def mark(self, racer: Racer) -> Mark:
        """How a lane's tokens compare with the first lane's."""
        first = self.racers[0]
        if racer is first:
            return "reference"
        if racer.position is None:
            return "identical" if racer.compared else "unknown"
        if racer.judging:
            return "unknown"
        return "near tie" if racer.gap is not None and racer.gap < NEAR else "lossy"

    def speedup(self, racer: Racer) -> float:
        """Own time per token of the first lane over a racer's, the prompt's prefill included: what the clocks show. 0 where
        there is nothing to compare yet."""
        first = pace(self.racers[0].answer)
        return pace(racer.answer) / first if first else 0.0

    def ranking(self) -> list[Racer]:
        """Those that are through, the soonest by its own clock first; then the others, by how far they got."""
        order = {racer.lane: n for n, racer in enumerate(self.racers)}
        return sorted(
            self.racers,
            key=lambda r: (0, r.seconds, order[r.lane]) if r.through else (1, -len(r.tokens), order[r.lane]),
        )

    def place(self, racer: Racer) -> int | None:
        """1 for the first over the line; None where it is not through, or others may still come before."""
        if not racer.through or any(not other.done and other.seconds < racer.seconds for other in self.racers):
            return None
        return 1 + sum(other.through and other.seconds < racer.seconds for other in self.racers)

    def record(self) -> RaceRecord:
        """The race as plain data. Its answers are those of the lanes, not copies."""
        from .. import __version__

        dialogue = self.dialogue
        return RaceRecord(
            self.prompt,
            dialogue.model,
            [
                RaceLane(
                    racer.entry.method,
                    dict(racer.entry.settings),
                    racer.answer,
                    mark=self.mark(racer),
                    position=racer.position,
                    gap=racer.gap,
                )
                for racer in self.racers
            ],
            {} if dialogue.sampling.greedy else asdict(dialogue.sampling),
            # Where the model lies on this disk is nobody else's business.
            {key: value for key, value in dialogue.info.items() if key != "path"},
            datetime.now().astimezone().isoformat(timespec="seconds"),
            __version__,
            dialogue.pieces,
        )

    # What the engine says

    def handle(self, event: Event) -> bool:
        """Take in an event; False if it is not about the race."""
        match event:
            case Loading() if self.running and self.dialogue.info:
                self.loading = event
            case Failed(cause="died") if self._own & {event.id, *event.others}:
                self._died(event.sentence)
            case Judged() | Failed(ended=False) if event.id in self._own:
                self._judged(event)
            case Failed() if event.id in self._own:
                if (racer := self._find(event.id)) is not None:
                    racer.error = event.sentence
                    racer.answer.finish("error")
                    self._compare()
            case Started() | Prefilling() | Steps() | Paused() | Finished() if event.id in self._own:
                if (racer := self._find(event.id)) is not None:
                    self.loading = None
                    self._progress(racer, event)
            case _:
                return False
        return True

    def _find(self, id: int) -> Racer | None:
        """The lane whose answer this is, unless it has ended."""
        return next((racer for racer in self.racers if racer.id == id and not racer.done), None)

    def _progress(self, racer: Racer, event: Started | Prefilling | Steps | Paused | Finished) -> None:
        answer = racer.answer
        match event:
            case Started():
                answer.method, answer.label, answer.pieces = event.method, event.label, self.dialogue.pieces
                answer.figures.prompt_tokens, answer.figures.reused = event.prompt_tokens, event.reused
                racer.started = True
            case Prefilling():
                racer.prefill = (event.done, event.total)
                answer.figures.prefill_seconds = event.seconds
            case Steps():
                self._steps(racer, event.steps)
            case Paused():
                racer.paused = event.paused
            case Finished():
                answer.finish(event.reason, event.tail)
                answer.figures.prefill_seconds = event.prefill_seconds
                if event.busy_seconds > event.prefill_seconds:
                    answer.figures.decode_seconds = event.busy_seconds - event.prefill_seconds
                if event.reason == "context":
                    racer.error = FULL
                self._compare()

    def _steps(self, racer: Racer, steps: Iterable[StepRecord]) -> None:
        for step in steps:
            racer.answer.add(step)
            racer.tokens.extend(step.tokens)
        self._compare()

    def _compare_anew(self, racers: Iterable[Racer]) -> None:
        for racer in racers:
            racer.compared, racer.position, racer.gap, racer.judging = 0, None, None, 0
        self._compare()

    def _compare(self) -> None:
        first = self.racers[0]
        for racer in self.racers[1:]:
            if racer.position is not None:
                continue
            racer.compare(first)
            at = racer.position
            if at is None or not (racer.label_is_exact and first.label_is_exact):
                continue
            if at < min(len(racer.tokens), len(first.tokens)):
                racer.judging = self.dialogue.engine.next_id()
                self._own.add(racer.judging)
                self.dialogue.engine.send(Judge(racer.judging, racer.lane, at, first.tokens[at]))

    def _judged(self, event: Judged | Failed) -> None:
        for racer in self.racers:
            if racer.judging == event.id:
                racer.judging = 0
                racer.gap = event.gap if isinstance(event, Judged) else None

    def _died(self, sentence: str) -> None:
        for racer in self.racers:
            racer.judging = 0
            if not racer.done:
                racer.error = sentence
                racer.answer.finish("died")
        self.loading = None


def suggested(dialogue: Dialogue, count: int = 3) -> list[str]:
    """Who might race: the plain method, the one in force, and favourites that this model can run."""
    able = [name for name in dialogue.methods if name not in dialogue.unavailable]
    wanted = ["greedy", dialogue.method, *FAVOURITES, *able]
    return list(dict.fromkeys(name for name in wanted if name in able))[:count]


def talk(dialogue: Dialogue, prompt: str | None) -> tuple[str, list[dict[str, str]]] | None:
    """What to race on: a prompt as the next message of the chat, or (None) the last one that was sent, with the chat before it.

    Returns:
        The prompt and what the model is told; None if there is no prompt.
    """
    from .transcript import Prompt, Transcript

    transcript = dialogue.transcript
    entries = list(transcript.entries)
    if prompt is None:
        last = next((i for i in reversed(range(len(entries))) if isinstance(entries[i], Prompt)), None)
        if last is None:
            return None
        entries = entries[: last + 1]
    else:
        entries.append(Prompt(prompt))
    asked = next(entry for entry in reversed(entries) if isinstance(entry, Prompt))
    return asked.text, Transcript(entries, transcript.system).messages()
