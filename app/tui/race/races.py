"""Races from the chat: their methods, models and prompt, and the screen. The chat and its draft stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from ....engine.options import find_server
from ....errors import NotPossible, UserError
from ...chat.methods import PLAIN, why_plain
from ...race.entry import RaceEntry, race_prompt, split_model, suggest_methods
from ...race.race import FEWEST, MOST, Race
from ...settings import actions
from ..actions.dispatch import is_command, pairs, runs
from ..actions.export import Exports
from ..actions.switch import method_items, method_settings
from ..composer.starters import OPENINGS, STARTERS
from ..host import Host

if TYPE_CHECKING:
    from .screen import RaceScreen

USAGE = (
    "/race takes methods, each with its settings or on another model, and optionally a prompt: /race greedy lookup "
    "max_ngram=4 greedy@MODEL : PROMPT."
)


class Races:
    """Starts races and shows them: /race."""

    def __init__(self, host: Host, exports: Exports) -> None:
        self.host = host
        self._exports = exports
        self.screen: RaceScreen | None = None
        """Screen of the race, while there is one."""
        self.ids: set[int] = set()
        """Ids of all commands of races, whose late events nothing else must see."""

    @property
    def running(self) -> bool:
        return self.screen is not None and (self.screen.race.running or self.screen.race.settling)

    def entry(self, method: str) -> RaceEntry:
        """Make an entry: a method with its settings in the chat."""
        return RaceEntry(method, dict(self.host.dialogue.settings.get(method, {})))

    def _set_up(self, prompt: str) -> None:
        from .setup import RaceSetup

        dialogue = self.host.dialogue
        text, messages, source = self._subject(prompt)
        source = " ".join(filter(None, (source, why_plain(dialogue.info))))
        drafters = [name for name, method in dialogue.methods.items() if method.group in ("draft model", "trained")]
        items = [item for item in method_items(dialogue) if not (item.reason and item.id in drafters)]  # they are not loaded
        setup = RaceSetup(items, suggest_methods(dialogue), text, source, self.host.live.keymap)
        self.host.ask(setup, lambda lanes: self.start([self.entry(name) for name in lanes], text, messages))

    @runs(actions.RACE)
    def command(self, *arguments: str) -> None:
        """Race `METHOD key=value … METHOD@MODEL … : PROMPT`, all of it optional; without methods, choose them first."""
        words, prompt = arguments, ""
        if ":" in arguments:
            at = arguments.index(":")
            words, prompt = arguments[:at], " ".join(arguments[at + 1 :])
        self._must_be_possible()
        entries = self._entries(words)
        if not entries:
            self._set_up(prompt)
            return
        text, messages, _ = self._subject(prompt)
        self.start(entries, text, messages)

    def _entries(self, words: Sequence[str]) -> list[RaceEntry]:
        dialogue = self.host.dialogue
        picks: list[tuple[str, list[str]]] = []
        for word in words:
            if "=" not in word or "@" in word.partition("=")[0]:
                picks.append((word, []))
            elif picks:
                picks[-1][1].append(word)
            else:
                raise UserError(f"{word} must follow a method. {USAGE}")
        entries = []
        for word, settings in picks:
            name, model, backend = split_model(word, dialogue.model, dialogue.info)
            if word.endswith("@"):
                raise UserError(f"{word} does not name a model. {USAGE}")
            if model and find_server(model, dialogue.selection.servers) is not None:
                entries.append(RaceEntry(name, {}, model))  # the server chooses the method
                continue
            server = None if model or backend else dialogue.info.server
            if server and ("@" in word or name in (PLAIN, server.method)):
                entries.append(RaceEntry(server.method))
                continue
            merged = method_settings(dialogue, name, pairs(settings, USAGE), elsewhere=bool(model or backend))
            entries.append(RaceEntry(name, merged, model, backend))
        if len(entries) == 1:  # against the same method on the chat's model, else plain decoding
            only = entries[0]
            rivals = [name for name in (only.method, *suggest_methods(dialogue)) if only.key or name != only.method]
            rival = next((name for name in rivals if name in dialogue.methods and name not in dialogue.unavailable), None)
            if rival is None:
                raise UserError("This model has only one method. Add another model to race against, as in greedy@MODEL.")
            entries.insert(0, RaceEntry(rival, only.settings) if rival == only.method else self.entry(rival))
        if len(entries) > MOST:
            raise UserError(f"A race has {FEWEST} to {MOST} panes, not {len(entries)}. Leave some out.")
        return entries

    def _must_be_possible(self) -> None:
        dialogue = self.host.dialogue
        dialogue.must_be_idle("race")
        if dialogue.phase == "loading":
            raise UserError("The model is still loading. Start the race when it is ready.")
        if dialogue.phase != "ready":
            raise NotPossible("No model is loaded. Load one with /model NAME.")

    def _subject(self, prompt: str) -> tuple[str, list[dict[str, str]], str]:
        """Choose the prompt: the one typed, the draft, the last message, or an example.

        Returns:
            prompt, messages, and a sentence on the source of the prompt.
        """
        dialogue = self.host.dialogue
        draft = self.host.box.text
        if prompt:
            subject, source = race_prompt(dialogue, prompt), ""
        elif draft.strip() and not is_command(draft):
            subject, source = race_prompt(dialogue, draft), "Your message, which stays in the input box."
        else:
            subject, source = race_prompt(dialogue, None), "The last message of this chat."
        if subject is None:
            source = "An example. Type your own prompt, then press F5."
            subject = race_prompt(dialogue, (OPENINGS if dialogue.completes else STARTERS)[0].prompt)
        assert subject is not None, "a prompt makes one"
        return *subject, source

    def start(self, entries: Sequence[RaceEntry], prompt: str, messages: list[dict[str, str]]) -> None:
        self.begin(Race(self.host.dialogue, prompt, messages, entries, self.ids))

    def begin(self, race: Race, caption: Widget | None = None) -> RaceScreen:
        """Start a race and show it."""
        from .screen import RaceScreen

        host = self.host
        screen = self.screen = RaceScreen(race, host, self._exports.choose_race, caption)

        def close(_: None) -> None:
            self.screen = None
            race.close()  # it goes on taking the engine's events about its lanes
            host.changed()

        host.dialogue.listener = race.handle
        host.push_screen(screen, close)
        race.start()
        host.expect_events()
        return screen
