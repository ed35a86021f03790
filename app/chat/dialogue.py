"""Between the person and the engine: what was asked, what came back, what may be done next. Knows nothing of widgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from ...engine.options import ModelInfo
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
"""Options of a load that say nothing about another model."""

Phase = Literal["loading", "unloaded", "ready", "prefill", "writing", "stopping"]


class Busy(UserError):
    """Something has to wait until no answer is being written."""


@dataclass(slots=True)
class Dialogue(ChatModel):
    """A chat with a model: what was asked, what came back, what may be done next. Arguments as for `ChatModel`."""

    transcript: Transcript = field(default_factory=Transcript)
    phase: Phase = "loading"
    loading: Loading | None = None
    answer: Answer | None = None
    """The one being written."""
    queued: str | None = None
    """A prompt that waits for the model, or for the end of a cancelled answer."""
    switching: str | None = None
    """A method asked for in mid-answer, until the engine has it in force."""
    paused: bool = False
    """The answer is held between two steps."""
    pace: float = 0.0
    """Steps a second that answers take at most; 0 for full speed."""
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
    fallback: tuple[str, Mapping[str, Any]] | None = None
    """Model and options of a load to try where the first one fails: of a chat whose own model is gone."""
    _counting: Callable[[Counted], None] | None = None
    _answer_id: int = 0
    _cancelled: int = 0
    """The load that was cancelled last."""
    _scoring: dict[tuple[int, int], tuple[Answer, int]] = field(default_factory=dict)
    """Steps whose probabilities have been asked for, by the answer's id and the tokens before the step."""
    _before: tuple[str, Mapping[str, Any], ModelInfo, dict[str, str]] | None = None
    """Model, options, info and reasons of what is in the engine while another one is being loaded; None once it is gone."""
    _waiting: str = ""
    """What goes out for the queued prompt, where that is more than was typed."""
    _back: str | None = None
    """The method to go back to after an answer that was asked for with another one."""
    _shown_at: float = 0.0
    """The pace of the queued prompt (see `submit`)."""
    _pace_back: float | None = None
    """The pace to go back to after an answer that had one of its own."""

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

    # What the person does

    def submit(self, text: str, draft: str = "", pace: float = 0.0) -> bool:
        """Ask; False if that must wait until the answer under way has ended (nothing happened, keep the draft).

        Args:
            text: what is sent, attachments included.
            draft: what was typed, where that is something else: it is handed back if the text cannot go out.
            pace: show how methods differ: at that pace, unless there is one already, and with plain decoding first, unless
                somebody has chosen a method.
        """
        if self.phase in ("prefill", "writing") or self.queued is not None:
            return False
        if self.phase == "unloaded":
            self.load_model(self.model)
        if self.phase in ("loading", "stopping"):
            self.queued, self._waiting, self._shown_at = draft or text, text, pace
            return True
        self._ask(text, pace)
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

    def pause(self) -> bool:
        """Hold the answer between two steps, or let it go on; False if there is none."""
        if self.phase not in ("prefill", "writing"):
            return False
        self.paused = not self.paused
        self.engine.send(Pause(self._answer_id, self.paused))
        return True

    def set_pace(self, passes: float) -> None:
        """Let this answer and those after it take so many steps a second at most; 0 for full speed."""
        self.pace, self._pace_back = passes, None
        if self.phase in ("prefill", "writing"):
            self.engine.send(Pace(self._answer_id, passes))

    def step(self, steps: int = 1) -> bool:
        """Let the answer take some steps, held after them; False if there is none."""
        if self.phase not in ("prefill", "writing"):
            return False
        if not self.paused:
            self.pause()
        self.engine.send(GrantPasses(self._answer_id, steps))
        return True

    def watch(self, on: bool) -> None:
        """Let steps carry probabilities from the next one on, or no longer."""
        if on != self.watching:
            self.watching = on
            if self.phase in ("prefill", "writing"):
                self.engine.send(RecordProbabilities(self._answer_id, on))

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
        text, self.queued, self._waiting, self._shown_at = self.queued or "", None, "", 0.0
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

    def load_model(self, spec: str, **options: Any) -> None:
        """Load a model in place of this one. Another one may have neither this one's draft model nor its revision.

        Args:
            options: of this load and those after it (fields of the engine's `Load`); None for the default.
        """
        if self.info:
            self._before = (self.model, self.load, self.info, self.unavailable)
        if spec != self.model:
            self.load = {name: value for name, value in self.load.items() if name not in OF_ONE_MODEL}
        self.load = {**self.load, **options}
        self.model, self.info, self.unavailable = spec, ModelInfo(), {}
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

    def notice(self, text: str, severity: Severity = "information") -> None:
        self.transcript.entries.append(Notice(text, severity))

    def ask_again(self, request: dict[str, Any]) -> None:
        """Answer the last prompt, which has no answer on the screen, once more. The method in force stays the chat's own.

        Args:
            request: what to ask with, like `request` gives it. No drafter knows what was answered before.
        """
        self._back = self.method
        self._answer(request, fresh=True)

    def _ask(self, text: str, pace: float = 0.0) -> None:
        self.transcript.entries.append(Prompt(text))
        request = self.request()
        if pace and not self.pace:
            self.pace, self._pace_back = pace, 0.0
        if pace and not self.chosen:
            self._back = self.method
            request |= {"method": PLAIN, "settings": {}}
        self._answer(request)

    def _answer(self, request: dict[str, Any], fresh: bool = False) -> None:
        messages = self.transcript.messages()
        self.method = request["method"]
        self.answer = Answer(
            self.method,
            self.effective_label(self.method),
            asked=request,
            curve=self.info.pass_seconds,
            weights=self.info.weights,
        )
        self.transcript.entries.append(self.answer)
        self._answer_id = self.answer.id = self.engine.next_id()
        self.phase = "prefill"
        self.engine.send(
            Generate(
                self._answer_id,
                messages=messages,
                record_probabilities=self.watching,
                pace=self.pace,
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
            case Paused():
                self.paused = event.paused
            case Finished(reason="loop"):
                self.notice(loop_sentence(event, "/set repetition_penalty=1.1", "/set stop_loops=off"), "warning")

    def _loaded(self, event: Loaded) -> None:
        known, self._before = self.info, None
        self.info, self.unavailable, self.loading = event.model, event.unavailable, None
        self.head = event.trained_drafter
        self.engine.send(ReadPieces(self.engine.next_id()))
        if known or self.answer is not None:  # a reload: said before
            return
        self.phase = "ready"
        for note in event.model.notes:
            self.notice(note, "warning")
        self._settle()

    def _settle(self) -> None:
        if self.loaded is not None:
            self.loaded()
        self.settle_method()
        self._send_queued()

    def settle_method(self) -> None:
        """Use the method that suits the model where nobody has chosen one, or where the model cannot run it: that is said."""
        served = served_method(self.info)
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
        if self._pace_back is not None:
            self.pace, self._pace_back = self._pace_back, None
        self.answer, self._answer_id, self.paused = None, 0, False
        self.phase = "ready"
        if send:
            self._send_queued()

    def _send_queued(self) -> None:
        if self.queued is not None:
            full, pace = self._waiting, self._shown_at
            draft = self.take_queued()
            self._ask(full or draft, pace)
