"""`specchat run`: one answer, from the command line's options to an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TextIO

from ....engine.client import EngineClient
from ....engine.messages import (
    Event,
    Failed,
    Finished,
    Loaded,
    Loading,
    PieceTable,
    Prefilling,
    ReadPieces,
    Started,
    StepRecord,
    Steps,
)
from ....engine.options import ModelInfo
from ....errors import UserError, counted
from ...chat.about import About, generate_fields, known_word
from ...chat.answer_json import answer_json
from ...chat.choosing import PLAIN
from ...chat.entries import Answer, Prompt, cut_sentence, loop_sentence
from ...chat.pieces import Pieces
from ...chat.runs import Run, join_text
from ...chat.transcript import Transcript
from ...render.verdict import verdict_text
from ...settings.fields import Settings
from ...settings.precedence import with_recommended
from ...terminal.ansi import DIM, RESET, Depth, colour_depth, run_colour
from ...terminal.output import Notes, stdout
from ...text.amounts import progress_of
from ...text.cells import sanitise
from ...theming.colouring import Colouring, ink_name, legend, parse_colouring
from ..exit_codes import ANSWERED, BROKEN, CLOSED, USER
from ..interrupts import POLL_SECONDS, Interrupts
from .request import Request, attached, check, prompt_of

if TYPE_CHECKING:
    from ...history.recorder import Recorder

CLOSE_SECONDS = 10.0
"""Longest wait for the disk at the end: a run has nothing else to do, and another specchat may hold the file for a moment."""


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code."""
    check(request)
    stream = stdout()
    output = AnswerOutput(stream, request.color, parse_colouring(request.settings.colours))
    notes = Notes(request.color, output.end_line if output.is_terminal else None)
    text, attachments = attached(request, notes)
    chat, request = _chat(request, notes)
    with EngineClient() as client:
        # Sent before standard input is read, so that the model loads meanwhile.
        load = client.load(request.settings.model, **request.settings.load_options())
        prompt = prompt_of(request, text, attachments, notes)
        with Interrupts(client) as interrupts:
            run = _Run(request, prompt, client, interrupts, output, notes, chat)
            try:
                return run.to_the_end(load)
            except BrokenPipeError:
                # The interpreter flushes standard output once more when it ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return CLOSED
            except OSError as error:
                notes.sentence(f"Cannot write the answer ({error.strerror}).")
                return BROKEN
            finally:
                run.close("cancelled")


def _chat(request: Request, notes: Notes) -> tuple[KeptRun | None, Request]:
    """The chat that the answer belongs to, if to any; and the request with what that chat was asked with."""
    keep = request.go_on and request.settings.history if request.keep is None else request.keep
    if not (request.go_on or keep):
        return None, request
    settings = request.settings
    if not request.go_on:
        return KeptRun(Transcript(system=settings.system), write=keep), request
    transcript, settings, sentences = opened(request.chat, settings, request.explicit)
    for sentence in sentences:
        notes.sentence(sentence)
    if "system" in request.explicit:
        transcript.system = settings.system
    return KeptRun(transcript, write=keep), replace(request, settings=settings)


class KeptRun:
    """A chat that goes on, or a new one; `write` saves it as it does."""

    def __init__(self, transcript: Transcript, *, write: bool) -> None:
        self.transcript = transcript
        self.write = write
        self._about: About | None = None
        self._recorder: Recorder | None = None

    @property
    def number(self) -> int | None:
        """The chat's number in the history, once it is closed; None if it is not kept."""
        track = self.transcript.track
        return track.chat if self.write and track is not None else None

    def about(self) -> About:
        """The model, method and settings that it goes on with, once something is asked."""
        assert self._about is not None
        return self._about

    def ask(self, prompt: str, answer: Answer, about: About) -> list[dict[str, str]]:
        """Add a prompt, as it is sent, and the answer to come; the messages for the engine."""
        self._about = about
        self.transcript.entries.append(Prompt(prompt))
        messages = self.transcript.messages()
        self.transcript.entries.append(answer)
        if self.write:
            from ...history.recorder import Recorder

            self._recorder = Recorder()
        return messages

    def note(self) -> None:
        """Save what there is so far."""
        if self._recorder is not None:
            self._recorder.note(self)

    def close(self) -> list[str]:
        """Write down the end; sentences on what went wrong, or was done to the history. A second call does nothing."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return []
        recorder.close(self, CLOSE_SECONDS)
        return [sentence for sentence, _ in recorder.take_sentences()]


def opened(chat: str | None, settings: Settings, given: Collection[str]) -> tuple[Transcript, Settings, list[str]]:
    """The chat to go on with, what it goes on with (its own model, method and settings), and what there is to say of it.

    `chat` is a number, a title or a part of one, None the last chat. What the command line asks for, `given`, goes before the
    chat's own settings.

    Raises:
        UserError: there is no such chat, there are several, or the history cannot be read.
    """
    from ...history.chats import reading
    from ...history.resume import one_chat, resume_notices, resume_settings

    with reading() as chats:
        if chat is not None and not chat.strip():
            raise UserError("--resume takes a chat's number or title: `specchat chats list` shows them.")
        found = chats.open((chats.latest() if chat is None else one_chat(chats, chat)).id)
    settings = resume_settings(settings, found, dict.fromkeys(given))
    return found.transcript, settings, resume_notices(found, settings.model)


class AnswerOutput:
    """The answer's text. On a terminal harmless, and coloured as in the chat; piped, the text as it is."""

    def __init__(self, stream: TextIO, color: str, way: Colouring = "length") -> None:
        self._stream = stream
        self._way = way
        self.is_terminal = stream.isatty()
        self.depth: Depth = colour_depth(color, self.is_terminal)
        # Coloured text is for eyes even through a pipe (`| less -R`).
        self._safe = self.is_terminal or self.depth > 0
        self._ink = "plain"
        self._last = "\n"
        self._begun = False
        self.coloured = False
        """Whether a run with a colour was written."""

    def write(self, runs: Iterable[Run], notes: Notes | None = None) -> None:
        """Write some runs.

        Args:
            notes: get their thoughts; None: nobody does.

        Raises:
            OSError: nobody reads any more, or the disk is full.
        """
        shown: list[str] = []
        for run in runs:
            for thought, late, text in run.pieces():
                if thought:
                    self._put(shown)
                    if notes is not None:
                        notes.thought(text)
                    continue
                if notes is not None:
                    notes.end_thought()
                if not late:
                    self._ink = ink_name(self._way, run.shade, run.together)
                # Line breaks between a thought and the answer belong to neither.
                text = text if self._begun or not run.spans else text.lstrip("\n")
                self._begun = self._begun or bool(text)
                shown.append(self._coloured(text))
            self._ink = ink_name(self._way, run.shade, run.together)
        self._put(shown)

    def _put(self, shown: list[str]) -> None:
        if text := "".join(shown):
            self._stream.write(text)
            self._stream.flush()
        shown.clear()

    def line(self, text: str) -> None:
        """Write a line that is data, as it is."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def end_line(self) -> None:
        """End the last line, where the text did not."""
        if self._last != "\n":
            self._stream.write("\n")
            self._stream.flush()
            self._last = "\n"

    def _coloured(self, text: str) -> str:
        if not text:
            return ""
        self._last = text[-1]
        if self._safe:
            text = sanitise(text)
        colour = run_colour(self._ink, self.depth)
        self.coloured |= bool(colour)
        return f"{colour}{text}{RESET}" if colour else text

    def legend(self, depth: Depth) -> str:
        """What the colours of the answer mean, in as many of them; empty where it has none."""
        parts = legend(self._way) if self.coloured and depth else []
        return "".join(f"{run_colour(ink, depth) if ink else DIM}{text}{RESET}" for text, ink in parts)


@dataclass
class _Run:
    """The events of one load and one answer, turned into output."""

    request: Request
    prompt: str
    client: EngineClient
    interrupts: Interrupts
    output: AnswerOutput
    notes: Notes
    chat: KeptRun | None
    id: int = 0
    """The answer's id, once it is asked for."""
    cancelling: bool = False
    info: ModelInfo = field(default_factory=ModelInfo)
    """What the engine tells of the model; empty until it is loaded."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the object of --json, for this request alone."""

    def __post_init__(self) -> None:
        self.answer = Answer(self.request.method(), "")

    def to_the_end(self, load: int) -> int:
        """Follow the events until one ends it; return the exit code."""
        while True:
            event = self.client.wait(POLL_SECONDS)
            if self.interrupts.signal and not self.cancelling:
                self.cancelling = True
                if not self.id:
                    return self._end("cancelled")
                self.client.cancel(self.id)
            if event is None or (code := self._take(event, load)) is None:
                continue
            return code

    def _take(self, event: Event, load: int) -> int | None:
        match event:
            case Loading():
                self.notes.progress(_loading(self.request.settings.model, event))
            case Loaded() if event.id == load:
                self._loaded(event)
            case PieceTable():
                self.answer.pieces = Pieces(event.pieces)
            case Started() | Prefilling() | Steps() | Finished():
                shown = len(self.answer.runs)
                self.answer.take(event)
                self._show(event, shown)
                if isinstance(event, Finished):
                    code = self._end(event.reason)
                    if event.reason == "loop":
                        self.notes.sentence(loop_sentence(event, "--repetition-penalty 1.1", "--no-stop-loops"))
                    return code
            case Failed() if event.id in (load, self.id) or event.cause == "died":
                return self._failed(event)
        if self.chat is not None:
            self.chat.note()
        return None

    def _show(self, event: Event, shown: int) -> None:
        """Show what an event brought; `shown` is how many runs were there before."""
        match event:
            case Prefilling():
                self.notes.progress(f"reading the prompt: {event.done:,} of {counted(event.total, 'token')}")
            case Steps():
                self.notes.clear()
                if self.request.as_lines:
                    for step, run in zip(event.steps, self.answer.runs[shown:], strict=True):
                        self._line(step, run)
        if self.request.plain:
            seen = self.notes.terminal and self.request.settings.thoughts != "hidden"
            self.output.write(self.answer.runs[shown:], self.notes if seen else None)
        elif self.request.as_lines and self.answer.done:
            for run in self.answer.runs[shown:]:
                self._line(StepRecord(self.answer.method, [], run.text), run)

    def _loaded(self, event: Loaded) -> None:
        """Ask for the answer."""
        settings, answer = with_recommended(self.request.settings, event.model), self.answer
        self.info = event.model
        self.answer.weights = event.model.weights
        for note in event.model.notes:
            self.notes.sentence(note)
        server = event.model.server
        answer.method = method = server.method if server else self.request.method(event.unavailable, event.model)
        reason = event.unavailable.get(method)
        if server and "method" in self.request.explicit and settings.method not in (method, PLAIN):
            chosen = self.request.method()
            self.notes.sentence(f"The method {chosen} is not used: {event.unavailable.get(chosen, '')}")
        if reason and "method" not in self.request.explicit:
            self.notes.sentence(f"The method {method} is not available here, so greedy answers: {reason}")
            answer.method = "greedy"
        options = replace(settings, stop_loops=self.request.stop_loops)
        about = About(settings.model, event.model, settings.load_options(), answer.method, settings.methods, options)
        if "think" in self.request.explicit and (word := settings.think):
            known_word(event.model, word)
        answer.asked = about.request()
        if answer.method == method:
            answer.asked["settings"] |= self.request.method_settings
        asked: dict[str, Any]
        if self.chat is not None:
            if self.chat.write:  # the trees of a chat that is opened again show what single tokens say
                self.client.send(ReadPieces(self.client.next_id()))
            asked = {"messages": self.chat.ask(self.prompt, answer, about)}
        elif self.request.raw:
            asked = {"prompt": self.prompt, "raw": True}
        else:
            system = [{"role": "system", "content": settings.system}] if settings.system else []
            asked = {"messages": [*system, {"role": "user", "content": self.prompt}]}
        self.more |= {name: asked[name] for name in ("prompt", "messages") if name in asked}
        self.id = self.client.generate(
            **asked,
            **generate_fields(answer.asked),
            compare=self.chat is not None or not self.request.plain or self.output.is_terminal,  # `why` asks later
        )

    def _end(self, reason: str) -> int:
        """The answer is over; what there is of it is shown."""
        self.notes.clear()
        self.close(reason)
        body = answer_body(self.answer, self.request.settings.model, self.info) | self.more
        number = self.chat.number if self.chat is not None else None
        if not self.request.plain:
            self._data(body if self.chat is None else {**body, "chat": number})
        self.output.end_line()
        if len(self.answer.log) and self.request.plain and self.output.is_terminal:
            self.notes.figures(verdict_text(self.answer) + (f" · chat {number}" if number is not None else ""))
            if scale := self.output.legend(self.notes.depth):
                self.notes.painted(scale)
        elif self.request.plain and self.answer.figures.doubt:
            self.notes.sentence(self.answer.figures.doubt)
        if self.answer.thinking and self.request.plain and not self.output.is_terminal:
            help = "Give it --think-budget, or raise --max-tokens" if reason == "length" else "Ask again, or with --think off"
            self.notes.sentence(f"There is no answer: it ended in the middle of its thought. {help}.")
        if self.answer.figures.valid is False and reason not in ("cancelled", "error"):
            self.notes.sentence(cut_sentence(self.answer, "--max-tokens"))
            return USER
        return {"cancelled": self.interrupts.code, "error": BROKEN}.get(reason, ANSWERED)

    def close(self, reason: str) -> None:
        """The answer ends, for this reason if the engine has told none; and so does the chat that it belongs to."""
        if not self.answer.done:
            self.answer.finish(reason)
        for sentence in self.chat.close() if self.chat is not None else ():
            self.notes.sentence(sentence)

    def _line(self, step: StepRecord, run: Run) -> None:
        counts = {"drafted": step.drafted, "accepted": step.accepted, "method": step.method}
        thought = {"thought": join_text([run], thought=True)} if run.spans else {}
        self._data({"text": join_text([run]), **thought, "token_ids": step.tokens, **counts})

    def _data(self, data: Mapping[str, Any]) -> None:
        # On a terminal as ASCII: JSON leaves the characters that reorder a line unescaped.
        self.output.line(json.dumps(data, ensure_ascii=self.output.is_terminal))

    def _failed(self, event: Failed) -> int:
        self.notes.clear()
        if self.id:
            shown = len(self.answer.runs)
            self.answer.finish("error", event.tail)
            self._show(event, shown)
        if len(self.answer.log):
            self._end("error")
        # The client tells a chat how to go on; here there is nothing to send again.
        self.notes.sentence(event.sentence.partition(" Your chat is safe")[0])
        if self.request.go_on and not self.id and event.cause == "user" and "model" not in self.request.explicit:
            self.notes.sentence("The chat was with that model. Choose another one with --model.")
        return {"user": USER, "cancelled": self.interrupts.code}.get(event.cause, BROKEN)


def answer_body(answer: Answer, model: str, info: ModelInfo) -> dict[str, Any]:
    """The object of --json: the answer, and what the engine tells of the model, which the user named `model`."""
    name = info.name or model
    return {"model": name, "backend": info.backend or None, "device": info.device or None, **answer_json(answer)}


def _loading(model: str, event: Loading) -> str:
    what = f"loading {model}: {event.stage}"
    if not event.total:
        return what
    if event.stage.endswith("download"):
        return f"{what} {progress_of(event.done, event.total)}"
    return f"{what} {event.done:,} of {event.total:,}"
