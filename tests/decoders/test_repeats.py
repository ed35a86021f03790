"""The loop guard: it fires on loops, and on nothing that people write or ask for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from specchat.decoders.repeats import LAGS, WORDS, Loop, LoopGuard

from ..cases import cases

SENTENCE = "The little boat went out at dawn and came back with nothing but rain."
PARAGRAPH = (
    "Speculative decoding drafts several tokens cheaply and checks them with one pass of a larger model. The output is the "
    "same as before, but it arrives sooner. That is why people use it on laptops and servers alike.\n\n"
)


def pieces(text: str) -> list[str]:
    """Tokens as tokenizers of today cut them: words with the space before them, digits and signs alone."""
    return regex.findall(r" ?\p{L}+|\p{N}|\s+|.", text)


class Table:
    """A tokenizer that gives each new piece the next id."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def encode(self, text: str) -> list[int]:
        found = pieces(text)
        self.known += sorted(set(found) - set(self.known))
        return [self.known.index(piece) for piece in found]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.known[id] for id in ids)


def first_loop(text: str) -> tuple[int, Loop] | None:
    """After how many tokens the guard fires, and on what."""
    table = Table()
    guard = LoopGuard(table.decode)
    for count, token in enumerate(table.encode(text), 1):
        if (loop := guard.push(token)) is not None:
            return count, loop
    return None


def rows(count: int, seed: int = 3) -> list[tuple[int, float, float]]:
    rng = random.Random(seed)
    return [(i, round(rng.uniform(-90, 90), 4), round(rng.uniform(-180, 180), 4)) for i in range(1, count + 1)]


TEXT = {
    "a text said ten times": 10 * (PARAGRAPH + SENTENCE),
    "a sentence said ten times": "\n".join(10 * [SENTENCE]),
    "numbers": ", ".join(map(str, range(1, 1500))),
    "one number on each line": "\n".join(map(str, range(1, 1500))),
    "a numbered list": "\n".join(f"{i}. {word}" for i, word in enumerate(SENTENCE.split() * 3, 1)),
    "multiplication": "\n".join(f"{i} x {k} = {i * k}" for i in range(1, 21) for k in range(1, 21)),
    "a table": "| id | lat | lon |\n|---|---|---|\n" + "\n".join(f"| {i} | {x} | {y} |" for i, x, y in rows(300)),
    "an empty table": "| a | b | c | d |\n|---|---|---|---|\n" + "|   |   |   |   |\n" * 30,
    "JSON": "[" + ",\n ".join(f'{{"id": {i}, "lat": {x}, "lon": {y}}}' for i, x, y in rows(300)) + "]",
    "JSON of placeholders": "[" + ", ".join(f'{{"id": {i}, "name": "User {i}"}}' for i in range(1, 31)) + "]",
    "a matrix of zeros": "[" + ",\n".join(["[" + ", ".join(["0"] * 12) + "]"] * 12) + "]",
    "bytes": " ".join(f"{byte:02x}" for byte in random.Random(4).randbytes(900)),
    "ruled lines": ("-" * 79 + "\n" + SENTENCE + "\n") * 8,
    "a rectangle": ("#" * 24 + "\n") * 20,
    "a triangle": "\n".join("*" * i for i in range(1, 41)),
    "a chessboard": (". # . # . # . #\n# . # . # . # .\n") * 8,
    "code": "\n".join(f"    if name == {word!r}:\n        return {i}" for i, word in enumerate(SENTENCE.split() * 4)),
    "99 bottles": "\n".join(f"{i} bottles of beer on the wall, {i} bottles of beer." for i in range(99, 0, -1)),
    "a laugh": "ha" * 150,
    "a refrain": (SENTENCE + "\nHey, hey, hey, hey!\n" * 4) * 6,
}


@pytest.mark.parametrize("text", TEXT.values(), ids=TEXT)
def test_it_leaves_text_alone(text: str) -> None:
    assert first_loop(text) is None


LOOPS = {
    "a word": (" the" * 800, Loop(1, 256)),
    "three words": (" no and then" * 300, Loop(3, 85)),
    "a sentence": ((SENTENCE + " ") * 60, Loop(15, 17)),
    "a line": ((SENTENCE + "\n") * 60, Loop(16, 16)),
    "a paragraph": (PARAGRAPH * 40, Loop(43, 12)),
    "a list that counts": ("\n".join(f"{i}. The use of light in the garden." for i in range(1, 400)), Loop(11, 43)),
    "steps": ("\n\n".join(f"Step {i}: Repeat step {i - 1}." for i in range(1, 200)), Loop(10, 48)),
    "a character": ("!" * 1000, Loop(1, 480)),
    "digits": ("0." + "3" * 1000, Loop(1, 480)),
    "lines with a dot": ("x" + " \n." * 1000, Loop(2, 240)),
    "an emoji": ("🚀" * 1000, Loop(1, 480)),
}


@pytest.mark.parametrize(("text", "loop"), LOOPS.values(), ids=LOOPS)
def test_it_fires_on_loops(text: str, loop: Loop) -> None:
    found = first_loop(PARAGRAPH + text)
    assert found is not None
    assert found[1] == loop
    assert found[0] < 800


def words(count: int) -> list[str]:
    return [f" {chr(97 + i // 26)}{chr(97 + i % 26)}x" for i in range(count)]


def overlap_free() -> Iterator[int]:
    """Thue and Morse's sequence of two signs, in which nothing comes three times in a row."""
    return (index.bit_count() % 2 for index in range(100_000))


@given(st.lists(st.sampled_from(words(40)), min_size=1, max_size=12), st.integers(0, 5000))
@cases(100, 10)
def test_nothing_without_repeats_sets_it_off(unit: list[str], start: int) -> None:
    table = Table()
    parts = (table.encode("".join(unit)), table.encode("".join(unit) + " other"))
    guard = LoopGuard(table.decode)
    assert not any(guard.push(token) for sign in islice(overlap_free(), start, start + 300) for token in parts[sign])


@given(st.integers(0, 2**32))
@cases(300, 6)
def test_it_agrees_with_its_definition(seed: int) -> None:
    """Counted from scratch at each token, over stretches of loops broken here and there."""
    rng = random.Random(seed)
    known = words(4)
    ids: list[int] = []
    while len(ids) < 900:
        unit = [rng.randrange(4) for _ in range(rng.choice((1, 2, 3, 7, 20, rng.randint(1, 60))))]
        ids += [*islice(cycle(unit), rng.randrange(400)), rng.randrange(4)]
    guard = LoopGuard(lambda tokens: "".join(known[token] for token in tokens))
    counts = [0] * (LAGS + 1)
    for at, token in enumerate(ids):
        for lag in range(1, LAGS + 1):
            counts[lag] = counts[lag] + 1 if at >= lag and ids[at - lag] == token else 0
        wanted = [lag for lag in range(1, LAGS + 1) if counts[lag] + lag >= max(WORDS[1], WORDS[0] * lag)]
        loop = guard.push(token)
        assert (loop.period if loop else None) == (wanted[0] if wanted else None)
        if loop:
            return
