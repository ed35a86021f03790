"""The history of what was typed, on the chat screen: read at the start, added to, searched."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from textual.css.query import NoMatches

from ....errors import UserError
from ....plain_file import FULL
from ...history.drafts import NEW, Drafts
from ...history.prompts import PromptHistory, Typed
from ...settings import actions
from ...text.amounts import short_path
from ...text.cells import sanitise
from ..actions.registry import runs
from ..host import Host


class PromptRecall:
    """The messages of earlier chats in the input box, and this one's for later chats, where a history is kept."""

    def __init__(self, host: Host, keep: bool) -> None:
        self._host, self._keeps = host, keep
        self._history: PromptHistory | None = None
        self._drafts: Drafts | None = None
        self._shown = NEW
        self._warned = False

    def begin(self) -> None:
        """Read what earlier chats left, and go on with what was being typed when they ended; no other chat does then."""
        if not self._keeps:
            return
        self._history, drafts = PromptHistory(), Drafts()
        self._host.box.keep = self._keep
        self.refresh()
        try:
            left = drafts.take_over()
        except OSError as error:
            self._warn("Cannot read what was being typed", error, drafts.folder)
            return
        self._drafts = drafts
        for typed in left:
            self._host.box.go_on(typed)

    def refresh(self) -> None:
        """Take in what other chats have added meanwhile."""
        try:
            if self._history is not None and self._history.stale():
                self._host.box.recall(self._history.read())
        except OSError as error:
            self._warn("Cannot read your earlier messages", error)

    def idle(self, chat: int | None) -> None:
        """Keep what is being typed; call it several times a second.

        Args:
            chat: number of the chat on the screen, once the history has it.
        """
        drafts = self._drafts
        if drafts is None:
            return
        box = self._host.box
        if self._shown != (shown := chat or NEW):  # it got its number, or a new one began: the draft goes along
            drafts.by_chat.pop(self._shown, None)
            self._shown = shown
            if shown in drafts.by_chat and not box.text:
                box.go_on(drafts.by_chat[shown])
        with suppress(OSError, UserError):  # said at the end, if it is still so
            self._write(drafts)

    def _write(self, drafts: Drafts) -> None:
        drafts.by_chat[self._shown] = self._host.box.draft
        drafts.write(drafts.line(self._shown))

    def show(self, chat: int | None) -> None:
        """Another chat is on the screen (its number, None for a new one): each has its own draft."""
        box = self._host.box
        before, self._shown = self._shown, chat or NEW
        if self._drafts is not None and before != self._shown:
            self._drafts.by_chat[before] = box.draft
            box.put("")
            if (typed := self._drafts.by_chat.get(self._shown)) is not None:
                box.go_on(typed)

    def leave(self) -> str:
        """Keep what is being typed, now; a sentence about it, empty if nothing is."""
        try:
            draft = self._host.box.draft
        except NoMatches:  # the first frame is still to come
            return ""
        said = "What you were typing is saved. The next chat starts with it."
        try:
            if self._drafts is not None:
                self._write(self._drafts)
                self._drafts.close()
                return said if draft.text.strip() else ""
        except (OSError, UserError):
            pass
        return f"What you were typing could not be saved:\n{sanitise(draft.text)}" if draft.text.strip() else ""

    def _keep(self, typed: Typed) -> None:
        assert self._history is not None
        try:
            self._history.add(typed)
        except (OSError, UserError) as error:
            self._warn("Your messages are not being saved for the up key in later chats", error)

    def _warn(self, what: str, error: OSError | UserError, path: Path | None = None) -> None:
        if not self._warned and self._history is not None:
            self._warned = True
            why = str(error)
            if isinstance(error, OSError):
                place = short_path(path or self._history.path)
                mend = f"free some space for {place}" if error.errno in FULL else f"move {place} out of the way"
                why = f"{error.strerror or type(error).__name__}; {mend}."
            self._host.tell(f"{what}: {why}", "warning")

    @runs(actions.PROMPT_SEARCH)
    def search(self) -> None:
        from ..pickers.prompts import PromptSearch

        box = self._host.box
        if not box.sent:
            self._host.tell("You have not sent any messages yet.")
            return

        def chosen(text: str | None) -> None:
            box.focus()
            if text is not None:
                box.bring(text)

        draft = box.text.strip()
        query = draft if "\n" not in draft and len(draft) < 60 else ""
        self._host.push_screen(PromptSearch(box.sent, self._host.live.keymap, query), chosen)
