"""Prompts that a base model can go on from, made by code: the same seed gives the same prompts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

NAMES = ["Ana", "Bruno", "Clara", "David", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas"]
PLACES = ["a village by the sea", "an old lighthouse", "the library", "a small bakery", "the railway station"]
DEEDS = [
    "climbed the stairs and lit the lamp", "wrote the weather into a book", "counted the boats in the harbour",
    "repaired the clock above the door", "read a letter that had come in the morning", "carried two baskets of apples home",
    "waited until the rain was over",
]  # fmt: skip
CITIES = ["Vienna", "Porto", "Oslo", "Lima", "Kyoto", "Accra", "Dublin"]
THINGS = ["hash table", "prime number", "tide", "comet", "compiler", "glacier", "violin"]
LISTS = [
    ("Ten capitals of Europe", ["Paris", "Berlin", "Madrid", "Rome"]),
    ("Shopping list for a birthday", ["flour", "eggs", "butter", "candles"]),
    ("Animals from A to Z", ["ant", "bear", "cat", "dog"]),
]
SHAPES = ["area", "volume", "border", "weight"]


def sentences(rng: Random, count: int) -> str:
    lines = [f"{rng.choice(NAMES)} {rng.choice(DEEDS)} in {rng.choice(PLACES)}." for _ in range(count)]
    return " ".join(lines)


def _copy(rng: Random) -> str:
    text = sentences(rng, 4)
    return f"Text: {text}\nThe same text again: {' '.join(text.split()[:4])}"


def _code(rng: Random) -> str:
    names = rng.sample(SHAPES, 2)
    body = "".join(f"def {name}(w, h):\n    return w * h * {rng.randint(2, 9)}\n\n" for name in names)
    return f"{body}# The same functions with a third argument d:\ndef {names[0]}(w, h, d):\n"


def _listed(rng: Random) -> str:
    title, items = rng.choice(LISTS)
    count = rng.randint(2, len(items))
    return f"{title}:\n" + "".join(f"{i}. {item}\n" for i, item in enumerate(items[:count], 1)) + f"{count + 1}."


def _story(rng: Random) -> str:
    return f"Once upon a time, {rng.choice(NAMES)} lived in {rng.choice(PLACES)}. One evening, {rng.choice(NAMES)}"


def _question(rng: Random) -> str:
    return f"Question: What is a {rng.choice(THINGS)}, and what is it good for?\nAnswer:"


def _table(rng: Random) -> str:
    rows = [f"| {name} | {rng.randint(18, 80)} | {rng.choice(CITIES)} |" for name in rng.sample(NAMES, 4)]
    return "\n".join(["| name | age | city |", "|---|---|---|", *rows, f"| {rng.choice(NAMES)} |"])


KINDS: dict[str, Callable[[Random], str]] = {
    "copy": _copy, "code": _code, "list": _listed, "story": _story, "question": _question, "table": _table,
}  # fmt: skip


def prompts(count: int) -> list[tuple[str, str]]:
    names = [list(KINDS)[i % len(KINDS)] for i in range(count)]
    return [(name, KINDS[name](Random(i))) for i, name in enumerate(names)]
