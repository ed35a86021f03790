"""Suggestions for the word being typed: files, commands and their arguments."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ...attach.attachments import Attachment, with_pastes
from ...attach.names import Suggestion, format_mention, names_below, names_in, offers, open_mention, query_folder
from ...chat.about import default_word, words_of
from ...chat.methods import Method
from ...race.entry import split_prompt
from ...settings import actions
from ...settings.rows import preset_summary
from ...text.cells import FOLDED, folded
from ..composer.completion import Completion
from ..host import Host
from .dispatch import COMMANDS, command_of, is_command
from .settings import current_values

FRESH_SECONDS = 10.0
"""Seconds for which a list of files or models is reused."""

MOST = 40
"""Most suggestions."""


class TypedCommand(NamedTuple):
    """A partly typed slash command."""

    name: str
    """Command name; empty while it is being typed."""
    words: tuple[str, ...]
    """Finished arguments."""
    word: str
    """Word being typed, without quotes."""
    start: int
    """Column where `word` begins."""


def parse_command(before: str) -> TypedCommand | None:
    """Parse the message up to the cursor; None if it is no command, or if its prompt is being typed."""
    if before == "/":
        return TypedCommand("", (), "", 0)
    if not is_command(before):
        return None
    name, space, rest = before[1:].partition(" ")
    if not space:
        return TypedCommand("", (), name, 0)
    command = command_of(name)
    if command is not None and command.takes == "prompt" and split_prompt(rest)[1]:
        return None
    words, word, start = _split(rest)
    return TypedCommand(name, tuple(words), word, start + len(name) + 2)


def _split(rest: str) -> tuple[list[str], str, int]:
    """Split arguments with a shell's quotes into finished words, the word being typed, and its start."""
    words: list[str] = []
    word, start, quote = "", 0, ""
    for at, letter in enumerate(rest):
        if quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "'\"":
            quote = letter
        elif letter.isspace():
            if at > start:
                words.append(word)
            word, start = "", at + 1
        else:
            word += letter
    return words, word, start


def quoted(name: str) -> str:
    """Quote a name as an argument where needed; a folder's quotes stay open."""
    quotes = shlex.quote(name) if name else name
    return quotes.removesuffix("'") if name.endswith("/") else quotes


def _rank(query: str, suggestions: list[Suggestion]) -> list[Suggestion]:
    """Select the names that contain the query; those that begin with it come first."""
    matches = [suggestion for suggestion in suggestions if folded(query) in folded(suggestion.name)]
    return sorted(matches, key=lambda suggestion: not folded(suggestion.name).startswith(folded(query)))


def _params(method: Method | None, word: str, keys: set[str]) -> list[Suggestion]:
    """List the settings of a method that are not typed yet."""
    params = [param for param in method.params if param["name"] not in keys] if method is not None and "=" not in word else []
    return [Suggestion(f"{param['name']}=", f"{param['default']} · {param['doc']}") for param in params]


class Suggestions:
    """Suggests files and arguments for the word being typed.

    Args:
        names: returns the list above the input box.
        files: placeholder in the input box → the file of an edited message.
    """

    def __init__(self, host: Host, names: Callable[[], Completion], files: Mapping[str, Attachment]) -> None:
        self._host = host
        self._names = names
        self._files = files
        self._found: dict[str, Mapping[str, str]] = {}  # kind of names, or a folder → names, each with a few words
        self._updated: dict[str, float] = {}  # the same → time of the look-up
        self._closed = -1  # start of the word whose suggestions esc has closed

    @property
    def names(self) -> Completion:
        return self._names()

    def offer(self) -> None:
        start, suggestions = self._suggest()
        if start == self._closed:
            suggestions = []
        elif start < 0:
            self._closed = -1
        self.names.offer(suggestions)
        self._host.box.offering = bool(suggestions)

    def _suggest(self) -> tuple[int, list[Suggestion]]:
        """Suggest names for the word at the cursor, with its start; −1 if there is no such word."""
        box = self._host.box
        if box.walking:  # up and down go on through the messages
            return -1, []
        if (command := self._command()) is not None:
            return command.start, self._complete(command)
        if (path := open_mention(box.before)) is None:
            return -1, []
        return path[0], [Suggestion(name) for name in offers(path[1], self._list_files(path[1]))]

    def _command(self) -> TypedCommand | None:
        box = self._host.box
        return parse_command(box.before) if box.document.line_count == 1 else None

    def _complete(self, typed: TypedCommand) -> list[Suggestion]:
        """Suggest completions of the word being typed, best first; none for a complete word."""
        if not typed.name:
            rows = [row for row in COMMANDS if row.command.startswith(typed.word)]
            commands = [Suggestion(f"/{row.command}", row.what, closes=bool(row.arguments)) for row in rows]
            return [] if [row.command for row in rows] == [typed.word] else commands
        suggestions = _rank(typed.word, self._arguments(typed))[:MOST]
        return [] if typed.word in (suggestion.name for suggestion in suggestions) else suggestions

    def _arguments(self, typed: TypedCommand) -> list[Suggestion]:
        """List all words that may follow a command, whatever is typed of the next one."""
        dialogue, live, info = self._host.dialogue, self._host.live, self._host.dialogue.info
        row, first = command_of(typed.name), not typed.words
        keys = {word.partition("=")[0] for word in typed.words}
        able = {name: method for name, method in dialogue.methods.items() if name not in dialogue.unavailable}
        methods = [Suggestion(name, able[name].summary, closes=True) for name in able if name not in typed.words]
        presets = [Suggestion(name, preset_summary(values)) for name, values in live.layers.presets.items()]
        suggestions = [Suggestion(word, about, closes=word == "save") for word, about in row.words.items()] if row else []
        match row:
            case actions.METHOD_MENU | actions.COMPARE:
                return methods if first else _params(able.get(typed.words[0]), typed.word, keys)
            case actions.RACE:
                method, at, _ = typed.word.partition("@")
                if at:
                    return [Suggestion(f"{method}@{name}", place) for name, place in self._models().items()]
                raced = [able[word] for word in typed.words if word in able]
                return methods + (_params(raced[-1], typed.word, keys) if raced and typed.word else [])
            case actions.SET:
                values = current_values(live.settings).items()
                return [Suggestion(f"{key}=", value and f"now {value}") for key, value in values if key not in keys]
            case actions.PRESETS if typed.words == ("save",):
                return presets
            case actions.SCHEMA if typed.words == ("grammar",):
                return self._paths(typed.word, ".lark", ".gbnf")
            case _ if not first:
                return []
            case actions.PRESETS:
                return presets + suggestions
            case actions.SCHEMA | actions.OPEN:
                return self._paths(typed.word, ".json") + suggestions
            case actions.MODEL:
                return [Suggestion(name, place) for name, place in self._models().items()]
            case actions.THEME_MENU:
                return [Suggestion(name, palette.summary) for name, palette in self._host.themes.palettes.items()]
            case actions.THINK:
                return [Suggestion(word, "the default" * (word == default_word(info))) for word in words_of(info)]
        return suggestions

    def _paths(self, word: str, *suffixes: str) -> list[Suggestion]:
        files = [name for name in self._list_files(word) if name.endswith(("/", *suffixes))]
        return [Suggestion(name) for name in offers(word, files, MOST)]

    def _models(self) -> Mapping[str, str]:
        return self._look_up("models", _model_names)

    def _list_files(self, query: str) -> list[str]:
        """List the files in the folder of a partly typed path, or below the working folder."""
        folder = query_folder(query)
        if folder is None:
            return [*self._look_up("files", lambda: dict.fromkeys(names_below(Path()), ""))]
        return [*self._look_up(f"in {folder}", lambda: dict.fromkeys(names_in(folder), ""))]

    def _look_up(self, kind: str, find: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """Return the names found last; unless that is recent, find them in a thread, as a folder may be large or slow."""

        def work() -> Mapping[str, str]:
            with suppress(OSError):  # the folder is gone
                return find()
            return {}

        def done(names: Mapping[str, str]) -> None:
            self._found[kind] = names
            self.offer()

        if monotonic() - self._updated.get(kind, -inf) > FRESH_SECONDS:
            self._updated[kind] = monotonic()
            self._host.in_background(work, done)
        return self._found.get(kind, {})

    def take(self) -> bool:
        """Put the chosen name into the message; False if there is none."""
        names, box = self.names, self._host.box
        row, column = box.cursor_location
        if not (name := names.chosen):
            return False
        if (command := self._command()) is not None:
            text = (quoted(name) if command.name else name) + " " * names.offers[names.at].closes
            box.replace(text, (row, command.start), (row, column))
        elif (path := open_mention(box.before)) is not None:
            box.replace(format_mention(name), (row, path[0]), (row, column))
        else:
            return False
        return True

    def take_chosen(self) -> bool:
        """Take the name that the arrows chose; False if enter is to send."""
        self.offer()  # for the text now: keys may be faster than the messages about them
        return self.names.moved and self.take()

    def close(self) -> bool:
        """Close the list; False if there is none."""
        if not self.names.offers:
            return False
        self._closed = self._suggest()[0]
        self.offer()
        return True

    def unfold(self, draft: str) -> tuple[str, list[Attachment]]:
        """Split a draft into its message and the files and texts folded in it."""
        message, pastes = with_pastes(draft, self._host.box.pastes)
        return message, [self._files.get(f"{FOLDED}{paste.name}]", paste) for paste in pastes]


def _model_names() -> Mapping[str, str]:
    from ...models.places import spots

    return {spot.spec: spot.place for spot in spots() if not spot.remark and spot.spec.isprintable()}
