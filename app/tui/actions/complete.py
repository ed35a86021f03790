"""Completion of slash commands: names and arguments."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...attach.names import Suggestion, offers, query_folder
from ...attach.names import score as match_score
from ...chat.about import default_word, words_of
from ...chat.methods import Method
from ...race.entry import RUNTIMES, split_prompt
from ...settings import actions
from ...settings.actions import Action
from ...settings.rows import preset_summary
from ...text.cells import folded
from ..host import Host
from .settings import PRESET_WORDS, current_values
from .table import COMMANDS, command_of, is_command

RULES = (
    Suggestion("accept=exact", "a draft token must be the model's own choice"),
    Suggestion("accept=rejection", "rejection sampling: the same distribution"),
    Suggestion("accept=soft:0.5", "lossy: nearly as probable as the model's choice"),
    Suggestion("accept=typical:0.3,0.3", "lossy: typical acceptance"),
)

LOOPS = (
    Suggestion("stop_loops=on", "stop an answer that repeats itself endlessly"),
    Suggestion("stop_loops=off", "let it go on"),
)


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


@dataclass(slots=True)
class KnownNames:
    """Names for the completion of commands."""

    methods: Mapping[str, Method] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    names: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of names (themes, think, models, chats, presets, settings) → name → a few words about it."""
    files: dict[str, Sequence[str]] = field(default_factory=dict)
    """Folder as typed → the names in it; the empty folder → all files below the working folder."""
    want: Callable[[str], None] = lambda kind: None
    """Requests a look-up of a kind of names: a key of `names`, `files`, or `in FOLDER`."""

    def refresh(self, host: Host) -> None:
        """Bring the names in memory up to date."""
        dialogue = host.dialogue
        self.methods = dialogue.methods
        self.unavailable = dialogue.unavailable
        self.names["themes"] = {name: palette.summary for name, palette in host.themes.palettes.items()}
        self.names["think"] = {word: "the default" * (word == default_word(dialogue.info)) for word in words_of(dialogue.info)}
        self.names["settings"] = current_values(host.live.settings)
        self.names["presets"] = {name: preset_summary(held) for name, held in host.live.layers.presets.items()}

    def all(self, kind: str) -> list[Suggestion]:
        self.want(kind)
        return [Suggestion(name, about) for name, about in self.names.get(kind, {}).items()]

    def files_for(self, query: str) -> Sequence[str]:
        """List the files in the folder of a partly typed path."""
        folder = query_folder(query)
        self.want("files" if folder is None else f"in {folder}")
        return self.files.get(folder or "", ())


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


def completions(typed: TypedCommand, names: KnownNames, most: int = 40) -> list[Suggestion]:
    """Suggest completions of the word being typed, best first; none for a complete word."""
    if not typed.name:
        commands = [row for row in COMMANDS if row.goes_by(typed.word)]
        offers = [Suggestion(f"/{row.command}", row.what, closes=bool(row.arguments)) for row in commands]
        return [] if [offer.name for offer in offers] == [f"/{typed.word}"] else offers
    row = command_of(typed.name)
    offers = suggestions(row, typed, names) if row is not None else []
    if any(offer.name == typed.word for offer in offers):
        return []
    return _rank(typed.word, offers)[:most]


def suggestions(row: Action, typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    """List all words that may follow, whatever is typed of the next one."""
    offers = [] if typed.words else [Suggestion(word, what) for word, what in row.words.items()]
    if row.id in KINDS and not typed.words:
        offers += names.all(KINDS[row.id])
    return offers + COMPLETERS[row.id](typed, names) if row.id in COMPLETERS else offers


def _rank(query: str, offers: list[Suggestion]) -> list[Suggestion]:
    """Sort the matches of a query: beginnings first; scattered letters count only without a better match."""
    if not query:
        return offers
    scores = [(score, offer) for offer in offers if (score := match_score(query, offer.name)) is not None]
    whole = [(score, offer) for score, offer in scores if folded(query) in folded(offer.name)]

    def rank(match: tuple[float, Suggestion]) -> tuple[bool, float]:
        return not folded(match[1].name).startswith(folded(query)), -match[0]

    return [offer for _, offer in sorted(whole or scores, key=rank)]


CompletionSource = Callable[[TypedCommand, KnownNames], list[Suggestion]]
"""Lists the words that may follow a command."""

KINDS = {
    actions.THINK.id: "think",
    actions.THEME_MENU.id: "themes",
    actions.MODEL.id: "models",
    actions.MODELS.id: "models",
    actions.CHATS.id: "chats",
}
"""Command id → kind of names that may follow."""

COMPLETERS: dict[str, CompletionSource] = {}
"""Command id → source of its completions."""


def completes(*rows: Action) -> Callable[[CompletionSource], CompletionSource]:
    def register(completer: CompletionSource) -> CompletionSource:
        COMPLETERS.update({row.id: completer for row in rows})
        return completer

    return register


@completes(actions.METHOD_MENU, actions.COMPARE)
def method(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    return _params(names.methods.get(typed.words[0]), typed) if typed.words else _methods(names)


@completes(actions.RACE)
def race(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    method, at, _ = typed.word.partition("@")
    if at:
        runtimes = [Suggestion(name, "this chat's model on that runtime") for name in RUNTIMES]
        return [Suggestion(f"{method}@{offer.name}", offer.what) for offer in names.all("models") + runtimes]
    chosen = [word for word in typed.words if word in names.methods]
    last = names.methods[chosen[-1]] if chosen else None
    return _methods(names, chosen) + (_params(last, typed) if typed.word else [])


@completes(actions.SET)
def sampling(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    if typed.word.startswith("accept="):
        return list(RULES)
    if typed.word.startswith("stop_loops="):
        return list(LOOPS)
    if "=" in typed.word:
        return []
    values = names.names.get("settings", {}).items()
    return [Suggestion(f"{key}=", f"now {value}" if value else "") for key, value in values if key not in _keys(typed)]


@completes(actions.PRESETS)
def preset(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    if not typed.words:
        return names.all("presets") + [Suggestion(word, what, closes=word == "save") for word, what in PRESET_WORDS.items()]
    return names.all("presets") if typed.words == ("save",) else []


@completes(actions.OPEN)
def saved_file(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    return [] if typed.words else _files(typed, names, [".json"])


@completes(actions.SCHEMA)
def schema(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    if typed.words[:1] == ("grammar",):
        return _files(typed, names, [".lark", ".gbnf"])
    return [] if typed.words else _files(typed, names, [".json"])


@completes(actions.EXPORT)
def export(typed: TypedCommand, names: KnownNames) -> list[Suggestion]:
    if typed.words:
        return _files(typed, names, [f".{typed.words[0]}"]) if len(typed.words) == 1 else []
    return _files(typed, names, [".html", ".md", ".json"]) if typed.word else []


def _methods(names: KnownNames, exclude: Sequence[str] = ()) -> list[Suggestion]:
    able = [method for method in names.methods.values() if method.name not in (*names.unavailable, *exclude)]
    return [Suggestion(method.name, method.summary, closes=True) for method in able]


def _keys(typed: TypedCommand) -> set[str]:
    return {word.partition("=")[0] for word in typed.words}


def _params(method: Method | None, typed: TypedCommand) -> list[Suggestion]:
    """List the settings of a method that are not typed yet, or the choices of the one being typed."""
    key, equals, _ = typed.word.partition("=")
    params = [param for param in method.params if param["name"] not in _keys(typed)] if method is not None else []
    if not equals:
        return [Suggestion(f"{param['name']}=", f"{param['default']} · {param['doc']}") for param in params]
    return [
        Suggestion(f"{key}={choice}", "the default" if choice == param["default"] else "")
        for param in params
        if param["name"] == key
        for choice in param.get("choices") or ()
    ]


def _files(typed: TypedCommand, names: KnownNames, suffixes: Sequence[str]) -> list[Suggestion]:
    files = [name for name in names.files_for(typed.word) if name.endswith(("/", *suffixes))]
    return [Suggestion(name, "") for name in offers(typed.word, files, 40)]
