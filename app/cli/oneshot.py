"""`specchat run`: one answer, from the command line's options to an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ...engine.catalog import get, parse_params
from ...engine.client import EngineClient
from ...engine.messages import (
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
from ...engine.options import CONSTRAINTS, ModelInfo
from ...errors import UserError, counted
from ...plain_file import as_text, user_path
from ..attach.attachments import Attachment, attach, compose, decode, read
from ..chat.about import About, generate_fields, known_word
from ..chat.answer_json import answer_json
from ..chat.entries import Answer, Prompt, cut_sentence, loop_sentence
from ..chat.methods import PLAIN, first_method, known_methods
from ..chat.runs import Pieces, Run, join_text
from ..chat.transcript import Transcript
from ..render.verdict import verdict_text
from ..settings.fields import Settings
from ..settings.precedence import layers_of, recommended
from ..terminal.ansi import DIM, RESET, Depth, colour_depth, run_colour
from ..terminal.output import Notes, stdout
from ..terminal.piped import is_piped, read_all
from ..text.amounts import progress_of
from ..text.cells import sanitise
from ..theming.colouring import Colouring, ink_name, legend, parse_colouring
from .exit_codes import ANSWERED, BROKEN, CLOSED, USER
from .interrupts import POLL_SECONDS, Interrupts
from .options import FLAGS

if TYPE_CHECKING:
    from ..history.recorder import Recorder

CLOSE_SECONDS = 10.0
"""Longest wait for the disk at the end: a run has nothing else to do, and another specchat may lock the file for a moment."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of `specchat run`."""

    prompt: str
    """The text, or `-` for standard input. Its `@path`s attach files."""
    settings: Settings
    explicit: frozenset[str] = frozenset()
    """Dotted keys of the settings on the command line."""
    method_settings: Mapping[str, str] = field(default_factory=dict)
    """The values of `--set`, as typed."""
    raw: bool = False
    """Send the prompt as it is: an @ in it is an @, and piped input is not attached."""
    as_json: bool = False
    as_lines: bool = False
    """Print a JSON object per step, then that of `as_json`."""
    last: bool = False
    """Continue the last chat."""
    chat: str | None = None
    """Continue this chat."""
    keep: bool = False
    """Save the answer in the history as a new chat."""
    files: tuple[Path, ...] = ()
    """Attached to the prompt."""

    @property
    def continues(self) -> bool:
        return self.last or self.chat is not None

    @property
    def in_chat(self) -> bool:
        return self.continues or self.keep

    @property
    def plain(self) -> bool:
        """Whether the answer is printed as text."""
        return not (self.as_json or self.as_lines)

    def method(self, unavailable: Collection[str] = (), info: ModelInfo | None = None) -> str:
        """Return the decoding method: the one in the settings, else the one that a chat with this model starts with.

        Args:
            unavailable: methods that the model cannot run.
            info: the loaded model, once it is known.
        """
        settings = self.settings
        return settings.method or first_method(
            known_methods(), unavailable, settings.model, settings.draft_model, info or ModelInfo()
        )

    def check(self) -> None:
        """Check it as far as possible without the engine, whose start takes seconds.

        Raises:
            UserError: something is wrong with it.
        """
        parse_params(get(self.method()), dict(self.method_settings))
        if len(constraints := [FLAGS[key] for key in CONSTRAINTS if key in self.explicit]) > 1:
            raise UserError(f"{' and '.join(constraints)} each say what the answer must look like. Use only one of them.")
        if self.prompt != "-" and not self.prompt.strip():
            raise UserError("The prompt is empty. Type something to answer, or - to read it from standard input.")
        if self.last + (self.chat is not None) + self.keep > 1:
            raise UserError("--continue, --resume and --keep each choose the chat of the answer. Use only one of them.")
        if self.raw and (self.continues or self.keep or self.files or "system" in self.explicit):
            raise UserError("--raw sends the prompt as it is. Leave out --system, --file, --continue, --resume and --keep.")


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code."""
    request.check()
    output = AnswerOutput(stdout(), parse_colouring(request.settings.colours))
    notes = Notes(output.end_line if output.is_terminal else None)
    text = request.prompt
    attachments: list[Attachment] = []
    if not request.raw:  # an @ in code is code
        text, named = attach(request.prompt)
        attachments = [*(read(user_path(path), str(path)) for path in request.files), *named]
    for attachment in attachments:
        if attachment.notice:
            notes.sentence(attachment.notice)
    transcript = Transcript(system=request.settings.system)
    if request.continues:
        transcript, request = open_chat(request, notes)
    with EngineClient() as client:
        # Sent before standard input is read, so that the model loads meanwhile.
        load = client.load(request.settings.selection())
        prompt = compose_prompt(request, text, attachments, notes)
        with Interrupts(client) as interrupts:
            run = _Run(
                request=request,
                prompt=prompt,
                client=client,
                interrupts=interrupts,
                output=output,
                notes=notes,
                transcript=transcript,
                answer=Answer(request.method(), ""),
            )
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


def compose_prompt(request: Request, text: str, attachments: list[Attachment], notes: Notes) -> str:
    """Compose the message to send: the attachments, piped input, the prompt.

    The newline at the end of a pipe's last line is not part of a chat message.
    """
    if request.prompt != "-":
        if not request.raw and is_piped():
            data = read_all(sys.stdin.buffer)
            piped, notice = decode(data, "The piped input")
            if notice:
                notes.sentence(notice)
            if piped.strip():
                attachments = [*attachments, Attachment("standard input", piped, len(data), file=False)]
        return compose(text, attachments)
    text = as_text(read_all(sys.stdin.buffer)) if sys.stdin is not None else ""
    if not text.strip():
        raise UserError("The prompt on standard input is empty. Pipe some text in, or give the prompt itself instead of -.")
    return compose(text if request.raw else text.rstrip("\n"), attachments)


def open_chat(request: Request, notes: Notes) -> tuple[Transcript, Request]:
    """Open the chat that a request continues; return its transcript, and the request with the chat's own model, method and
    settings, but for those on the command line.

    Raises:
        UserError: there is no such chat, there are several, or the history cannot be read.
    """
    from ..history.chats import reading, resume_settings

    with reading() as chats:
        if request.chat is not None and not request.chat.strip():
            raise UserError("--resume takes a chat's number or title: `specchat chats list` shows them.")
        opened = chats.open(chats.find(request.chat).id)
    settings = resume_settings(request.settings, opened, request.explicit)
    if "system" in request.explicit:
        opened.transcript.system = request.settings.system
    return opened.transcript, replace(request, settings=settings)


class AnswerOutput:
    """Output of the answer's text: on a terminal sanitised and coloured as in the chat, in a pipe as it is."""

    def __init__(self, stream: TextIO, colouring: Colouring = "length") -> None:
        self._stream = stream
        self._colouring = colouring
        self.is_terminal = stream.isatty()
        self.depth: Depth = colour_depth(self.is_terminal)
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

    def line(self, data: Mapping[str, object]) -> None:
        """Write a line of JSON. On a terminal as ASCII: JSON leaves the characters that reorder a line unescaped."""
        self._put([json.dumps(data, ensure_ascii=self.is_terminal), "\n"])

    def end_line(self) -> None:
        """End the last line if the text did not."""
        if self._last != "\n":
            self._put(["\n"])
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


@dataclass(slots=True, kw_only=True)
class _Run:
    """The turning of the events of one load and one answer into output. The history saves it as a chat that is open."""

    request: Request
    prompt: str
    client: EngineClient
    interrupts: Interrupts
    output: AnswerOutput
    notes: Notes
    transcript: Transcript
    answer: Answer
    id: int = 0
    """Id of the answer's command; 0 before that is sent."""
    info: ModelInfo = field(default_factory=ModelInfo)
    """The model; without a name until it is loaded."""
    messages: list[dict[str, str]] | None = None
    """The messages of the answer's command; None for a prompt without a chat."""
    cancelling: bool = False
    recorder: Recorder | None = None
    _about: About | None = None

    @property
    def saves(self) -> bool:
        """Whether the answer is saved in the history."""
        return self.request.keep or (self.request.continues and self.request.settings.history)

    def about(self) -> About:
        """Return the model, method and settings of the question."""
        assert self._about is not None
        return self._about

    def to_the_end(self, load: int) -> int:
        """Follow the events to the end of the answer; return the exit code."""
        while True:
            event = self.client.wait(POLL_SECONDS)
            if self.interrupts.signal and not self.cancelling:
                self.cancelling = True
                if not self.id:
                    return self._end("cancelled")
                self.client.cancel(self.id)
            if event is not None and (code := self._take(event, load)) is not None:
                return code

    def _take(self, event: Event, load: int) -> int | None:
        """Take an event in; return the exit code at the end of the answer."""
        match event:
            case Loading():
                stage = f"loading {self.request.settings.model}: {event.stage}"
                counts = progress_of if event.stage.endswith("download") else "{:,} of {:,}".format
                self.notes.progress(f"{stage} {counts(event.done, event.total)}" if event.total else stage)
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
        if self.recorder is not None:
            self.recorder.note(self)
        return None

    def _show(self, event: Event, before: int) -> None:
        """Show the news of an event; `before` is the number of runs that were shown earlier."""
        runs = self.answer.runs[before:]
        match event:
            case Prefilling():
                self.notes.progress(f"reading the prompt: {event.done:,} of {counted(event.total, 'token')}")
            case Steps():
                self.notes.clear()
        if self.request.plain:
            with_thoughts = self.notes.terminal and self.request.settings.thoughts != "hidden"
            self.output.write(runs, self.notes if with_thoughts else None)
        elif self.request.as_lines:
            # Text that had been held back to the end has no step.
            steps = event.steps if isinstance(event, Steps) else [StepRecord(self.answer.method, []) for _ in runs]
            for step, run in zip(steps, runs, strict=True):
                counts = {"drafted": step.drafted, "accepted": step.accepted, "method": step.method}
                thought = {"thought": join_text([run], thought=True)} if run.spans else {}
                self.output.line({"text": join_text([run]), **thought, "token_ids": step.tokens, **counts})

    def _loaded(self, event: Loaded) -> None:
        """Ask the loaded model for the answer."""
        request = self.request
        layers = replace(layers_of(request.settings), makers=recommended(event.model))
        settings = replace(request.settings, sampling=layers.settings().sampling)
        answer = self.answer
        self.info = event.model
        for note in event.model.notes:
            self.notes.sentence(note)
        server = event.model.server
        answer.method = method = server.method if server else request.method(event.unavailable, event.model)
        reason = event.unavailable.get(method)
        if server and "method" in request.explicit and settings.method not in (method, PLAIN):
            chosen = request.method()
            self.notes.sentence(f"The method {chosen} is not used: {event.unavailable.get(chosen, '')}")
        if reason and "method" not in request.explicit:
            self.notes.sentence(f"The method {method} is not available here, so greedy answers: {reason}")
            answer.method = "greedy"
        # A program gets the model's own text unless it asks for an end of endless repetition.
        stop_loops = settings.stop_loops and (request.plain or "stop_loops" in request.explicit)
        options = replace(settings, stop_loops=stop_loops)
        about = About(settings.selection(), event.model, answer.method, settings.methods, options)
        if "think" in request.explicit and (word := settings.think):
            known_word(event.model, word)
        answer.asked = about.request()
        if answer.method == method:
            answer.asked["settings"] |= request.method_settings
        self._about = about
        if self.saves:
            from ..history.recorder import Recorder

            self.recorder = Recorder()
            # The trees of a chat that is opened again show the texts of tokens.
            self.client.send(ReadPieces(self.client.next_id()))
        self.transcript.entries.append(Prompt(self.prompt))
        self.messages = None if request.raw else self.transcript.messages()
        self.transcript.entries.append(answer)
        self.id = self.client.generate(
            self.prompt if request.raw else None,
            messages=self.messages,
            raw=request.raw,
            **generate_fields(answer.asked),
            compare=self.request.in_chat or not request.plain or self.output.is_terminal,  # `why` asks later
        )

    def _end(self, reason: str) -> int:
        """End the answer and print its figures; return the exit code."""
        self.notes.clear()
        self.close(reason)
        answer = self.answer
        figures = answer.figures
        track = self.transcript.track
        number = track.chat if self.saves and track is not None else None
        if not self.request.plain:
            question = {"prompt": self.prompt} if self.messages is None else {"messages": self.messages}
            body = {**answer_body(answer, self.request.settings.model, self.info), **question}
            self.output.line({**body, "chat": number} if self.request.in_chat else body)
        self.output.end_line()
        if len(answer.log) and self.request.plain and self.output.is_terminal:
            self.notes.figures(verdict_text(answer) + (f" · chat {number}" if number is not None else ""))
            if scale := self.output.legend(self.notes.depth):
                self.notes.painted(scale)
        elif self.request.plain and figures.doubt:
            self.notes.sentence(figures.doubt)
        if answer.thinking and self.request.plain and not self.output.is_terminal:
            advice = "Give it --think-budget, or raise --max-tokens" if reason == "length" else "Ask again, or with --think off"
            self.notes.sentence(f"There is no answer: it ended in the middle of its thought. {advice}.")
        if figures.valid is False and reason not in ("cancelled", "error"):
            self.notes.sentence(cut_sentence(answer, "--max-tokens"))
            return USER
        return {"cancelled": self.interrupts.code, "error": BROKEN}.get(reason, ANSWERED)

    def close(self, reason: str) -> None:
        """Close the answer, with this reason if the engine has given none, and save it. A second call does nothing."""
        if not self.answer.done:
            self.answer.finish(reason)
        recorder = self.recorder
        self.recorder = None
        if recorder is not None:
            recorder.close(self, CLOSE_SECONDS)
            for sentence, _ in recorder.take_sentences():
                self.notes.sentence(sentence)

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
        if self.request.continues and not self.id and event.cause == "user" and "model" not in self.request.explicit:
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
