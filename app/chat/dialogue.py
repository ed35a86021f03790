"""Between the person and the engine: what was asked, what came back, what may be done next. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ...engine.messages import (
    Advance,
    Cancel,
    Command,
    Count,
    Counted,
    Event,
    Failed,
    Finished,
    Generate,
    Loaded,
    Loading,
    Pause,
    Paused,
    PiecesOf,
    PieceTable,
    Prefilling,
    Remembered,
    ScoreStep,
    Started,
    Steps,
    StepScores,
    Switch,
    Switched,
    Unloaded,
    Watch,
)
from ...engine.options import BUILTIN, BUILTIN_DRAFT, AnswerOptions, Capabilities, Sampling, draft_label, draft_names, is_url
from ...errors import UserError
from ..text.cells import one_line
from .about import About, generate_fields
from .choosing import Speeds, first_method, shortlist
from .entries import Answer, Notice, Prompt, Severity, loop_sentence
from .methods import Method, served_methods
from .pieces import Pieces
from .transcript import Transcript
from .why import blame

NO_VISION = "the model at {} takes text only. Choose one that can see."
TEXT_ALONE = "models on this machine get text only. /model http://HOST:PORT asks one that can see."
"""Why an image is refused."""

Phase = Literal["loading", "unloaded", "ready", "prefill", "writing", "stopping"]


class Busy(UserError):
    """Something has to wait until no answer is being written."""


class Engine(Protocol):
    """The part of the engine's client that a dialogue uses."""

    def drain(self) -> list[Event]:
        """Events since the last call."""

    def send(self, command: Command) -> None:
        """Send a command."""

    def next_id(self) -> int:
        """A fresh id for a command."""

    def load(self, model: str, **options: Any) -> int:
        """Load a model; returns the command's id."""


@dataclass(slots=True)
class Dialogue:
    """A chat with a model: what was asked, what came back, what may be done next.

    Args:
        model: what is loaded or being loaded, as the user named it.
        methods: every method there is, by name, in the order in which they are shown.
        settings: method → its settings.
        load: options of a load besides the model (fields of the engine's `Load`).
    """

    engine: Engine
    model: str
    methods: Mapping[str, Method]
    method: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    options: AnswerOptions = field(default_factory=AnswerOptions)
    """How answers are asked for."""
    recommended: bool = False
    """The sampling is what the model's makers recommend: nobody has chosen it."""
    load: Mapping[str, Any] = field(default_factory=dict)
    transcript: Transcript = field(default_factory=Transcript)
    phase: Phase = "loading"
    loading: Loading | None = None
    info: dict[str, Any] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    head: str = ""
    """The trained drafter that is loaded, as it was named."""
    pieces: Pieces = field(default_factory=Pieces)
    """The text of single tokens; empty until the engine has told them."""
    answer: Answer | None = None
    """The one being written."""
    queued: str | None = None
    """A prompt that waits for the model, or for the end of a cancelled answer."""
    switching: str | None = None
    """A method asked for in mid-answer, until the engine has it in force."""
    paused: bool = False
    """The answer is held between two steps; or, if there is none, the next one begins so."""
    watching: bool = False
    """Whether steps are to carry the target's probabilities."""
    past: str = ""
    """Folder of past answers to draft from; empty for none."""
    heard: Callable[[Event], None] | None = None
    """Called with each event of the engine about past answers."""
    loaded: Callable[[], None] | None = None
    """Called once another model is loaded. A message that waited for the model goes out after that."""
    listener: Callable[[Event], bool] | None = None
    """Called with each event before the dialogue takes it; True means that the event is not about the chat."""
    chosen: bool = True
    """Somebody has chosen the method; if not, each model gets the one that suits it."""
    speeds: Speeds = field(default_factory=Speeds)
    fallback: tuple[str, Mapping[str, Any]] | None = None
    """Model and options of a load to try where the first one fails: of a chat whose own model is gone."""
    _ours: Mapping[str, Method] = field(default_factory=dict)
    """The methods without those of a server."""
    _counting: Callable[[Counted], None] | None = None
    _answer_id: int = 0
    _cancelled: int = 0
    """The load that was cancelled last."""
    _scoring: dict[tuple[int, int], tuple[Answer, int]] = field(default_factory=dict)
    """Steps whose probabilities have been asked for, by the answer's id and the tokens before the step."""
    _before: tuple[str, Mapping[str, Any], dict[str, Any], dict[str, str]] | None = None
    """Model, options, info and reasons of what is in the engine while another one is being loaded; None once it is gone."""
    _waiting: str = ""
    """What goes out for the queued prompt, where that is more than was typed."""
    _back: str | None = None
    """The method to go back to after an answer that was asked for with another one."""

    @property
    def busy(self) -> bool:
        """An answer is being written or stopped."""
        return self.phase in ("prefill", "writing", "stopping")

    def must_be_idle(self, to: str, *, may_wait: bool = False) -> None:
        """Nothing goes on that would be disturbed.

        Args:
            to: what is to be done: "open a chat".
            may_wait: a message that waits for the model is no hindrance.

        Raises:
            Busy: an answer is under way.
        """
        if self.busy or (self.queued is not None and not may_wait):
            raise Busy(f"An answer is being written. Press esc to stop it, then {to}.")

    @property
    def label(self) -> str:
        return self.label_of(self.method)

    def label_of(self, name: str) -> str:
        """Label of a method under the acceptance rule in force, on the loaded model."""
        from ...engine.catalog import Acceptance, get, label_of

        if name not in self.methods:
            return ""
        found = self.info.get("capabilities") or {}
        bits = bool(found.get("exact", True))
        rule, sampling = self.options.accept, self.options.sampling
        if rule == "exact" and bits:
            return self.methods[name].label
        capabilities = Capabilities(exact=bits, guard=bool(found.get("guard", True)))
        return label_of(get(name), Acceptance.parse(rule), sampling, capabilities)

    # What the person does

    def submit(self, text: str, draft: str = "") -> bool:
        """Ask; False if that must wait until the answer under way has ended (nothing happened, keep the draft).

        Args:
            text: what is sent, attachments included.
            draft: what was typed, where that is something else: it is handed back if the text cannot go out.
        """
        if self.phase in ("prefill", "writing") or self.queued is not None:
            return False
        if self.phase == "unloaded":
            self.load_model(self.model)
        if self.phase in ("loading", "stopping"):
            self.queued, self._waiting = draft or text, text
            return True
        self._ask(text)
        return True

    def cancel(self) -> bool:
        """Stop the answer under way, or the load; `take_queued` hands a queued prompt back. False where there is none, or it is
        being stopped already."""
        if self.phase == "loading" and self.loading is not None and self.loading.id != self._cancelled:
            self._cancelled = self.loading.id
            self.engine.send(Cancel(self._cancelled))
            return True
        if self.phase not in ("prefill", "writing"):
            return False
        self.engine.send(Cancel(self._answer_id))
        self.phase = "stopping"
        return True

    def pause(self, on: bool | None = None) -> bool:
        """Hold the answer between two steps, or (False) let it go on; None for the other way round. Where there is none, the
        next one begins held. Returns whether it is held now."""
        if self.phase == "stopping":
            return False
        self.paused = not self.paused if on is None else on
        if self.phase in ("prefill", "writing"):
            self.engine.send(Pause(self._answer_id, self.paused))
        return self.paused

    def step(self, steps: int = 1) -> bool:
        """Let the answer take some steps, held after them; False if there is none."""
        if self.phase not in ("prefill", "writing"):
            return False
        if not self.paused:
            self.pause(True)
        self.engine.send(Advance(self._answer_id, steps))
        return True

    def watch(self, on: bool) -> None:
        """Let steps carry probabilities from the next one on, or no longer."""
        if on != self.watching:
            self.watching = on
            if self.phase in ("prefill", "writing"):
                self.engine.send(Watch(self._answer_id, on))

    def score_step(self, answer: Answer, index: int) -> bool:
        """Let the engine find the probabilities in a step that came without them; whether they are on their way."""
        if self.phase != "ready" or not answer.id or answer.log.has_probs(index):
            return False
        step, before = answer.log.record(index), answer.log.tokens_before(index)
        if step.earlier or not step.tokens:
            return False
        if (answer.id, before) not in self._scoring:
            self._scoring[answer.id, before] = (answer, index)
            self.engine.send(ScoreStep(answer.id, before, step.tokens[-1], step.tree_tokens, step.tree_parents, step.path))
        return True

    def count(self, chats: list[list[dict[str, str]]], then: Callable[[Counted], None]) -> int:
        """Let the engine count the tokens of some chats; `then` is told. Returns the id that it is told with."""
        id, self._counting = self.engine.next_id(), then
        self.engine.send(Count(id, chats))
        return id

    def take_queued(self) -> str:
        text, self.queued, self._waiting = self.queued or "", None, ""
        return text

    def switch(self, name: str | None, settings: dict[str, Any] | None = None) -> None:
        """Use a method (None: the one that suits the model) from the next step on, or, when idle, from the next answer on."""
        self.chosen = name is not None
        if name is None:
            name = self.first_method()
        if settings is not None:
            self.settings[name] = settings
        if self.phase in ("prefill", "writing"):
            # `Switch` bears the answer's id; the chip changes when the engine says that the method is in force.
            self.engine.send(Switch(self._answer_id, name, dict(self.settings.get(name, {}))))
            self.switching = name
            return
        self.method = name

    def next_method(self) -> str | None:
        """Switch to the next of the methods worth a try; its name, or None if there is no other."""
        names, current = self.shortlist(), self.switching or self.method
        name = names[(names.index(current) + 1) % len(names)] if current in names else next(iter(names), current)
        if name == current:
            return None
        self.switch(name)
        return name

    def named(self, words: Sequence[str]) -> tuple[str, list[str]]:
        """A method as it is typed, and the settings behind it. The names of a server's methods may have spaces in them."""
        for count in range(len(words), 1, -1):
            if " ".join(words[:count]) in self.methods:
                return " ".join(words[:count]), list(words[count:])
        return words[0], list(words[1:])

    def shortlist(self) -> list[str]:
        """The methods worth a try on this model."""
        if served := served_methods(self.info):
            return list(served)
        # Before the model is loaded nobody knows whether there is a drafter trained for it.
        unknown = () if self.info else (name for name, method in self.methods.items() if method.group == "trained")
        return shortlist(self.methods, {*self.unavailable, *unknown}, self.model)

    @property
    def draft_models(self) -> dict[str, str]:
        """The draft models that are loaded with this model, as they were named, by what methods call them (see `draft_label`).
        The trained drafter is none of them."""
        asked = draft_names(self.load.get("draft_model")) or ([BUILTIN_DRAFT] if self.model == BUILTIN else [])
        return {draft_label(i): name for i, name in enumerate(name for name in asked if name != self.head)}

    @property
    def blind(self) -> str:
        """Why this model cannot be sent images, and what helps; empty where it may see."""
        if server := self.info.get("server"):
            return "" if server.get("images") is not False else NO_VISION.format(one_line(self.model))
        return "" if not self.info and is_url(self.model) else TEXT_ALONE

    def first_method(self) -> str:
        """The method that suits this model."""
        if server := self.info.get("server"):
            return str(server["method"])
        return first_method(self.methods, self.unavailable, self.model, self.load.get("draft_model"), self.info)

    def load_model(self, spec: str, **options: Any) -> None:
        """Load a model in place of this one. Another one may have neither this one's draft model nor its revision.

        Args:
            options: of this load and those after it (fields of the engine's `Load`); None for the default.
        """
        if self.info:
            self._before = (self.model, self.load, self.info, self.unavailable)
        if spec != self.model:
            self.load = {name: value for name, value in self.load.items() if name not in ("draft_model", "revision")}
        self.load = {**self.load, **options}
        self.model, self.info, self.unavailable = spec, {}, {}
        self.phase, self.loading = "loading", None
        self.engine.load(spec, **self.load)

    def clear(self) -> None:
        """A new chat. What the engine still sends of the old one is ignored."""
        self.transcript = Transcript(system=self.transcript.system)
        self.answer, self.queued, self.switching = None, None, None
        if self.busy:
            # The engine takes the next prompt only when this answer has ended, so its id stays.
            if self.phase != "stopping":
                self.engine.send(Cancel(self._answer_id))
            self.phase = "stopping"

    def measure(self, answer: Answer, ratio: float) -> None:
        """Remember how many times as fast as plain decoding a method was (0 where that is not known), in an answer that the
        loaded model has written with it alone."""
        if len(answer.methods) == 1:
            self.speeds.add(self._measured_on, answer.methods[0], answer.figures.tokens, ratio)

    def speedup(self, method: str) -> float | None:
        """How many times as fast as plain decoding a method was last, on the loaded model; None where that is not known."""
        return self.speeds.ratio(self._measured_on, method)

    @property
    def _measured_on(self) -> str:
        return f"{self.model} on {self.info.get('backend', '')}"

    def notice(self, text: str, severity: Severity = "information") -> None:
        """Put a sentence into the transcript."""
        self.transcript.entries.append(Notice(text, severity))

    def about(self) -> About:
        return About(self.model, self.info, self.load, self.method, self.settings, self.options, self.pieces)

    def request(self) -> dict[str, Any]:
        """What the next answer is asked with, as `Answer.asked` has it."""
        return self.about().request()

    @property
    def race_sampling(self) -> Sampling:
        """What lanes of a race are asked with: the most probable token each time, unless somebody has chosen the sampling."""
        return Sampling() if self.recommended else self.options.sampling

    def ask_again(self, request: dict[str, Any]) -> None:
        """Answer the last prompt, which has no answer on the screen, once more. The method in force stays the chat's own.

        Args:
            request: what to ask with, like `request` gives it. No drafter knows what was answered before.
        """
        self._back = self.method
        self._answer(request, fresh=True)

    def _ask(self, text: str) -> None:
        self.transcript.entries.append(Prompt(text))
        self._answer(self.request())

    def _answer(self, request: dict[str, Any], fresh: bool = False) -> None:
        messages = self.transcript.messages()
        self.method = request["method"]
        self.answer = Answer(self.method, self.label_of(self.method), asked=request)
        self.transcript.entries.append(self.answer)
        self._answer_id = self.answer.id = self.engine.next_id()
        self.phase = "prefill"
        self.engine.send(
            Generate(
                self._answer_id,
                messages=messages,
                watch=self.watching,
                paused=self.paused,
                compare=True,
                past="" if fresh else self.past,  # where the answer before is in already
                fresh=fresh,
                **generate_fields(request),
            )
        )

    # What the engine says

    def drain(self) -> bool:
        """Take in what the engine sent; whether there was anything."""
        events = self.engine.drain()
        for event in events:
            if self.listener is None or not self.listener(event):
                self.handle(event)
        return bool(events)

    def handle(self, event: Event) -> None:
        match event:
            case Loading():
                # After a crash a prompt makes the client load the model again: then the answer is what is waited for.
                self.loading = event
                if self.answer is None and not self.info:
                    self.phase = "loading"
            case Loaded():
                self._loaded(event)
            case Unloaded():
                self._before = None
            case PieceTable():
                self.pieces = Pieces(event.pieces)
            case Remembered():
                if self.heard is not None:
                    self.heard(event)
            case Counted():
                if self._counting is not None:
                    self._counting(event)
            case StepScores():
                if asked := self._scoring.pop((event.id, event.before), None):
                    answer, index = asked
                    answer.log.set_probs(index, event.probs)
            case Failed():
                self._failed(event)
            case Started() | Prefilling() | Steps() | Switched() | Paused() | Finished() if event.id == self._answer_id:
                if self.answer is not None:
                    self.answer.take(event)
                    self._progress(self.answer, event)
                    if isinstance(event, Finished):
                        self.answer.held_back = blame(self.answer, self.info)
                if isinstance(event, Finished):
                    self._end()

    def _progress(self, answer: Answer, event: Event) -> None:
        match event:
            case Started():
                answer.pieces = self.pieces
                if self.phase != "stopping":  # else the method may be another by now, for the next answer
                    self.method = event.method
            case Prefilling() if self.phase == "writing" and event.done < event.total:
                self.phase = "prefill"
            case Steps() if self.phase == "prefill":
                self.phase = "writing"
            case Switched():
                self.method = event.method
                self.switching = self._back = None
                if event.doubt:
                    self.notice(event.doubt, "warning")
            case Paused():
                self.paused = event.paused
            case Finished(reason="loop"):
                self.notice(loop_sentence(event, "/set repetition_penalty=1.1", "/set stop_loops=off"), "warning")

    def _loaded(self, event: Loaded) -> None:
        known, self._before = self.info, None
        self.info, self.unavailable, self.loading = event.info, event.unavailable, None
        self.head = str(event.head.get("name", ""))
        self.engine.send(PiecesOf(self.engine.next_id()))
        if known or self.answer is not None:  # a reload: said before
            return
        self.phase = "ready"
        for note in event.info.get("notes", ()):
            self.notice(note, "warning")
        self._settle()

    def _settle(self) -> None:
        """Another model is loaded: go on with what suits it."""
        if self.loaded is not None:
            self.loaded()
        self.settle_method()
        self._send_queued()

    def methods_of(self, info: Mapping[str, Any]) -> dict[str, Method]:
        """Every method there is for a model, by name: a server's own go before ours."""
        if not any(method.group == "server" for method in self.methods.values()):
            self._ours = self.methods
        served = served_methods(info)
        return served | {name: method for name, method in self._ours.items() if name not in served}

    def settle_method(self) -> None:
        """Use the method that suits the model where nobody has chosen one, or where the model cannot run it: that is said."""
        served = served_methods(self.info)
        self.methods = self.methods_of(self.info)
        if served:  # they decide, and all that can be known is what they say
            self.method = self.method if self.method in served else self.first_method()
            return
        reason = self.unavailable.get(self.method)
        if self.method not in self.methods:  # a server's, and this is none
            self.method = self.first_method()
        elif reason or not self.chosen:
            before, self.method = self.method, self.first_method()
            if reason and self.chosen:
                self.notice(f"{before} cannot run on this model: {reason} Using {self.method}.", "warning")

    def _failed(self, event: Failed) -> None:
        if not event.ended:
            self._refused(event)
            return
        if event.cause != "cancelled":
            self.notice(event.sentence, "error")
        self.loading = None
        if event.cause == "died":
            self._before = None
            self._scoring.clear()
            # The client starts a new engine, with the same model, at the next prompt.
            if self.answer is not None:
                self.answer.take(event)
            self._end(send=False)
            self.phase = "ready" if self.info else "unloaded"
        elif event.id == self._answer_id:
            if self.answer is not None:
                self.answer.take(event)
            self._end(send=event.cause == "cancelled")
        elif self.phase == "loading":
            self.phase = "unloaded"
            if self._before is not None:  # the engine has let nothing go: the model before is still there
                self.model, self.load, self.info, self.unavailable = self._before
                self.phase, self._before = "ready", None
                self._settle()
            elif self.fallback is not None and event.cause != "cancelled":
                (spec, options), self.fallback = self.fallback, None
                self.notice(f"{one_line(spec)} is being loaded in its place.")
                self.load_model(spec, **options)

    def _refused(self, event: Failed) -> None:
        """A switch that cannot be; one that came too late is no news: `_end` has made it the next answer's method."""
        if event.id == self._answer_id and self.answer is not None:
            self.switching = None
            self.notice(event.sentence, "warning")

    def _end(self, send: bool = True) -> None:
        if self.answer is not None:
            self.measure(self.answer, self.answer.figures.speedup)
        if self.switching is not None:
            self.method, self.switching = self.switching, None
        elif self._back is not None:
            self.method = self._back
        self._back = None
        self.answer, self._answer_id, self.paused = None, 0, False
        self.phase = "ready"
        if send:
            self._send_queued()

    def _send_queued(self) -> None:
        if self.queued is not None:
            full = self._waiting
            draft = self.take_queued()
            self._ask(full or draft)
