"""`specchat run`: one answer, from the command line's options to an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ....engine.client import EngineClient
from ....engine.messages import Event, Failed, Finished, Loaded, Loading, PiecesOf, Prefilling, Started, Steps
from ...chat.answer import Answer
from ...terminal.output import Notes, stdout
from ..interrupts import CLOSED, POLL_SECONDS, Interrupts
from .output import Output
from .request import Request, attached, check, prompt_of

if TYPE_CHECKING:
    from .kept import KeptRun

ANSWERED, BROKEN, USER = 0, 1, 2
"""Exit codes. An answer that a signal ended has 128 and the signal's number, as shells give it."""


def run_once(request: Request) -> int:
    """Answer one prompt; return the exit code.

    Raises:
        UserError: something in the request can be mended.
    """
    check(request)
    stream = stdout()
    output, notes = Output(stream, request.color), Notes(request.color)
    text, attachments = attached(request, notes)
    chat, request = _chat(request, notes)
    with EngineClient() as client:
        # Sent before standard input is read, so that the model loads meanwhile.
        load = client.load(request.settings.model, **request.settings.load_options())
        prompt = prompt_of(request, text, attachments, notes)
        return _answered(request, prompt, chat, client, load, output, notes)


def _answered(
    request: Request,
    prompt: str,
    chat: KeptRun | None,
    client: EngineClient,
    load: int,
    output: Output,
    notes: Notes,
) -> int:
    """Ask the engine and print; return the exit code."""
    answer = Answer(request.settings.model, request.settings.method)
    with Interrupts(client) as interrupts:
        try:
            return _Run(request, prompt, client, interrupts, answer, output, notes, chat).to_the_end(load)
        except BrokenPipeError:
            # The interpreter flushes standard output once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return CLOSED
        except OSError as error:
            notes.sentence(f"The answer cannot be written ({error.strerror}).")
            return BROKEN
        finally:
            if chat is not None:
                for sentence in chat.close("cancelled"):
                    notes.sentence(sentence)


def _chat(request: Request, notes: Notes) -> tuple[KeptRun | None, Request]:
    """The chat that the answer belongs to, if to any; and the request with what that chat was asked with.

    Raises:
        UserError: there is no such chat.
    """
    keep = request.go_on and request.settings.history if request.keep is None else request.keep
    if not (request.go_on or keep):
        return None, request
    from ...chat.transcript import Transcript
    from .kept import KeptRun, opened

    settings = request.settings
    if not request.go_on:
        return KeptRun(settings, Transcript(system=settings.system), write=keep), request
    transcript, settings, sentences = opened(request.chat, settings, request.explicit)
    for sentence in sentences:
        notes.sentence(sentence)
    if "system" in request.explicit:
        transcript.system = settings.system
    return KeptRun(settings, transcript, write=keep), replace(request, settings=settings)


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
        chat: KeptRun | None,
    ) -> None:
        self.request = request
        self.prompt = prompt
        self.client = client
        self.interrupts = interrupts
        self.answer = answer
        self.output = output
        self.notes = notes
        self.chat = chat
        self.id = 0
        """Of the answer, once it is asked for."""
        self.cancelling = False
        self.more: dict[str, Any] = {}
        """Of the object of --json, for this request alone."""

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
        if self.chat is not None:
            self.chat.take(event)
        match event:
            case Loading():
                self.notes.progress(_loading(self.answer.model, event))
            case Loaded() if event.id == load:
                self._loaded(event)
            case Started():
                self.answer.start(event)
                self._left_out(event)
            case Prefilling():
                self.notes.progress(f"reading the prompt: {event.done:,} of {event.total:,} tokens")
            case Steps():
                self.notes.clear()
                self.answer.steps += event.steps
                if self.request.as_lines:
                    for step in event.steps:
                        self._line(step.text, step.tokens, step.drafted, step.accepted, step.method)
                elif self.request.plain:
                    self.output.write(event.steps)
            case Finished():
                self.answer.prefill_seconds = event.prefill_seconds
                self._tail(event.tail)
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
        wish: dict[str, Any] = {
            "method": method,
            "settings": chosen,
            "sampling": asdict(settings.sampling),
            "accept": settings.accept,
            "max_tokens": settings.max_tokens,
            "stop": list(settings.stop),
        }
        messages = [{"role": "system", "content": settings.system or ""}, {"role": "user", "content": self.prompt}]
        asked: dict[str, Any]
        if self.chat is not None:
            self.chat.loaded(event.info)
            if self.chat.write:  # the trees of a chat that is opened again show what single tokens say
                self.client.send(PiecesOf(self.client.next_id()))
            asked = {"messages": self.chat.ask(self.prompt, {"model": settings.model, **wish})}
        elif self.request.alone:
            asked = {"prompt": self.prompt, "raw": True, "suffix": self.request.suffix}
        else:
            asked = {"messages": messages if settings.system else messages[1:]}
        self.id = self.client.generate(**asked, **wish, stop_regex=list(self.request.stop_regex))

    def _left_out(self, event: Started) -> None:
        """Say what of a text with a gap did not fit."""
        before, after = event.dropped or (0, 0)
        parts = [(before, "at the beginning of the prompt"), (after, "at the end of the suffix")]
        if said := " and ".join(f"{count:,} tokens {where}" for count, where in parts if count):
            context = self.answer.info.get("context", 0)
            self.notes.sentence(
                f"The context holds {context:,} tokens, so {said} were left out: shorten them, or load the model with a larger "
                "context (--context)."
            )
        if self.request.suffix is not None:
            self.more["left_out"] = {"prompt": before, "suffix": after}

    def _end(self, reason: str) -> int:
        """The answer is over; what there is of it is shown."""
        self.answer.finish_reason = reason
        self.notes.clear()
        number = None
        if self.chat is not None:
            for sentence in self.chat.close(reason):
                self.notes.sentence(sentence)
            number = self.chat.number
        if not self.request.plain:
            kept = {"chat": number} if self.chat is not None else {}
            self._data(self.answer.as_dict() | self.more | kept)
        self.output.end_line()
        if self.answer.steps and self.request.plain and self.output.is_terminal:
            self.notes.figures(self.answer.figures() + (f" · chat {number}" if number is not None else ""))
        return {"cancelled": self.interrupts.code, "error": BROKEN}.get(reason, ANSWERED)

    def _tail(self, text: str) -> None:
        """Text that had been held back to the end."""
        self.answer.tail = text
        if self.request.plain:
            self.output.tail(text)
        elif self.request.as_lines and text:
            self._line(text, [], 0, 0, self.answer.method)

    def _line(self, text: str, tokens: Sequence[int], drafted: int, accepted: int, method: str) -> None:
        """A line of --jsonl."""
        step = {"text": text, "token_ids": list(tokens), "drafted": drafted, "accepted": accepted, "method": method}
        self._data(step)

    def _data(self, data: Mapping[str, Any]) -> None:
        # On a terminal as ASCII: JSON leaves the characters that reorder a line unescaped.
        self.output.line(json.dumps(data, ensure_ascii=self.output.is_terminal))

    def _failed(self, event: Failed) -> int:
        self.notes.clear()
        if self.answer.steps:
            self._tail(event.tail)
            self._end("error")
        # The client tells a chat how to go on; here there is nothing to send again.
        self.notes.sentence(event.sentence.partition(" Your chat is kept")[0])
        if self.request.go_on and not self.id and event.cause == "user" and "model" not in self.request.explicit:
            self.notes.sentence("That is the model that the chat was with: name another one with --model.")
        return {"user": USER, "cancelled": self.interrupts.code}.get(event.cause, BROKEN)


def _loading(model: str, event: Loading) -> str:
    """One line on how far a load is."""
    what = f"loading {model}: {event.stage}"
    if not event.total:
        return what
    if event.stage.endswith("download"):
        return f"{what} {event.done / 1e6:,.0f} of {event.total / 1e6:,.0f} MB"
    return f"{what} {event.done:,} of {event.total:,}"
