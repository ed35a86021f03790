"""The chat that an answer of `specchat run` belongs to: what it goes on from, and its place in the history."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ....engine.messages import Command, Event, Failed, Finished, PieceTable, Started, Steps
from ....errors import UserError
from ...chat.dialogue import Dialogue
from ...chat.entries import Answer, Prompt
from ...chat.pieces import Pieces
from ...chat.transcript import Transcript
from ...settings.fields import Settings

if TYPE_CHECKING:
    from ...history.recorder import Recorder

CLOSE_SECONDS = 10.0
"""Longest wait for the disk at the end: a run has nothing else to do, and another specchat may hold the file for a moment."""


class _Nobody:
    """In the place of the engine's client: a run talks to the engine itself."""

    def drain(self) -> list[Event]:
        return []

    def send(self, command: Command) -> None:
        pass

    def next_id(self) -> int:
        return 0

    def load(self, model: str, **options: Any) -> int:
        return 0


class KeptRun:
    """A chat that goes on, or a new one.

    Args:
        settings: in force.
        transcript: the chat so far.
        write: save it as it goes on.
    """

    def __init__(self, settings: Settings, transcript: Transcript, *, write: bool) -> None:
        self.dialogue = Dialogue(
            _Nobody(),
            settings.model,
            {},
            settings.method,
            {name: dict(table) for name, table in settings.methods.items()},
            settings.sampling,
            settings.accept,
            settings.max_tokens,
            settings.stop,
            settings.load_options(),
            transcript=transcript,
        )
        self.write = write
        self._answer: Answer | None = None
        self._recorder: Recorder | None = None

    @property
    def number(self) -> int | None:
        """Of the chat in the history, once it is closed; None if it is not kept."""
        track = self.dialogue.transcript.track
        return track.chat if self.write and track is not None else None

    def loaded(self, info: dict[str, Any]) -> None:
        """The model is there."""
        self.dialogue.info = info

    def ask(self, prompt: str, asked: dict[str, Any]) -> list[dict[str, str]]:
        """Add a prompt and its answer to come; the messages for the engine.

        Args:
            prompt: as it is sent.
            asked: with what (`Answer.asked`).
        """
        transcript = self.dialogue.transcript
        transcript.entries.append(Prompt(prompt))
        messages = transcript.messages()
        self._answer = Answer(asked["method"], "", asked=asked)
        transcript.entries.append(self._answer)
        if self.write:
            from ...history.recorder import Recorder

            self._recorder = Recorder()
        return messages

    def take(self, event: Event) -> None:
        """Note what the engine says."""
        answer = self._answer
        match event:
            case PieceTable():
                self.dialogue.pieces = Pieces(event.pieces)
                if answer is not None:
                    answer.pieces = self.dialogue.pieces
            case Started() if answer is not None:
                self.dialogue.method = answer.method = event.method
                answer.label, answer.pieces = event.label, self.dialogue.pieces
                answer.figures.prompt_tokens, answer.figures.reused = event.prompt_tokens, event.reused
            case Steps() if answer is not None:
                for step in event.steps:
                    answer.add(step)
            case Finished() if answer is not None:
                answer.finish(event.reason, event.tail)
                answer.figures.prefill_seconds = event.prefill_seconds
                if event.busy_seconds > event.prefill_seconds:
                    answer.figures.decode_seconds = event.busy_seconds - event.prefill_seconds
            case Failed() if answer is not None and event.tail:
                answer.finish("error", event.tail)
        if self._recorder is not None and answer is not None:
            self._recorder.note(self.dialogue)

    def close(self, reason: str) -> list[str]:
        """Write down the end; sentences on what went wrong, or was done to the history. A second call does nothing.

        Args:
            reason: why the answer ended, where the engine has not said so.
        """
        if self._answer is not None and not self._answer.done:
            self._answer.finish(reason)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return []
        recorder.close(self.dialogue, CLOSE_SECONDS)
        return [sentence for sentence, _ in recorder.sentences()]


def opened(chat: str | None, settings: Settings, given: Collection[str]) -> tuple[Transcript, Settings, list[str]]:
    """The chat to go on with, what it goes on with (its own model, method and settings), and what there is to say of it.

    Args:
        chat: a number, a title or a part of one; None for the last chat.
        settings: in force.
        given: settings that the command line asks for; they go before the chat's own.

    Raises:
        UserError: there is no such chat, there are several, or the history cannot be read.
    """
    from ...history.chats import reading
    from ...history.resume import continued, one_chat, remarks

    with reading() as chats:
        if chat is not None and not chat.strip():
            raise UserError("--resume takes a chat's number or title: `specchat history list` shows them.")
        found = chats.open((chats.latest() if chat is None else one_chat(chats, chat)).id)
    settings = continued(settings, found, dict.fromkeys(given))
    return found.transcript, settings, remarks(found, settings.model)
