"""Random draws for the generators: seeded, byte-identical on every machine, with names held out for evaluation."""

import random
import re
import zlib
from collections.abc import Callable, Sequence
from typing import TypedDict, TypeVar

from . import words

_T = TypeVar("_T")

HELD_OUT_SHARE = 16
"""One prompt in this many is held out: never trained on, and the only kind that evaluation sees."""


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


def is_held_out(text: str) -> bool:
    """Whether a prompt belongs to the evaluation side; decided by its bytes, so that the two sides cannot overlap."""
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


def exchange(user: str, assistant: str) -> list[Message]:
    """A question and its answer."""
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


class Draw:
    """A stream of random choices.

    Args:
        seed: any text; equal seeds give equal draws in every process (no hash order is used anywhere).
        reach: 0 … 1, how long the drawn material may be; training raises it from short to long.
        held_out: draw people and cities that training never sees.
    """

    def __init__(self, seed: str, reach: float = 1.0, held_out: bool = False) -> None:
        self.rng = random.Random(seed)
        self.reach = reach
        self.held_out = held_out

    def pick(self, pool: Sequence[_T]) -> _T:
        """One element."""
        return pool[int(self.rng.random() * len(pool))]

    def some(self, pool: Sequence[str], count: int) -> list[str]:
        """Distinct elements in random order (fewer when the pool is smaller)."""
        distinct = list(dict.fromkeys(pool))
        self.rng.shuffle(distinct)
        return distinct[:count]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number in low … high, both included."""
        return self.rng.randint(low, high)

    def span(self, low: int, high: int) -> int:
        """A length in low … high, where high shrinks with `reach`."""
        return self.rng.randint(low, max(low, round(low + (high - low) * self.reach)))

    def _known(self, pool: Sequence[str]) -> str:
        # Every eighth of a pool is kept for evaluation: names that the weights have never met must still be copied.
        # Training invents names beside the others, or it would learn the lists by heart and change what is not in them.
        if not self.held_out and self.chance(0.4):
            return self._invented(pool)
        while True:
            word = self.pick(pool)
            if (zlib.crc32(word.encode()) % 8 == 0) == self.held_out:
                return word

    def _invented(self, pool: Sequence[str]) -> str:
        """The beginning of one name and the end of another, or a made-up word with a capital."""
        while True:
            if self.chance(0.3):
                word = self.made_up().capitalize()
            else:
                word = self.pick(pool)[: self.number(2, 4)] + self.pick(pool)[-self.number(2, 4) :].lower()
            if word not in pool:
                return word

    def first_name(self) -> str:
        """A first name."""
        return self._known(words.FIRST_NAMES)

    def full_name(self) -> str:
        """First and last name."""
        return f"{self.first_name()} {self._known(words.LAST_NAMES)}"

    def city(self) -> str:
        """A city."""
        return self._known(words.CITIES)

    def made_up(self) -> str:
        """A word that no list holds, so that copying cannot lean on the vocabulary."""
        parts = [
            self.pick("b c d f g h j k l m n p r s t v w z br cl dr fl gr pl st tr sh th".split())
            + self.pick("a e i o u a e i o u ai ea ou oo".split())
            for _ in range(self.number(1, 3))
        ]
        return "".join(parts) + self.pick(["", "n", "r", "s", "t", "l", "m", "x", "nd", "ck"])

    def noun(self) -> str:
        """A thing or an animal."""
        return self.pick(words.OBJECTS if self.chance(0.7) else words.ANIMALS)

    def noun_phrase(self) -> str:
        """A noun with an article and perhaps an adjective."""
        adjective = self.pick(words.ADJECTIVES) + " " if self.chance(0.5) else ""
        head = adjective + self.noun()
        article = self.pick(["the", "the", "a", "his", "her", "my", "our", "their", "this"])
        return f"{'an' if article == 'a' and head[0] in 'aeiou' else article} {head}"

    def date(self) -> str:
        """A calendar date in one of four notations."""
        day, month, year = self.number(1, 28), self.number(1, 12), self.number(1950, 2039)
        name = words.MONTHS[month - 1]
        return self.pick([f"{day} {name} {year}", f"{name} {day}, {year}", f"{year}-{month:02d}-{day:02d}", f"{name} {day}"])

    def email(self) -> str:
        """An address that can not exist (RFC 2606 domains)."""
        domain = self.pick(["example.com", "example.org", "example.net", "mail.example", "post.example"])
        return f"{self.first_name().lower()}{self.pick(['', '.', '_'])}{self.pick(words.OBJECTS)}@{domain}"

    def price(self) -> str:
        """An amount of money."""
        return f"${self.number(1, 400)}.{self.number(0, 99):02d}"

    def sentence(self) -> str:
        """One English sentence."""
        return self.pick(_SENTENCES)(self)

    def sentences(self, count: int) -> str:
        """A paragraph of that many sentences."""
        return " ".join(self.sentence() for _ in range(count))


_CONTRACTED = {
    "What is ": ["What's ", "Whats ", "what's ", "whats "], "Who is ": ["Who's ", "who's ", "whos "], "I am ": ["I'm ", "im "],
    "How is ": ["How's "], "Where is ": ["Where's ", "wheres "], "Do you ": ["do u ", "d'you "], "Can you ": ["can u "],
    "do not ": ["don't ", "dont "], "are you": ["are u", "r u"], "Please ": ["pls ", "Pls "], "cannot ": ["can't "],
}  # fmt: skip


def loosely(d: Draw, text: str, names: bool = False) -> str:
    """The way people type: without capitals, without the mark at the end, with contractions, slips and a word of courtesy.

    Args:
        d: what to draw from.
        text: what is asked, in full.
        names: the answer depends on the capitals and letters of what is asked.
    """
    for whole, short in _CONTRACTED.items():
        if whole in text and d.chance(0.3):
            text = text.replace(whole, d.pick(short), 1)
    if not names and d.chance(0.3):
        text = text.lower()
    elif d.chance(0.2):
        text = text[:1].lower() + text[1:]
    if d.chance(0.3):
        text = text.rstrip(".?!")
    elif d.chance(0.05):
        text += d.pick(["?", "!", "??", "!!", "...", " ?"])
    if not names and len(text) > 8 and d.chance(0.06):
        text = _slip(d, text)
    if d.chance(0.08):
        text = d.pick(["Please: ", "Hey, ", "Hi, ", "hi ", "hey ", "A question: ", "So, ", "ok, ", "Hello. ", "please "]) + text
    elif d.chance(0.06):
        text = text.rstrip(".") + d.pick([" please", ", please", " Thanks!", " Thank you.", " pls", " thx", " now"])
    return text


def _slip(d: Draw, text: str) -> str:
    """The text with a letter left out, doubled, or in its neighbour's place."""
    at = d.number(1, len(text) - 2)
    match d.number(0, 2):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + text[at] + text[at:]
        case _:
            return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


_FACES = [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF), (0x2600, 0x26FF)]


def emoji(d: Draw) -> str:
    """An emoji, with a skin tone or a joiner now and then."""
    low, high = d.pick(_FACES)
    return chr(d.number(low, high)) + d.pick(["", "", "", "\ufe0f", "\U0001f3fd", "\u200d" + chr(d.number(*d.pick(_FACES)))])


def with_article(text: str) -> str:
    """The text with `a` or `an` before it."""
    return articles(f"a {text}")


def articles(text: str) -> str:
    """The text with `an` for `a` where a vowel follows."""
    return re.sub(r"\b([Aa]) (?=(?!uni|use)[aeiou]|honest|hour)", r"\1n ", text)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _action(d: Draw) -> str:
    return _capital(
        f"{d.first_name() if d.chance(0.6) else d.noun_phrase()} {d.pick(words.VERBS)} {d.noun_phrase()} "
        f"in the {d.pick(words.PLACES)}."
    )


def _timed(d: Draw) -> str:
    return f"{_capital(d.pick(words.TIMES))}, {d.first_name()} {d.pick(words.VERBS)} {d.noun_phrase()}."


def _place(d: Draw) -> str:
    return f"{d.full_name()} lives in {d.city()} and works as {with_article(d.pick(words.JOBS))}."


def _state(d: Draw) -> str:
    adjectives = d.some(words.ADJECTIVES, 2)
    return _capital(f"{d.noun_phrase()} was {adjectives[0]}, but {d.noun_phrase()} was {adjectives[1]}.")


def _meeting(d: Draw) -> str:
    return f"The meeting with {d.full_name()} is on {d.pick(words.DAYS)}, {d.date()}, at {d.number(1, 12)}:{d.number(0, 59):02d}."  # fmt: skip  # noqa: E501


def _purchase(d: Draw) -> str:
    return f"{d.first_name()} bought {d.number(2, 90)} {d.pick(words.FOODS)}s and {with_article(d.noun())} for {d.price()}."


def _quote(d: Draw) -> str:
    return f"\"{_capital(d.noun_phrase())} is {d.pick(words.ADJECTIVES)},\" said {d.first_name()} {d.pick(words.ADVERBS)}."  # fmt: skip  # noqa: E501


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
    return _capital(" ".join(chosen)) + d.pick([".", ".", ".", "!", "?"])


def _subject(d: Draw) -> str:
    return (
        f"The {d.pick(words.COMMON)} of the {d.pick(words.COMMON)} {d.pick(['is', 'was', 'can be', 'should be'])} "
        f"{d.pick(words.ADJECTIVES)} {d.pick(['because', 'when', 'if', 'although', 'so'])} "
        f"{d.pick(['the', 'every', 'each', 'no', 'some'])} {d.pick(words.COMMON)} {d.pick(words.COMMON)} "
        f"{d.pick(words.COMMON)} {d.pick(['it', 'them', 'us', 'you', 'him'])}."
    )


def _unusual(d: Draw) -> str:
    return f"{_capital(d.made_up())} the {d.made_up()} {d.pick(words.VERBS)} {d.number(2, 9999)} {d.made_up()}s near {_capital(d.made_up())}."  # fmt: skip  # noqa: E501


def _wild(d: Draw) -> str:
    """What everyday text has beside words: contractions, brackets, percentages, hyphens, addresses, capitals."""
    chosen = [d.pick(words.COMMON) for _ in range(d.number(5, 13))]
    for _ in range(d.number(1, 3)):
        odd = d.pick(
            [d.pick(_CONTRACTIONS), d.pick(_CONTRACTIONS), f"({d.pick(words.COMMON)} {d.pick(words.COMMON)})",
             f"{d.number(1, 99)}%", f"{d.pick(words.COMMON)}-{d.pick(words.COMMON)}", f"{d.number(0, 99)}.{d.number(0, 9)}",
             d.pick(words.COMMON).upper(), f"'{d.pick(words.COMMON)}'", f"https://{d.made_up()}.example/{d.noun()}",
             f"{d.first_name()}'s", f"{d.pick(words.COMMON)}/{d.pick(words.COMMON)}", d.city(), d.full_name(),
             f"{d.number(1000, 99999):,}", f"{d.pick(words.COMMON)}...", "&", "e.g.", "--", f"#{d.number(1, 99)}"]
        )  # fmt: skip
        chosen.insert(d.number(0, len(chosen)), odd)
    text = " ".join(chosen)
    return (_capital(text) if d.chance(0.9) else text) + d.pick([".", ".", ".", "!", "?", ""])


_CONTRACTIONS = """
don't can't won't it's I'm you're they're we've I'll she'd isn't doesn't didn't wasn't couldn't that's there's let's I've
""".split()

_SENTENCES: list[Callable[[Draw], str]] = [
    _action, _action, _timed, _place, _state, _meeting, _purchase, _quote, _question, _then, _travel, _loose, _loose,
    _loose, _subject, _subject, _unusual, _wild, _wild,
]  # fmt: skip
