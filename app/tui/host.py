"""The app as actions and screens see it: `Host`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from textual.content import Content
from textual.dom import DOMNode
from textual.screen import Screen

from ...errors import UserError
from ..chat.dialogue import Dialogue
from ..chat.entries import Severity
from ..chat.transcript import Transcript
from .composer.box import PromptInput
from .live_settings import LiveSettings
from .themes import Themes
from .transcript.view import TranscriptView

T = TypeVar("T")


class Host(Protocol):
    """The part of the app that actions and screens use."""

    dialogue: Dialogue
    live: LiveSettings
    themes: Themes

    @property
    def view(self) -> TranscriptView: ...

    @property
    def box(self) -> PromptInput: ...

    def tell(self, text: str, severity: Severity = "information", until: Callable[[], bool] | None = None) -> None:
        """Show a notice for a few seconds, at most until a condition holds."""

    def refuse(self, error: UserError) -> None:
        """Show why an action is impossible, while that is so."""

    def flash(self, line: Content) -> None:
        """Show a line in the status line for a moment."""

    def changed(self) -> None:
        """Redraw after a change of the dialogue."""

    def expect_events(self) -> None:
        """Take the engine's events at every frame while it works."""

    def push_screen(self, screen: Screen[T], callback: Callable[[T | None], None], /) -> object:
        """Show a screen; `callback` gets its answer, None without one."""

    def ask(self, screen: Screen[T], then: Callable[[T], object] | None = None) -> None:
        """Show a screen; `then` gets its answer, if there is one."""

    def in_background(self, work: Callable[[], T], done: Callable[[T], None], slow: str = "") -> None:
        """Call `work` in a thread, then `done` with its result; a UserError becomes a notice, `slow` one after a while."""

    def show_chat(self, transcript: Transcript) -> None:
        """Replace the chat on the screen."""

    def new_chat(self) -> None:
        """Start a new chat; the previous one stays in the list of chats."""

    def run_action(self, action: str, default_namespace: DOMNode) -> Awaitable[bool]:
        """Run a binding's action, of this node unless it names another."""
