"""A screen that closes once."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import Screen

Result = TypeVar("Result")


class ClosingScreen(Screen[Result]):
    """A screen that closes once; keys pressed after the one that closed it go to the screen below.

    Textual queues events: keys pressed before the screen left the stack still reach it, and a second `dismiss` would close
    the screen below, or end the app.
    """

    @property
    def closed(self) -> bool:
        """Whether the screen has left the stack."""
        return self not in self.app.screen_stack

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with an answer, and close the screens above; do nothing once it is closed."""
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
