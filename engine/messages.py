"""What crosses between the drawing process and the engine: one JSON object a line (engine/wire.py), each a dataclass below.

Commands go to the engine's standard input, events come from its standard output. This module imports no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..decoders.step import FIELDS as FIELDS
from ..decoders.step import StepRecord as StepRecord
from .options import DraftOptions, LoadOptions, draft_names


class Command:
    """What the engine is asked to do."""

    __slots__ = ()


class Event:
    """What the engine tells."""

    __slots__ = ()


@dataclass(frozen=True)
class Load(LoadOptions, DraftOptions, Command):
    """Load a model in place of the loaded one. Answered by Loading…, then Loaded or Failed.

    Running answers are cancelled first. The old model stays until the new one's weights are about to be read (two never sit
    in memory together, and a wrong name costs nothing); when it goes, Unloaded is sent.
    """

    id: int
    model: str
    draft_model: str | Sequence[str] | None = None
    """Loaded beside the target, for the methods that draft with one: draft models, and at most one trained drafter; None: the
    built-in one for the built-in target (loaded when the first method needs it), else none."""
    servers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Servers by name, as the settings have them: their addresses, and where (never what) their keys are."""

    @property
    def drafts(self) -> list[str]:
        """The names in `draft_model`."""
        return draft_names(self.draft_model)


@dataclass(slots=True)
class LoadBeside(Command):
    """Load a model beside the chat's, which stays as it is, its lanes too. Answered by Loading…, then LoadedBeside or Failed.

    Running answers wait meanwhile. Whether it fits beside what is in memory is reckoned from its files first. One that was
    loaded under the same key goes, its lanes with it.
    """

    id: int
    key: str
    """What a Generate names in `model`; not empty."""
    model: str
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of Load besides id and model. The context is at most that of the chat's model."""
    lanes: int = 1
    """Conversations that are to share it: memory for the KV cache of each is reckoned with."""


@dataclass(slots=True)
class Generate(Command):
    """Answer a prompt on a lane. Answered by Started, Prefilling…, Steps…, then Finished or Failed.

    Exactly one of `prompt` and `messages` is set. `prompt` is sent as a chat's first message if the model has a chat template
    and `raw` is False.
    """

    id: int
    lane: str = "main"
    prompt: str | None = None
    messages: list[dict[str, str]] | None = None
    """`role` and `content` each; an answer may have its `thought` beside it. Both exactly as they came."""
    raw: bool = False
    method: str = "greedy"
    settings: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    accept: str = "exact"
    """When a draft token is accepted, as `decoders.base.Acceptance.parse` takes it."""
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    constraint: dict[str, str] | None = None
    """What the whole answer must match: `kind` (json_schema, json_object, regex or grammar) and its `text`."""
    stop_loops: bool = False
    """End the answer where it repeats itself far beyond what text does."""
    watch: bool = False
    """As if Watch had been sent."""
    pace: float = 0.0
    """As if Pace had been sent."""
    model: str = ""
    """Key of a LoadBeside; empty for the chat's model."""
    compare: bool = False
    """Time some plain steps at the end of the answer, unless it was decoded plainly: they tell how much sooner it came."""
    past: str = ""
    """Draft from the past answers in this folder too, where a Remember has opened it."""
    think: str = ""
    """One of the words in `ModelInfo.thinking`; empty for the template's own default."""
    think_budget: int | None = None
    """The most tokens in a thought: then the mark that ends it is forced, which a step's note says."""
    template_vars: dict[str, Any] = field(default_factory=dict)
    """Further variables for the model's chat template."""
    fresh: bool = False
    """The drafters begin with empty pools, as in a lane of its own: what they learned from an answer to the same prompt would
    let them repeat it."""


@dataclass(slots=True)
class Switch(Command):
    """Continue the answer `id` with another method from its next step on. Answered by Switched, or Failed (`ended` False)."""

    id: int
    method: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Cancel(Command):
    """Stop the load or answer `id` within one forward pass: an answer gets Finished with reason "cancelled", a load Failed with
    cause "cancelled". An id that has ended is ignored."""

    id: int


@dataclass(slots=True)
class Pause(Command):
    """Hold the answer `id` (it takes no turn of the device), or let it go on; ignored if it has ended. Answered by Paused."""

    id: int
    paused: bool = True


@dataclass(slots=True)
class Pace(Command):
    """Let the answer `id` take so many passes a second and no more; 0 for full speed. Ignored if it has ended."""

    id: int
    passes: float = 0.0


@dataclass(slots=True)
class Advance(Command):
    """Let the answer `id`, which is paused, take some steps (and before the first of them the prompt's prefill)."""

    id: int
    steps: int = 1


@dataclass(slots=True)
class Watch(Command):
    """Let the steps of the answer `id` carry the target's probabilities of what was drafted, or no longer."""

    id: int
    on: bool = True


@dataclass(slots=True)
class ScoreStep(Command):
    """Ask for the target's probabilities in a step of the answer `id`, which has ended: those that a watched answer's steps
    carry. Answered by StepScores."""

    id: int
    before: int
    """Tokens of the answer before the step."""
    last: int
    """The last token of the step."""
    tree_tokens: Sequence[int] = field(default_factory=list)
    tree_parents: Sequence[int] = field(default_factory=list)
    path: Sequence[int] = field(default_factory=list)
    lane: str = "main"


@dataclass(slots=True)
class PiecesOf(Command):
    """Ask for the text of every token of `model`, which Generate names alike. Answered by PieceTable."""

    id: int
    model: str = ""


@dataclass(slots=True)
class Count(Command):
    """Ask how many tokens chats take as prompts, the template's own among them. Answered by Counted."""

    id: int
    chats: list[list[dict[str, str]]]


@dataclass(slots=True)
class Judge(Command):
    """Ask how near a tie is: a lane's answer has one token at a position and another answer with the same text before it has
    `other` there. Answered by Judged, or by Failed with `ended` False."""

    id: int
    lane: str
    position: int
    """Index into the tokens of the lane's answer."""
    other: int


@dataclass(slots=True)
class Remember(Command):
    """Keep answers in a folder, as tokens of the loaded model, to draft from later; forget those with other keys. Answered by
    Remembered, but not where the folder cannot be used."""

    id: int
    folder: str
    answers: list[list[Any]] = field(default_factory=list)
    """[key, text] each, the oldest first; a key is a whole number below 2^63."""
    forget: list[int] = field(default_factory=list)


@dataclass(slots=True)
class CloseLane(Command):
    """Free a lane's KV cache; an answer that runs in it is cancelled."""

    lane: str


@dataclass(slots=True)
class UnloadBeside(Command):
    """Free the model beside the chat's that has this key, or all without one, and their lanes. Not answered."""

    key: str = ""


@dataclass(slots=True)
class Work(Command):
    """A measurement (engine/tasks/work.py). Answered by Working…, then Worked or Failed; Cancel leaves what was reported."""

    id: int
    task: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Quit(Command):
    """End the engine process."""


@dataclass(slots=True)
class Ready(Event):
    """The engine process runs and takes commands."""

    pid: int
    version: str


@dataclass(slots=True)
class Loading(Event):
    """Progress of a load; `total` is 0 where unknown. Stages: import, download (bytes), weights, check, "draft download"…"""

    id: int
    stage: str
    done: int = 0
    total: int = 0


@dataclass(slots=True)
class Loaded(Event):
    """A model is ready. `info` is ModelInfo as plain data; `unavailable` maps a method to the reason why it cannot run;
    `drafts` are the draft models' ModelInfo, `head` is the trained drafter's HeadInfo, each empty where there is none or none
    is loaded yet."""

    id: int
    info: dict[str, Any]
    unavailable: dict[str, str] = field(default_factory=dict)
    drafts: list[dict[str, Any]] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Remembered(Event):
    """The keys of the past answers that the loaded model may draft from."""

    id: int
    keys: list[int]


@dataclass(slots=True)
class LoadedBeside(Event):
    """A model beside the chat's is ready. The fields that Loaded has too mean the same."""

    id: int
    key: str
    info: dict[str, Any]
    unavailable: dict[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    """Two models whose tokens mean the same have the same text here."""
    own: str = ""
    """The same of the chat's model."""


@dataclass(slots=True)
class Started(Event):
    """An answer begins: `reused` of its `prompt_tokens` are in the KV cache already."""

    id: int
    lane: str
    method: str
    label: str
    prompt_tokens: int
    reused: int
    certainty: str = ""
    """For a server's answer, whether its runs are going to be known (`backends.servers.runs`); empty for one of ours."""


@dataclass(slots=True)
class Prefilling(Event):
    """Prompt tokens evaluated so far, of `total`: all of the prompt but its last token, which the first step evaluates. In the
    middle of an answer: tokens of the whole text, which is read again."""

    id: int
    done: int
    total: int
    seconds: float = field(default=0.0, compare=False)
    """Time of prefill so far."""


@dataclass(slots=True)
class Steps(Event):
    """Steps since the last such event (about one event per 15 ms, more steps in each if the reader is slow)."""

    id: int
    steps: list[StepRecord]


@dataclass(slots=True)
class Switched(Event):
    """The method in force changed."""

    id: int
    method: str
    label: str


@dataclass(slots=True)
class Paused(Event):
    """An answer is held, or goes on."""

    id: int
    paused: bool


@dataclass(slots=True)
class PieceTable(Event):
    """The text that each token shows as when alone, by id; special tokens by name. Nothing is sanitised."""

    id: int
    pieces: list[str]


@dataclass(slots=True)
class Counted(Event):
    """Tokens of each chat, in their order, and how many the model's context holds. No tokens where they cannot be counted: no
    model is loaded, or its template refuses a chat."""

    id: int
    tokens: list[int]
    context: int


@dataclass(slots=True)
class Judged(Event):
    """What one plain pass says of two tokens: `token` is the lane's own at that position. `gap` is how far their logits are
    apart (with a temperature: their noisy scores); a tiny one is a near tie."""

    id: int
    lane: str
    position: int
    token: int
    other: int
    gap: float


@dataclass(slots=True)
class StepScores(Event):
    """The probabilities in a step, as StepRecord's `probs`; none where the cache no longer holds the text before it."""

    id: int
    before: int
    probs: list[float]


@dataclass(slots=True)
class Finished(Event):
    """An answer ended. `tail` is text that had been held back."""

    id: int
    reason: str
    tail: str
    prefill_seconds: float
    busy_seconds: float
    """Seconds of this answer's own compute (prefill and decode), other lanes' turns left out."""
    thinking: bool = False
    """It ended inside a thought: with the reason "length", the token limit ended the thought before there was an answer."""
    period: int = 0
    """With the reason "loop": how many tokens the answer repeated at its end, `repeats` times."""
    repeats: int = 0
    valid: bool | None = None
    """Whether the answer matches the constraint; None without one."""
    plain_seconds: float = 0.0
    """Time of a plain step at the answer's end, taken for Generate's `compare`; 0 where it was not."""
    contended: bool = False
    """Other programs kept that step and the answer's from being compared."""
    rested: bool = False
    """The device rested between its steps (a pace, or single ones), which slows each: they are compared with no plain step."""
    served: dict[str, Any] = field(default_factory=dict)
    """What is known of a server's answer: `certainty`, `doubt`, and what the server counted, each where it told:
    `prompt_tokens`, `reused`, `tokens`, `steps`, `drafted`, `accepted`."""


@dataclass(slots=True)
class Working(Event):
    """A part of a measurement's result."""

    id: int
    data: dict[str, Any]


@dataclass(slots=True)
class Worked(Event):
    """A measurement ended."""

    id: int
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Unloaded(Event):
    """The model is gone, its memory with it: a Load takes its place."""


@dataclass(slots=True)
class Failed(Event):
    """The command `id` failed (0: the engine as a whole). `sentence` says what happened and what to do.

    Causes: user (can be mended as the sentence says), memory, cancelled (a load), bug (the log file has the traceback), died
    (the process ended, and with it every answer and load; made by the client, which starts another at the next of them).
    """

    id: int
    cause: str
    sentence: str
    ended: bool = True
    """False: only a Switch was refused, the answer `id` goes on."""
    tail: str = ""
    """Text of an answer that had been held back, as in Finished."""
    others: list[int] = field(default_factory=list)
    """With cause died: the other answers and loads that ended with it."""
    served: dict[str, Any] = field(default_factory=dict)
    """As in Finished."""
