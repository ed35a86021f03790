"""/chats: all chats, to search, open, rename, delete and restore."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from time import time
from typing import ClassVar, TypeVar

from textual.binding import BindingType
from textual.content import Content

from ....errors import UserError, counted
from ...chat.dialogue import Dialogue
from ...history import take_notices
from ...history.chats import ChatHit, ChatRow, Chats, OpenedChat
from ...history.past import forget_deleted
from ...history.store import Store, trouble
from ...settings.keymap import CHATS
from ...text.cells import fit, one_line, width
from ...text.lines import StyledLine, cut, ends, line
from ..keys.context import Hint, bindings_of, hints
from .pick_list import PickList
from .search_screen import SearchScreen

PAUSE_SECONDS = 0.08
"""Between a letter and the search, as another letter may follow."""

MOST_CHATS = 100_000
"""Most chats in the list."""

MOST_HITS = 200
"""Most matches of a search."""

DATE_FROM = 44
"""Fewest cells of a row with the date."""

Result = TypeVar("Result")


class ChatsScreen(SearchScreen[OpenedChat, ChatRow | ChatHit]):
    """The list of chats; answers with the opened one."""

    DEFAULT_CSS = "ChatsScreen > Frame { height: 90%; } ChatsScreen #detail { display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(CHATS)

    def __init__(self, dialogue: Dialogue, keymap: Mapping[str, str], query: str = "") -> None:
        now = time()
        listed = PickList[ChatRow | ChatHit](
            lambda item: _row(item).id, lambda item, cells: drawn(item, cells, now, self._current), rows=2, gap=1
        )
        super().__init__(listed, keymap, "Chats", "Search all chats", query)
        self._dialogue = dialogue
        self._chats: Chats | None = None
        self._rows: list[ChatRow] = []
        self._searching = False  # until the list shows the matches
        self._choose_next = False  # enter was pressed during the search
        self._deleted: list[ChatRow] = []

    @property
    def _current(self) -> int | None:
        track = self._dialogue.transcript.track
        return track.chat if track is not None else None

    def on_mount(self) -> None:
        self.tell()
        self.run_worker(self._begin(), group="chats")

    async def _begin(self) -> None:
        try:
            self._chats = Chats(await asyncio.to_thread(Store))
        except UserError as error:
            self.say(str(error), wrong=True)
            return
        if notices := take_notices():
            self.say(" ".join(notices), wrong=True)
        if self.box.value:  # or typed before the database was open
            self.search(self.box.value)
        self._rows = await self._do(lambda chats: chats.newest(limit=MOST_CHATS)) or []
        if not self.box.value:
            self._show(self._rows)
        self._deleted = [*reversed(await self._do(Chats.deleted) or []), *self._deleted]
        self.tell()
        self._show_count()

    def on_unmount(self) -> None:
        if self._chats is not None:
            self._chats.store.close()

    async def _do(self, work: Callable[[Chats], Result]) -> Result | None:
        if self._chats is None:
            return None
        chats = self._chats
        try:
            return await asyncio.to_thread(work, chats)
        except UserError as error:
            self.say(str(error), wrong=True)
        except sqlite3.Error as error:
            self.say(trouble(error, chats.store.path), wrong=True)
        return None

    async def _done(self, work: Callable[[Chats], object]) -> bool:
        return await self._do(lambda chats: [work(chats)]) is not None

    def _show(self, items: Sequence[ChatRow | ChatHit], at: int = 0) -> None:
        self.listed.empty = "No chat contains that." if self.query_text.strip() else "There are no chats yet."
        self.listed.show(items, at=at)

    def _show_count(self) -> None:
        self.frame.border_title = Content(f"Chats · {len(self._rows):,}" if self._rows else "Chats")

    def item_hints(self) -> tuple[Hint, ...]:
        undo = [("chats_undo", "")] if self._deleted else []
        return hints(("list_choose", "open"), ("chats_rename", ""), ("chats_delete", ""), *undo)

    # Searching

    def search(self, text: str) -> None:
        if self._chats is None:
            return
        self._choose_next = False
        self._searching = bool(text.strip())

        async def run() -> None:
            items: Sequence[ChatRow | ChatHit] | None = self._rows
            if self._searching:
                await asyncio.sleep(PAUSE_SECONDS)
                items = await self._do(lambda chats: chats.search(text, MOST_HITS))
                self._searching = False
            if items is not None and not self.asking:
                self._show(items)
                if self._choose_next:
                    self.action_choose()

        self.run_worker(run(), group="search", exclusive=True)

    # Keys

    def action_choose(self) -> None:
        """Open the chat under the cursor, after a running search; or take the new title."""
        if not self.asking and self._searching:
            self._choose_next = True
        else:
            super().action_choose()

    def choose(self, item: ChatRow | ChatHit) -> None:
        hit = item if isinstance(item, ChatHit) else None

        async def run() -> None:
            opened = await self._do(lambda chats: chats.open(_row(item).id, hit))
            if opened is not None and self.is_current:
                self.dismiss(opened)

        self._work(run())

    def action_rename(self) -> None:
        if (item := self.item_under_cursor) is not None:
            row = _row(item)
            self.ask_in_box("Title", row.title, "rename", lambda title: self._work(self._rename(row, title)))

    def action_delete(self) -> None:
        if (item := self.item_under_cursor) is None:
            return
        row = _row(item)
        if row.id == self._current and self._dialogue.busy:
            self.say("An answer is being written in this chat. Stop it first.", wrong=True)
            return
        question = f"Press {self.key('chats_delete')} again to delete “{fit(row.title, 40)}”."
        if self.confirm(question):
            self._work(self._delete(row))

    def action_undo(self) -> None:
        if self._deleted and not self.asking:
            self._work(self._undelete(self._deleted.pop()))

    def _work(self, work: Coroutine[None, None, None]) -> None:
        self.run_worker(work, group="chats")

    async def _rename(self, row: ChatRow, title: str) -> None:
        if not await self._done(lambda chats: chats.rename(row.id, title)):
            return
        renamed = await self._do(lambda chats: chats.row(row.id)) or row
        track = self._dialogue.transcript.track
        if row.id == self._current and track is not None:
            track.title = renamed.title
        self._rows = [renamed if other.id == row.id else other for other in self._rows]

        def update(item: ChatRow | ChatHit) -> ChatRow | ChatHit:
            if _row(item).id != row.id:
                return item
            return ChatHit(renamed, item.excerpt) if isinstance(item, ChatHit) else renamed

        self._show([update(item) for item in self.listed.items], self.listed.cursor)
        self.end_asking()

    async def _delete(self, row: ChatRow) -> None:
        if not await self._done(lambda chats: chats.delete(row.id)):
            return
        self._deleted.append(row)
        self._rows = [other for other in self._rows if other.id != row.id]
        self._show([item for item in self.listed.items if _row(item).id != row.id], self.listed.cursor)
        self.say(f"Deleted “{fit(row.title, 40)}”. {self.key('chats_undo')} undoes this (kept 30 days).")
        self._show_count()
        await self._do(lambda _: forget_deleted())

    async def _undelete(self, row: ChatRow) -> None:
        if not await self._done(lambda chats: chats.undelete(row.id)):
            return
        self._rows = await self._do(lambda chats: chats.newest(limit=MOST_CHATS)) or self._rows
        self._show_count()
        self.say(f"Restored “{fit(row.title, 40)}”.")
        if self.box.value.strip():
            self.search(self.box.value)
        else:
            self._show(self._rows, next((at for at, other in enumerate(self._rows) if other.id == row.id), 0))


def _row(item: ChatRow | ChatHit) -> ChatRow:
    return item.chat if isinstance(item, ChatHit) else item


def when(then: float, now: float) -> str:
    """Format a time for a list: the nearer, the more exactly."""
    at, today = datetime.fromtimestamp(then), datetime.fromtimestamp(now)
    days = (today.date() - at.date()).days
    if days == 0:
        return f"{at:%H:%M}"
    if days == 1:
        return f"yesterday {at:%H:%M}"
    if 1 < days < 7:
        return f"{at:%A} {at:%H:%M}"
    return f"{at.day} {at:%B}" if at.year == today.year else f"{at.day} {at:%b %Y}"


def drawn(item: ChatRow | ChatHit, cells: int, now: float, current: int | None) -> tuple[StyledLine, StyledLine]:
    """Draw a chat in two rows: its title, then the match or its figures."""
    row = _row(item)
    mark = "● " if row.id == current else ""
    date = when(row.changed, now)
    right = date if cells >= DATE_FROM else ""
    room = cells - width(mark) - (width(right) + 2 if right else 0)
    title = ends(line((mark, "$primary"), (fit(one_line(row.title), room), "bold")), line((right, "$quiet")), cells)
    if isinstance(item, ChatHit):
        before, hit, after = item.excerpt
        # The match must be visible, however narrow the list is.
        lead = max(8, cells // 3)
        if width(before) > lead:
            before = "…" + before[-lead + 1 :].lstrip()
        return title, cut(line((before, "$quiet"), (hit, "bold $accent"), (after, "$quiet")), cells)
    parts = ["" if right else date, counted(item.answers, "answer"), item.model]
    return title, line((fit(" · ".join(filter(None, parts)), cells), "$quiet"))
