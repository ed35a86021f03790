"""The entries of a chat: prompts, answers as runs of tokens, and notices."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

from ...engine.catalog import Share, Totals
from ...engine.messages import FIELDS, Event, Failed, Finished, Prefilling, ServedFigures, Started, StepRecord, Steps, Switched
from .runs import Pieces, Run, Shades, Spans, join_text

OWN_END = ("eos", "stop")
"""Finish reasons of an answer that the model, or a stop text, ended."""
TEXT_END = (*OWN_END, "length", "loop")
"""Finish reasons after which a second answer would be no longer."""
THROUGH = (*TEXT_END, "context")
"""Finish reasons of an answer that reached its end."""

WINDOW_SECONDS = 1.0
"""Window of the live tokens/s, short so that a method switch shows at once."""

TELLING_STEPS = 3
"""Fewest timed steps for a speedup: the times of single passes differ by some per cent."""

Severity = Literal["information", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

_REASONS = {
    "eos": "finished",
    "length": "token limit",
    "context": "context full",
    "stop": "stop text",
    "loop": "repeated itself",
    "cancelled": "cancelled",
    "error": "error",
    "died": "engine stopped",
    "unfinished": "not finished when saved",
    "damaged": "damaged in the history, only its text is left",
}
"""Finish reason → its words. The engine does not send `died` (its process ended), and the last two (in saved chats)."""


def loop_sentence(event: Finished, penalty: str, off: str) -> str:
    """Explain that an answer was stopped because it repeated itself; `penalty` and `off` are the commands that set the
    repetition penalty, and that let such an answer go on."""
    last = f"{event.period:,} tokens" if event.period > 1 else "token"
    return f"Stopped: the last {last} repeated {event.repeats:,} times. {penalty} often helps; {off} lets it continue."


def cut_sentence(answer: Answer, limit: str) -> str:
    """Explain that an answer ended before it matched its schema. `limit` is the command that sets the token limit."""
    schema = "the grammar" if answer.asked.get("constraint", {}).get("kind") in ("regex", "grammar") else "the schema"
    more = {"length": f" Raise {limit}.", "context": " The context is full."}.get(answer.reason or "", "")
    return f"The answer is cut ({answer.ending}), so it does not match {schema}.{more}"


NAMES = ("method", "drafters", "note")
"""Fields whose values most steps share with the step before."""
NUMBERS = {
    name: "f" if isinstance(absent, float) else "I" for name, absent in FIELDS.items() if isinstance(absent, int | float)
}
"""Fields with one number a step → their array types."""
LISTS = {
    **dict.fromkeys(("tokens", "tree_tokens", "tree_parents", "path"), "i"),
    **dict.fromkeys(("probs", "shares", "declined"), "f"),
    "sources": "I",
}
"""Fields with several numbers a step → their array types. An answer's runs have `text`, `held` and `spans`."""

NO_ID = -1
"""Placeholder for token ids that a server does not send."""


class StepLog:
    """Step records in flat arrays: about 80 bytes a step, 6 a tree node and 4 a token; the records themselves would take
    kilobytes. Seconds are 32-bit floats."""

    def __init__(self) -> None:
        self._columns = {name: array(kind) for name, kind in {**NUMBERS, **LISTS}.items()}
        self._ends = array("I")  # where each step's part of each list ends
        self._names: list[tuple[Any, ...]] = []
        self._name = array("H")
        self._late: dict[int, list[float]] = {}  # probabilities that came after their step

    @property
    def tokens(self) -> array[int]:
        return self._columns["tokens"]

    def __len__(self) -> int:
        return len(self._name)

    def __iter__(self) -> Iterator[StepRecord]:
        return (self.record(index) for index in range(len(self)))

    def append(self, step: StepRecord) -> None:
        """Append a step without its text, which its run has."""
        names = tuple(getattr(step, name) for name in NAMES)
        if not self._names or self._names[-1] != names:
            self._names.append(names)
        self._name.append(len(self._names) - 1)
        for name in NUMBERS:
            self._columns[name].append(getattr(step, name))
        for name in LISTS:
            column = self._columns[name]
            column.extend(getattr(step, name))
            self._ends.append(len(column))

    def record(self, index: int) -> StepRecord:
        """Return step number `index`, from 0, without its text.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"no step {index} of {len(self)}")
        values: dict[str, Any] = dict(zip(NAMES, self._names[self._name[index]], strict=True))
        values |= {name: self._columns[name][index] for name in NUMBERS}
        for at, name in enumerate(LISTS, index * len(LISTS)):
            begin = self._ends[at - len(LISTS)] if index else 0
            values[name] = self._columns[name][begin : self._ends[at]].tolist()
        for name in ("shares", "declined"):
            values[name] = [round(share, 4) for share in values[name]]
        if index in self._late:
            values["probs"] = self._late[index]
        return StepRecord(**values)

    def passes(self, steps: int) -> int:
        """Count the passes of the first `steps` steps; text that a constraint wrote took none."""
        return sum(map(bool, self._columns["nodes"][:steps]))

    def tokens_before(self, index: int) -> int:
        """Return the number of tokens before a step."""
        return self._ends[(index - 1) * len(LISTS)] if index else 0

    def set_probs(self, index: int, probs: list[float]) -> None:
        """Add a step's probabilities later; an empty list if the engine has none."""
        self._late[index] = probs

    def has_probs(self, index: int) -> bool:
        """Whether a step's probabilities are here, or known to be missing."""
        return index in self._late or bool(self.record(index).probs)


@dataclass(slots=True)
class Figures:
    """The costs of an answer, and the success of its drafts."""

    prompt_tokens: int = 0
    reused: int = 0
    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    first_decode_seconds: float = 0.0
    """The part of `decode_seconds` until the first token."""
    plain_seconds: float = 0.0
    """Time of a plain step at the answer's end; 0 if none was timed."""
    contended: bool = False
    """Whether other programs disturbed the measurement, so that its speed cannot be compared."""
    rested: bool = False
    """Whether its passes were slowed down, so that their seconds are no measure of speed."""
    totals: Totals = field(default_factory=Totals)
    recent: deque[tuple[int, float]] = field(default_factory=deque)
    """(tokens, seconds) of the last steps."""
    recent_seconds: float = 0.0
    declined: Sequence[float] = ()
    """Nodes of the last draft that was not verified, and the cost of their pass in plain ones."""
    drafts_apart: bool = True
    """Whether the draft tokens of each pass are known: vLLM reports only their sum."""
    certainty: str = ""
    """For a server's answer, whether its runs are known: exact or unknown. Empty for a local model's."""
    doubt: str = ""
    """Sentence about a contradiction in the server's figures; empty without one."""
    valid: bool | None = None
    """Whether the answer matches its constraint; None without one, and until it has ended."""

    def take_served(self, served: ServedFigures) -> None:
        """Adopt the counts of a server, which are better than those of its stream."""
        self.certainty = served.certainty or self.certainty
        self.doubt = served.doubt or self.doubt
        self.drafts_apart = self.drafted > 0 or not served.drafted
        if self.certainty == "unknown":  # then only the server's own counters count
            self.steps = self.drafted = self.accepted = 0
        for name in ("prompt_tokens", "reused", "tokens", "steps", "drafted", "accepted"):
            if (count := getattr(served, name)) is not None:
                setattr(self, name, count)

    def add(self, step: StepRecord) -> None:
        tokens, seconds = len(step.tokens), step.seconds
        self.totals.add(step)
        if not self.tokens:
            self.first_decode_seconds += seconds
        self.tokens += tokens
        self.steps += step.nodes > 0 and self.certainty != "unknown"
        self.drafted += step.drafted
        self.accepted += step.accepted
        self.decode_seconds += seconds
        if step.declined:
            self.declined = step.declined
        self.recent.append((tokens, seconds))
        self.recent_seconds += seconds
        while len(self.recent) > 1 and self.recent_seconds - self.recent[0][1] > WINDOW_SECONDS:
            self.recent_seconds -= self.recent.popleft()[1]

    @property
    def answer(self) -> Share:
        """Share of the answer after the thoughts."""
        drafted = self.drafted if self.drafts_apart else 0
        return Share(self.tokens, self.steps, self.decode_seconds, drafted, self.accepted).plus(self.totals.thought, -1)

    @property
    def seconds(self) -> float:
        """Seconds of compute, from the prompt to the last token."""
        return self.prefill_seconds + self.decode_seconds

    @property
    def first_seconds(self) -> float:
        """Seconds from the request to the first token."""
        return self.prefill_seconds + self.first_decode_seconds

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens of a pass; 0 if unknown."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed over the whole answer without prefill; 0 if unknown, or if its passes were slowed down."""
        return self.tokens / self.decode_seconds if self.decode_seconds > 0 and not self.rested else 0.0

    @property
    def recent_tokens_per_second(self) -> float:
        """Speed over the last WINDOW_SECONDS of compute."""
        return sum(n for n, _ in self.recent) / self.recent_seconds if self.recent_seconds > 0 else 0.0

    @property
    def speedup(self) -> float:
        """Times as fast as plain decoding; 0 if unknown."""
        return self.totals.speedup(self.plain_seconds) if self.totals.timed >= TELLING_STEPS else 0.0

    @property
    def why_declined(self) -> str:
        """Reason why every draft was declined; empty if one was verified, or there was none."""
        if self.drafted or not self.declined:
            return ""
        nodes, cost = self.declined
        return f"declined: a pass of {nodes:.0f} costs {cost:.1f} plain ones here"

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted; None if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


Request = dict[str, Any]
"""A request for an answer as plain data: `model`, and fields of the engine's `Generate`."""


@dataclass(slots=True, eq=False)
class Prompt:
    """A message of the user."""

    text: str
    """Text of the message; empty if it asks a base model to go on."""

    @property
    def display_text(self) -> str:
        return self.text or "…"


@dataclass(slots=True, eq=False)
class Notice:
    """A sentence by specchat itself."""

    text: str
    severity: Severity = "information"


@dataclass(slots=True, eq=False)
class Answer:
    """An answer of the model, run by run. `reason` is None while it is being written."""

    method: str
    label: str
    runs: list[Run] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    reason: str | None = None
    by_method: dict[str, Totals] = field(default_factory=dict)
    """Totals over the steps of each method, in order of first use."""
    log: StepLog = field(default_factory=StepLog)
    """The steps: number i made run number i; a last run, of text that had been held back, has none."""
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts of the model that wrote it, which may not be the loaded one."""
    asked: Request = field(default_factory=dict)
    """The request: `model`, `method` (the first), `settings` (of that), `sampling`, `accept`, `max_tokens`, `stop`. Empty if
    unknown."""
    id: int = 0
    """The engine's id; 0 for one that was read from a file."""
    prefill: tuple[int, int] = (0, 0)
    """Prompt tokens read so far, and all of them."""
    held: str = ""
    """Last character of an unfinished answer, shown although it may still change: the next text begins with it."""
    opened: bool | None = None
    """Whether the reader opened or folded its thought; None: as the setting has it."""
    curve: tuple[tuple[int, float], ...] = ()
    """(nodes, seconds) of the model's passes, measured at load; absent in a saved answer."""
    held_back: str = ""
    """Reason why it was slower than plain decoding, if it was (see `why.blame`); absent in a saved answer."""
    _shades: Shades = field(default_factory=Shades)

    def __post_init__(self) -> None:
        self.totals.curve = self.curve

    @property
    def totals(self) -> Totals:
        """Totals over the steps."""
        return self.figures.totals

    @property
    def methods(self) -> list[str]:
        """Methods that wrote a part, in order of first use."""
        return list(self.by_method)

    @property
    def text(self) -> str:
        """The answer without its thoughts."""
        return join_text(self.runs) + ("" if self.thinking else self.held)

    @property
    def all_text(self) -> str:
        """Thoughts and answer in their order."""
        return "".join(run.text for run in self.runs) + self.held

    @property
    def thought(self) -> str:
        """The thoughts, without the answer."""
        return join_text(self.runs, thought=True) + (self.held if self.thinking else "")

    @property
    def thinking(self) -> bool:
        """Whether the text so far ends in a thought."""
        return bool(self.runs) and self.runs[-1].thinking

    def own_text(self, index: int) -> str:
        """Return all the text of a run, with the part that was held back and came with the next one."""
        return "".join(text for _, text in self.own_pieces(index))

    def own_pieces(self, index: int) -> Iterator[tuple[bool, str]]:
        """Yield all the text of a run in pieces: whether each is thought, and the text."""
        out = [(thought, text) for thought, late, text in self.runs[index].pieces() if not late]
        if index + 1 < len(self.runs):
            out += [(thought, text) for thought, late, text in self.runs[index + 1].pieces() if late]
        elif self.held:
            out.append((self.thinking, self.held))
        for thought, pieces in groupby(out, key=itemgetter(0)):
            yield thought, "".join(text for _, text in pieces)

    def pass_of(self, index: int) -> tuple[int, int]:
        """Return the number of the pass that made a run, from 1, and the number of passes of the answer, 0 while it is being
        written. A run that took no pass counts with the one before."""
        number = max(1, self.log.passes(min(index + 1, len(self.log))))
        return number, max(number, self.log.passes(len(self.log))) if self.done else 0

    @property
    def done(self) -> bool:
        return self.reason is not None

    @property
    def through(self) -> bool:
        return self.reason in THROUGH

    @property
    def ending(self) -> str:
        """Finish reason in words; empty while it is being written."""
        return _REASONS.get(self.reason or "", self.reason or "")

    @property
    def severity(self) -> Severity:
        """Severity of its end: a warning if text may be missing."""
        match self.reason:
            case "eos" if not self.thinking:
                return "information"
            case "died" | "error":
                return "error"
            case _:
                return "warning"

    def take(self, event: Event) -> None:
        figures = self.figures
        match event:
            case Started():
                self.method = event.method
                self.label = event.label
                figures.prompt_tokens = event.prompt_tokens
                figures.reused = event.reused
                figures.certainty = event.certainty
            case Prefilling():
                self.prefill = (event.done, event.total)
                figures.prefill_seconds = event.seconds
            case Steps():
                for step in event.steps:
                    self.add(step)
            case Switched():
                self.label = event.label
            case Finished():
                self.finish(event.reason, event.tail)
                figures.prefill_seconds = event.prefill_seconds
                if event.busy_seconds > event.prefill_seconds:
                    figures.decode_seconds = event.busy_seconds - event.prefill_seconds
                figures.plain_seconds = event.plain_seconds
                figures.contended = event.contended
                figures.rested = event.rested
                figures.valid = event.valid
                self._take_served(event.served)
            case Failed(ended=True):
                self._take_served(event.served)
                self.finish(event.cause if event.cause in ("cancelled", "died") else "error", event.tail)

    def _take_served(self, served: ServedFigures | None) -> None:
        if served is not None:
            self.figures.take_served(served)
        if self.figures.certainty == "unknown":  # colours show which tokens came together
            for run in self.runs:
                run.shade = -1

    def add(self, step: StepRecord) -> Run:
        run = Run(
            step.text,
            tokens=len(step.tokens),
            method=step.method,
            shade=self._shades.next(step) if self.figures.certainty != "unknown" else -1,
            drafted=step.drafted,
            accepted=step.accepted,
            seconds=step.seconds,
            carried=step.carried if self.runs else 0,
            earlier=step.earlier,
            spans=tuple((thought, length, tokens) for thought, length, tokens in step.spans),
        )
        self.runs.append(run)
        self.held = step.held
        if step.method not in self.by_method:
            if len(self.by_method) == 1:  # so far, its part was the whole
                self.by_method = {name: deepcopy(totals) for name, totals in self.by_method.items()}
            self.by_method[step.method] = Totals(curve=self.curve) if self.by_method else self.totals
        self.figures.add(step)
        if (part := self.by_method[step.method]) is not self.totals:
            part.add(step)
        self.log.append(step)
        return run

    def finish(self, reason: str, tail: str = "") -> None:
        """End the answer; `tail` is text of the last run that had been held back. An engine that died sends none: then it is
        the character that was shown."""
        tail = tail or self.held
        self.held = ""
        if tail and self.runs:
            last = self.runs[-1]
            spans: Spans = ((1, len(tail), 0),) if last.thinking else ()
            self.runs.append(Run(tail, 0, last.method, last.shade, carried=len(tail), spans=spans))
        elif tail:
            self.runs.append(Run(tail, 0, self.method, -1))
        self.reason = reason


ChatEntry = Prompt | Answer | Notice
