"""The chat in the terminal: the Textual app around one dialogue with the engine.

The engine is another process; this one draws. It never imports a model runtime (a test asserts it).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, process_time
from typing import Any

from textual import on
from textual.app import App
from textual.content import Content
from textual.timer import Timer

from ...errors import UserError
from ..chat.chat_model import Engine
from ..chat.choosing import first_method
from ..chat.dialogue import Busy, Dialogue
from ..chat.methods import Method, known_methods
from ..chat.transcript import Transcript
from ..race.record import RaceRecord
from ..render.thoughts import parse_thoughts
from ..settings import actions
from ..settings.fields import Settings
from ..settings.keymap import ALL, conflicts, shown_keys
from ..settings.locations import config_folder
from ..theming.colouring import effective, parse_colouring
from .actions.copy import Copier
from .actions.dispatch import Actions
from .actions.export import Exports
from .actions.history import ChatHistory
from .actions.models import Models
from .actions.race import Races
from .actions.registry import runs
from .actions.rewrite import MessageEdit
from .actions.settings import SettingsCommands
from .actions.switch import Switches
from .actions.variants import Retries
from .chat.screen import ChatScreen
from .chat.status import StatusLine
from .composer.box import PromptInput
from .composer.editor import ExternalEditor
from .driver import Terminal
from .keys.context import KeyContext
from .live_settings import LiveSettings
from .notify import Notifier, notify
from .terminal_app import T, TerminalApp
from .themes import Themes
from .tour.tours import Start, Tours
from .transcript.view import TranscriptView

IDLE_SECONDS = 0.25
"""Between looks while nothing is under way (only the engine's end can come), and of the sign of life while it is."""


FRAME_SECONDS = 1 / 30
"""Between looks at the engine's events while there are some to expect: what an eye can follow, at half the cost of 60 Hz."""

SHARE = 0.15
"""Most of its time that the process may spend on frames; when they are expensive (a fast stream, a slow machine) there are
fewer, so that keys are answered in between."""

LONGEST_REST = 0.15
"""Most seconds that frames rest for their own cost."""

LONGEST_WAIT = 4.0
"""Most seconds between two frames of a stream, whatever the terminal seems to do."""


class Frames:
    """Looks at the engine's events again and again.

    Args:
        app: has the timer.
        look: takes the events in.
        write_seconds: how long the terminal took for the last write.
        clock: seconds that go on steadily.
    """

    def __init__(
        self,
        app: App[Any],
        look: Callable[[], None],
        write_seconds: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._app, self.look, self._write_seconds, self._clock = app, look, write_seconds, clock
        self._timer: Timer | None = None
        self._last = self._rest = self._spent = 0.0

    def begin(self) -> None:
        self._timer = self._app.set_interval(FRAME_SECONDS, self._frame)

    def stir(self) -> None:
        """Something is under way: look at every frame."""
        if self._timer is not None:
            self._timer.resume()

    def rest(self) -> None:
        if self._timer is not None:
            self._timer.pause()

    def _frame(self) -> None:
        now = self._clock()
        if not self._app.is_running:  # it ends, and the widgets go one by one
            return
        if now - self._last < min(max(self._rest, self._write_seconds()), LONGEST_WAIT):
            return
        # All that the process did since the last frame: it is paint, for the most part, and that comes after this call.
        spent = process_time()
        self._rest = min((spent - self._spent) / SHARE, LONGEST_REST) - FRAME_SECONDS / 2
        self._last, self._spent = now, spent
        self.look()


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
        known = known_methods() if methods is None else methods
        first = first_method(known, (), settings.model, settings.draft_model, {})
        method = settings.method or first
        self.dialogue = Dialogue(
            client,
            settings.model,
            known,
            method if method in known else first,
            {name: dict(table) for name, table in settings.methods.items()},
            load=settings.load_options(),
            chosen=settings.method is not None,
            pace=settings.pace,
        )
        self.live = LiveSettings(settings, self.dialogue, super().beside, self._applied)
        self.chat_history = ChatHistory(self, keep, settings.past)
        self.exports = Exports(self)
        self.models = Models(self, self._say)
        self.races = Races(self, self.models, self.exports)
        self.copier = Copier(self, self)
        self.editor = ExternalEditor(self, self)
        self.message_edit = MessageEdit(self)
        self.retries = Retries(self, self.message_edit)
        self.settings_commands = SettingsCommands(self)
        self.switches = Switches(self)
        self.tours = Tours(self, self.races, self.chat_history)
        self.actions = Actions(self, self._parts)
        self.notifier = Notifier(self.dialogue, lambda: self.races.running, self._say)
        self.frames = Frames(self, self.take_events, lambda: self.write_seconds)
        self.piped = ""
        """What was piped in, for the first message."""
        self.tour: Start = ""
        """How the chat starts, as for the tour."""
        unknown = [name for name in settings.keymap if name not in {key.id for key in ALL}]
        notices = [text for text in (notice, *self.themes.problems) if text]
        if unknown:
            ids = ", ".join(key.id for key in ALL)
            notices.append(f"[keymap] in the settings names unknown actions ({', '.join(unknown)}): choose from {ids}.")
        notices += [*conflicts(settings.keymap)]
        for text in notices:
            self.dialogue.notice(text, "warning")
        self.set_keymap(dict(settings.keymap))
        self.ended_by = 0
        """The signal that ends the chat."""
        self.last_words = ""
        """What is to be said once the terminal is given back."""

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(self, self.actions, self.message_edit, self.copier, self.chat_history.keep, self.piped, self.tour)

    def _parts(self) -> tuple[object, ...]:
        screen = self.chat_screen
        chat = (self.chat_history, self.exports, self.copier, self.message_edit, self.retries, self.editor)
        others = (self.races, self.models, self.settings_commands, self.switches, self.tours)
        return self, screen, screen.recall, screen.transcript_keys, *chat, *others

    @property
    def chat_screen(self) -> ChatScreen:
        """The chat's screen, below any menu."""
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
        self.frames.begin()
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the terminal shows nothing of it any more
        self.set_interval(IDLE_SECONDS, self._idle)

    def on_unmount(self) -> None:
        self.live.close()

    @on(Terminal.Ended)
    def _ended(self, event: Terminal.Ended) -> None:
        """A signal ends the chat, and nothing of it is lost."""
        if self.ended_by:
            return
        self.ended_by = event.number
        self.exit(return_code=128 + event.number)

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        """End the chat, whoever asks. What was being typed is kept."""
        self.tours.leave()
        self.last_words = self.chat_screen.recall.leave()
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """End the program over a fault of its own. What was being typed is kept all the same."""
        with suppress(Exception):  # the fault may lie in there
            self.chat_screen.recall.leave()
        super()._handle_exception(error)

    @on(TranscriptView.Turned)
    def _turned(self, event: TranscriptView.Turned) -> None:
        try:
            self.retries.turn(event.step, event.index)
        except UserError as error:
            self.refuse(error)

    def stir(self) -> None:
        """Something is under way: look for the engine's events at every frame."""
        self.frames.stir()

    def take_events(self) -> None:
        """Take in what the engine sent and show it, once a frame."""
        if self.dialogue.drain():
            self.changed()
            self.stir()
        elif self.dialogue.phase in ("ready", "unloaded") and not self.races.running:
            self.frames.rest()

    def _idle(self) -> None:
        if not self.is_running:  # it ends, and the widgets go one by one
            return
        self.untell()
        self.chat_history.idle()
        self.chat_screen.recall.idle(self.chat_history.current)
        self.models.idle()
        dialogue = self.dialogue
        if dialogue.phase in ("ready", "unloaded"):
            self.take_events()
        elif dialogue.phase != "writing":
            self.chat_screen.pulse()

    def changed(self) -> None:
        """Show what changed in the dialogue, or in the race that is over it."""
        self.live.look()
        self.untell()
        if self.races.screen is not None:
            self.races.screen.refresh_race()
        else:
            self.chat_screen.refresh_dialogue()
        self.chat_history.note()
        self.models.note()
        self.notifier.look()

    def _applied(self, before: Settings, after: Settings) -> None:
        if before.theme != after.theme and after.theme in self.themes.palettes:
            self.themes.wear(after.theme)
        if before.colours != after.colours:
            way = parse_colouring(after.colours)
            self.chat_screen.colouring(way)
            if self.races.screen is not None:
                self.races.screen.colouring(way)
        if before.pace != after.pace:
            self.dialogue.set_pace(after.pace)
            if self.races.screen is not None:
                self.races.screen.race.set_pace(after.pace)
        if before.thoughts != after.thoughts:
            self.view.thoughts = parse_thoughts(after.thoughts)
            if self.races.screen is not None:
                self.races.screen.thoughts(self.view.thoughts)
        if before.keymap != after.keymap:
            self.set_keymap(dict(after.keymap))
            for id in ("#keys", "#status", "#panel"):
                self.chat_screen.query_one(id).refresh()
        if hasattr(self.screen, "settings_changed"):
            self.screen.settings_changed()

    def flash(self, line: Content) -> None:
        self.chat_screen.query_one(StatusLine).flash(line)

    def _say(self, text: str) -> None:
        if self.settings.notify:
            notify(self, text)

    def action_do(self, id: str, *words: str) -> None:
        """Run an action of the table; what stops an answer ends the tour first."""
        if id != "cancel" or not self.tours.leave():
            self.actions.do(id, *words)

    @runs(actions.HELP)
    def show_help(self) -> None:
        from .keys.help import HelpScreen, entries

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss(None)
            return
        here: KeyContext = getattr(self.screen, "key_context", None) or self.chat_screen.key_context
        way = effective(self.view.colouring, self.no_color)
        rows = entries(here, self.actions, self.live.keymap, self.recent, in_chat=self.screen is self.chat_screen)
        self.ask(HelpScreen(rows, self.live.keymap, way, self.unread()), self.call_later)

    def beside(
        self,
        work: Callable[[], T],
        done: Callable[[T], None],
        slow: str = "",
        failed: Callable[[UserError], object] = lambda _: None,
    ) -> None:
        """Work in a thread; a command whose work fails comes back into the input box, as one that is refused at once does."""
        if command := self.actions.running:
            failed = partial(self.chat_screen.refused, command)
        super().beside(work, done, slow, failed)

    @property
    def more(self) -> str:
        """Says how to read a notice that is cut."""
        return f"{shown_keys('help', self.live.keymap)} shows all of it"

    def refuse(self, error: UserError) -> None:
        """Say why something was not done, as long as that is in the way."""
        dialogue = self.dialogue
        free = lambda: not dialogue.busy and dialogue.queued is None  # noqa: E731
        self.tell(str(error), "warning", free if isinstance(error, Busy) else None)

    @runs(actions.LEADER)
    def show_leader(self) -> None:
        from .keys.leader import LeaderScreen

        self.push_screen(LeaderScreen(self.live.keymap, self.actions.do))

    def on_app_focus(self) -> None:
        """The terminal is in front again: another one may have sent something meanwhile."""
        self.chat_screen.recall.refresh()

    @runs(actions.NEW_CHAT)
    def new_chat(self) -> None:
        dialogue = self.dialogue
        self.message_edit.leave()
        if not dialogue.transcript.entries:
            return
        if dialogue.answer is not None:
            dialogue.answer.finish("cancelled")
        self.exports.left = dialogue.transcript
        dialogue.clear()
        self.live.fresh()
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
    race: RaceRecord | None = None,
    piped: str = "",
    fallback: tuple[str, Mapping[str, Any]] | None = None,
    tour: Start = "",
) -> int:
    """Run the chat until it is left; the exit code.

    Args:
        settings: what to start with.
        client: a client that has been told to load the model.
        notice: a sentence to show at the start.
        transcript: a saved chat to go on with.
        browse: begin with the list of chats, searched for this.
        race: begin with this race, as it ended.
        piped: what was piped in.
        fallback: model and options of a load to try where the first one fails.
        tour: begin with it, or offer it.
    """
    app = SpecchatApp(settings, client, notice, keep=settings.history)
    if transcript is not None:
        app.chat_history.opened(transcript)
        transcript.entries += app.dialogue.transcript.entries  # what is wrong with the settings
        app.dialogue.transcript = transcript
    if browse is not None:
        app.call_later(app.chat_history.browse, browse)
    if race is not None:
        app.call_later(app.races.show_record, race)
    app.piped, app.tour, app.dialogue.fallback = piped, tour, fallback
    try:
        app.run()
    finally:
        app.models.close()
        with suppress(OSError):  # of a terminal that has gone
            for sentence in filter(None, (*app.chat_history.close(), app.last_words)):
                print(f"specchat: {sentence}", file=sys.stderr)
    return app.return_code or 0
