"""The chat with the engine: its state, the user's actions, and the engine's events. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from ...engine import messages
from ...engine.messages import Command, Event
from ...engine.options import (
    BUILTIN,
    BUILTIN_DRAFT,
    AnswerOptions,
    Capabilities,
    ModelInfo,
    ModelSelection,
    Sampling,
    draft_label,
)
from ...errors import UserError
from .about import About, generate_fields
from .entries import Answer, Notice, Prompt, Request, Severity, loop_sentence
from .methods import Method, MethodSettings, first_method, served_method, shortlist
from .runs import Pieces
from .transcript import Transcript
from .why import blame

OF_ONE_MODEL = ("draft_model", "revision", "chat_template")
"""Options of a load that do not apply to another model."""

Phase = Literal["loading", "unloaded", "ready", "prefill", "writing", "stopping"]


class Engine(Protocol):
    """The part of the engine's client that a dialogue uses: `drain` returns the events since the last call."""

    def drain(self) -> list[Event]: ...

    def send(self, command: Command) -> None: ...

    def next_id(self) -> int: ...

    def load(self, selection: ModelSelection) -> int: ...


class Busy(UserError):
    """An action that has to wait until no answer is being written."""


@dataclass(frozen=True, slots=True)
class NoModel:
    """No model is loaded."""

    phase: ClassVar[Phase] = "unloaded"


@dataclass(frozen=True, slots=True)
class LoadingModel:
    """A model is being loaded."""

    phase: ClassVar[Phase] = "loading"
    previous: tuple[ModelSelection, ModelInfo, dict[str, str]] | None = None
    """The model that the engine still has, with the methods that it cannot run; None once it was freed."""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Idle:
    """A model is loaded, and no answer is being written."""

    phase: ClassVar[Phase] = "ready"


@dataclass(frozen=True, slots=True)
class Answering:
    """An answer is being written or stopped."""

    id: int
    answer: Answer | None
    """The answer; None once its chat was cleared."""
    phase: Literal["prefill", "writing", "stopping"] = "prefill"
    paused: bool = False
    switching: str | None = None
    """A method that the user switched to and the engine has not confirmed yet."""
    method_after: str | None = None
    """The method to return to after the answer."""


@dataclass(slots=True)
class Dialogue:
    """A chat with a model.

    Args:
        selection: the model that is loaded or being loaded, with its drafters and options.
        methods: every method by name, in display order.
        settings: method → its settings.
    """

    engine: Engine
    selection: ModelSelection
    methods: Mapping[str, Method]
    method: str
    settings: dict[str, MethodSettings] = field(default_factory=dict)
    options: AnswerOptions = field(default_factory=AnswerOptions)
    """Options of every request."""
    recommended: bool = False
    """Whether the sampling is the one that the model's makers recommend, not one that the user chose."""
    info: ModelInfo = field(default_factory=ModelInfo)
    """The loaded model; one without a name until it is loaded."""
    unavailable: dict[str, str] = field(default_factory=dict)
    head: str = ""
    """Name of the loaded trained drafter, as the user wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Text of each token; empty until the engine has sent it."""
    chosen: bool = True
    """Whether the user chose the method; if not, each model gets the one that suits it."""
    transcript: Transcript = field(default_factory=Transcript)
    state: NoModel | LoadingModel | Idle | Answering = field(default_factory=LoadingModel)
    loading: messages.Loading | None = None
    """Progress of a load, also of a reload after the engine's end."""
    pace: float = 0.0
    """Most passes a second of an answer; 0 for full speed."""
    watching: bool = False
    """Whether steps carry the target's probabilities."""
    past: str = ""
    """Folder of past answers to draft from; empty for none."""
    heard: Callable[[messages.Remembered], None] | None = None
    """Called with each event about past answers."""
    loaded: Callable[[], None] | None = None
    """Called once another model is loaded, before a queued message goes out."""
    listener: Callable[[Event], bool] | None = None
    """Called first with each event; True means that the event is not about the chat."""
    queued: str | None = None
    """The message that waits for the model, or for the end of a cancelled answer, as it was typed."""
    _queued_text: str = ""
    """The text to send for it, attachments included."""
    _local_methods: Mapping[str, Method] = field(default_factory=dict)
    """The methods without a server's."""
    _counting: Callable[[messages.Counted], None] | None = None
    _scoring: dict[tuple[int, int], tuple[Answer, int]] = field(default_factory=dict)
    """Steps whose probabilities were requested, by the answer's id and the number of tokens before the step."""

    @property
    def phase(self) -> Phase:
        return self.state.phase

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
    def _writing(self) -> Answering | None:
        """The state of an answer that can be stopped, paused and switched."""
        return self.state if isinstance(self.state, Answering) and self.state.phase != "stopping" else None

    def must_be_idle(self, to: str, *, may_wait: bool = False) -> None:
        """Raise an error if an answer is being written, or (unless it `may_wait`) a message waits.

        Raises:
            Busy: an answer is being written; it says that this must end before the action `to`: "open a chat".
        """
        if self.busy or (self.queued is not None and not may_wait):
            raise Busy(f"An answer is being written. Press esc to stop it, then {to}.")

    # The model and its methods

    @property
    def model(self) -> str:
        """The model as the user named it."""
        return self.selection.model

    def effective_label(self, name: str) -> str:
        """Return a method's label under the acceptance rule in force, on the loaded model."""
        from ...engine.catalog import Acceptance, effective_label, get

        if name not in self.methods:
            return ""
        exact = self.info.capabilities.exact
        rule = self.options.accept
        if rule == "exact" and exact:
            return self.methods[name].label
        return effective_label(get(name), Acceptance.parse(rule), self.options.sampling, Capabilities(exact=exact))

    def shortlist(self) -> list[str]:
        """Return the methods worth a try on this model."""
        if served := served_method(self.info):
            return list(served)
        return shortlist(self.methods, self.unavailable, self.model)

    @property
    def draft_models(self) -> dict[str, str]:
        """The loaded draft models without the trained drafter: label (see `draft_label`) → name as the user wrote it."""
        names = self.selection.draft_model or ((BUILTIN_DRAFT,) if self.model == BUILTIN else ())
        return {draft_label(i): name for i, name in enumerate(name for name in names if name != self.head)}

    @property
    def completes(self) -> bool:
        """Whether the model is a base model, which continues a text."""
        return not self.info.has_template

    def first_method(self) -> str:
        if self.info.server:
            return self.info.server.method
        return first_method(self.methods, self.unavailable, self.model, self.selection.draft_model, self.info)

    def about(self) -> About:
        return About(self.selection, self.info, self.method, self.settings, options=self.options, pieces=self.pieces)

    def request(self) -> Request:
        """Return the request for the next answer, as `Answer.asked` has it."""
        return self.about().request()

    @property
    def race_sampling(self) -> Sampling:
        """Sampling of a race's lanes: greedy, unless the user chose the sampling."""
        return Sampling() if self.recommended else self.options.sampling

    # User actions

    def submit(self, text: str, draft: str = "") -> bool:
        """Send a message; False if it must wait for the end of the current answer (then nothing happens).

        Args:
            text: the message, attachments included.
            draft: the text as it was typed, if that differs: it is handed back if the message cannot be sent.
        """
        if self._writing or self.queued is not None:
            return False
        if isinstance(self.state, NoModel):
            self.load_model(self.model)
        if isinstance(self.state, Idle):
            self._ask(text)
        else:
            self.queued = draft or text
            self._queued_text = text
        return True

    def cancel(self) -> bool:
        """Stop the current answer or load; `take_queued` hands a queued message back. False if there is none, or it is being
        stopped already: a second Cancel ends an engine that does not take the first."""
        match self.state:
            case LoadingModel(cancelled=stopping) if self.loading is not None:
                self.engine.send(messages.Cancel(self.loading.id))
                self.state = replace(self.state, cancelled=True)
            case Answering(id=id, phase=phase):
                stopping = phase == "stopping"
                self.engine.send(messages.Cancel(id))
                self.state = replace(self.state, phase="stopping")
            case _:
                return False
        return not stopping

    def pause(self) -> bool:
        """Pause or continue the answer; False if there is none."""
        if (state := self._writing) is None:
            return False
        self.state = replace(state, paused=not state.paused)
        self.engine.send(messages.Pause(state.id, not state.paused))
        return True

    def set_pace(self, passes: float) -> None:
        """Set the most passes a second of this answer and later ones; 0 for full speed."""
        self.pace = passes
        if state := self._writing:
            self.engine.send(messages.Pace(state.id, passes))

    def step(self, steps: int = 1) -> bool:
        """Let the answer take some steps, then pause it; False if there is none."""
        if (state := self._writing) is None:
            return False
        if not state.paused:
            self.pause()
        self.engine.send(messages.GrantPasses(state.id, steps))
        return True

    def watch(self, on: bool) -> None:
        """Have steps carry probabilities from the next one on, or no longer."""
        if on != self.watching:
            self.watching = on
            if state := self._writing:
                self.engine.send(messages.RecordProbabilities(state.id, on))

    def score_step(self, answer: Answer, index: int) -> bool:
        """Request the probabilities of a step that came without them; returns whether they are on their way."""
        if not isinstance(self.state, Idle) or not answer.id or answer.log.has_probs(index):
            return False
        step = answer.log.record(index)
        before = answer.log.tokens_before(index)
        if step.earlier or not step.tokens:
            return False
        if (answer.id, before) not in self._scoring:
            self._scoring[answer.id, before] = (answer, index)
            self.engine.send(
                messages.ScoreStep(answer.id, before, step.tokens[-1], step.tree_tokens, step.tree_parents, step.path)
            )
        return True

    def count(self, chat: list[dict[str, str]], then: Callable[[messages.Counted], None]) -> int:
        """Have the engine count the tokens of a chat; `then` is called with the event, whose id is returned."""
        self._counting = then
        id = self.engine.next_id()
        self.engine.send(messages.Count(id, chat))
        return id

    def take_queued(self) -> str:
        """Remove the queued message; returns it as it was typed."""
        draft = self.queued or ""
        self.queued = None
        return draft

    def switch(self, name: str | None, settings: MethodSettings | None = None) -> None:
        """Use a method (None: the one that suits the model) from the next step on, or, when idle, from the next answer on."""
        self.chosen = name is not None
        if name is None:
            name = self.first_method()
        if settings is not None:
            self.settings[name] = settings
        if state := self._writing:
            # The header changes when the engine confirms the method.
            self.engine.send(messages.Switch(state.id, name, dict(self.settings.get(name, {}))))
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
        """Load a model in place of this one, with these options (fields of `ModelSelection`) now and later. Another model gets
        neither this one's draft model nor its revision."""
        previous = self.state.previous if isinstance(self.state, LoadingModel) else None
        if self.info:
            previous = (self.selection, self.info, self.unavailable)
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
        self.queued = None
        if self._writing:
            self.cancel()
        if isinstance(self.state, Answering):
            # The engine takes the next prompt only when this answer has ended, so its id stays.
            self.state = replace(self.state, answer=None, switching=None)

    def notice(self, text: str, severity: Severity = "information") -> None:
        self.transcript.entries.append(Notice(text, severity))

    def ask_again(self, request: Request) -> None:
        """Answer the last prompt, whose answer was removed, again with new drafters, by a request like that of `request`. The
        chat keeps its method."""
        self._answer(request, fresh=True, method_after=self.method)

    def _ask(self, text: str) -> None:
        self.transcript.entries.append(Prompt(text))
        self._answer(self.request())

    def _answer(self, request: Request, *, fresh: bool = False, method_after: str | None = None) -> None:
        self.method = request["method"]
        chat = self.transcript.messages()
        answer = Answer(
            self.method,
            self.effective_label(self.method),
            asked=request,
            id=self.engine.next_id(),
            curve=self.info.pass_seconds,
        )
        self.transcript.entries.append(answer)
        self.state = Answering(answer.id, answer, method_after=method_after)
        self.engine.send(
            messages.Generate(
                answer.id,
                messages=chat,
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
            case messages.Loading():
                # After a crash, a prompt makes the client load the model again: then the chat waits for the answer.
                self.loading = event
                if not self.info and not isinstance(self.state, LoadingModel | Answering):
                    self.state = LoadingModel()
            case messages.Loaded():
                self._loaded(event)
            case messages.Unloaded():
                if isinstance(self.state, LoadingModel):
                    self.state = replace(self.state, previous=None)
            case messages.PieceTable():
                self.pieces = Pieces(event.pieces)
            case messages.Remembered():
                if self.heard is not None:
                    self.heard(event)
            case messages.Counted():
                if self._counting is not None:
                    self._counting(event)
            case messages.StepScores():
                if step := self._scoring.pop((event.id, event.before), None):
                    answer, index = step
                    answer.log.set_probs(index, event.probs)
            case messages.Failed():
                self._failed(event)
            case _:
                # About an answer: Started, Prefilling, Steps, Switched, Paused, Finished.
                if isinstance(self.state, Answering) and getattr(event, "id", None) == self.state.id:
                    self._progress(self.state, event)

    def _progress(self, state: Answering, event: Event) -> None:
        if (answer := state.answer) is not None:
            answer.take(event)
            match event:
                case messages.Started():
                    answer.pieces = self.pieces
                    if state.phase != "stopping":  # else the user may have chosen another method for the next answer
                        self.method = event.method
                case messages.Prefilling() if state.phase == "writing" and event.done < event.total:
                    self.state = replace(state, phase="prefill")
                case messages.Steps() if state.phase == "prefill":
                    self.state = replace(state, phase="writing")
                case messages.Switched():
                    self.method = event.method
                    self.state = replace(state, switching=None, method_after=None)
                case messages.Paused():
                    self.state = replace(state, paused=event.paused)
                case messages.Finished():
                    if event.reason == "loop":
                        self.notice(loop_sentence(event, "/set repetition_penalty=1.1", "/set stop_loops=off"), "warning")
                    answer.held_back = blame(answer, self.info)
        if isinstance(event, messages.Finished):
            self._end()

    def _loaded(self, event: messages.Loaded) -> None:
        reloaded = bool(self.info) or self.answer is not None
        self.info = event.model
        self.unavailable = event.unavailable
        self.loading = None
        self.head = event.trained_drafter
        self.engine.send(messages.ReadPieces(self.engine.next_id()))
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
        if not any(method.group == "server" for method in self.methods.values()):
            self._local_methods = self.methods
        self.methods = served | {name: method for name, method in self._local_methods.items() if name not in served}
        before, reason = self.method, self.unavailable.get(self.method)
        if served:
            usable = before in served
        else:
            usable = self.chosen and before in self.methods and not reason
        if not usable:
            self.method = self.first_method()
        if reason and self.chosen and not served and before in self.methods:
            self.notice(f"{before} cannot run on this model: {reason} Using {self.method}.", "warning")

    def _failed(self, event: messages.Failed) -> None:
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
            self.state = NoModel()
            if state.previous is not None:
                self.selection = state.previous[0]
                self.info = state.previous[1]
                self.unavailable = state.previous[2]
                self._settle()

    def _end(self, send: bool = True) -> None:
        if isinstance(state := self.state, Answering):
            self.method = state.switching or state.method_after or self.method
        self.state = Idle()
        if send:
            self._send_queued()

    def _send_queued(self) -> None:
        if self.queued is not None:
            self.queued = None
            self._ask(self._queued_text)
