"""Races from the chat: who races on what, and the screen that shows it. The chat and its draft stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....backends.base import UserError
from ...race.entry import Entry, split_model
from ...race.kept import KeptRaces
from ...race.race import FEWEST, MOST, Race
from ...race.subject import suggested, talk
from .table import is_command, pairs

if TYPE_CHECKING:
    from ...race.choices import Choice
    from ..app import SpecchatApp
    from ..pickers.menu import Item
    from ..race.screen import RaceScreen
    from ..race.setup import Pick

USAGE = (
    "/race takes methods, each with its settings or on another model, and perhaps a prompt: /race greedy lookup max_ngram=4 "
    "greedy@MODEL : PROMPT."
)


class Racing:
    """Opens races."""

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat
        self.screen: RaceScreen | None = None
        """The race on the screen."""
        self.heard: set[int] = set()
        """Ids of all races before."""
        self.kept = KeptRaces(chat)

    @property
    def running(self) -> bool:
        """Whether the engine has something to say of a race."""
        return self.screen is not None and self.screen.race.running

    def entry(self, method: str, choice: Choice | None = None) -> Entry:
        """A method as it is set in the chat, on a model."""
        settings = dict(self.chat.dialogue.settings.get(method, {}))
        return Entry(method, settings, choice.model, choice.backend) if choice is not None else Entry(method, settings)

    def items(self, unavailable: Mapping[str, str] | None = None) -> list[Item]:
        """The methods, for a menu; those that a model cannot run (None: the chat's) say why."""
        from ..chat.header import LABEL_STYLES
        from ..pickers.menu import Item

        dialogue = self.chat.dialogue
        reasons = dialogue.unavailable if unavailable is None else unavailable
        return [
            Item(
                method.name,
                method.name,
                label := dialogue.label_of(method.name),
                LABEL_STYLES.get(label, "$quiet"),
                method.summary,
                reason=reasons.get(method.name, ""),
            )
            for method in dialogue.methods.values()
        ]

    def attempt(self) -> None:
        """For the key and the palette: ask who races; what is in the way is told."""
        try:
            self.ask()
        except UserError as error:
            self.chat.tell(str(error), "warning")

    def ask(self, prompt: str = "") -> None:
        """Ask who races.

        Raises:
            UserError: there can be no race now.
        """
        from ..race.setup import RaceSetup

        self._possible()
        text, messages, source = self._subject(prompt)
        dialogue = self.chat.dialogue

        def chosen(lanes: list[Pick] | None) -> None:
            if lanes:
                self.open([self.entry(method, choice) for method, choice in lanes], text, messages)

        self.chat.push_screen(RaceSetup(self.items(), suggested(dialogue), text, source), chosen)

    def command(self, arguments: list[str]) -> None:
        """What /race does: `METHOD key=value … METHOD@MODEL … : PROMPT`, all of it optional.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        words, _, prompt = arguments, "", ""
        if ":" in arguments:
            at = arguments.index(":")
            words, prompt = arguments[:at], " ".join(arguments[at + 1 :])
        self._possible()
        entries = self._entries(words)
        if not entries:
            self.ask(prompt)
            return
        text, messages, _ = self._subject(prompt)
        self.open(entries, text, messages)

    def _entries(self, words: Sequence[str]) -> list[Entry]:
        from ....engine.catalog import get, parse_params

        dialogue = self.chat.dialogue
        given: list[tuple[str, list[str]]] = []
        for word in words:
            if "=" not in word or "@" in word.partition("=")[0]:
                given.append((word, []))
            elif given:
                given[-1][1].append(word)
            else:
                raise UserError(f"{word} has no method before it: {USAGE}")
        entries = []
        for word, settings in given:
            name, model, backend = split_model(word, dialogue.model, dialogue.info)
            if name not in dialogue.methods:
                get(name)  # raises with the nearest name
            if word.endswith("@"):
                raise UserError(f"{word} names no model: {USAGE}")
            if not (model or backend) and (reason := dialogue.unavailable.get(name)):
                raise UserError(f"{name} cannot run on this model: {reason}")
            own = {**dialogue.settings.get(name, {}), **pairs(settings, USAGE)}
            if settings:
                parse_params(get(name), own)
            entries.append(Entry(name, own, model, backend))
        if len(entries) == 1:
            entries.insert(0, self._rival(entries[0]))
        if len(entries) > MOST:
            raise UserError(f"A race has {FEWEST} to {MOST} lanes, not {len(entries)}: leave some out.")
        return entries

    def _rival(self, entry: Entry) -> Entry:
        """Whom a single entry races: on another model the chat's own with the same method, else the plain method."""
        dialogue = self.chat.dialogue
        if entry.key and entry.method not in dialogue.unavailable:
            return Entry(entry.method, entry.settings)
        rival = next((name for name in suggested(dialogue, MOST) if name != entry.method or entry.key), None)
        if rival is None:
            raise UserError("This model can run one method only: name another model to race against, as in greedy@MODEL.")
        return self.entry(rival)

    def _possible(self) -> None:
        dialogue = self.chat.dialogue
        if dialogue.busy or dialogue.queued is not None:
            raise UserError("An answer is being written: stop it with esc, then race.")
        if dialogue.phase == "loading":
            raise UserError("The model is still being loaded: race when it is ready.")
        if dialogue.phase != "ready":
            raise UserError("No model is loaded to race on: /model NAME loads one.")

    def _subject(self, prompt: str) -> tuple[str, list[dict[str, str]], str]:
        """Prompt, messages, and where the prompt is from."""
        from ..chat.welcome import STARTERS

        dialogue = self.chat.dialogue
        draft = self.chat.chat_screen.input.text
        if prompt:
            found, source = talk(dialogue, prompt), ""
        elif draft.strip() and not is_command(draft):
            found, source = talk(dialogue, draft), "Your draft, which stays in the input box."
        else:
            found, source = talk(dialogue, None), "The last message of this chat."
        if found is None:
            source = "An example: type a prompt of your own, then F5."
            found = talk(dialogue, STARTERS[0].prompt)
        assert found is not None, "a prompt was given"
        return found[0], found[1], source

    def open(self, entries: Sequence[Entry], prompt: str, messages: list[dict[str, str]]) -> None:
        """Race, and show it."""
        race = Race(self.chat.dialogue, prompt, messages, entries, self.heard)
        self.show(race)
        race.start()
        self.chat.stir()

    def show(self, race: Race) -> None:
        """Show a race."""
        from ..race.screen import RaceScreen

        chat = self.chat
        screen = self.screen = RaceScreen(race, chat.settings.keymap)

        def left(_: None) -> None:
            self.screen = None
            # The race still hears what the engine says of its lanes, so that nobody else need know.
            race.close()
            self.heard |= race.ids
            self.kept.left(race)
            chat.changed()

        chat.dialogue.listener = race.handle
        chat.push_screen(screen, left)
