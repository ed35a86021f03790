"""The chat on the screen as part of the history: recording, /chats and /rename."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import NotPossible, UserError
from ...chat.about import LOADED_WITH
from ...chat.transcript import Transcript
from ...history.chats import chat_model, resume_settings
from ...settings import actions
from ...settings.fields import Settings
from ...text.cells import one_line
from ..host import Host
from .dispatch import runs

if TYPE_CHECKING:
    from ...history.chats import OpenedChat
    from ...history.past import PastSync
    from ...history.recorder import Recorder


class ChatHistory:
    """Records the chat on the screen in the history: /chats, /rename.

    Args:
        keep: whether to record.
        past: whether to draft from past answers, which a recorded chat alone does.
    """

    def __init__(self, host: Host, keep: bool, past: bool = False) -> None:
        self.host = host
        self.keep = keep
        self.past = past
        self._sync: PastSync | None = None
        self._loaded: object = None
        self.recorder: Recorder | None = None
        """Writes the chat; made after the first frame, which need not wait for it (15 ms)."""

    def idle(self) -> None:
        self._start_recorder()
        self.record()
        self._sync_past()

    def _sync_past(self) -> None:
        dialogue = self.host.dialogue
        if not self.past:
            if self.keep and self._loaded is None:  # turned off: nothing of it may stay on the disk
                from ...history.past import delete_all

                self._loaded = self
                delete_all()
            return
        if not self.keep or not dialogue.info or dialogue.info.server:
            return
        if self._sync is None:
            from ...history.past import PastSync, past_folder

            sync = self._sync = PastSync(dialogue.engine.send, dialogue.engine.next_id)
            dialogue.past = str(past_folder())
            dialogue.heard = lambda event: sync.set_indexed(event.keys)
        if self._loaded is not dialogue.info:
            self._loaded = dialogue.info
            self._sync.model_loaded()
        self._sync.tick(dialogue.phase == "ready")

    def _start_recorder(self) -> None:
        if self.keep and self.recorder is None:
            from ...history.recorder import Recorder

            self.recorder = Recorder()

    def close(self) -> list[str]:
        """Record the last changes after the screen has closed; return sentences about failures."""
        if self.host.dialogue.transcript.entries:
            self._start_recorder()
        if self.recorder is None:
            return []
        self.recorder.close(self.host.dialogue)
        return [sentence for sentence, wrong in self.recorder.take_sentences() if wrong]

    def record(self) -> None:
        """Record any changes. Costs nothing without one, and never waits."""
        if self.recorder is None:
            return
        self.recorder.note(self.host.dialogue)
        for sentence, wrong in self.recorder.take_sentences():
            if wrong:
                self.host.dialogue.notice(sentence, "warning")
                self.host.changed()
            else:
                self.host.tell(sentence)

    @property
    def current(self) -> int | None:
        """Number of the chat on the screen; None before the history has it."""
        track = self.host.dialogue.transcript.track
        return track.chat if track is not None else None

    def opened(self, transcript: Transcript) -> None:
        """Track a chat from a file, which is recorded once something is added to it."""
        from ...history.recorder import ChatTrack

        if transcript.track is None:
            transcript.track = ChatTrack(quiet=len(transcript.entries))

    @runs(actions.CHATS)
    def browse(self, *words: str) -> None:
        """Show the list of chats, searched for any words."""
        from ..pickers.chats import ChatsScreen

        self.host.ask(ChatsScreen(self.host.dialogue, self.host.live.keymap, " ".join(words)), self.resume)

    def resume(self, opened: OpenedChat) -> None:
        """Show a chat of the history; the next message continues it."""
        try:
            self.host.dialogue.must_be_idle("open another chat")
        except UserError as error:
            self.host.refuse(error)
            return
        finder, match = self.host.view.finder, opened.match
        if opened.id == self.current:
            if match is not None:
                finder.find(match[1])
            return
        self.host.show_chat(opened.transcript)
        go_on(self.host, opened)
        self.host.changed()
        if match is not None:
            finder.show(*match)
        loading = "" if self.host.dialogue.info else f" Loading its model, {one_line(self.host.dialogue.model)}."
        self.host.tell(f"Opened {opened.title}.{loading}")

    @runs(actions.RENAME)
    def rename(self, *words: str) -> None:
        from ...history.chats import clean_title

        self._start_recorder()
        if self.recorder is None or self.recorder.off:
            raise NotPossible("This chat is not being saved: there is no history, or it could not be opened.")
        title = clean_title(" ".join(words))
        self.recorder.rename(self.host.dialogue, title)
        self.host.tell(f"This chat is now called {title}.")


def go_on(host: Host, opened: OpenedChat) -> None:
    """Apply a chat's method and settings, and load its model unless it is loaded already. If the load fails the loaded model
    stays, and a notice says why."""
    dialogue, system = host.dialogue, opened.transcript.system
    settings = resume_settings(host.live.settings, opened)
    host.live.resume(settings)
    dialogue.transcript.system = system  # its own, whatever a model's defaults say
    dialogue.settings = {name: dict(table) for name, table in settings.methods.items()}
    if settings.method is None or settings.method in dialogue.methods:
        dialogue.switch(settings.method)
    model, options = chat_model(opened)
    if model and model != dialogue.model:
        dialogue.load_model(model, **{name: options.get(name) or getattr(Settings(), name) for name in LOADED_WITH})
        host.expect_events()
    else:
        dialogue.settle_method()
