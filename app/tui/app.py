"""The chat in the terminal: the Textual app around one dialogue with the engine.

The engine is another process; this one never imports a model runtime (a test asserts it).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, process_time
from typing import Any

from textual import on
from textual.content import Content
from textual.timer import Timer

from ...engine.options import ModelInfo
from ...errors import UserError
from ..chat.dialogue import Busy, Dialogue, Engine
from ..chat.methods import Method, first_method, known_methods
from ..chat.transcript import Transcript
from ..render.thoughts import parse_thoughts
from ..settings import actions
from ..settings.fields import Settings
from ..settings.keymap import ALL
from ..settings.locations import config_folder
from ..theming.colouring import effective, parse_colouring
from .actions.copy import Copier
from .actions.dispatch import Actions, runs
from .actions.editor import ExternalEditor
from .actions.export import Exports
from .actions.history import ChatHistory
from .actions.models import Models
from .actions.rewrite import MessageEdit, Retries
from .actions.settings import SettingsCommands
from .actions.switch import Switches
from .chat.screen import ChatScreen
from .chat.widgets import StatusLine
from .composer.box import PromptInput
from .driver import Terminal
from .keys import KeyContext
from .live_settings import LiveSettings
from .race.races import Races
from .terminal_app import T, TerminalApp
from .themes import Themes
from .tour import Tours, TourStart
from .transcript.view import TranscriptView

IDLE_SECONDS = 0.25
"""Between two checks while the engine is idle."""

FRAME_SECONDS = 1 / 30
"""Between two frames of a stream: as smooth as an eye can follow, at half the cost of 60 Hz."""

SHARE = 0.15
"""Largest share of the process's time for frames; expensive ones (a fast stream, a slow machine) come less often, so that
keys are handled in between."""

LONGEST_REST = 0.15
"""Longest pause of frames for their own cost, in seconds."""

LONGEST_WAIT = 4.0
"""Longest pause of frames for a slow terminal, in seconds."""

LONG_SECONDS = 5.0
"""Least duration of work whose end rings the bell."""


class SpecchatApp(TerminalApp):
    """The Textual app of the chat."""

    TITLE = "specchat"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        settings: Settings,
        client: Engine,
        notice: str | None = None,
        methods: Mapping[str, Method] | None = None,
        keep: bool = False,
    ) -> None:
        super().__init__()
        self.themes = Themes(self, config_folder() / "themes", settings.theme)
        methods = known_methods() if methods is None else methods
        first = first_method(methods, (), settings.model, settings.draft_model, ModelInfo())
        self.dialogue = Dialogue(
            client,
            settings.selection(),
            methods,
            settings.method if settings.method and settings.method in methods else first,
            {name: dict(table) for name, table in settings.methods.items()},
            chosen=settings.method is not None,
            pace=settings.pace,
        )
        self.live = LiveSettings(settings, self.dialogue, super().in_background, self._applied)
        self.chat_history = ChatHistory(self, keep, settings.past)
        self.exports = Exports(self)
        self.models = Models(self, self.ring)
        self.races = Races(self, self.exports)
        self.copier = Copier(self, self)
        self.editor = ExternalEditor(self, self)
        self.message_edit = MessageEdit(self)
        self.retries = Retries(self, self.message_edit)
        self.settings_commands = SettingsCommands(self)
        self.switches = Switches(self)
        self.tours = Tours(self, self.races)
        self.actions = Actions(self, self._parts)
        self.piped = ""
        """Piped text for the first message."""
        self.tour: TourStart = ""
        unknown = [name for name in settings.keymap if name not in {key.id for key in ALL}]
        notices = [text for text in (notice, *self.themes.problems) if text]
        if unknown:
            ids = ", ".join(key.id for key in ALL)
            notices.append(f"[keymap] in the settings names unknown actions ({', '.join(unknown)}): choose from {ids}.")
        for text in notices:
            self.dialogue.notice(text, "warning")
        self.set_keymap(dict(settings.keymap))
        self._frames: Timer | None = None
        self._frame_at = 0.0  # on the monotonic clock
        self._frame_rest = 0.0  # seconds until the next one
        self._spent = 0.0  # processor seconds at the last one
        self._working_since = 0.0  # on the monotonic clock; 0 while nothing is done
        self.ended_by = 0
        """Signal that ends the chat."""
        self.last_words = ""
        """Sentence to print after the terminal is restored."""

    def get_default_screen(self) -> ChatScreen:
        keep, piped, tour = self.chat_history.keep, self.piped, self.tour
        return ChatScreen(self, self.actions, self.message_edit, self.copier, keep=keep, piped=piped, tour=tour)

    def _parts(self) -> tuple[object, ...]:
        screen = self.chat_screen
        chat = (self.chat_history, self.exports, self.copier, self.message_edit, self.retries, self.editor)
        app = (self.races, self.models, self.settings_commands, self.switches, self.tours)
        return self, screen, screen.transcript_keys, *chat, *app

    @property
    def chat_screen(self) -> ChatScreen:
        """Screen of the chat, below any menu."""
        screen = self.screen_stack[0]
        assert isinstance(screen, ChatScreen)
        return screen

    @property
    def view(self) -> TranscriptView:
        return self.chat_screen.view

    @property
    def box(self) -> PromptInput:
        return self.chat_screen.input

    @property
    def settings(self) -> Settings:
        return self.live.settings

    def on_mount(self) -> None:
        self._frames = self.set_interval(FRAME_SECONDS, self._frame)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the terminal has lost the picture
        self.set_interval(IDLE_SECONDS, self._idle)

    def on_unmount(self) -> None:
        self.live.close()

    @on(Terminal.Ended)
    def _ended(self, event: Terminal.Ended) -> None:
        """End the chat in order after a signal."""
        if self.ended_by:
            return
        self.ended_by = event.number
        self.exit(return_code=128 + event.number)

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        """End the chat and save the draft."""
        self.tours.leave()
        self.last_words = self.chat_screen.recall.leave()
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """End the program after a bug, and save the draft."""
        with suppress(Exception):  # the fault may lie in there
            self.chat_screen.recall.leave()
        super()._handle_exception(error)

    def expect_events(self) -> None:
        """Resume frames, as the engine works."""
        if self._frames is not None:
            self._frames.resume()

    def _frame(self) -> None:
        now = monotonic()
        wait = min(max(self._frame_rest, self.write_seconds), LONGEST_WAIT)
        if not self.is_running or now - self._frame_at < wait:  # as it ends, the widgets go one by one
            return
        # All CPU time since the last frame: most of it is painting, which follows this call.
        spent = process_time()
        self._frame_rest = min((spent - self._spent) / SHARE, LONGEST_REST) - FRAME_SECONDS / 2
        self._frame_at = now
        self._spent = spent
        self.take_events()

    def take_events(self) -> None:
        """Take the engine's events and show them, once a frame."""
        if self.dialogue.drain():
            self.changed()
            self.expect_events()
        elif self._frames is not None and self.dialogue.phase in ("ready", "unloaded") and not self.races.running:
            self._frames.pause()

    def _idle(self) -> None:
        if not self.is_running:  # it ends, and the widgets go one by one
            return
        self.clear_settled_notices()
        self.chat_history.idle()
        self.chat_screen.recall.idle(self.chat_history.current)
        self.models.poll_downloads()
        if self.dialogue.phase in ("ready", "unloaded"):
            self.take_events()

    def changed(self) -> None:
        """Redraw after a change in the dialogue or the race."""
        self.live.follow_model()
        self.clear_settled_notices()
        if self.races.screen is not None:
            self.races.screen.refresh_race()
        else:
            self.chat_screen.refresh_dialogue()
        self.chat_history.record()
        self.models.remember_loaded()
        self._ring_after_work()

    def _applied(self, before: Settings, after: Settings) -> None:
        race = self.races.screen
        if before.theme != after.theme and after.theme in self.themes.palettes:
            self.themes.use(after.theme)
        if before.colours != after.colours:
            self.chat_screen.recolour(parse_colouring(after.colours))
        if before.pace != after.pace:
            self.dialogue.set_pace(after.pace)
            if race is not None:
                race.race.set_pace(after.pace)
        self.view.thoughts = parse_thoughts(after.thoughts)
        if race is not None:
            race.refresh_race(now=True)
        if before.keymap != after.keymap:
            self.set_keymap(dict(after.keymap))
            for id in ("#keys", "#status", "#panel"):
                self.chat_screen.query_one(id).refresh()
        if hasattr(self.screen, "settings_changed"):
            self.screen.settings_changed()

    def flash(self, line: Content) -> None:
        self.chat_screen.query_one(StatusLine).flash(line)

    def ring(self) -> None:
        """Ring the terminal's bell while the terminal is in the background."""
        if self.settings.notify and not self.app_focus:
            self.bell()

    def _ring_after_work(self) -> None:
        """Ring if work that took long has ended."""
        if (self.dialogue.phase not in ("ready", "unloaded") and not self.dialogue.paused) or self.races.running:
            self._working_since = self._working_since or monotonic()
        elif since := self._working_since:
            self._working_since = 0.0
            if monotonic() - since >= LONG_SECONDS:
                self.ring()

    def action_do(self, id: str, *words: str) -> None:
        """Run an action of the table; `cancel` ends the tour first."""
        if id != "cancel" or not self.tours.leave():
            self.actions.do(id, *words)

    @runs(actions.HELP)
    def show_help(self) -> None:
        from .actions.help import HelpScreen, entries

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss(None)
            return
        context: KeyContext = getattr(self.screen, "key_context", None) or self.chat_screen.key_context
        colouring = effective(self.view.colouring, self.no_color)
        rows = entries(context, self.actions, self.live.keymap, self.recent, in_chat=self.screen is self.chat_screen)
        self.ask(HelpScreen(rows, self.live.keymap, colouring), self.call_later)

    def in_background(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        slow: str = "",
        failed: Callable[[UserError], object] = lambda _: None,
    ) -> None:
        """Call a function in a thread; the command in progress returns to the input box after a failure."""
        if command := self.actions.running:
            failed = partial(self.chat_screen.refused, command)
        super().in_background(work, done, slow, failed)

    def refuse(self, error: UserError) -> None:
        until = self._is_free if isinstance(error, Busy) else None
        self.tell(str(error), "warning", until)

    def _is_free(self) -> bool:
        return not self.dialogue.busy and self.dialogue.queued is None

    @runs(actions.LEADER)
    def show_leader(self) -> None:
        from .keys import LeaderScreen

        self.push_screen(LeaderScreen(self.live.keymap, self.actions.do))

    @runs(actions.NEW_CHAT)
    def new_chat(self) -> None:
        dialogue = self.dialogue
        self.message_edit.leave()
        if not dialogue.transcript.entries:
            return
        if dialogue.answer is not None:
            dialogue.answer.finish("cancelled")
        self.exports.previous = dialogue.transcript
        dialogue.clear()
        self.live.leave_opened()
        dialogue.transcript.system = self.settings.system or None
        where = "is in your chats" if self.chat_history.keep else "opens again with /open"
        self.tell(f"New chat. The previous one {where}.", until=lambda: bool(dialogue.transcript.entries))
        self.chat_screen.view.show(dialogue.transcript)
        self.changed()

    def show_chat(self, transcript: Transcript) -> None:
        self.message_edit.leave()
        self.chat_history.opened(transcript)
        self.dialogue.transcript = transcript
        self.chat_screen.recall.show(self.chat_history.current)
        self.chat_screen.view.show(transcript)
        self.changed()


def run_chat(
    settings: Settings,
    client: Engine,
    *,
    notice: str | None = None,
    transcript: Transcript | None = None,
    browse: str | None = None,
    piped: str = "",
    tour: TourStart = "",
) -> int:
    """Run the chat and return the exit code.

    Args:
        settings: at the start.
        client: has been told to load the model.
        notice: a sentence to show at the start.
        transcript: a saved chat to continue.
        browse: query for the list of chats, to start with it.
        piped: text for the first message.
        tour: begins or offers the tour.
    """
    app = SpecchatApp(settings, client, notice, keep=settings.history)
    if transcript is not None:
        app.chat_history.opened(transcript)
        transcript.entries += app.dialogue.transcript.entries  # notices about the settings
        app.dialogue.transcript = transcript
    if browse is not None:
        app.call_later(app.chat_history.browse, browse)
    app.piped = piped
    app.tour = tour
    try:
        app.run()
    finally:
        app.models.close()
        with suppress(OSError):  # the terminal may be closed
            for sentence in filter(None, (*app.chat_history.close(), app.last_words)):
                print(f"specchat: {sentence}", file=sys.stderr)
    return app.return_code or 0
