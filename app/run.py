"""`specchat run`: one answer, from the command line's options to an exit code."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Self

from ..backends.base import UserError
from ..engine.catalog import get, parse_params
from ..engine.client import EngineClient
from ..engine.messages import Event, Failed, Finished, Loaded, Loading, Prefilling, Started, Steps
from .answer import Answer
from .attachments import Attachment, attach, compose, decoded, read_all
from .output import Notes, Output, stdout
from .settings import Settings

ANSWERED, BROKEN, USER, CANCELLED = 0, 1, 2, 130
"""Exit codes; 130 is what shells give to Ctrl-C."""

CLOSED = 141
"""Exit code where nobody reads our output any more: what shells give to SIGPIPE."""

POLL_SECONDS = 0.1
"""How often to look for Ctrl-C while no event comes."""


@dataclass(frozen=True, slots=True)
class Request:
    """What `specchat run` was asked to do."""

    prompt: str
    """The text, or `-` for standard input. Its `@path`s attach files."""
    settings: Settings
    explicit: frozenset[str] = frozenset()
    """The settings that came from the command line."""
    method_settings: Mapping[str, str] = field(default_factory=dict)
    """Of `--set`, as typed."""
    stop_regex: tuple[str, ...] = ()
    raw: bool = False
    as_json: bool = False
    as_lines: bool = False
    """JSON: an object a step, then the whole as for `as_json`."""
    files: tuple[Path, ...] = ()
    """Attached to the prompt."""
    color: str = "auto"

    @property
    def plain(self) -> bool:
        """Whether the answer is printed as text."""
        return not (self.as_json or self.as_lines)


class Interrupts:
    """Ctrl-C: the first press asks for an end, the second takes it, the engine with it."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self.asked = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:
            self.asked = True
            return
        if pid := self._client.pid:
            os.kill(pid, signal.SIGKILL)
        os._exit(CANCELLED)


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code.

    Raises:
        UserError: something in the request can be mended.
    """
    _check(request)
    stream = stdout()
    output, notes = Output(stream, request.color), Notes(request.color)
    settings = request.settings
    answer = Answer(settings.model, settings.method)
    text, attachments = _attached(request, notes)
    with EngineClient() as client:
        # Sent before standard input is read, so that the model loads meanwhile.
        load = client.load(settings.model, **settings.load_options())
        prompt = _prompt(request, text, attachments, notes)
        with Interrupts(client) as interrupts:
            try:
                return _Run(request, prompt, client, interrupts, answer, output, notes).to_the_end(load)
            except BrokenPipeError:
                # The interpreter flushes standard output once more when it ends.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                return CLOSED
            except OSError as error:
                notes.sentence(f"The answer cannot be written ({error.strerror}).")
                return BROKEN


def _check(request: Request) -> None:
    """Refuse what can be seen to be wrong without the engine: its start takes seconds."""
    settings = request.settings
    parse_params(get(settings.method), dict(request.method_settings))
    if request.prompt != "-" and not request.prompt.strip():
        raise UserError("The prompt is empty: type something to answer, or - to read it from standard input.")
    if request.raw and "system" in request.explicit:
        raise UserError("--raw sends the prompt as it is, without a system prompt: leave out --raw or --system.")


def _attached(request: Request, notes: Notes) -> tuple[str, list[Attachment]]:
    """The prompt, and the files that go with it: of -f first, then those it names."""
    if request.raw:
        if request.files:
            raise UserError("--raw sends the prompt as it is, without files: leave out --raw or -f.")
        return request.prompt, []  # an @ in code is code
    text, named = attach(request.prompt)
    given = [found for path in request.files for found in read_all(path.expanduser(), str(path))]
    attachments = [*given, *named]
    for attachment in attachments:
        if attachment.notice:
            notes.sentence(attachment.notice)
    return text, attachments


def _prompt(request: Request, text: str, attachments: list[Attachment], notes: Notes) -> str:
    """What is sent: the attachments, what is piped in beside a prompt, the prompt.

    The newline at the end of a pipe's last line is no part of a chat message.
    """
    if request.prompt != "-":
        if not request.raw and (piped := _piped(notes)) is not None:
            attachments = [*attachments, piped]
        return compose(text, attachments)
    if sys.stdin is None:
        raise UserError("There is no standard input to read the prompt from: give the prompt itself instead of -.")
    text = sys.stdin.buffer.read().decode("utf-8", errors="replace")
    if not text.strip():
        raise UserError("The prompt on standard input is empty: pipe some text in, or give the prompt itself instead of -.")
    return compose(text if request.raw else text.rstrip("\n"), attachments)


def _piped(notes: Notes) -> Attachment | None:
    """What a pipe or a file brings on standard input; None for a terminal, /dev/null, or nothing in it."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return None
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return None
    data = sys.stdin.buffer.read()
    text, notice = decoded(data, "What was piped in")
    if notice:
        notes.sentence(notice)
    return Attachment("standard input", text, len(data), file=False) if text.strip() else None


class _Run:
    """The events of one load and one answer, turned into output."""

    def __init__(
        self,
        request: Request,
        prompt: str,
        client: EngineClient,
        interrupts: Interrupts,
        answer: Answer,
        output: Output,
        notes: Notes,
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.client = client
        self.interrupts = interrupts
        self.answer = answer
        self.output = output
        self.notes = notes
        self.id = 0
        """Of the answer, once it is asked for."""
        self.cancelling = False

    def to_the_end(self, load: int) -> int:
        """Follow the events until one ends it; return the exit code."""
        while True:
            event = self.client.wait(POLL_SECONDS)
            if self.interrupts.asked and not self.cancelling:
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
                self.notes.progress(_loading(self.answer.model, event))
            case Loaded() if event.id == load:
                self._loaded(event)
            case Started():
                self.answer.start(event)
            case Prefilling():
                self.notes.progress(f"reading the prompt: {event.done:,} of {event.total:,} tokens")
            case Steps():
                self.notes.clear()
                self.answer.steps += event.steps
                if self.request.as_lines:
                    for step in event.steps:
                        self._data({"text": step.text, "token_ids": list(step.tokens), "drafted": step.drafted})
                elif self.request.plain:
                    self.output.write((step.text, step.carried) for step in event.steps)
            case Finished():
                self.answer.finish(event)
                if self.request.plain:
                    self.output.tail(event.tail)
                return self._end(event.reason)
            case Failed() if event.id in (load, self.id) or event.cause == "died":
                return self._failed(event)
        return None

    def _loaded(self, event: Loaded) -> None:
        """Ask for the answer."""
        settings = self.request.settings
        self.answer.info = event.info
        for note in event.info.get("notes", ()):
            self.notes.sentence(note)
        reason = event.unavailable.get(settings.method)
        if reason and "method" not in self.request.explicit:
            self.notes.sentence(f"Method {settings.method} is not available here, so greedy answers: {reason}")
            self.answer.method = "greedy"
        method = self.answer.method
        chosen = dict(settings.methods.get(method, {}))
        if method == settings.method:
            chosen |= self.request.method_settings
        messages = [{"role": "system", "content": settings.system or ""}, {"role": "user", "content": self.prompt}]
        asked: dict[str, Any]
        if self.request.raw:
            asked = {"prompt": self.prompt, "raw": True}
        else:
            asked = {"messages": messages if settings.system else messages[1:]}
        self.id = self.client.generate(
            **asked,
            method=method,
            settings=chosen,
            sampling=asdict(settings.sampling),
            accept=settings.accept,
            max_tokens=settings.max_tokens,
            stop=list(settings.stop),
            stop_regex=list(self.request.stop_regex),
        )

    def _end(self, reason: str) -> int:
        """The answer is over; what there is of it is shown."""
        self.answer.finish_reason = reason
        self.notes.clear()
        if not self.request.plain:
            self._data(self.answer.as_dict())
        self.output.end_line()
        if self.answer.steps and self.request.plain and self.output.is_terminal:
            self.notes.figures(self.answer.figures())
        return {"cancelled": CANCELLED, "error": BROKEN}.get(reason, ANSWERED)

    def _data(self, data: Mapping[str, Any]) -> None:
        # On a terminal as ASCII: JSON leaves the characters that reorder a line unescaped.
        self.output.line(json.dumps(data, ensure_ascii=self.output.is_terminal))

    def _failed(self, event: Failed) -> int:
        self.notes.clear()
        if self.answer.steps:
            self._end("error")
        # The client tells a chat how to go on; here there is nothing to send again.
        self.notes.sentence(event.sentence.partition(" Your chat is kept")[0])
        return {"user": USER, "cancelled": CANCELLED}.get(event.cause, BROKEN)


def _loading(model: str, event: Loading) -> str:
    """One line on how far a load is."""
    what = f"loading {model}: {event.stage}"
    if not event.total:
        return what
    if event.stage.endswith("download"):
        return f"{what} {event.done / 1e6:,.0f} of {event.total / 1e6:,.0f} MB"
    return f"{what} {event.done:,} of {event.total:,}"
