"""/chats: all chats, to search, open, rename, delete and restore."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import time
from typing import ClassVar, TypeVar

from textual.binding import BindingType
from textual.content import Content
from textual.worker import Worker, WorkerError

from ....errors import UserError, counted
from ...chat.dialogue import Dialogue
from ...history import take_notices
from ...history.chats import ChatHit, ChatRow, Chats, OpenedChat, clean_title
from ...history.past import forget_deleted
from ...history.store import Store, trouble
from ...settings.keymap import CHATS
from ...text.cells import fit, one_line, width
from ...text.lines import StyledLine, cut, ends, line
from ..keys import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen
from .text import TextScreen

PAUSE_SECONDS = 0.08
"""Between a letter and the search, as another letter may follow."""

MOST_CHATS = 100_000
"""Most chats in the list."""

MOST_HITS = 200
"""Most matches of a search."""

Result = TypeVar("Result")


class ChatsScreen(SearchScreen[OpenedChat, ChatRow | ChatHit]):
    """The list of chats; answers with the opened one."""

    DEFAULT_CSS = "ChatsScreen > Frame { height: 90%; } ChatsScreen #detail { display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(CHATS)

    def __init__(self, dialogue: Dialogue, keymap: Mapping[str, str], query: str = "") -> None:
        now = time()
        listed = PickList[ChatRow | ChatHit](
            lambda item: _row(item).id, lambda item, cells: drawn(item, cells, now, self._current), rows=3
        )
        super().__init__(listed, keymap, "Chats", "Search all chats", query)
        self._dialogue = dialogue
        self._chats: Chats | None = None
        self._search: Worker[None] | None = None
        self._deleted: list[ChatRow] = []

    @property
    def _current(self) -> int | None:
        track = self._dialogue.transcript.track
        return track.chat if track is not None else None

    def on_mount(self) -> None:
        self.tell()
        self._work(self._begin())

    async def _begin(self) -> None:
        try:
            self._chats = Chats(await asyncio.to_thread(Store))
        except UserError as error:
            self.say(str(error), wrong=True)
            return
        if notices := take_notices():
            self.say(" ".join(notices), wrong=True)
        self._deleted = [*reversed(await self._do(Chats.deleted) or [])]
        await self._list()

    def on_unmount(self) -> None:
        if self._chats is not None:
            self._chats.store.close()

    async def _do(self, work: Callable[[Chats], Result]) -> Result | None:
        """Call a function in a thread; None after an error, which is shown."""
        if (chats := self._chats) is None:
            return None
        try:
            return await asyncio.to_thread(work, chats)
        except UserError as error:
            self.say(str(error), wrong=True)
        except sqlite3.Error as error:
            self.say(trouble(error, chats.store.path), wrong=True)
        return None

    def _work(self, work: Coroutine[None, None, None]) -> None:
        self.run_worker(work, group="chats")

    async def _list(self, key: object = None, at: int = 0) -> None:
        """List the matches of the query, or all chats."""
        query = self.box.value.strip()
        items: Sequence[ChatRow | ChatHit] | None
        if query:
            items = await self._do(lambda chats: chats.search(query, MOST_HITS))
        else:
            items = await self._do(lambda chats: chats.newest(limit=MOST_CHATS))
            self.frame.border_title = Content(f"Chats · {len(items):,}" if items else "Chats")
        self.listed.empty = "No chat contains that." if query else "There are no chats yet."
        if items is not None:
            self.listed.show(items, key, at)
        self.tell()

    def hints(self) -> tuple[Hint, ...]:
        undo = [("chats_undo", "")] if self._deleted else []
        return hints(("list_choose", "open"), ("chats_rename", ""), ("chats_delete", ""), *undo)

    def search(self, text: str) -> None:
        async def run() -> None:
            await asyncio.sleep(PAUSE_SECONDS)
            await self._list()

        self._search = self.run_worker(run(), group="search", exclusive=True)

    # Keys

    def action_choose(self) -> None:
        """Open the chat under the cursor, after a running search."""

        async def run() -> None:
            while self._search is not None and not self._search.is_finished:
                with suppress(WorkerError):  # another letter was typed
                    await self._search.wait()
            super(ChatsScreen, self).action_choose()

        self._work(run())

    def choose(self, item: ChatRow | ChatHit) -> None:
        hit = item if isinstance(item, ChatHit) else None

        async def run() -> None:
            opened = await self._do(lambda chats: chats.open(_row(item).id, hit))
            if opened is not None and self.is_current:
                self.dismiss(opened)

        self._work(run())

    def action_rename(self) -> None:
        if (item := self.listed.item) is None:
            return
        row = _row(item)

        def keep(text: str) -> None:
            title = clean_title(text)
            track = self._dialogue.transcript.track
            if row.id == self._current and track is not None:
                track.title = title
            self._work(self._change(row, lambda chats: chats.rename(row.id, title)))

        self.app.push_screen(TextScreen("Rename", row.title, "The chat's title.", self._keymap, keep, one_line=True))

    def action_delete(self) -> None:
        if (item := self.listed.item) is None:
            return
        row = _row(item)
        if row.id == self._current and self._dialogue.busy:
            self.say("An answer is being written in this chat. Stop it first.", wrong=True)
            return

        def delete(chats: Chats) -> None:
            chats.delete(row.id)
            self._deleted.append(row)
            forget_deleted()

        notice = f"Deleted “{fit(row.title, 40)}”. {self.key('chats_undo')} undoes this (kept 30 days)."
        self._work(self._change(row, delete, notice))

    def action_undo(self) -> None:
        if self._deleted:
            row = self._deleted.pop()
            self._work(self._change(row, lambda chats: chats.undelete(row.id), f"Restored “{fit(row.title, 40)}”."))

    async def _change(self, row: ChatRow, change: Callable[[Chats], object], notice: str = "") -> None:
        if await self._do(lambda chats: [change(chats)]) is not None:
            self.say(notice)
            await self._list(row.id, self.listed.cursor)


def _row(item: ChatRow | ChatHit) -> ChatRow:
    return item.chat if isinstance(item, ChatHit) else item


def when(then: float, now: float) -> str:
    """Format a time for a list: the nearer, the more exactly."""
    at, today = datetime.fromtimestamp(then), datetime.fromtimestamp(now)
    days = (today.date() - at.date()).days
    if 0 <= days < 7:
        return f"{at:%A} {at:%H:%M}" if days else f"{at:%H:%M}"
    return f"{at.day} {at:%b %Y}"


def drawn(item: ChatRow | ChatHit, cells: int, now: float, current: int | None) -> tuple[StyledLine, ...]:
    """Draw a chat: its title, the match or its figures, and a blank row."""
    row = _row(item)
    mark = "● " if row.id == current else ""
    date = when(row.changed, now)
    room = cells - width(mark) - width(date) - 2
    title = ends(line((mark, "$primary"), (fit(one_line(row.title), room), "bold")), line((date, "$quiet")), cells)
    if isinstance(item, ChatHit):
        before, hit, after = item.excerpt
        # The match must be visible, however narrow the list is.
        lead = max(8, cells // 3)
        if width(before) > lead:
            before = "…" + before[-lead + 1 :].lstrip()
        return title, cut(line((before, "$quiet"), (hit, "bold $accent"), (after, "$quiet")), cells), ()
    parts = [counted(item.answers, "answer"), item.model]
    return title, line((fit(" · ".join(filter(None, parts)), cells), "$quiet")), ()
