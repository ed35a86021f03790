"""What an action, the composer or a screen may ask of the app around it: `Host`. The app has it all and hands itself over as no
more than this."""

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
    """The app, as an action sees it."""

    @property
    def dialogue(self) -> Dialogue:
        """The conversation with the engine."""

    @property
    def live(self) -> LiveSettings:
        """The settings in force."""

    @property
    def themes(self) -> Themes:
        """The colours in force, and all others."""

    @property
    def view(self) -> TranscriptView:
        """The transcript on the screen: what is marked, what is looked into."""

    @property
    def box(self) -> PromptInput:
        """The input box."""

    def tell(self, text: str, severity: Severity = "information", until: Callable[[], bool] | None = None) -> None:
        """Say a sentence or two beside the chat, until that is true: what caused it is gone."""

    def refuse(self, error: UserError) -> None:
        """Say why something was not done, as long as that is in the way."""

    def flash(self, line: Content) -> None:
        """Say something in the status line, for a moment."""

    def changed(self) -> None:
        """Show what changed in the dialogue."""

    def stir(self) -> None:
        """Something is under way: look for the engine's events at every frame."""

    def push_screen(self, screen: Screen[T], callback: Callable[[T | None], None], /) -> object:
        """Show a screen; `callback` is told what it was closed with, None where it was left."""

    def ask(self, screen: Screen[T], then: Callable[[T], object] | None = None) -> None:
        """Show a screen; `then` is told what it was closed with, unless it was left."""

    def beside(self, work: Callable[[], T], done: Callable[[T], None], slow: str = "") -> None:
        """Work in a thread, then call `done` with the result here; a UserError is told, `slow` where it takes a while."""

    def show_chat(self, transcript: Transcript) -> None:
        """Put a chat in the place of the one on the screen."""

    def new_chat(self) -> None:
        """Start a new chat; the one before stays in the list of chats."""

    def run_action(self, action: str, default_namespace: DOMNode) -> Awaitable[bool]:
        """Run a binding's action, of this node where it names none."""
