"""English sentences of many kinds, for copying, editing and filling."""

import re
from collections.abc import Callable

from . import words
from .draw import Draw, capital, plurals, with_article


def sentence(d: Draw) -> str:
    """One English sentence."""
    return d.pick(_SENTENCES)(d)


def plain_sentence(d: Draw) -> str:
    """A sentence with one mark, at its end: where it stops is no matter of taste."""
    while True:
        text = sentence(d)
        if re.fullmatch(r"(?:[^.!?]|\.\d)*[.!?]", text):
            return text


def sentences(d: Draw, count: int) -> str:
    """A paragraph of that many sentences."""
    return " ".join(sentence(d) for _ in range(count))


def _action(d: Draw) -> str:
    return capital(
        f"{d.first_name() if d.chance(0.6) else d.noun_phrase()} {d.pick(words.VERBS)} {d.noun_phrase()} "
        f"in the {d.pick(words.PLACES)}."
    )


def _timed(d: Draw) -> str:
    return f"{capital(d.pick(words.TIMES))}, {d.first_name()} {d.pick(words.VERBS)} {d.noun_phrase()}."


def _place(d: Draw) -> str:
    return f"{d.full_name()} lives in {d.city()} and works as {with_article(d.pick(words.JOBS))}."


def _state(d: Draw) -> str:
    adjectives = d.some(words.ADJECTIVES, 2)
    return capital(f"{d.noun_phrase()} was {adjectives[0]}, but {d.noun_phrase()} was {adjectives[1]}.")


def _meeting(d: Draw) -> str:
    return f"The meeting with {d.full_name()} is on {d.pick(words.DAYS)}, {d.date()}, at {d.number(1, 12)}:{d.number(0, 59):02d}."  # fmt: skip  # noqa: E501


def _purchase(d: Draw) -> str:
    foods = plurals(f"{d.pick(words.FOODS)}s")
    return f"{d.first_name()} bought {d.number(2, 90)} {foods} and {with_article(d.noun())} for {d.price()}."


def _quote(d: Draw) -> str:
    return f"\"{capital(d.noun_phrase())} is {d.pick(words.ADJECTIVES)},\" said {d.first_name()} {d.pick(words.ADVERBS)}."  # fmt: skip  # noqa: E501


def _question(d: Draw) -> str:
    return f"Why did {d.first_name()} take {d.noun_phrase()} to the {d.pick(words.PLACES)}?"


def _then(d: Draw) -> str:
    return (
        f"Then {d.first_name()} {d.pick(words.ADVERBS)} {d.pick(words.VERBS)} {d.noun_phrase()} "
        f"and {d.pick(words.VERBS)} {d.noun_phrase()} {d.pick(words.TIMES)}."
    )


def _travel(d: Draw) -> str:
    return f"The train from {d.city()} to {d.city()} leaves at {d.number(0, 23):02d}:{d.number(0, 59):02d} {d.pick(words.TIMES)}."  # fmt: skip  # noqa: E501


def _loose(d: Draw) -> str:
    """Common words in any order: grammar must not be what copying relies on."""
    chosen = [d.pick(words.COMMON) for _ in range(d.number(5, 14))]
    if d.chance(0.3):
        chosen.insert(d.number(1, len(chosen)), d.made_up())
    if d.chance(0.4):
        position = d.number(1, len(chosen) - 1)
        chosen[position - 1] += d.pick([",", ",", ";", ":", " -"])
    return capital(" ".join(chosen)) + d.pick([".", ".", ".", "!", "?"])


def _subject(d: Draw) -> str:
    return (
        f"The {d.pick(words.COMMON)} of the {d.pick(words.COMMON)} {d.pick(['is', 'was', 'can be', 'should be'])} "
        f"{d.pick(words.ADJECTIVES)} {d.pick(['because', 'when', 'if', 'although', 'so'])} "
        f"{d.pick(['the', 'every', 'each', 'no', 'some'])} {d.pick(words.COMMON)} {d.pick(words.COMMON)} "
        f"{d.pick(words.COMMON)} {d.pick(['it', 'them', 'us', 'you', 'him'])}."
    )


def _unusual(d: Draw) -> str:
    return f"{capital(d.made_up())} the {d.made_up()} {d.pick(words.VERBS)} {d.number(2, 9999)} {d.made_up()}s near {capital(d.made_up())}."  # fmt: skip  # noqa: E501


def _wild(d: Draw) -> str:
    """Words with the marks of everyday text: contractions, brackets, percentages, hyphens, addresses, capitals."""
    chosen = [d.pick(words.COMMON) for _ in range(d.number(5, 13))]
    for _ in range(d.number(1, 3)):
        extra = d.pick(
            [d.pick(_CONTRACTIONS), d.pick(_CONTRACTIONS), f"({d.pick(words.COMMON)} {d.pick(words.COMMON)})",
             f"{d.number(1, 99)}%", f"{d.pick(words.COMMON)}-{d.pick(words.COMMON)}", f"{d.number(0, 99)}.{d.number(0, 9)}",
             d.pick(words.COMMON).upper(), f"'{d.pick(words.COMMON)}'", f"https://{d.made_up()}.example/{d.noun()}",
             f"{d.first_name()}'s", f"{d.pick(words.COMMON)}/{d.pick(words.COMMON)}", d.city(), d.full_name(),
             f"{d.number(1000, 99999):,}", f"{d.pick(words.COMMON)}...", "&", "e.g.", "--", f"#{d.number(1, 99)}"]
        )  # fmt: skip
        chosen.insert(d.number(0, len(chosen)), extra)
    text = " ".join(chosen)
    return (capital(text) if d.chance(0.9) else text) + d.pick([".", ".", ".", "!", "?", ""])


_CONTRACTIONS = """
don't can't won't it's I'm you're they're we've I'll she'd isn't doesn't didn't wasn't couldn't that's there's let's I've
""".split()

_SENTENCES: list[Callable[[Draw], str]] = [
    _action, _action, _timed, _place, _state, _meeting, _purchase, _quote, _question, _then, _travel, _loose, _loose,
    _loose, _subject, _subject, _unusual, _wild, _wild,
]  # fmt: skip
