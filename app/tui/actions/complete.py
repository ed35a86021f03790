"""Completing a slash command: its name, and what may follow it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...attach.files import score
from ...attach.names import Offer, folder_of, offers
from ...chat.methods import Method
from ...race.entry import RUNTIMES, split_prompt
from ...theming.colouring import WAYS
from .copy import WHAT
from .table import COMMANDS, is_command

RULES = (
    Offer("accept=exact", "a draft token must be the model's own choice"),
    Offer("accept=rejection", "rejection sampling: the same distribution"),
    Offer("accept=soft:0.5", "lossy: nearly as probable as the model's choice"),
    Offer("accept=typical:0.3,0.3", "lossy: typical acceptance"),
)

PANELS = (
    Offer("numbers", "speed, run lengths, acceptance"),
    Offer("tree", "each step's token tree"),
    Offer("method", "how the method in force works"),
    Offer("off", "close it"),
)

COLOURS = dict(zip(WAYS, ("neighbours differ", "by their length", "lines instead of colours", "not at all"), strict=True))

PRESET_WORDS = {
    "save": "what this chat is set to, under a name",
    "edit": "write one anew",
    "delete": "take one out of the list",
    "undo": "bring back the one that was deleted last",
    "none": "use none in this chat",
}
NAMED = ("save", "edit", "delete")
"""Words behind which the name of a preset comes."""

FORMAT_NAMES = {"html": "a web page", "svg": "a picture", "md": "Markdown", "json": "to open again with /open"}


class Line(NamedTuple):
    """A command as far as it is typed."""

    name: str
    """Empty while the name itself is being typed."""
    words: tuple[str, ...]
    """Its finished arguments."""
    word: str
    """What is being typed, without quotes."""
    start: int
    """Where that begins in the line."""


@dataclass(slots=True)
class Known:
    """What there is to choose from."""

    methods: Mapping[str, Method] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    themes: Mapping[str, str] = field(default_factory=dict)
    """Name → a few words about it; so with the next three."""
    models: Mapping[str, str] = field(default_factory=dict)
    chats: Mapping[str, str] = field(default_factory=dict)
    presets: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    """Below the working folder, folders with a slash at the end."""
    inside: dict[str, Sequence[str]] = field(default_factory=dict)
    """Single folders that were looked into, as typed → the names in them."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What /set takes → its value now."""

    def names(self, query: str) -> Sequence[str]:
        """Of the files that a name that is being typed may become."""
        folder = folder_of(query)
        return self.files if folder is None else self.inside.get(folder, ())


def line(before: str) -> Line | None:
    """A line up to the cursor as a command; None if it is none, or if what is typed is a prompt.

    Args:
        before: the text from the beginning of the message to the cursor.
    """
    if before == "/":
        return Line("", (), "", 0)
    if not is_command(before):
        return None
    name, space, rest = before[1:].partition(" ")
    if not space:
        return Line("", (), name, 0)
    if name == "race" and split_prompt(rest)[1]:
        return None
    words, word, start = _split(rest)
    return Line(name, tuple(words), word, start + len(name) + 2)


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


def completions(typed: Line, known: Known, most: int = 40) -> list[Offer]:
    """What the word being typed may become, best first; none where it is complete already."""
    if not typed.name:
        found = [
            Offer(f"/{command.name}", command.what, closes=bool(command.arguments))
            for command in COMMANDS
            if command.name.startswith(typed.word)
        ]
        return [] if [offer.name for offer in found] == [f"/{typed.word}"] else found
    provider = PROVIDERS.get(typed.name)
    if provider is None:
        return []
    found = provider(typed, known)
    if any(offer.name == typed.word for offer in found):
        return []
    return _ranked(typed.word, found)[:most]


def _ranked(query: str, found: Iterable[Offer]) -> list[Offer]:
    """Those that have what was typed: what begins with it comes first, its letters one by one count where nothing else does."""
    if not query:
        return list(found)
    scored = [(value, offer) for offer in found if (value := score(query, offer.name)) is not None]
    whole = [(value, offer) for value, offer in scored if query.casefold() in offer.name.casefold()]
    scored = whole or scored
    return [
        offer for _, offer in sorted(scored, key=lambda pair: (not pair[1].name.lower().startswith(query.lower()), -pair[0]))
    ]


def _method(typed: Line, known: Known) -> list[Offer]:
    if not typed.words:
        return [
            Offer(method.name, method.summary, closes=True)
            for method in known.methods.values()
            if method.name not in known.unavailable
        ]
    return _params(known.methods.get(typed.words[0]), typed)


def _params(method: Method | None, typed: Line) -> list[Offer]:
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
            found += [Offer(f"{name}={choice}", "the default" if choice == param["default"] else "") for choice in choices]
        elif not equals:
            found.append(Offer(f"{param['name']}=", f"{param['default']} · {param['doc']}"))
    return found


def _race(typed: Line, known: Known) -> list[Offer]:
    method, at, _ = typed.word.partition("@")
    if at:
        runtimes = [Offer(f"{method}@{name}", "this chat's model on that runtime") for name in RUNTIMES]
        return [Offer(f"{method}@{name}", what) for name, what in known.models.items()] + runtimes
    names = [word for word in typed.words if word in known.methods]
    found = [
        Offer(method.name, method.summary, closes=True)
        for method in known.methods.values()
        if method.name not in known.unavailable and method.name not in names
    ]
    last = known.methods.get(names[-1]) if names else None
    return found + (_params(last, typed) if typed.word else [])


def _set(typed: Line, known: Known) -> list[Offer]:
    if typed.word.startswith("accept="):
        return list(RULES)
    if "=" in typed.word:
        return []
    given = {word.partition("=")[0] for word in typed.words}
    return [Offer(f"{name}=", f"now {value}" if value else "") for name, value in known.settings.items() if name not in given]


def _one(options: Callable[[Known], Iterable[Offer]]) -> Callable[[Line, Known], list[Offer]]:
    """A command of one argument."""
    return lambda typed, known: [] if typed.words else list(options(known))


def _told(table: Callable[[Known], Mapping[str, str]]) -> Callable[[Line, Known], list[Offer]]:
    return _one(lambda known: [Offer(name, what) for name, what in table(known).items()])


def _files(typed: Line, known: Known, suffixes: tuple[str, ...]) -> list[Offer]:
    names = [name for name in known.names(typed.word) if name.endswith(("/", *suffixes))]
    return [Offer(name, "") for name in offers(typed.word, names, 40)]


def _open(typed: Line, known: Known) -> list[Offer]:
    return [] if typed.words else _files(typed, known, (".json",))


def _export(typed: Line, known: Known) -> list[Offer]:
    if typed.words and typed.words[0] in FORMAT_NAMES:
        return _files(typed, known, (f".{typed.words[0]}",)) if len(typed.words) == 1 else []
    if typed.words:
        return []
    formats = [Offer(name, what) for name, what in FORMAT_NAMES.items()]
    return formats + (_files(typed, known, tuple(f".{name}" for name in FORMAT_NAMES)) if typed.word else [])


def _copy(typed: Line, known: Known) -> list[Offer]:
    return [] if typed.words else [Offer(name, what) for name, what in WHAT.items()]


def _preset(typed: Line, known: Known) -> list[Offer]:
    named = [Offer(name, what) for name, what in known.presets.items()]
    if not typed.words:
        return named + [Offer(name, what, closes=name in NAMED) for name, what in PRESET_WORDS.items()]
    return named if len(typed.words) == 1 and typed.words[0] in NAMED else []


PROVIDERS: dict[str, Callable[[Line, Known], list[Offer]]] = {
    "method": _method,
    "race": _race,
    "set": _set,
    "panel": _one(lambda known: PANELS),
    "colours": _one(lambda known: [Offer(name, what) for name, what in COLOURS.items()]),
    "theme": _told(lambda known: known.themes),
    "model": _told(lambda known: known.models),
    "chats": _told(lambda known: known.chats),
    "preset": _preset,
    "copy": _copy,
    "export": _export,
    "models": _told(lambda known: known.models),
    "open": _open,
    "regenerate": _one(lambda known: (Offer("new", "with another seed"), Offer("seed=", "with this one"))),
    "retry": _method,
}
"""Command → what may follow it."""
