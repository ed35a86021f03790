"""/chats: every chat there is, found as you type, opened, renamed, deleted and brought back, branched."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ....errors import UserError
from ...chat.dialogue import Dialogue
from ...history.chats import ChatRow, Chats, Found, OpenedChat
from ...history.store import Store, trouble
from ...settings.keymap import CHATS, display
from ...text.cells import fit
from .chat_list import ChatList

PAUSE_SECONDS = 0.08
"""After a letter before the search begins: most letters are followed by another."""

FIRST = 200
"""Chats that are shown at once; the others follow."""

MOST = 100_000
"""Chats in the list."""

FOUND = 200
"""Most chats that a search shows."""

Result = TypeVar("Result")


class ChatsScreen(ModalScreen[OpenedChat | None]):
    """The list of chats; answers with the one that was opened, None if none was.

    Args:
        dialogue: whose chat is on the screen below.
        keymap: binding id → keys, where not the default.
        query: what to search for to begin with.
    """

    DEFAULT_CSS = """
    ChatsScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical {
            width: 92; max-width: 96%; height: 90%;
            background: $surface; border: round $border; padding: 1 0 0 0;
            border-title-color: $primary; border-title-style: bold; border-subtitle-color: $quiet;
        }
        & #chats-search { height: 1; padding: 0 2; margin-bottom: 1; }
        & #chats-glyph { width: auto; color: $accent; text-style: bold; }
        & #chats-input {
            height: 1; width: 1fr; border: none; padding: 0; background: $surface; color: $foreground;
            &:focus { border: none; background-tint: $surface 0%; }
            & .input--placeholder { color: $faint; }
        }
        & #chats-list { height: 1fr; }
        & #chats-note { height: auto; max-height: 2; padding: 0 2; color: $quiet; }
        & #chats-note.-wrong { color: $warning; }
    }
    """
    AUTO_FOCUS = "#chats-input"
    BINDINGS: ClassVar[list[BindingType]] = [
        # What is typed fast goes through the box first: this key must not overtake it.
        Binding(key.keys, key.action, key.what, show=False, priority=key.id != "chats_open", id=key.id, tooltip=key.what)
        for key in CHATS
    ]

    def __init__(self, dialogue: Dialogue, keymap: Mapping[str, str], query: str = "") -> None:
        super().__init__()
        self._dialogue, self._keymap, self._query = dialogue, keymap, query
        self._chats: Chats | None = None
        self._rows: list[ChatRow] = []
        self._asked = 0  # searches that were asked for
        self._answered = 0  # the last of them whose chats are in the list
        self._chosen = False  # enter was pressed in between: it is meant for what will be found
        self._renaming: ChatRow | None = None
        self._gone: list[ChatRow] = []

    @property
    def _current(self) -> int | None:
        """Number of the chat on the screen below, if the history has it."""
        track = self._dialogue.transcript.track
        return track.chat if track is not None else None

    @property
    def list(self) -> ChatList:
        """The list."""
        return self.query_one("#chats-list", ChatList)

    @property
    def box(self) -> Input:
        """What is searched for, or the title while one is changed."""
        return self.query_one("#chats-input", Input)

    def compose(self) -> ComposeResult:
        """A box to search in, the list, a line for what there is to say."""
        with Vertical() as frame:
            frame.border_title = "Chats"
            with Horizontal(id="chats-search"):
                yield Static("› ", id="chats-glyph")
                box = Input(self._query, placeholder="Search in all chats", id="chats-input", select_on_focus=False)
                box.cursor_blink = False  # a blinking one would repaint the screen twice a second for nothing
                yield box
            yield ChatList(id="chats-list")
            yield Static(id="chats-note")

    def on_mount(self) -> None:
        """Read the chats."""
        self.list.now = time()
        self.list.current = self._current
        self._keys()
        self.run_worker(self._begin(), group="chats")

    async def _begin(self) -> None:
        try:
            self._chats = Chats(await asyncio.to_thread(Store, reading=True))
        except UserError as error:
            self._say(str(error), wrong=True)
            return
        if self._chats.store.told:
            self._say(" ".join(self._chats.store.told), wrong=True)
        self._rows = await self._do(lambda chats: chats.newest(limit=FIRST)) or []
        if not self._query:
            self._show(self._rows)
        self._gone = [*reversed(await self._do(Chats.deleted) or []), *self._gone]
        self._keys()
        if len(self._rows) == FIRST:
            self._rows = await self._do(lambda chats: chats.newest(limit=MOST)) or self._rows
        self._count()
        if self.box.value and not self._asked:  # typed before the database was open, too
            self._search(self.box.value)
        elif not self.box.value:
            self._show(self._rows, self.list.cursor)

    def on_unmount(self) -> None:
        """Let the database go."""
        if self._chats is not None:
            self._chats.store.close()

    async def _do(self, work: Callable[[Chats], Result]) -> Result | None:
        """Do something with the database in a thread; what fails is said."""
        if self._chats is None:
            return None
        chats = self._chats
        try:
            return await asyncio.to_thread(work, chats)
        except UserError as error:
            self._say(str(error), wrong=True)
        except sqlite3.Error as error:
            self._say(trouble(error, chats.store.path), wrong=True)
        return None

    async def _done(self, work: Callable[[Chats], None]) -> bool:
        """Change something; whether that went well."""

        def change(chats: Chats) -> bool:
            work(chats)
            return True

        return bool(await self._do(change))

    def _show(self, items: Sequence[ChatRow | Found], cursor: int = 0) -> None:
        listed, searched = self.list, self.box.value.strip() and self._renaming is None
        listed.empty = "No chat has that in it." if searched else "There is no chat yet."
        listed.show(items, cursor)

    def _count(self) -> None:
        frame = self.query_one(Vertical)
        frame.border_title = f"Chats · {len(self._rows):,}" if self._rows else "Chats"

    def _say(self, text: str, wrong: bool = False) -> None:
        if not self.is_attached:  # left in the middle of it
            return
        note = self.query_one("#chats-note", Static)
        note.set_class(wrong, "-wrong")
        note.update(Content(text))

    def _keys(self) -> None:
        """The keys that count now, as they are mapped."""
        keys = {key.id: display(self._keymap.get(key.id, key.keys)) for key in CHATS}
        if self._renaming is not None:
            parts = ["enter rename", f"{keys['chats_leave']} leave it as it is"]
        else:
            wide = self.app.size.width >= 76
            parts = ["enter open", f"{keys['chats_rename']} rename", f"{keys['chats_delete']} delete"]
            parts += [f"{keys['chats_branch']} branch"] if wide else []
            parts += [f"{keys['chats_undo']} undo"] if self._gone else []
            parts.append(keys["chats_leave"])
        self.query_one(Vertical).border_subtitle = " · ".join(parts)

    # Searching

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._renaming is None and self._chats is not None:
            self._search(event.value)

    def _search(self, text: str) -> None:
        self._asked += 1
        asked = self._asked
        self._chosen = False
        if not text.strip():
            self._answered = asked
            self._show(self._rows)
            return

        async def run() -> None:
            await asyncio.sleep(PAUSE_SECONDS)
            if asked != self._asked:
                return
            found = await self._do(lambda chats: chats.search(text, FOUND))
            if asked != self._asked:
                return
            self._answered = asked
            if found is not None and self._renaming is None:
                self._show(found)
                if self._chosen:
                    self.action_choose()

        self.run_worker(run(), group="chats")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    # Keys

    def action_move(self, by: int) -> None:
        """Move the cursor by some chats."""
        if self._renaming is None:
            self.list.move(by)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a page."""
        self.action_move(direction * self.list.page)

    def action_end(self, direction: int) -> None:
        """To the first chat or the last."""
        self.action_move(direction * len(self.list.items))

    def action_leave(self) -> None:
        """Leave the title as it is, empty the search, or go back to the chat."""
        if self._renaming is not None:
            self._end_renaming()
        elif self.box.value:
            self.box.value = ""
        else:
            self.dismiss(None)

    def action_choose(self) -> None:
        """Open the chat under the cursor, or take the new title."""
        if self._renaming is not None:
            self.run_worker(self._rename(self._renaming, self.box.value), group="chats")
        elif self._asked != self._answered:
            self._chosen = True
        elif (row := self.list.chat) is not None:
            self.run_worker(self._open(row), group="chats")

    def action_rename(self) -> None:
        """Change the title of the chat under the cursor."""
        row = self.list.chat
        if row is None or self._renaming is not None:
            return
        self._renaming, self._query = row, self.box.value
        self.query_one("#chats-glyph", Static).update("Title: ")
        self.box.value = row.title
        self.box.cursor_position = len(row.title)
        self._say("")
        self._keys()

    def action_delete(self) -> None:
        """Delete the chat under the cursor."""
        row = self.list.chat
        if row is None or self._renaming is not None:
            return
        if row.id == self._current and self._dialogue.busy:
            self._say("An answer is being written in this chat: stop it first.", wrong=True)
            return
        self.run_worker(self._delete(row), group="chats")

    def action_undo(self) -> None:
        """Bring back what was deleted last."""
        if self._gone and self._renaming is None:
            self.run_worker(self._undelete(self._gone.pop()), group="chats")

    def action_branch(self) -> None:
        """Make a chat that shares all of the one under the cursor, and open it."""
        row = self.list.chat
        if row is not None and self._renaming is None:
            self.run_worker(self._branch(row), group="chats")

    @on(ChatList.Chosen)
    def _clicked(self, event: ChatList.Chosen) -> None:
        event.stop()
        if self._renaming is None:
            self.list.cursor = event.index
            self.action_choose()

    def on_click(self, event: events.Click) -> None:
        """A click outside closes."""
        if event.widget is self:
            self.dismiss(None)

    def on_resize(self) -> None:
        """Keys that no longer fit leave the frame."""
        self._keys()

    # What they do

    async def _open(self, row: ChatRow) -> None:
        opened = await self._do(lambda chats: chats.open(row.id))
        if opened is not None and self.is_current:
            self.dismiss(opened)

    async def _branch(self, row: ChatRow) -> None:
        opened = await self._do(lambda chats: chats.open(chats.branch(row.id)))
        if opened is not None and self.is_current:
            self.dismiss(opened)

    async def _rename(self, row: ChatRow, title: str) -> None:
        if not await self._done(lambda chats: chats.rename(row.id, title)):
            return
        renamed = await self._do(lambda chats: chats.row(row.id)) or row
        track = self._dialogue.transcript.track
        if row.id == self._current and track is not None:
            track.title = track.known_title = renamed.title
        self._replace(renamed)
        self._end_renaming()

    def _end_renaming(self) -> None:
        self._renaming = None
        self.query_one("#chats-glyph", Static).update("› ")
        with self.prevent(Input.Changed):
            self.box.value = self._query
        self._say("")
        self._keys()

    def _replace(self, row: ChatRow) -> None:
        self._rows = [row if other.id == row.id else other for other in self._rows]
        items = [
            (Found(row, item.excerpt) if isinstance(item, Found) else row) if _id(item) == row.id else item
            for item in self.list.items
        ]
        self._show(items, self.list.cursor)

    async def _delete(self, row: ChatRow) -> None:
        if not await self._done(lambda chats: chats.delete(row.id)):
            return
        self._gone.append(row)
        self._rows = [other for other in self._rows if other.id != row.id]
        self._show([item for item in self.list.items if _id(item) != row.id], self.list.cursor)
        undo = display(self._keymap.get("chats_undo", "ctrl+z"))
        self._say(f"“{fit(row.title, 40)}” is deleted: {undo} brings it back, for 30 days.")
        self._count()
        self._keys()

    async def _undelete(self, row: ChatRow) -> None:
        if not await self._done(lambda chats: chats.undelete(row.id)):
            return
        self._rows = await self._do(lambda chats: chats.newest(limit=MOST)) or self._rows
        self._count()
        self._say(f"“{fit(row.title, 40)}” is back.")
        self._keys()
        if self.box.value.strip():
            self._search(self.box.value)
        else:
            ids = [other.id for other in self._rows]
            self._show(self._rows, ids.index(row.id) if row.id in ids else 0)


def _id(item: ChatRow | Found) -> int:
    return item.chat.id if isinstance(item, Found) else item.id
