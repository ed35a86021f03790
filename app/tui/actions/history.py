"""The history inside the chat: what is said is kept, and /chats, /rename and /branch work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import UserError
from ...chat.transcript import Transcript
from ...history.resume import continued, own_model, welcome
from ...history.writing import LOADED_WITH
from ...settings.fields import Settings

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

        self.chat.push_screen(ChatsScreen(self.chat.dialogue, self.chat.settings.keymap, query), chosen)

    def resume(self, opened: OpenedChat) -> None:
        """Put a chat out of the history on the screen; what is said next goes on with it."""
        try:
            self._idle("open another chat")
        except UserError as error:
            self.chat.tell(str(error), "warning")
            return
        if opened.id == self.current:
            return

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


def go_on(chat: SpecchatApp, opened: OpenedChat) -> None:
    """Put a chat's method and settings in force, and load its model if another one is loaded. Where that cannot be loaded, the
    one that is loaded stays, and a notice says why."""
    dialogue, system = chat.dialogue, opened.transcript.system
    settings = continued(chat.settings, opened)
    chat.configuring.opening()
    chat.settings = settings
    chat.apply_settings()
    dialogue.transcript.system = system  # its own, whatever a model's defaults say
    dialogue.settings = {name: dict(table) for name, table in settings.methods.items()}
    if settings.method in dialogue.methods:
        dialogue.switch(settings.method)
    model, options = own_model(opened)
    if model and model != dialogue.model:
        dialogue.load_model(model, **{name: options.get(name) or getattr(Settings(), name) for name in LOADED_WITH})
        chat.stir()
    else:
        dialogue.settle_method()
