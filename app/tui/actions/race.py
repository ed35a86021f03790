"""Races from the chat: who races on what, and the screen that shows it. The chat and its draft stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.widget import Widget

from ....engine.options import BUILTIN, find_server
from ....errors import NotPossible, UserError
from ...chat.choosing import PLAIN
from ...race.entry import RaceEntry, split_model
from ...race.kept import KeptRace
from ...race.race import FEWEST, MOST, Race
from ...race.subject import describe_last_message, race_prompt, suggest_methods, warning
from ...settings import actions
from ..host import Host
from .export import Exports
from .models import Models
from .registry import runs
from .switch import method_items, method_settings
from .table import is_command, pairs

if TYPE_CHECKING:
    from ...race.choices import ModelChoice
    from ...race.record import RaceRecord
    from ..race.screen import RaceScreen
    from ..race.setup import LanePick

USAGE = (
    "/race takes methods, each with its settings or on another model, and optionally a prompt: /race greedy lookup "
    "max_ngram=4 greedy@MODEL : PROMPT."
)


class Races:
    """Starts races and shows them: /race."""

    def __init__(self, host: Host, models: Models, exports: Exports) -> None:
        self.host, self._models, self._exports = host, models, exports
        self.screen: RaceScreen | None = None
        """The race on the screen."""
        self.heard: set[int] = set()
        """Ids of all races before."""
        exports.show_race = self.show_record

    @property
    def running(self) -> bool:
        """Whether the engine has something to say of a race."""
        return self.screen is not None and (self.screen.race.running or self.screen.race.settling)

    def entry(self, method: str, choice: ModelChoice | None = None) -> RaceEntry:
        """A method as it is set in the chat, on a model."""
        settings = dict(self.host.dialogue.settings.get(method, {}))
        return RaceEntry(method, settings, choice.model, choice.backend) if choice is not None else RaceEntry(method, settings)

    def ask(self, prompt: str = "") -> None:
        from ..race.setup import RaceSetup

        self._must_be_possible()
        text, messages, source = self._subject(prompt)
        dialogue = self.host.dialogue

        def chosen(lanes: list[LanePick]) -> None:
            self.open([self.entry(method, choice) for method, choice in lanes], text, messages)

        source = " ".join(filter(None, (source, warning(dialogue))))
        first, keymap = suggest_methods(dialogue), self.host.live.keymap
        drafters = [name for name, method in dialogue.methods.items() if method.group in ("draft model", "trained")]
        items = [item for item in method_items(dialogue) if not (item.reason and item.id in drafters)]  # they are not loaded
        self.host.ask(RaceSetup(items, first, text, source, self.ask_model, keymap), chosen)

    def ask_model(self, title: str, taken: Collection[str], note: str, then: Callable[[ModelChoice | None], None]) -> None:
        """Ask for a model of this machine, or a name.

        Args:
            title: what is asked.
            taken: keys of models that are in already.
            note: what is said of those.
            then: called with the answer, None if there is none.
        """
        from ...race.choices import chat_model_choice, find_choices
        from ..race.model import RaceModel

        dialogue = self.host.dialogue
        others = partial(find_choices, dialogue, self._models.library, self.host.live.settings.model_folders)
        self.host.push_screen(RaceModel(title, taken, note, chat_model_choice(dialogue), others, self.host.live.keymap), then)

    @runs(actions.RACE)
    def command(self, *arguments: str) -> None:
        """What /race does: `METHOD key=value … METHOD@MODEL … : PROMPT`, all of it optional."""
        words, prompt = arguments, ""
        if ":" in arguments:
            at = arguments.index(":")
            words, prompt = arguments[:at], " ".join(arguments[at + 1 :])
        self._must_be_possible()
        entries = self._entries(words)
        if not entries:
            self.ask(prompt)
            return
        text, messages, _ = self._subject(prompt)
        self.open(entries, text, messages)

    def _entries(self, words: Sequence[str]) -> list[RaceEntry]:
        dialogue = self.host.dialogue
        given: list[tuple[str, list[str]]] = []
        for word in words:
            if "=" not in word or "@" in word.partition("=")[0]:
                given.append((word, []))
            elif given:
                given[-1][1].append(word)
            else:
                raise UserError(f"{word} must follow a method. {USAGE}")
        entries = []
        for word, settings in given:
            name, model, backend = split_model(word, dialogue.model, dialogue.info)
            if word.endswith("@"):
                raise UserError(f"{word} does not name a model. {USAGE}")
            if model and find_server(model, dialogue.load.get("servers", {})) is not None:
                entries.append(RaceEntry(name, {}, model))  # it decides how it decodes
                continue
            served = {} if model or backend else dialogue.info.get("server") or {}
            if served and ("@" in word or name in (PLAIN, served["method"])):
                entries.append(RaceEntry(served["method"]))
                continue
            own = method_settings(dialogue, name, pairs(settings, USAGE), elsewhere=bool(model or backend))
            entries.append(RaceEntry(name, own, model, backend))
        if len(entries) == 1:
            entries.insert(0, self._rival(entries[0]))
        if len(entries) > MOST:
            raise UserError(f"A race has {FEWEST} to {MOST} panes, not {len(entries)}. Leave some out.")
        return entries

    def _rival(self, entry: RaceEntry) -> RaceEntry:
        """Whom a single entry races: on another model the chat's own with the same method, else the plain method."""
        dialogue = self.host.dialogue
        if entry.key and entry.method not in dialogue.unavailable:
            return RaceEntry(entry.method, entry.settings)
        rival = next((name for name in suggest_methods(dialogue) if name != entry.method or entry.key), None)
        if rival is None:
            raise UserError("This model has only one method. Add another model to race against, as in greedy@MODEL.")
        return self.entry(rival)

    def _must_be_possible(self) -> None:
        dialogue = self.host.dialogue
        dialogue.must_be_idle("race")
        if dialogue.phase == "loading":
            raise UserError("The model is still loading. Start the race when it is ready.")
        if dialogue.phase != "ready":
            raise NotPossible("No model is loaded. Load one with /model NAME.")

    def _subject(self, prompt: str) -> tuple[str, list[dict[str, str]], str]:
        """Prompt, messages, and where the prompt is from."""
        from ..chat.welcome import starters_for

        dialogue = self.host.dialogue
        draft = self.host.box.text
        if prompt:
            found, source = race_prompt(dialogue, prompt), ""
        elif draft.strip() and not is_command(draft):
            found, source = race_prompt(dialogue, draft), "Your message, which stays in the input box."
        else:
            found, source = race_prompt(dialogue, None), describe_last_message(dialogue)
        if found is None:
            source = "An example. Type your own prompt, then press F5."
            found = race_prompt(dialogue, starters_for(dialogue.completes, builtin=dialogue.model == BUILTIN)[0].prompt)
        assert found is not None, "a prompt was given"
        return found[0], found[1], source

    def open(self, entries: Sequence[RaceEntry], prompt: str, messages: list[dict[str, str]]) -> None:
        self.begin(Race(self.host.dialogue, prompt, messages, entries, self.heard))

    def begin(self, race: Race, caption: Widget | None = None) -> RaceScreen:
        """Start a race, and show it."""
        screen = self.show(race, caption)
        race.start()
        self.host.stir()
        return screen

    def show(self, race: Race, caption: Widget | None = None) -> RaceScreen:
        from ..race.screen import RaceScreen

        host = self.host
        screen = self.screen = RaceScreen(race, host, self._exports.choose_race, caption)

        def left(_: None) -> None:
            self.screen = None
            # The race still hears what the engine says of its lanes, so that nobody else need know.
            race.close()
            self.heard |= race.ids
            host.changed()

        host.dialogue.listener = race.handle
        host.push_screen(screen, left)
        return screen

    def show_record(self, record: RaceRecord) -> None:
        """Show a race out of a file as it ended; run again, it is a race on its prompt alone."""
        self.show(KeptRace(self.host.dialogue, record, self.heard))
