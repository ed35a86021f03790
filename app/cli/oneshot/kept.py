"""The chat that an answer of `specchat run` belongs to: what it goes on from, and its place in the history."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ....errors import UserError
from ...chat.about import About
from ...chat.entries import Answer, Prompt
from ...chat.transcript import Transcript
from ...settings.fields import Settings

if TYPE_CHECKING:
    from ...history.recorder import Recorder

CLOSE_SECONDS = 10.0
"""Longest wait for the disk at the end: a run has nothing else to do, and another specchat may hold the file for a moment."""


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
        return [sentence for sentence, _ in recorder.sentences()]


def opened(chat: str | None, settings: Settings, given: Collection[str]) -> tuple[Transcript, Settings, list[str]]:
    """The chat to go on with, what it goes on with (its own model, method and settings), and what there is to say of it.

    `chat` is a number, a title or a part of one, None the last chat. What the command line asks for, `given`, goes before the
    chat's own settings.

    Raises:
        UserError: there is no such chat, there are several, or the history cannot be read.
    """
    from ...history.chats import reading
    from ...history.resume import continued, one_chat, remarks

    with reading() as chats:
        if chat is not None and not chat.strip():
            raise UserError("--resume takes a chat's number or title: `specchat chats list` shows them.")
        found = chats.open((chats.latest() if chat is None else one_chat(chats, chat)).id)
    settings = continued(settings, found, dict.fromkeys(given))
    return found.transcript, settings, remarks(found, settings.model)
