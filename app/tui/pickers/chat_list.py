"""The list of chats: two rows each, of which only the visible ones are drawn, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import RenderOptions

from ...history.chats import ChatRow, Found
from ...text.cells import fit, one_line, width
from ...text.lines import Line, cut, ends, line

ROWS = 3
"""Of a chat: title, what there is to say, a blank one."""

NARROW = 44
"""Below so many cells the date stands in the second row."""


def when(then: float, now: float) -> str:
    """A time as it is told in a list: nearer ones with more care."""
    if not then:
        return "no date"
    at, today = datetime.fromtimestamp(then), datetime.fromtimestamp(now)
    days = (today.date() - at.date()).days
    if days == 0:
        return f"{at:%H:%M}"
    if days == 1:
        return f"yesterday {at:%H:%M}"
    if 1 < days < 7:
        return f"{at:%A} {at:%H:%M}"
    return f"{at.day} {at:%B}" if at.year == today.year else f"{at.day} {at:%b %Y}"


class ChatList(ScrollView, can_focus=False):
    """Shows chats, one of them under the cursor. The keys are the screen's."""

    DEFAULT_CSS = """
    ChatList {
        background: $surface; scrollbar-size-vertical: 1; overflow-x: hidden;
        scrollbar-background: $surface; scrollbar-background-hover: $surface; scrollbar-background-active: $surface;
    }
    """
    cursor: reactive[int] = reactive(0, repaint=False)
    """Which of the chats."""

    @dataclass
    class Chosen(Message):
        """A chat was clicked."""

        index: int

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: Sequence[ChatRow | Found] = ()
        self.current: int | None = None
        """Number of the chat on the screen below."""
        self.now = 0.0
        """What the dates are told against."""
        self.empty = ""
        """What is said where there is no chat."""

    def show(self, items: Sequence[ChatRow | Found], cursor: int = 0) -> None:
        """Show these chats."""
        self.items = items
        self.set_reactive(ChatList.cursor, max(0, min(cursor, len(items) - 1)))
        self.virtual_size = Size(self.size.width, max(1, len(items) * ROWS - 1))
        self._reveal()
        self.refresh()

    @property
    def chat(self) -> ChatRow | None:
        """The chat under the cursor."""
        if not self.items:
            return None
        item = self.items[self.cursor]
        return item.chat if isinstance(item, Found) else item

    def move(self, by: int) -> None:
        """Move the cursor; pages are given as ±0 by `page`."""
        if self.items:
            self.cursor = max(0, min(len(self.items) - 1, self.cursor + by))

    @property
    def page(self) -> int:
        """Chats that are visible at once."""
        return max(1, self.size.height // ROWS)

    def validate_cursor(self, cursor: int) -> int:
        """Within the list."""
        return max(0, min(cursor, len(self.items) - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        """Only the two chats change."""
        self._reveal()
        for index in (before, after):
            self.refresh(Region(0, index * ROWS - self.scroll_offset.y, self.size.width, ROWS - 1))

    def _reveal(self) -> None:
        top, height = self.cursor * ROWS, max(ROWS - 1, self.size.height)
        y = self.scroll_offset.y
        if top < y:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        elif top + ROWS - 1 > y + height:
            self.scroll_to(y=top + ROWS - 1 - height, animate=False, immediate=True, force=True)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self.virtual_size = Size(self.size.width, max(1, len(self.items) * ROWS - 1))
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        index = (event.y + self.scroll_offset.y) // ROWS
        if index < len(self.items):
            self.post_message(self.Chosen(index))

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        index, row = divmod(y + self.scroll_offset.y, ROWS)
        cells = self.size.width
        style = self.visual_style
        parts: Line = ()
        if index < len(self.items) and row < ROWS - 1:
            parts = self._title(index, cells - 4) if row == 0 else self._detail(index, cells - 4)
            if index == self.cursor:
                style += self._get_style("on $block-cursor-background")
        elif not self.items and y == 0 and self.empty:
            parts = ((fit(self.empty, cells - 4), "$quiet"),)
        content = Content.assemble("  ", *parts).pad_right(max(0, cells)) if parts else Content(" " * cells)
        strips = content.render_strips(cells, 1, style, RenderOptions(self._get_style, {}))
        return (strips[0] if strips else Strip([])).crop(0, cells).extend_cell_length(cells, self.rich_style)

    def _title(self, index: int, cells: int) -> Line:
        item = self.items[index]
        row = item.chat if isinstance(item, Found) else item
        mark = ("● ", "$primary") if row.id == self.current else ("", "")
        date = when(row.changed, self.now) if cells >= NARROW else ""
        room = cells - width(mark[0]) - (width(date) + 2 if date else 0)
        return ends(line(mark, (fit(one_line(row.title), room), "bold")), line((date, "$quiet")), cells)

    def _detail(self, index: int, cells: int) -> Line:
        item = self.items[index]
        if isinstance(item, Found):
            before, hit, after = item.excerpt
            # What was found must be seen, however narrow the list is.
            lead = max(8, cells // 3)
            if width(before) > lead:
                before = "…" + before[-lead + 1 :].lstrip()
            return cut(line((before, "$quiet"), (hit, "bold $accent"), (after, "$quiet")), cells)
        answers = f"{item.answers} answer{'' if item.answers == 1 else 's'}"
        parts = [answers, item.model, *(["branch"] if item.parent is not None else [])]
        if cells < NARROW:
            parts.insert(0, when(item.changed, self.now))
        return line((fit(" · ".join(filter(None, parts)), cells), "$quiet"))
