"""The messages between the drawing process and the engine: one JSON object a line (engine/wire.py), each a dataclass below.

Commands go to the engine's standard input, events come from its standard output. This module imports no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backends.info import ModelInfo as ModelInfo
from ..decoders.step import FIELDS as FIELDS
from ..decoders.step import StepRecord as StepRecord
from .options import ModelSelection, RequestOptions


class Command:
    """A message to the engine."""

    __slots__ = ()


class Event:
    """A message from the engine."""

    __slots__ = ()


@dataclass(slots=True)
class Load(Command):
    """Load a model in place of the loaded one. Answered by Loading…, then Loaded or Failed.

    Running answers are cancelled first. The old model stays until the new one's weights are about to be read (two are never in
    memory together, and a wrong name costs nothing); when it is freed, Unloaded is sent.
    """

    id: int
    selection: ModelSelection
    """Without a draft model the built-in target gets its own, when the first method needs it."""


@dataclass(slots=True)
class LoadSecondary(Command):
    """Load a secondary model next to the chat's, the primary one. Answered by Loading…, then LoadedSecondary or Failed.

    Running answers wait meanwhile. Its files are first checked for whether it fits in memory. A model with the same key is
    freed, with its lanes.
    """

    id: int
    key: str
    """Value of Generate's `model`; not empty."""
    selection: ModelSelection
    """The context is at most that of the primary model."""
    lanes: int = 1
    """Conversations that are to share it, each of which needs memory for its KV cache."""


@dataclass(frozen=True)
class Generate(RequestOptions, Command):
    """Answer a prompt on a lane. Answered by Started, Prefilling…, Steps…, then Finished or Failed.

    Exactly one of `prompt` and `messages` is set. `prompt` is sent as a chat's first message if the model has a chat template
    and `raw` is False.
    """

    id: int
    lane: str = "main"
    prompt: str | None = None
    messages: list[dict[str, str]] | None = None
    """`role` and `content` each; an answer may have its `thought` too, exactly as it came."""
    raw: bool = False
    method: str = "greedy"
    settings: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    constraint: dict[str, str] | None = None
    """Constraint on the whole answer: `kind` (json_schema, json_object, regex or grammar) and its `text`."""
    stop_loops: bool = field(default=False, kw_only=True)
    record_probabilities: bool = False
    pace: float = 0.0
    """The passes a second set by Pace."""
    model: str = ""
    """Key of a LoadSecondary; empty for the chat's model."""
    compare: bool = False
    """Time some plain steps at the end of the answer, unless it was decoded plainly, to compute its speedup."""
    past: str = ""
    """Draft from the past answers in this folder too, if a Remember has opened it."""
    template_vars: dict[str, Any] = field(default_factory=dict)
    """Further variables for the model's chat template."""
    fresh: bool = False
    """Begin with new drafters: those of the lane might repeat an answer to the same prompt from memory."""


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
    """Pause the answer `id` (it gets no passes), or continue it; ignored if it has ended. Answered by Paused."""

    id: int
    paused: bool = True


@dataclass(slots=True)
class Pace(Command):
    """Let the answer `id` take so many passes a second and no more; 0 for full speed. Ignored if it has ended."""

    id: int
    passes: float = 0.0


@dataclass(slots=True)
class GrantPasses(Command):
    """Grant the paused answer `id` some passes (and before the first of them the prompt's prefill)."""

    id: int
    passes: int = 1


@dataclass(slots=True)
class RecordProbabilities(Command):
    """Switch `StepRecord.probs` in the steps of the answer `id` on or off."""

    id: int
    on: bool = True


@dataclass(slots=True)
class ScoreStep(Command):
    """Ask for `StepRecord.probs` of a step of the answer `id`, which has ended. Answered by StepScores."""

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
class ReadPieces(Command):
    """Ask for the text of every token of `model`, named as in Generate. Answered by PieceTable."""

    id: int
    model: str = ""


@dataclass(slots=True)
class Count(Command):
    """Count the tokens of a chat as a prompt, including the template's. Answered by Counted."""

    id: int
    messages: list[dict[str, str]]


@dataclass(slots=True)
class MeasureGap(Command):
    """Measure the logit gap between the token at a position of a lane's answer and `other`, the token of another answer with
    the same text before it. Answered by GapMeasured, or by Failed with `ended` False."""

    id: int
    lane: str
    position: int
    """Index into the tokens of the lane's answer."""
    other: int


@dataclass(slots=True)
class Remember(Command):
    """Add answers, as tokens of the loaded model, to an index to draft from; remove those with the keys in `forget`. Answered
    by Remembered, unless the folder cannot be used."""

    id: int
    folder: str
    answers: list[list[Any]] = field(default_factory=list)
    """[key, text] each, the oldest first; a key is a whole number below 2^63."""
    forget: list[int] = field(default_factory=list)


@dataclass(slots=True)
class CloseLane(Command):
    """Free a lane's KV cache; its running answer is cancelled."""

    lane: str


@dataclass(slots=True)
class UnloadSecondary(Command):
    """Free the secondary model with this key, or all without one, and their lanes. Not answered."""

    key: str = ""


@dataclass(slots=True)
class Work(Command):
    """A measurement (engine/tasks/work.py). Answered by Working…, then Worked or Failed."""

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
    """A model is ready. `unavailable` maps a method to the reason why it cannot run."""

    id: int
    model: ModelInfo
    unavailable: dict[str, str] = field(default_factory=dict)
    drafts: list[ModelInfo] = field(default_factory=list)
    """The draft models that are loaded already."""
    trained_drafter: str = ""
    """Name of the trained drafter, if one is loaded."""


@dataclass(slots=True)
class Remembered(Event):
    """The keys of the past answers that the loaded model may draft from."""

    id: int
    keys: list[int]


@dataclass(slots=True)
class LoadedSecondary(Event):
    """A secondary model is ready. Fields with the name of a field in Loaded are the same."""

    id: int
    key: str
    model: ModelInfo
    unavailable: dict[str, str] = field(default_factory=dict)
    tokenizer: str = ""
    """A fingerprint, equal for two models with the same tokens."""
    primary_tokenizer: str = ""
    """The fingerprint of the chat's model."""


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
    """For a server's answer, whether its runs are going to be known (`backends.remote.runs`); else empty."""


@dataclass(slots=True)
class Prefilling(Event):
    """Number of prompt tokens evaluated, of `total`: all but the prompt's last token, which the first step evaluates. In the
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
    """The current method changed."""

    id: int
    method: str
    label: str


@dataclass(slots=True)
class Paused(Event):
    """An answer was paused, or continues."""

    id: int
    paused: bool


@dataclass(slots=True)
class PieceTable(Event):
    """The text of each token alone, by id; special tokens by name. Not sanitised."""

    id: int
    pieces: list[str]


@dataclass(slots=True)
class Counted(Event):
    """Number of tokens of a chat, and the model's context. 0 where they cannot be counted: no model is loaded, or its template
    refuses the chat."""

    id: int
    tokens: int
    context: int


@dataclass(slots=True)
class GapMeasured(Event):
    """The distance of two tokens in one plain pass: `token` is the lane's at that position. `gap` is the difference of their
    logits (with a temperature: of their noisy scores); a tiny one is a near tie."""

    id: int
    lane: str
    position: int
    token: int
    other: int
    gap: float


@dataclass(slots=True)
class StepScores(Event):
    """A step's `StepRecord.probs`; none if the cache no longer holds the text before it."""

    id: int
    before: int
    probs: list[float]


@dataclass(slots=True)
class ServedFigures:
    """A server's own figures of an answer; None where it does not send them."""

    certainty: str = ""
    """Whether its runs are known: exact or unknown."""
    doubt: str = ""
    """Sentence about a contradiction in its figures."""
    prompt_tokens: int | None = None
    reused: int | None = None
    tokens: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None


@dataclass(slots=True)
class Finished(Event):
    """An answer ended. `tail` is the text that had been held back."""

    id: int
    reason: str
    tail: str
    prefill_seconds: float
    busy_seconds: float
    """Seconds of this answer's compute (prefill and decode), without other lanes' turns."""
    thinking: bool = False
    """Whether it ended inside a thought: with the reason "length", before there was an answer."""
    period: int = 0
    """Number of tokens that the answer repeated at its end, `repeats` times, if the reason is "loop"."""
    repeats: int = 0
    valid: bool | None = None
    """Whether the answer matches the constraint; None without one."""
    plain_seconds: float = 0.0
    """Time of a plain step at the answer's end, measured for Generate's `compare`; else 0."""
    contended: bool = False
    """Whether other programs kept that step and the answer's from being compared."""
    rested: bool = False
    """Whether the device rested between its steps (a pace, or single ones), which slows each: no plain step is measured."""
    served: ServedFigures | None = None
    """Figures of a server's answer."""


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
    """The model and its memory are freed: a Load takes its place."""


@dataclass(slots=True)
class Failed(Event):
    """The command `id` failed (0: the engine as a whole). `sentence` says what happened and what to do.

    Causes: user (fixed as the sentence says), memory, cancelled (a load), bug (the log file has the traceback), died (the
    process ended, and with it every answer and load; sent by the client, which starts another process at the next command).
    """

    id: int
    cause: str
    sentence: str
    ended: bool = True
    """False if only a Switch was refused and the answer `id` continues."""
    tail: str = ""
    """Text of an answer that had been held back, as in Finished."""
    other_ids: list[int] = field(default_factory=list)
    """Ids of the other answers and loads that ended with the process, if the cause is died."""
    served: ServedFigures | None = None
