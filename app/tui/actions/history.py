"""The history inside the chat: what is said is kept, and /chats, /rename and /branch work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....backends.base import UserError
from ...chat.entries import Transcript

if TYPE_CHECKING:
    from ...history.chats import OpenedChat
    from ...history.recorder import Recorder
    from ..app import SpecchatApp

OFF = "This chat is not kept: start specchat without --no-history, and with history = true in the settings."


class Keeping:
    """Keeps a chat.

    Args:
        chat: the app.
        keep: whether it is to be kept.
    """

    def __init__(self, chat: SpecchatApp, keep: bool) -> None:
        self.chat, self.keep = chat, keep
        self.recorder: Recorder | None = None
        """Writes it down; there is none before the first frame, which need not wait for it (15 ms)."""

    def idle(self) -> None:
        """Take note a few times a second."""
        self._begin()
        self.note()

    def _begin(self) -> None:
        if self.keep and self.recorder is None:
            from ...history.recorder import Recorder

            self.recorder = Recorder()

    def close(self) -> list[str]:
        """Write down the last word, when the screen is gone already; what went wrong with it."""
        if self.chat.dialogue.transcript.entries:
            self._begin()
        if self.recorder is None:
            return []
        self.recorder.close(self.chat.dialogue)
        return [sentence for sentence, wrong in self.recorder.sentences() if wrong]

    def note(self) -> None:
        """Take note of what changed. Costs nothing where nothing did, and never waits."""
        if self.recorder is None:
            return
        self.recorder.note(self.chat.dialogue)
        for sentence, wrong in self.recorder.sentences():
            if wrong:
                self.chat.dialogue.notice(sentence, "warning")
                self.chat.chat_screen.refresh_dialogue()
            else:
                self.chat.tell(sentence)

    @property
    def current(self) -> int | None:
        """Number of the chat on the screen, if the history has it."""
        track = self.chat.dialogue.transcript.track
        return track.chat if track is not None else None

    def opened(self, transcript: Transcript) -> None:
        """A chat that came from a file is kept once something is added to it."""
        from ...history.writing import Track

        if transcript.track is None:
            transcript.track = Track(quiet=len(transcript.entries))

    def browse(self, query: str = "") -> None:
        """Show the list of chats.

        Args:
            query: what to search for to begin with.
        """
        from ..pickers.chats import ChatsScreen

        def chosen(opened: OpenedChat | None) -> None:
            if opened is not None:
                self.resume(opened)

        self.chat.push_screen(ChatsScreen(query), chosen)

    def resume(self, opened: OpenedChat) -> None:
        """Put a chat out of the history on the screen; what is said next goes on with it."""
        try:
            self._idle("open another chat")
        except UserError as error:
            self.chat.tell(str(error), "warning")
            return
        if opened.id == self.current:
            return
        from ...history.resume import go_on

        self.chat.show_chat(opened.transcript)
        go_on(self.chat, opened)
        self.chat.changed()
        self.chat.tell(welcome(opened, "" if self.chat.dialogue.info else self.chat.dialogue.model))

    def rename(self, title: str) -> None:
        """Give the chat on the screen a title.

        Raises:
            UserError: the title is empty, or nothing is kept.
        """
        from ...history.chats import clean_title

        recorder = self._on()
        title = clean_title(title)
        recorder.rename(self.chat.dialogue, title)
        self.chat.tell(f"This chat is now called {title}.")

    def branch(self, title: str = "") -> None:
        """Go on in a chat of its own that shares all of this one so far; this one stays in the list as it is.

        Raises:
            UserError: there is nothing to share yet, an answer is under way, or nothing is kept.
        """
        from ...history.chats import clean_title

        recorder = self._on()
        self._idle("branch the chat")
        before = self.chat.dialogue.transcript
        if not any(entry.text for entry in before.answers()):
            raise UserError("There is nothing to branch from yet: ask something first.")
        name = clean_title(title) if title.strip() else ""
        self.chat.show_chat(recorder.branch(self.chat.dialogue, name))
        self.chat.tell("This is a branch now: /chats has the chat as it was.")

    def _on(self) -> Recorder:
        self._begin()
        if self.recorder is None:
            raise UserError(OFF)
        if self.recorder.off:
            raise UserError("The history could not be opened, so this chat is not kept: the notice at its beginning says why.")
        return self.recorder

    def _idle(self, what: str) -> None:
        if self.chat.dialogue.busy or self.chat.dialogue.queued is not None:
            raise UserError(f"An answer is under way: stop it with esc, then {what}.")


def welcome(opened: OpenedChat, loading: str) -> str:
    """A sentence on a chat that was opened.

    Args:
        opened: the chat.
        loading: its model, where that is being loaded.
    """
    from ...text.cells import one_line

    said = f"Opened {opened.title}." + (f" Its model is loaded: {one_line(loading)}." if loading else "")
    return said + (f" {damage(opened)}" if opened.damaged else "")


def remarks(opened: OpenedChat, model: str) -> list[str]:
    """What there is to say of a chat that specchat begins with.

    Args:
        opened: the chat.
        model: what is being loaded, as the user named it.
    """
    from ...text.cells import one_line

    out = [damage(opened)] if opened.damaged else []
    asked = opened.model.get("asked")
    if isinstance(asked, str) and asked and asked != model:
        out.append(f"This chat was with {one_line(asked)}; {one_line(model)} goes on, unless you name the other with /model.")
    return out


def damage(opened: OpenedChat) -> str:
    """A sentence on what is left of a chat whose steps are damaged."""
    some = "one answer" if opened.damaged == 1 else f"{opened.damaged} answers"
    return f"Only the text of {some} in this chat is left, without colours and figures: the history is damaged there."


def find(text: str | None) -> OpenedChat | str:
    """The chat that the command line asks for, or what the list of chats is to be searched for.

    Args:
        text: a title, a part of one, or a number; empty for the whole list, None for the last chat.

    Raises:
        UserError: there is no such chat, or the history cannot be read.
    """
    from ...history.chats import reading

    with reading() as chats:
        if text is None:
            return chats.open(chats.latest().id)
        if not text.strip():
            chats.latest()  # raises if there is none
            return ""
        if not (some := chats.titled(text)):
            if chats.search(text, 1):
                return text
            raise UserError(f"No chat has {text!r} in it: `specchat --resume` lists all of them.")
        return chats.open(some[0].id) if len(some) == 1 else text
