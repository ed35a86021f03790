"""Completing a slash command: its name, and what may follow it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...attach.files import score
from ...attach.names import Suggestion, offers, query_folder
from ...chat.about import default_word, words_of
from ...chat.methods import Method
from ...race.entry import RUNTIMES, split_prompt
from ...settings import actions
from ...settings.actions import Action
from ...settings.rows import preset_summary
from ...text.cells import folded
from ..host import Host
from .settings import PRESET_WORDS, set_now
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
    """A slash command as far as it is typed."""

    name: str
    """Empty while the name itself is being typed."""
    words: tuple[str, ...]
    """Its finished arguments."""
    word: str
    """What is being typed, without quotes."""
    start: int
    """The place in the line where `word` begins."""


@dataclass(slots=True)
class KnownNames:
    """The names that a command may be completed to."""

    methods: Mapping[str, Method] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    names: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Kind of things (themes, ways to think, models, chats, presets, settings) → name → a few words about it."""
    files: dict[str, Sequence[str]] = field(default_factory=dict)
    """Folder as typed → the names in it; the empty folder stands for all files below the working folder."""
    want: Callable[[str], None] = lambda kind: None
    """Called with the kind of names that completion needs (of `names`; `files`; `in FOLDER`), so that they are looked up."""

    def take(self, host: Host) -> None:
        """Bring up to date what needs no look at the disk."""
        dialogue = host.dialogue
        self.methods, self.unavailable = dialogue.methods, dialogue.unavailable
        self.names["themes"] = {name: palette.summary for name, palette in host.themes.palettes.items()}
        self.names["think"] = {word: "the default" * (word == default_word(dialogue.info)) for word in words_of(dialogue.info)}
        self.names["settings"] = set_now(host.live.settings)
        self.names["presets"] = {name: preset_summary(held) for name, held in host.live.layers.presets.items()}

    def all(self, kind: str) -> list[Suggestion]:
        self.want(kind)
        return [Suggestion(name, told) for name, told in self.names.get(kind, {}).items()]

    def files_for(self, query: str) -> Sequence[str]:
        """Names of the files that what is being typed may become."""
        folder = query_folder(query)
        self.want("files" if folder is None else f"in {folder}")
        return self.files.get(folder or "", ())


def line(before: str) -> TypedCommand | None:
    """A line up to the cursor as a command; None if it is none, or if what is typed is a prompt.

    Args:
        before: the text from the beginning of the message to the cursor.
    """
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
    """Finished words, the one that is being typed, and where it begins; quotes as a shell has them."""
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
    """A name as an argument: in quotes where it needs them; a folder's stay open for what is in it."""
    if not name.endswith("/"):
        return shlex.quote(name) if name else name
    safe = shlex.quote(name)
    return safe if safe == name else safe.removesuffix("'")


def completions(typed: TypedCommand, known: KnownNames, most: int = 40) -> list[Suggestion]:
    """What the word being typed may become, best first; none where it is complete already."""
    if not typed.name:
        found = [
            Suggestion(f"/{row.command}", row.what, closes=bool(row.arguments)) for row in COMMANDS if row.goes_by(typed.word)
        ]
        return [] if [offer.name for offer in found] == [f"/{typed.word}"] else found
    row = command_of(typed.name)
    found = offered(row, typed, known) if row is not None else []
    if any(offer.name == typed.word for offer in found):
        return []
    return _ranked(typed.word, found)[:most]


def offered(row: Action, typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    """All that may come where a command is being typed."""
    found = [] if typed.words else [Suggestion(word, what) for word, what in row.words.items()]
    if row.id in KINDS and not typed.words:
        found += known.all(KINDS[row.id])
    return found + COMPLETERS[row.id](typed, known) if row.id in COMPLETERS else found


def _ranked(query: str, found: Iterable[Suggestion]) -> list[Suggestion]:
    """Suggestions with what was typed: what begins with it comes first, its letters count where nothing else does."""
    if not query:
        return list(found)
    scored = [(value, offer) for offer in found if (value := score(query, offer.name)) is not None]
    whole = [(value, offer) for value, offer in scored if folded(query) in folded(offer.name)]
    scored = whole or scored
    return [
        offer for _, offer in sorted(scored, key=lambda pair: (not folded(pair[1].name).startswith(folded(query)), -pair[0]))
    ]


CompletionSource = Callable[[TypedCommand, KnownNames], list[Suggestion]]
"""Gives what may come behind a command, whatever is typed of it."""

KINDS = {
    actions.THINK.id: "think",
    actions.THEME_MENU.id: "themes",
    actions.MODEL.id: "models",
    actions.MODELS.id: "models",
    actions.CHATS.id: "chats",
}
"""Command id → the kind of names of which one may follow."""

COMPLETERS: dict[str, CompletionSource] = {}
"""Command id → its completions."""


def completes(*rows: Action) -> Callable[[CompletionSource], CompletionSource]:
    def register(completer: CompletionSource) -> CompletionSource:
        COMPLETERS.update({row.id: completer for row in rows})
        return completer

    return register


@completes(actions.METHOD_MENU, actions.COMPARE)
def method(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    return _methods(known) if not typed.words else _params(known.methods.get(typed.words[0]), typed)


@completes(actions.RACE)
def race(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    method, at, _ = typed.word.partition("@")
    if at:
        runtimes = [Suggestion(name, "this chat's model on that runtime") for name in RUNTIMES]
        return [Suggestion(f"{method}@{offer.name}", offer.what) for offer in known.all("models") + runtimes]
    names = [word for word in typed.words if word in known.methods]
    last = known.methods.get(names[-1]) if names else None
    return _methods(known, names) + (_params(last, typed) if typed.word else [])


@completes(actions.SET)
def sampling(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    if typed.word.startswith("accept="):
        return list(RULES)
    if typed.word.startswith("stop_loops="):
        return list(LOOPS)
    if "=" in typed.word:
        return []
    given = {word.partition("=")[0] for word in typed.words}
    now = known.names.get("settings", {}).items()
    return [Suggestion(f"{name}=", f"now {value}" if value else "") for name, value in now if name not in given]


@completes(actions.PRESETS)
def preset(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    if not typed.words:
        return known.all("presets") + [Suggestion(name, what, closes=name == "save") for name, what in PRESET_WORDS.items()]
    return known.all("presets") if typed.words == ("save",) else []


@completes(actions.OPEN)
def saved(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    return [] if typed.words else _files(typed, known, [".json"])


@completes(actions.SCHEMA)
def schema(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    grammar = typed.words[:1] == ("grammar",)
    return _files(typed, known, [".lark", ".gbnf"] if grammar else [".json"]) if grammar or not typed.words else []


@completes(actions.EXPORT)
def export(typed: TypedCommand, known: KnownNames) -> list[Suggestion]:
    if typed.words:
        return _files(typed, known, [f".{typed.words[0]}"]) if len(typed.words) == 1 else []
    return _files(typed, known, [".html", ".md", ".json"]) if typed.word else []


def _methods(known: KnownNames, but: Iterable[str] = ()) -> list[Suggestion]:
    return [
        Suggestion(method.name, method.summary, closes=True)
        for method in known.methods.values()
        if method.name not in known.unavailable and method.name not in but
    ]


def _params(method: Method | None, typed: TypedCommand) -> list[Suggestion]:
    """The settings of a method that are not given yet; of one that takes a few words only, those."""
    if method is None:
        return []
    given = {word.partition("=")[0] for word in typed.words}
    name, equals, _ = typed.word.partition("=")
    found = []
    for param in method.params:
        if param["name"] in given:
            continue
        choices = param.get("choices") or ()
        if equals and name == param["name"]:
            found += [Suggestion(f"{name}={choice}", "the default" if choice == param["default"] else "") for choice in choices]
        elif not equals:
            found.append(Suggestion(f"{param['name']}=", f"{param['default']} · {param['doc']}"))
    return found


def _files(typed: TypedCommand, known: KnownNames, suffixes: Sequence[str]) -> list[Suggestion]:
    names = [name for name in known.files_for(typed.word) if name.endswith(("/", *suffixes))]
    return [Suggestion(name, "") for name in offers(typed.word, names, 40)]
