"""A screen that closes once."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.geometry import Offset
from textual.screen import Screen
from textual.widgets import OptionList

Result = TypeVar("Result")


class ClosingScreen(Screen[Result]):
    """A screen that closes once. Keys that arrive behind the one that closed it go to the screen below.

    Textual queues events: a key that was pressed before the screen was taken off the stack still reaches it, and a second
    `dismiss` would close the screen below, or end the app where that is the last.
    """

    @property
    def chosen_row(self) -> Offset | None:
        """Where the chosen row of its list begins on the terminal; None while something is typed, or without a list."""
        for choices in self.query(OptionList):
            # Textual tells it by no other name; where there is no room for a line, it has none.
            line = choices._index_to_line.get(-1 if choices.highlighted is None else choices.highlighted)
            if line is not None:
                return choices.content_region.offset + Offset(0, line - choices.scroll_offset.y)
        return None

    @property
    def closed(self) -> bool:
        """Whether the screen has left the stack."""
        return self not in self.app.screen_stack

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with `result`, and with it the screens above; nothing where it is closed already."""
        if self.closed:
            return AwaitComplete()
        while self.app.screen is not self:
            self.app.screen.dismiss(None)
        return super().dismiss(result)

    async def on_event(self, event: events.Event) -> None:
        if not (isinstance(event, events.InputEvent | events.Paste) and self.closed):
            await super().on_event(event)
        elif isinstance(event, events.Key):
            self.app.post_message(type(event)(event.key, event.character))
        elif isinstance(event, events.Paste):
            self.app.post_message(events.Paste(event.text))
