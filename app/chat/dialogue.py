"""The chat with the engine: its state, the user's actions, and the engine's events. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...engine.messages import (
    Cancel,
    Count,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    GrantPasses,
    Loaded,
    Loading,
    Pace,
    Pause,
    Paused,
    PieceTable,
    Prefilling,
    ReadPieces,
    RecordProbabilities,
    Remembered,
    ScoreStep,
    Started,
    Steps,
    StepScores,
    Switch,
    Switched,
    Unloaded,
)
from ...engine.options import ModelInfo, ModelSelection
from ...errors import UserError
from ..text.cells import one_line
from .about import generate_fields
from .chat_model import ChatModel
from .choosing import PLAIN
from .entries import Answer, Notice, Prompt, Severity, loop_sentence
from .methods import served_method
from .pieces import Pieces
from .transcript import Transcript
from .why import blame

OF_ONE_MODEL = ("draft_model", "revision", "chat_template")
"""Options of a load that do not apply to another model."""

Phase = Literal["loading", "unloaded", "ready", "prefill", "writing", "stopping"]


class Busy(UserError):
    """An action that has to wait until no answer is being written."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in the engine, and the methods that it cannot run."""

    selection: ModelSelection
    info: ModelInfo
    unavailable: dict[str, str]


@dataclass(frozen=True, slots=True)
class NoModel:
    """No model is loaded."""


@dataclass(frozen=True, slots=True)
class LoadingModel:
    """A model is being loaded."""

    previous: LoadedModel | None = None
    """The model that the engine still has; None once it was freed."""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Idle:
    """A model is loaded, and no answer is being written."""


@dataclass(frozen=True, slots=True)
class Answering:
    """An answer is being written or stopped."""

    id: int
    answer: Answer | None
    """The answer; None once its chat was cleared."""
    stage: Literal["prefill", "writing", "stopping"] = "prefill"
    paused: bool = False
    switching: str | None = None
    """A method that the user switched to and the engine has not confirmed yet."""
    method_after: str | None = None
    """The method to return to after the answer."""
    pace_after: float | None = None
    """The pace to return to after the answer."""

    @property
    def stoppable(self) -> bool:
        return self.stage != "stopping"


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that waits for the model, or for the end of a cancelled answer."""

    draft: str
    """The text as it was typed."""
    text: str
    """The text to send, attachments included."""
    pace: float
    """The pace, in the sense of `Dialogue.submit`."""


@dataclass(slots=True)
class Dialogue(ChatModel):
    """A chat with a model. Arguments as for `ChatModel`."""

    transcript: Transcript = field(default_factory=Transcript)
    state: NoModel | LoadingModel | Idle | Answering = field(default_factory=LoadingModel)
    loading: Loading | None = None
    """Progress of a load, also of a reload after the engine's end."""
    pace: float = 0.0
    """Most passes a second of an answer; 0 for full speed."""
    watching: bool = False
    """Whether steps carry the target's probabilities."""
    past: str = ""
    """Folder of past answers to draft from; empty for none."""
    heard: Callable[[Event], None] | None = None
    """Called with each event about past answers."""
    loaded: Callable[[], None] | None = None
    """Called once another model is loaded, before a queued message goes out."""
    listener: Callable[[Event], bool] | None = None
    """Called first with each event; True means that the event is not about the chat."""
    fallback: ModelSelection | None = None
    """Model and options of a second load if the first one fails: of a chat whose own model is gone."""
    _queued: Queued | None = None
    _counting: Callable[[Counted], None] | None = None
    _scoring: dict[tuple[int, int], tuple[Answer, int]] = field(default_factory=dict)
    """Steps whose probabilities were requested, by the answer's id and the number of tokens before the step."""

    @property
    def phase(self) -> Phase:
        match self.state:
            case Answering(stage=stage):
                return stage
            case LoadingModel():
                return "loading"
            case NoModel():
                return "unloaded"
            case Idle():
                return "ready"

    @property
    def busy(self) -> bool:
        """Whether an answer is being written or stopped."""
        return isinstance(self.state, Answering)

    @property
    def answer(self) -> Answer | None:
        """The answer that is being written."""
        return self.state.answer if isinstance(self.state, Answering) else None

    @property
    def paused(self) -> bool:
        return isinstance(self.state, Answering) and self.state.paused

    @property
    def switching(self) -> str | None:
        """The method that the user switched to and the engine has not confirmed yet."""
        return self.state.switching if isinstance(self.state, Answering) else None

    @property
    def queued(self) -> str | None:
        """The message that waits, as it was typed."""
        return self._queued.draft if self._queued else None

    @property
    def _writing(self) -> Answering | None:
        """The state of an answer that can be stopped, paused and switched."""
        return self.state if isinstance(self.state, Answering) and self.state.stoppable else None

    def must_be_idle(self, to: str, *, may_wait: bool = False) -> None:
        """Raise an error if an answer is being written, or a message waits.

        Args:
            to: the intended action: "open a chat".
            may_wait: allow a message that waits for the model.

        Raises:
            Busy: an answer is being written.
        """
        if self.busy or (self.queued is not None and not may_wait):
            raise Busy(f"An answer is being written. Press esc to stop it, then {to}.")

    # User actions

    def submit(self, text: str, draft: str = "", pace: float = 0.0) -> bool:
        """Send a message; False if it must wait for the end of the current answer (then nothing happens).

        Args:
            text: the message, attachments included.
            draft: the text as it was typed, if that differs: it is handed back if the message cannot be sent.
            pace: show how methods differ: at that pace, unless there is one already, and with plain decoding first, unless
                the user chose a method.
        """
        if self._writing or self.queued is not None:
            return False
        if isinstance(self.state, NoModel):
            self.load_model(self.model)
        if isinstance(self.state, Idle):
            self._ask(text, pace)
        else:
            self._queued = Queued(draft or text, text, pace)
        return True

    def cancel(self) -> bool:
        """Stop the current answer or load; `take_queued` hands a queued message back. False if there is none, or it is being
        stopped already."""
        match self.state:
            case LoadingModel(cancelled=False) if self.loading is not None:
                self.engine.send(Cancel(self.loading.id))
                self.state = replace(self.state, cancelled=True)
            case Answering(id=id, stoppable=True):
                self.engine.send(Cancel(id))
                self.state = replace(self.state, stage="stopping")
            case _:
                return False
        return True

    def pause(self) -> bool:
        """Pause or continue the answer; False if there is none."""
        if (state := self._writing) is None:
            return False
        self.state = replace(state, paused=not state.paused)
        self.engine.send(Pause(state.id, not state.paused))
        return True

    def set_pace(self, passes: float) -> None:
        """Set the most passes a second of this answer and later ones; 0 for full speed."""
        self.pace = passes
        if isinstance(self.state, Answering):
            self.state = replace(self.state, pace_after=None)
        if state := self._writing:
            self.engine.send(Pace(state.id, passes))

    def step(self, steps: int = 1) -> bool:
        """Let the answer take some steps, then pause it; False if there is none."""
        if (state := self._writing) is None:
            return False
        if not state.paused:
            self.pause()
        self.engine.send(GrantPasses(state.id, steps))
        return True

    def watch(self, on: bool) -> None:
        """Have steps carry probabilities from the next one on, or no longer."""
        if on != self.watching:
            self.watching = on
            if state := self._writing:
                self.engine.send(RecordProbabilities(state.id, on))

    def score_step(self, answer: Answer, index: int) -> bool:
        """Request the probabilities of a step that came without them; returns whether they are on their way."""
        if not isinstance(self.state, Idle) or not answer.id or answer.log.has_probs(index):
            return False
        step, before = answer.log.record(index), answer.log.tokens_before(index)
        if step.earlier or not step.tokens:
            return False
        if (answer.id, before) not in self._scoring:
            self._scoring[answer.id, before] = (answer, index)
            self.engine.send(ScoreStep(answer.id, before, step.tokens[-1], step.tree_tokens, step.tree_parents, step.path))
        return True

    def count(self, chats: list[list[dict[str, str]]], then: Callable[[Counted], None]) -> int:
        """Have the engine count the tokens of some chats; `then` is called with the event, whose id is returned."""
        self._counting = then
        id = self.engine.next_id()
        self.engine.send(Count(id, chats))
        return id

    def take_queued(self) -> str:
        """Remove the queued message; returns it as it was typed."""
        draft = self.queued or ""
        self._queued = None
        return draft

    def switch(self, name: str | None, settings: dict[str, Any] | None = None) -> None:
        """Use a method (None: the one that suits the model) from the next step on, or, when idle, from the next answer on."""
        self.chosen = name is not None
        if name is None:
            name = self.first_method()
        if settings is not None:
            self.settings[name] = settings
        if state := self._writing:
            # The header changes when the engine confirms the method.
            self.engine.send(Switch(state.id, name, dict(self.settings.get(name, {}))))
            self.state = replace(state, switching=name)
            return
        self.method = name

    def next_method(self) -> str | None:
        """Switch to the next method worth a try; returns its name, None if there is no other."""
        names, current = self.shortlist(), self.switching or self.method
        name = names[(names.index(current) + 1) % len(names)] if current in names else next(iter(names), current)
        if name == current:
            return None
        self.switch(name)
        return name

    def load_model(self, spec: str, **options: Any) -> None:
        """Load a model in place of this one. Another model gets neither this one's draft model nor its revision.

        Args:
            options: of this load and later ones, as fields of `ModelSelection`.
        """
        previous = self.state.previous if isinstance(self.state, LoadingModel) else None
        if self.info:
            previous = LoadedModel(self.selection, self.info, self.unavailable)
        if spec != self.model:
            options = {name: getattr(ModelSelection(), name) for name in OF_ONE_MODEL} | options
        self.selection = replace(self.selection, model=spec, **options)
        self.info = ModelInfo()
        self.unavailable = {}
        self.loading = None
        self.state = LoadingModel(previous)
        self.engine.load(self.selection)

    def clear(self) -> None:
        """Start a new chat. Later events of the old one are ignored."""
        self.transcript = Transcript(system=self.transcript.system)
        self._queued = None
        if self._writing:
            self.cancel()
        if isinstance(self.state, Answering):
            # The engine takes the next prompt only when this answer has ended, so its id stays.
            self.state = replace(self.state, answer=None, switching=None)

    def notice(self, text: str, severity: Severity = "information") -> None:
        self.transcript.entries.append(Notice(text, severity))

    def ask_again(self, request: dict[str, Any]) -> None:
        """Answer the last prompt, whose answer was removed, again. The chat keeps its method.

        Args:
            request: the request, in the form of `request`. Its drafters are new.
        """
        self._answer(request, fresh=True, method_after=self.method)

    def _ask(self, text: str, pace: float = 0.0) -> None:
        self.transcript.entries.append(Prompt(text))
        request = self.request()
        pace_after = method_after = None
        if pace and not self.pace:
            self.pace = pace
            pace_after = 0.0
        if pace and not self.chosen:
            method_after = self.method
            request |= {"method": PLAIN, "settings": {}}
        self._answer(request, method_after=method_after, pace_after=pace_after)

    def _answer(
        self,
        request: dict[str, Any],
        *,
        fresh: bool = False,
        method_after: str | None = None,
        pace_after: float | None = None,
    ) -> None:
        messages = self.transcript.messages()
        self.method = request["method"]
        answer = Answer(
            self.method,
            self.effective_label(self.method),
            asked=request,
            id=self.engine.next_id(),
            curve=self.info.pass_seconds,
            weights=self.info.weights,
        )
        self.transcript.entries.append(answer)
        self.state = Answering(answer.id, answer, method_after=method_after, pace_after=pace_after)
        self.engine.send(
            Generate(
                answer.id,
                messages=messages,
                record_probabilities=self.watching,
                pace=self.pace,
                compare=True,
                past="" if fresh else self.past,  # it has the answer before
                fresh=fresh,
                **generate_fields(request),
            )
        )

    # Engine events

    def drain(self) -> bool:
        """Process the engine's events; returns whether there were any."""
        events = self.engine.drain()
        for event in events:
            if self.listener is None or not self.listener(event):
                self.handle(event)
        return bool(events)

    def handle(self, event: Event) -> None:
        """Process an event."""
        match event:
            case Loading():
                # After a crash, a prompt makes the client load the model again: then the chat waits for the answer.
                self.loading = event
                if not self.info and not isinstance(self.state, LoadingModel | Answering):
                    self.state = LoadingModel()
            case Loaded():
                self._loaded(event)
            case Unloaded():
                if isinstance(self.state, LoadingModel):
                    self.state = replace(self.state, previous=None)
            case PieceTable():
                self.pieces = Pieces(event.pieces)
            case Remembered():
                if self.heard is not None:
                    self.heard(event)
            case Counted():
                if self._counting is not None:
                    self._counting(event)
            case StepScores():
                if step := self._scoring.pop((event.id, event.before), None):
                    answer, index = step
                    answer.log.set_probs(index, event.probs)
            case Failed():
                self._failed(event)
            case Started() | Prefilling() | Steps() | Switched() | Paused() | Finished():
                if isinstance(self.state, Answering) and event.id == self.state.id:
                    self._progress(self.state, event)

    def _progress(self, state: Answering, event: Event) -> None:
        if (answer := state.answer) is not None:
            answer.take(event)
            match event:
                case Started():
                    answer.pieces = self.pieces
                    if state.stoppable:  # else the user may have chosen another method for the next answer
                        self.method = event.method
                case Prefilling() if state.stage == "writing" and event.done < event.total:
                    self.state = replace(state, stage="prefill")
                case Steps() if state.stage == "prefill":
                    self.state = replace(state, stage="writing")
                case Switched():
                    self.method = event.method
                    self.state = replace(state, switching=None, method_after=None)
                case Paused():
                    self.state = replace(state, paused=event.paused)
                case Finished():
                    if event.reason == "loop":
                        self.notice(loop_sentence(event, "/set repetition_penalty=1.1", "/set stop_loops=off"), "warning")
                    answer.held_back = blame(answer, self.info)
        if isinstance(event, Finished):
            self._end()

    def _loaded(self, event: Loaded) -> None:
        reloaded = bool(self.info) or self.answer is not None
        self.info = event.model
        self.unavailable = event.unavailable
        self.loading = None
        self.head = event.trained_drafter
        self.engine.send(ReadPieces(self.engine.next_id()))
        if reloaded:  # its notes were shown before
            return
        for note in event.model.notes:
            self.notice(note, "warning")
        self._settle()

    def _settle(self) -> None:
        self.state = Idle()
        if self.loaded is not None:
            self.loaded()
        self.settle_method()
        self._send_queued()

    def settle_method(self) -> None:
        """Use the method that suits the model unless the user chose one that it can run; an unusable choice gets a notice."""
        served = served_method(self.info)
        self.methods = self.methods_of(self.info)
        if served:
            self.method = self.method if self.method in served else self.first_method()
            return
        reason = self.unavailable.get(self.method)
        if self.method not in self.methods:  # a server's method, on a local model
            self.method = self.first_method()
        elif reason or not self.chosen:
            before = self.method
            self.method = self.first_method()
            if reason and self.chosen:
                self.notice(f"{before} cannot run on this model: {reason} Using {self.method}.", "warning")

    def _failed(self, event: Failed) -> None:
        state = self.state
        concerned = isinstance(state, Answering) and event.id == state.id
        if not event.ended:
            # A switch that was refused; one that came too late has become the next answer's method.
            if concerned and isinstance(state, Answering) and state.answer is not None:
                self.state = replace(state, switching=None)
                self.notice(event.sentence, "warning")
            return
        if event.cause != "cancelled":
            self.notice(event.sentence, "error")
        self.loading = None
        if (event.cause == "died" or concerned) and self.answer is not None:
            self.answer.take(event)
        if event.cause == "died":
            self._scoring.clear()
            self._end(send=False)
            # The client starts a new engine with the same model at the next prompt.
            self.state = Idle() if self.info else NoModel()
        elif concerned:
            self._end(send=event.cause == "cancelled")
        elif isinstance(state, LoadingModel):
            self._load_failed(state, event)

    def _load_failed(self, state: LoadingModel, event: Failed) -> None:
        """Return to the previous model, or load the fallback."""
        if (previous := state.previous) is not None:
            self.selection = previous.selection
            self.info = previous.info
            self.unavailable = previous.unavailable
            self._settle()
            return
        self.state = NoModel()
        if self.fallback is not None and event.cause != "cancelled":
            self.selection = self.fallback
            self.fallback = None
            self.notice(f"{one_line(self.model)} is being loaded in its place.")
            self.load_model(self.model)

    def _end(self, send: bool = True) -> None:
        if isinstance(state := self.state, Answering):
            if state.answer is not None:
                self.measure(state.answer, state.answer.figures.speedup)
            self.method = state.switching or state.method_after or self.method
            if state.pace_after is not None:
                self.pace = state.pace_after
        self.state = Idle()
        if send:
            self._send_queued()

    def _send_queued(self) -> None:
        if (queued := self._queued) is not None:
            self._queued = None
            self._ask(queued.text, queued.pace)
