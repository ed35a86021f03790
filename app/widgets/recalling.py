"""The history of what was typed, on the chat screen: read at the start, added to, searched."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...backends.base import UserError
from ..prompt_history import PromptHistory, Typed

if TYPE_CHECKING:
    from .chat_screen import ChatScreen


class Recalling:
    """Keeps what is sent for later chats, where a history is kept at all."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._history: PromptHistory | None = None
        self._turn = asyncio.Lock()
        self._warned = False

    def begin(self) -> None:
        """Read what earlier chats left, beside the first frame."""
        if not self._screen.chat.keeping.keep:
            return
        self._history = PromptHistory()
        self._screen.input.keep = self._keep
        self.refresh()

    def refresh(self) -> None:
        """Take in what other chats have added meanwhile."""
        history = self._history
        if history is None:
            return

        async def read() -> None:
            async with self._turn:
                if await asyncio.to_thread(history.stale):
                    self._screen.input.recall(await asyncio.to_thread(history.read))

        self._screen.run_worker(read(), group="prompts")

    def _keep(self, typed: Typed) -> None:
        history = self._history
        assert history is not None

        async def add() -> None:
            async with self._turn:  # in the order in which they were sent
                try:
                    await asyncio.to_thread(history.add, typed)
                except (OSError, UserError) as error:
                    self._warn(error)

        self._screen.run_worker(add(), group="prompts")

    def _warn(self, error: OSError | UserError) -> None:
        """Say once that nothing is kept."""
        if not self._warned:
            self._warned = True
            why = (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)
            self._screen.chat.tell(f"What you send is not kept for the up key in later chats: {why}", "warning")

    def search(self) -> None:
        """Choose among all that was sent."""
        from .prompt_search import PromptSearch

        box = self._screen.input
        if not box.sent:
            self._screen.chat.tell("Nothing was sent yet: what you send is found here.")
            return

        def chosen(text: str | None) -> None:
            box.focus()
            if text is not None:
                box.bring(text)

        draft = box.text.strip()
        self._screen.chat.push_screen(PromptSearch(box.sent, draft if "\n" not in draft and len(draft) < 60 else ""), chosen)
