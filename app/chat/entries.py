"""What was said: prompts, answers as runs of tokens, and notices. Plain data; the widget that draws it keeps its own lines."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, get_args

from ...engine.catalog import Share, Totals
from ...engine.messages import FIELDS, Event, Failed, Finished, Prefilling, Started, StepRecord, Steps, Switched
from .pieces import Pieces
from .runs import Run, Shades, Spans, spelled

OWN_END = ("eos", "stop")
"""Finish reasons of an answer that the model, or a stop text, ended."""
TEXT_END = (*OWN_END, "length", "loop")
"""Those after which the answer would be no longer if it were asked for again."""
THROUGH = (*TEXT_END, "context")
"""Those with which an answer has reached its end."""

WINDOW_SECONDS = 1.0
"""The live tokens/s looks back this far, so that a method switch shows at once."""

TELLING_STEPS = 3
"""Fewest timed steps that tell how an answer's speed compares: the times of single passes differ by some per cent."""

Severity = Literal["information", "warning", "error"]
"""How bad news is."""
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
}
"""Finish reason → what a reader is told. `died` (the engine's process ended) and `unfinished` (in saved chats) are ours."""


def loop_sentence(event: Finished, penalty: str, off: str) -> str:
    """What a reader is told where an answer was stopped because it repeated itself.

    Args:
        penalty: how to set the repetition penalty here.
        off: how to let such an answer go on.
    """
    last = f"{event.period:,} tokens" if event.period > 1 else "token"
    return f"Stopped: the last {last} repeated {event.repeats:,} times. {penalty} often helps; {off} lets it continue."


def cut_sentence(answer: Answer, limit: str) -> str:
    """What a reader is told of an answer that ended before it matched its schema. `limit`: how to set the token limit here."""
    schema = "the grammar" if answer.asked.get("constraint", {}).get("kind") in ("regex", "grammar") else "the schema"
    more = {"length": f" Raise {limit}.", "context": " The context is full."}.get(answer.reason or "", "")
    penalty = answer.asked.get("sampling", {}).get("repetition_penalty") or 1.0
    if penalty > 1 and more:
        more += f" Or leave out the repetition penalty of {penalty:g}, under which quotes and brackets may never close."
    return f"The answer is cut ({answer.ending}), so it does not match {schema}.{more}"


USUAL = {
    **dict.fromkeys(("drafted", "accepted", "nodes", "carried"), "I"),
    **dict.fromkeys(("draft_seconds", "forward_seconds", "other_seconds"), "f"),
}
"""Fields that nearly every step fills, with their array types."""
LISTS = {
    **dict.fromkeys(("tokens", "tree_tokens", "tree_parents", "path"), "i"),
    **dict.fromkeys(("probs", "shares", "declined"), "f"),
    "sources": "I",
}
"""Fields that hold several values a step, with their array types."""
SHOWN = ("text", "held", "spans")
"""Fields that are not kept here, as the answer's runs have them."""
NAMES = ("method", "drafters")
"""Fields whose values most steps share with the step before."""
RARE = {name: nothing for name, nothing in FIELDS.items() if name not in {*USUAL, *LISTS, *SHOWN, *NAMES}}
"""Fields that few steps fill, with the value that stands for nothing."""


class StepLog:
    """Step records in flat arrays: about 60 bytes a step, 6 a tree node and 4 a token, where the records themselves would take
    kilobytes. Seconds are kept as 32-bit floats."""

    def __init__(self) -> None:
        self._usual = {name: array(kind) for name, kind in USUAL.items()}
        self._lists = {name: array(kind) for name, kind in LISTS.items()}
        self._ends = array("I")  # where each step's part of each list ends
        self._names: list[tuple[str, Sequence[str]]] = []
        self._name = array("H")
        self._rare: dict[int, dict[str, Any]] = {}
        self._late: dict[int, list[float]] = {}  # probabilities that came after their step

    @property
    def tokens(self) -> array[int]:
        return self._lists["tokens"]

    def __len__(self) -> int:
        return len(self._name)

    def __iter__(self) -> Iterator[StepRecord]:
        return (self.record(index) for index in range(len(self)))

    def append(self, step: StepRecord) -> None:
        """Keep a step; its text is not kept (the run has it)."""
        if rare := {name: value for name, default in RARE.items() if (value := getattr(step, name)) != default}:
            self._rare[len(self)] = rare
        names = step.method, step.drafters
        if not self._names or self._names[-1] != names:
            self._names.append(names)
        self._name.append(len(self._names) - 1)
        for name, column in self._usual.items():
            column.append(getattr(step, name))
        for name, column in self._lists.items():
            column.extend(getattr(step, name))
            self._ends.append(len(column))

    def record(self, index: int) -> StepRecord:
        """Step number `index`, from 0, without its text.

        Raises:
            IndexError: there is no such step.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"no step {index} of {len(self)}")
        at = index * len(LISTS)
        begins = self._ends[at - len(LISTS) : at] if index else [0] * len(LISTS)
        ends = self._ends[at : at + len(LISTS)]
        method, drafters = self._names[self._name[index]]
        values: dict[str, Any] = {name: column[index] for name, column in self._usual.items()}
        for (name, column), begin, end in zip(self._lists.items(), begins, ends, strict=True):
            values[name] = column[begin:end].tolist()
        if index in self._late:
            values["probs"] = self._late[index]
        for name in ("shares", "declined"):
            values[name] = [round(share, 4) for share in values[name]]
        return StepRecord(method=method, drafters=drafters, **values, **self._rare.get(index, {}))

    def passes(self, steps: int) -> int:
        """Count those of the first steps that took a pass; text that a constraint wrote took none."""
        return sum(map(bool, self._usual["nodes"][:steps]))

    def tokens_before(self, index: int) -> int:
        """How many tokens the steps before a step have."""
        return self._ends[(index - 1) * len(LISTS)] if index else 0

    def set_probs(self, index: int, probs: list[float]) -> None:
        """Give a step the probabilities that it came without; none where they cannot be had."""
        self._late[index] = probs

    def has_probs(self, index: int) -> bool:
        """Whether a step has its probabilities, or cannot have them."""
        return index in self._late or bool(self.record(index).probs)

    def seconds(self, index: int) -> float:
        """Seconds of a step's own compute: draft, forward and the rest."""
        return sum(self._usual[name][index] for name in ("draft_seconds", "forward_seconds", "other_seconds"))


@dataclass(slots=True)
class Figures:
    """What an answer cost and how well its drafts did."""

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
    """Time of a plain step at the answer's end; 0 where none was timed."""
    contended: bool = False
    """Other programs kept its speed from being compared."""
    rested: bool = False
    """Its passes were slowed down, so their seconds tell no speed."""
    totals: Totals = field(default_factory=Totals)
    """Totals over the steps."""
    recent: deque[tuple[int, float]] = field(default_factory=deque)
    """(tokens, seconds) of the last steps."""
    recent_seconds: float = 0.0
    declined: Sequence[float] = ()
    """Of the latest draft that was not verified: nodes, and what a pass over them costs in plain ones."""
    drafts_apart: bool = True
    """Whether it is known what was drafted in each pass: vLLM tells it of all together."""
    certainty: str = ""
    """Whether, for a server's answer, its runs are known: exact or unknown. Empty for one of ours."""
    doubt: str = ""
    """Where the server contradicts itself, a sentence that says so."""
    valid: bool | None = None
    """Whether the answer matches its constraint; None without one, and until it has ended."""

    def take_served(self, served: Mapping[str, Any]) -> None:
        """Take over what a server counted: it knows better than its stream shows.

        Args:
            served: as in the engine's `Finished`.
        """
        self.certainty, self.doubt = served.get("certainty", self.certainty), served.get("doubt", self.doubt)
        self.drafts_apart = self.drafted > 0 or not served.get("drafted")
        if self.certainty == "unknown":  # then its own counters are all there is
            self.steps = self.drafted = self.accepted = 0
        for name in ("prompt_tokens", "reused", "tokens", "steps", "drafted", "accepted"):
            if (count := served.get(name)) is not None:
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
    def grammar(self) -> int:
        """Tokens that a constraint left no choice about."""
        return self.totals.grammar

    @property
    def thought(self) -> Share:
        """Share of the answer that went into thoughts."""
        return self.totals.thought

    @property
    def answer(self) -> Share:
        """What of it went into the answer behind the thoughts."""
        drafted = self.drafted if self.drafts_apart else 0
        return Share(self.tokens, self.steps, self.decode_seconds, drafted, self.accepted).plus(self.thought, -1)

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
        """Tokens that a pass gave on average; 0 where it is not known."""
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def own_tokens_per_step(self) -> float:
        """Tokens that a pass gave on average, without those that a constraint left no choice about."""
        return (self.tokens - self.grammar) / self.steps if self.tokens_per_step else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed over the whole answer, prefill left out; 0 where it is not known, or its passes were slowed down."""
        return self.tokens / self.decode_seconds if self.decode_seconds > 0 and not self.rested else 0.0

    @property
    def recent_tokens_per_second(self) -> float:
        """Speed over the last WINDOW_SECONDS of compute."""
        return sum(n for n, _ in self.recent) / self.recent_seconds if self.recent_seconds > 0 else 0.0

    @property
    def speedup(self) -> float:
        """How many times as fast as plain decoding it was; 0 where that is not known."""
        return self.totals.speedup(self.plain_seconds) if self.totals.timed >= TELLING_STEPS else 0.0

    @property
    def why_declined(self) -> str:
        """Why nothing was drafted although there was something to guess from; empty where it was, or there was nothing."""
        if self.drafted or not self.declined:
            return ""
        nodes, cost = self.declined
        return f"declined: a pass of {nodes:.0f} costs {cost:.1f} plain ones here"

    @property
    def acceptance(self) -> float | None:
        """Accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(slots=True, eq=False)
class Prompt:
    """A message of the user."""

    text: str
    """Empty where it asks a base model to go on."""

    @property
    def told(self) -> str:
        """The message as it is shown."""
        return self.text or "…"


@dataclass(slots=True, eq=False)
class Notice:
    """A sentence from specchat itself."""

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
    """Step number i made run number i; a last run, of text that had been held back, has none."""
    pieces: Pieces = field(default_factory=Pieces)
    """The token texts of the model that wrote it, which may not be the one that is loaded now."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What it was asked with: `model`, `method` (the first), `settings` (of that), `sampling`, `accept`, `max_tokens`, `stop`.
    Empty where that is not known."""
    id: int = 0
    """The id by which the engine knows it; 0 if it was written in another sitting."""
    prefill: tuple[int, int] = (0, 0)
    """Prompt tokens read so far, of how many."""
    held: str = ""
    """The last character of an answer that is being written, shown although it may yet change: the next text begins with it."""
    opened: bool | None = None
    """Whether the reader wants to see its thought; None: as the setting says."""
    weights: int = 0
    """Number of the model's weights that a pass uses, as in `ModelInfo.weights`."""
    curve: tuple[tuple[int, float], ...] = ()
    """(nodes, seconds) of the model's passes, as measured at load; of an answer of this sitting."""
    held_back: str = ""
    """What made it slower than plain decoding, if it was (see `why.blame`); of an answer of this sitting."""
    _shades: Shades = field(default_factory=Shades)

    def __post_init__(self) -> None:
        self.totals.curve = self.curve

    @property
    def totals(self) -> Totals:
        """Totals over the steps."""
        return self.figures.totals

    @property
    def methods(self) -> list[str]:
        """Every method that wrote a part, in order of first use."""
        return list(self.by_method)

    @property
    def text(self) -> str:
        """The answer alone, without its thought."""
        return spelled(self.runs) + ("" if self.thinking else self.held)

    @property
    def all_text(self) -> str:
        """Thought and answer, in the order in which they were written."""
        return "".join(run.text for run in self.runs) + self.held

    @property
    def thought(self) -> str:
        """What the model thought before and between."""
        return spelled(self.runs, thought=True) + (self.held if self.thinking else "")

    @property
    def thinking(self) -> bool:
        """Whether it is in the middle of a thought, or ended there."""
        return bool(self.runs) and self.runs[-1].thinking

    def own_text(self, index: int) -> str:
        """All the text of a run: what came with the next one, because it had been held back, is its own too."""
        return "".join(text for _, text in self.own_pieces(index))

    def own_pieces(self, index: int) -> Iterator[tuple[bool, str]]:
        """All the text of a run in pieces: whether each is thought, and the text."""
        out = [(thought, text) for thought, late, text in self.runs[index].pieces() if not late]
        if index + 1 < len(self.runs):
            out += [(thought, text) for thought, late, text in self.runs[index + 1].pieces() if late]
        elif self.held:
            out.append((self.thinking, self.held))
        for thought, pieces in groupby(out, key=itemgetter(0)):
            yield thought, "".join(text for _, text in pieces)

    def pass_of(self, index: int) -> tuple[int, int]:
        """The number of the pass that made a run, from 1, and how many the answer has: 0 while it is being written. A run that
        took no pass counts with the one before."""
        number = max(1, self.log.passes(min(index + 1, len(self.log))))
        return number, max(number, self.log.passes(len(self.log))) if self.done else 0

    @property
    def done(self) -> bool:
        return self.reason is not None

    @property
    def valid(self) -> bool | None:
        """Whether it matches its constraint (see `Figures.valid`)."""
        return self.figures.valid

    @property
    def through(self) -> bool:
        return self.reason in THROUGH

    @property
    def ending(self) -> str:
        """Why it ended, in words; empty while it has not."""
        return _REASONS.get(self.reason or "", self.reason or "")

    @property
    def severity(self) -> Severity:
        """How bad its end is: a warning where text may be missing."""
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
                self.method, self.label = event.method, event.label
                figures.prompt_tokens, figures.reused = event.prompt_tokens, event.reused
                figures.certainty = event.certainty
            case Prefilling():
                self.prefill, figures.prefill_seconds = (event.done, event.total), event.seconds
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
                figures.plain_seconds, figures.contended = event.plain_seconds, event.contended
                figures.rested = event.rested
                figures.valid = event.valid
                self._take_served(event.served)
            case Failed(ended=True):
                self._take_served(event.served)
                self.finish(event.cause if event.cause in ("cancelled", "died") else "error", event.tail)

    def _take_served(self, served: Mapping[str, Any]) -> None:
        self.figures.take_served(served)
        if self.figures.certainty == "unknown":  # colours say which tokens came together
            for run in self.runs:
                run.shade = -1

    def add(self, step: StepRecord) -> Run:
        run = Run(
            step.text,
            len(step.tokens),
            step.method,
            self._shades.next(step) if self.figures.certainty != "unknown" else -1,
            step.drafted,
            step.accepted,
            step.seconds,
            step.carried if self.runs else 0,
            step.earlier,
            tuple((row[0], row[1], row[2]) for row in step.spans),
        )
        self.runs.append(run)
        self.held = step.held
        self.figures.add(step)
        if step.method not in self.by_method:
            self.by_method[step.method] = Totals(curve=self.curve)
        self.by_method[step.method].add(step)
        self.log.append(step)
        return run

    def finish(self, reason: str, tail: str = "") -> None:
        """End the answer; `tail` is text of the last run that had been held back. An engine that died tells none: then it is
        what was shown of it."""
        tail, self.held = tail or self.held, ""
        if tail and self.runs:
            last = self.runs[-1]
            spans: Spans = ((1, len(tail), 0),) if last.thinking else ()
            self.runs.append(Run(tail, 0, last.method, last.shade, carried=len(tail), spans=spans))
        elif tail:
            self.runs.append(Run(tail, 0, self.method, -1))
        self.reason = reason


ChatEntry = Prompt | Answer | Notice
