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
from ...chat.entries import Answer, Prompt, cut_sentence, loop_sentence
from ...chat.methods import PLAIN
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
from .request import Request, check, compose_prompt, split_attachments

if TYPE_CHECKING:
    from ...history.recorder import Recorder

CLOSE_SECONDS = 10.0
"""Longest wait for the disk at the end: a run has nothing else to do, and another specchat may lock the file for a moment."""


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code."""
    check(request)
    stream = stdout()
    output = AnswerOutput(stream, request.color, parse_colouring(request.settings.colours))
    notes = Notes(request.color, output.end_line if output.is_terminal else None)
    text, attachments = split_attachments(request, notes)
    chat, request = _chat(request, notes)
    with EngineClient() as client:
        # Sent before standard input is read, so that the model loads meanwhile.
        load = client.load(request.settings.selection())
        prompt = compose_prompt(request, text, attachments, notes)
        with Interrupts(client) as interrupts:
            run = _Run(request, prompt, client, interrupts, output=output, notes=notes, chat=chat)
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
    """Return the chat of the answer, None without one, and the request with that chat's own settings."""
    keep = request.go_on and request.settings.history if request.keep is None else request.keep
    if not (request.go_on or keep):
        return None, request
    settings = request.settings
    if not request.go_on:
        return KeptRun(Transcript(system=settings.system), write=keep), request
    transcript, settings, sentences = open_chat(request.chat, settings, request.explicit)
    for sentence in sentences:
        notes.sentence(sentence)
    if "system" in request.explicit:
        transcript.system = settings.system
    return KeptRun(transcript, write=keep), replace(request, settings=settings)


class KeptRun:
    """A chat that is continued, or a new one; `write` saves it as it grows."""

    def __init__(self, transcript: Transcript, *, write: bool) -> None:
        self.transcript = transcript
        self.write = write
        self._about: About | None = None
        self._recorder: Recorder | None = None

    @property
    def number(self) -> int | None:
        """The chat's number in the history, once it is closed; None if it is not saved."""
        track = self.transcript.track
        return track.chat if self.write and track is not None else None

    def about(self) -> About:
        """Return the model, method and settings of its last question."""
        assert self._about is not None
        return self._about

    def ask(self, prompt: str, answer: Answer, about: About) -> list[dict[str, str]]:
        """Add a prompt and the answer to come; return the messages for the engine."""
        self._about = about
        self.transcript.entries.append(Prompt(prompt))
        messages = self.transcript.messages()
        self.transcript.entries.append(answer)
        if self.write:
            from ...history.recorder import Recorder

            self._recorder = Recorder()
        return messages

    def note(self) -> None:
        """Save the answer so far."""
        if self._recorder is not None:
            self._recorder.note(self)

    def close(self) -> list[str]:
        """Save the end; return sentences on errors and on changes to the history. A second call does nothing."""
        recorder = self._recorder
        self._recorder = None
        if recorder is None:
            return []
        recorder.close(self, CLOSE_SECONDS)
        return [sentence for sentence, _ in recorder.take_sentences()]


def open_chat(chat: str | None, settings: Settings, explicit: Collection[str]) -> tuple[Transcript, Settings, list[str]]:
    """Open a chat to continue.

    Args:
        chat: a number, a title or a part of one; None for the last chat.
        settings: of the command.
        explicit: keys of the settings on the command line, which override the chat's own.

    Returns:
        its transcript, the settings with its own model, method and settings, and remarks on it.

    Raises:
        UserError: there is no such chat, there are several, or the history cannot be read.
    """
    from ...history.chats import reading
    from ...history.resume import one_chat, resume_notices, resume_settings

    with reading() as chats:
        if chat is not None and not chat.strip():
            raise UserError("--resume takes a chat's number or title: `specchat chats list` shows them.")
        opened = chats.open((chats.latest() if chat is None else one_chat(chats, chat)).id)
    settings = resume_settings(settings, opened, dict.fromkeys(explicit))
    return opened.transcript, settings, resume_notices(opened, settings.model)


class AnswerOutput:
    """Output of the answer's text: on a terminal sanitised and coloured as in the chat, in a pipe as it is."""

    def __init__(self, stream: TextIO, color: str, colouring: Colouring = "length") -> None:
        self._stream = stream
        self._colouring = colouring
        self.is_terminal = stream.isatty()
        self.depth: Depth = colour_depth(color, self.is_terminal)
        # Coloured text is for people even through a pipe (`| less -R`).
        self._safe = self.is_terminal or self.depth > 0
        self._ink = "plain"
        self._last = "\n"
        self._begun = False
        self.coloured = False
        """Whether coloured text was written."""

    def write(self, runs: Iterable[Run], notes: Notes | None = None) -> None:
        """Write some runs.

        Args:
            notes: receive their thoughts, which are dropped if this is None.

        Raises:
            OSError: the pipe is closed, or the disk is full.
        """
        texts: list[str] = []
        for run in runs:
            for thought, late, text in run.pieces():
                if thought:
                    self._put(texts)
                    if notes is not None:
                        notes.thought(text)
                    continue
                if notes is not None:
                    notes.end_thought()
                if not late:
                    self._ink = ink_name(self._colouring, run.shade, run.together)
                # Line breaks between a thought and the answer belong to neither.
                text = text if self._begun or not run.spans else text.lstrip("\n")
                self._begun = self._begun or bool(text)
                texts.append(self._coloured(text))
            self._ink = ink_name(self._colouring, run.shade, run.together)
        self._put(texts)

    def _put(self, texts: list[str]) -> None:
        if text := "".join(texts):
            self._stream.write(text)
            self._stream.flush()
        texts.clear()

    def line(self, text: str) -> None:
        """Write a line of data as it is."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def end_line(self) -> None:
        """End the last line if the text did not."""
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
        """Explain the colours of the answer, in as many colours; empty without any."""
        parts = legend(self._colouring) if self.coloured and depth else []
        return "".join(f"{run_colour(ink, depth) if ink else DIM}{text}{RESET}" for text, ink in parts)


@dataclass
class _Run:
    """The turning of the events of one load and one answer into output."""

    request: Request
    prompt: str
    client: EngineClient
    interrupts: Interrupts
    output: AnswerOutput
    notes: Notes
    chat: KeptRun | None
    id: int = 0
    """Id of the answer's command; 0 before that is sent."""
    cancelling: bool = False
    info: ModelInfo = field(default_factory=ModelInfo)
    """The model; without a name until it is loaded."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of this request in the object of --json."""

    def __post_init__(self) -> None:
        self.answer = Answer(self.request.method(), "")

    def to_the_end(self, load: int) -> int:
        """Follow the events to the end of the answer; return the exit code."""
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
                before = len(self.answer.runs)
                self.answer.take(event)
                self._show(event, before)
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

    def _show(self, event: Event, before: int) -> None:
        """Show the news of an event; `before` is the number of runs that were shown earlier."""
        match event:
            case Prefilling():
                self.notes.progress(f"reading the prompt: {event.done:,} of {counted(event.total, 'token')}")
            case Steps():
                self.notes.clear()
                if self.request.as_lines:
                    for step, run in zip(event.steps, self.answer.runs[before:], strict=True):
                        self._line(step, run)
        if self.request.plain:
            with_thoughts = self.notes.terminal and self.request.settings.thoughts != "hidden"
            self.output.write(self.answer.runs[before:], self.notes if with_thoughts else None)
        elif self.request.as_lines and self.answer.done:
            for run in self.answer.runs[before:]:
                self._line(StepRecord(self.answer.method, [], run.text), run)

    def _loaded(self, event: Loaded) -> None:
        """Ask the loaded model for the answer."""
        settings = with_recommended(self.request.settings, event.model)
        answer = self.answer
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
        about = About(settings.selection(), event.model, answer.method, settings.methods, options)
        if "think" in self.request.explicit and (word := settings.think):
            known_word(event.model, word)
        answer.asked = about.request()
        if answer.method == method:
            answer.asked["settings"] |= self.request.method_settings
        prompt: dict[str, Any]
        if self.chat is not None:
            if self.chat.write:  # the trees of a chat that is opened again show the texts of tokens
                self.client.send(ReadPieces(self.client.next_id()))
            prompt = {"messages": self.chat.ask(self.prompt, answer, about)}
        elif self.request.raw:
            prompt = {"prompt": self.prompt, "raw": True}
        else:
            system = [{"role": "system", "content": settings.system}] if settings.system else []
            prompt = {"messages": [*system, {"role": "user", "content": self.prompt}]}
        self.fields |= {name: prompt[name] for name in ("prompt", "messages") if name in prompt}
        self.id = self.client.generate(
            **prompt,
            **generate_fields(answer.asked),
            compare=self.chat is not None or not self.request.plain or self.output.is_terminal,  # `why` asks later
        )

    def _end(self, reason: str) -> int:
        """End the answer and print its figures; return the exit code."""
        self.notes.clear()
        self.close(reason)
        body = answer_body(self.answer, self.request.settings.model, self.info) | self.fields
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
            advice = "Give it --think-budget, or raise --max-tokens" if reason == "length" else "Ask again, or with --think off"
            self.notes.sentence(f"There is no answer: it ended in the middle of its thought. {advice}.")
        if self.answer.figures.valid is False and reason not in ("cancelled", "error"):
            self.notes.sentence(cut_sentence(self.answer, "--max-tokens"))
            return USER
        return {"cancelled": self.interrupts.code, "error": BROKEN}.get(reason, ANSWERED)

    def close(self, reason: str) -> None:
        """Close the answer, with this reason if the engine has given none, and its chat."""
        if not self.answer.done:
            self.answer.finish(reason)
        for sentence in self.chat.close() if self.chat is not None else ():
            self.notes.sentence(sentence)

    def _line(self, step: StepRecord, run: Run) -> None:
        counts = {"drafted": step.drafted, "accepted": step.accepted, "method": step.method}
        thought = {"thought": join_text([run], thought=True)} if run.spans else {}
        self._data({"text": join_text([run]), **thought, "token_ids": step.tokens, **counts})

    def _data(self, data: Mapping[str, object]) -> None:
        # On a terminal as ASCII: JSON leaves the characters that reorder a line unescaped.
        self.output.line(json.dumps(data, ensure_ascii=self.output.is_terminal))

    def _failed(self, event: Failed) -> int:
        self.notes.clear()
        if self.id:
            before = len(self.answer.runs)
            self.answer.finish("error", event.tail)
            self._show(event, before)
        if len(self.answer.log):
            self._end("error")
        # The client says how a chat continues; here there is nothing to send again.
        self.notes.sentence(event.sentence.partition(" Your chat is safe")[0])
        if self.request.go_on and not self.id and event.cause == "user" and "model" not in self.request.explicit:
            self.notes.sentence("The chat was with that model. Choose another one with --model.")
        return {"user": USER, "cancelled": self.interrupts.code}.get(event.cause, BROKEN)


def answer_body(answer: Answer, model: str, info: ModelInfo) -> dict[str, Any]:
    """Make the object of --json.

    Args:
        answer: of the model.
        model: its name in the settings, for an `info` without a name.
        info: on the model.
    """
    place = {"model": info.name or model, "backend": info.backend or None, "device": info.device or None}
    return {**place, **answer_json(answer)}


def _loading(model: str, event: Loading) -> str:
    stage = f"loading {model}: {event.stage}"
    if not event.total:
        return stage
    if event.stage.endswith("download"):
        return f"{stage} {progress_of(event.done, event.total)}"
    return f"{stage} {event.done:,} of {event.total:,}"
