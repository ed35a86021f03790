"""Random draws for the generators: seeded, byte-identical on every machine, with names held out for evaluation."""

import random
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypedDict, TypeVar

from . import words

_T = TypeVar("_T")

HELD_OUT_SHARE = 16
"""One prompt in this many is held out: never trained on, and the only kind that evaluation sees."""

Choice = list[list["str | Choice"]]
"""A parsed pattern: alternatives, each a row of texts and further choices."""


class Message(TypedDict):
    """One chat message."""

    role: str
    content: str


def is_held_out(text: str) -> bool:
    """Tell whether a prompt belongs to evaluation. Its bytes decide, so the two sides cannot overlap."""
    return zlib.crc32(text.encode()) % HELD_OUT_SHARE == 0


def exchange(user: str, assistant: str) -> list[Message]:
    """Make the messages of a question and its answer."""
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


@cache
def parsed(pattern: str) -> Choice:
    """Parse a pattern into nested alternatives: `(a|b|)` stands for a, b or nothing; bars divide the whole as well."""
    top: Choice = [[]]
    stack = [top]
    for piece in re.split(r"([()|])", " ".join(pattern.split())):
        match piece:
            case "(":
                inner: Choice = [[]]
                stack[-1][-1].append(inner)
                stack.append(inner)
            case ")":
                stack.pop()
            case "|":
                stack[-1].append([])
            case _:
                stack[-1][-1].append(piece)
    if len(stack) != 1:
        raise ValueError(f"brackets do not match: {pattern}")
    return top


class Draw:
    """A stream of random choices.

    Args:
        seed: any text; equal seeds give equal draws in every process (no hash order is used anywhere).
        reach: 0 … 1, limit of the length of the drawn material; training raises it from short to long.
        held_out: draw people and cities that training never sees.
    """

    def __init__(self, seed: str, reach: float = 1.0, held_out: bool = False) -> None:
        self.rng = random.Random(seed)
        self.reach = reach
        self.held_out = held_out

    def pick(self, pool: Sequence[_T]) -> _T:
        """Pick one element."""
        return pool[int(self.rng.random() * len(pool))]

    def one_of(self, *makers: Callable[[], str]) -> str:
        """Call one of these, and return its text."""
        return self.pick(makers)()

    def some(self, pool: Sequence[str], count: int) -> list[str]:
        """Pick distinct elements in random order (fewer if the pool is smaller)."""
        distinct = list(dict.fromkeys(pool))
        return self.rng.sample(distinct, min(count, len(distinct)))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def number(self, low: int, high: int) -> int:
        """Draw a whole number in low … high, both included."""
        return self.rng.randint(low, high)

    def span(self, low: int, high: int) -> int:
        """Draw a length in low … high, where high shrinks with `reach`."""
        return self.rng.randint(low, max(low, round(low + (high - low) * self.reach)))

    def say(self, pattern: str) -> str:
        """Word a pattern in one of its ways (see `parsed`); braces stay as they are."""
        text = re.sub(" +", " ", self._expanded(parsed(pattern))).strip()
        return articles(re.sub(r" (?=[,.?!:]|'d )", "", text))

    def _expanded(self, choice: Choice) -> str:
        return "".join(part if isinstance(part, str) else self._expanded(part) for part in self.pick(choice))

    def _known(self, pool: Sequence[str]) -> str:
        # An eighth of each pool is held out: names that the weights have never seen must still be copied. Training also
        # invents names; otherwise the model would learn the lists by heart and alter other names.
        if not self.held_out and self.chance(0.45):
            return self._invented(pool)
        while True:
            word = self.pick(pool)
            if (zlib.crc32(word.encode()) % 8 == 0) == self.held_out:
                return word

    def _invented(self, pool: Sequence[str]) -> str:
        """Make a name from the beginning of one and the end of another, or a made-up word with a capital."""
        while True:
            if self.chance(0.4):
                word = self.made_up().capitalize()
            else:
                word = self.pick(pool)[: self.number(2, 4)] + self.pick(pool)[-self.number(2, 4) :].lower()
            if self.chance(0.06):
                word = self.pick(["Mc", "O'", "De", "Le", "Van ", "El-", "Saint-", "Mac"]) + word
            elif self.chance(0.05):
                word = word[:-1] + self.pick("éöüñåøčłôíã")
            if word not in pool:
                return word

    def first_name(self) -> str:
        """Draw a first name."""
        return self._known(words.FIRST_NAMES)

    def full_name(self) -> str:
        """Draw a first and a last name."""
        return f"{self.first_name()} {self._known(words.LAST_NAMES)}"

    def last_name(self) -> str:
        """Draw a last name."""
        return self._known(words.LAST_NAMES)

    def city(self) -> str:
        """Draw a city."""
        return self._known(words.CITIES)

    def made_up(self) -> str:
        """Make up a word that is in no list, so that copying cannot rely on the vocabulary or its division into tokens."""
        kind = self.number(0, 11)
        if kind < 5:
            ends = ["", "n", "r", "s", "t", "l", "m", "x", "nd", "ck", "th", "zz", "ph", "que", "ght", "b", "g", "v", "rp"]
            return "".join(self.pick(_ONSETS) + self.pick(_VOWELS) for _ in range(self.number(1, 3))) + self.pick(ends)
        if kind < 8:
            return "".join(self._cut(self.pick(words.COMMON)) for _ in range(self.number(2, 3)))
        if kind < 11:
            word = self.pick(words.COMMON if self.chance(0.6) else words.OBJECTS)
            at = self.number(0, len(word) - 1)
            return word[:at] + self.pick(_LETTERS) + word[at + self.number(0, 1) :]
        return "".join(self.pick(_LETTERS) for _ in range(self.number(3, 9)))

    def _cut(self, word: str) -> str:
        start = self.number(0, max(0, len(word) - 2))
        return word[start : start + self.number(2, 4)]

    def word(self) -> str:
        """Draw a word in small letters: a common one, a thing, a food, or a made-up one."""
        return self.pick(self.pick([words.COMMON, words.COMMON, words.OBJECTS, words.FOODS, [self.made_up()]]))

    def noun(self) -> str:
        """Draw a thing or an animal."""
        return self.pick(words.OBJECTS if self.chance(0.7) else words.ANIMALS)

    def noun_phrase(self) -> str:
        """Draw a noun with an article and perhaps an adjective."""
        adjective = self.pick(words.ADJECTIVES) + " " if self.chance(0.5) else ""
        head = adjective + self.noun()
        article = self.pick(["the", "the", "a", "his", "her", "my", "our", "their", "this"])
        return f"{'an' if article == 'a' and head[0] in 'aeiou' else article} {head}"

    def date(self) -> str:
        """Draw a calendar date in one of six notations."""
        day, month, year = self.number(1, 28), self.number(1, 12), self.number(1950, 2039)
        name = words.MONTHS[month - 1]
        return self.pick(
            [f"{day} {name} {year}", f"{name} {day}, {year}", f"{year}-{month:02d}-{day:02d}", f"{name} {day}", f"{day} {name}",
             f"{day}.{month}.{year}"]
        )  # fmt: skip

    def time(self) -> str:
        """Draw a time of day."""
        hour, minute = self.number(1, 12), self.number(0, 59)
        clock = f"{hour}:{minute:02d}"
        return self.pick([f"{self.number(0, 23):02d}:{minute:02d}", clock, f"{clock} pm", f"{hour} am"])

    def email(self) -> str:
        """Draw an address that cannot exist (RFC 2606 domains)."""
        domain = self.pick(["example.com", "example.org", "example.net", "mail.example", "post.example"])
        name = re.sub("[^a-z]", "", self.first_name().lower())
        return f"{name}{self.pick(['', '.', '_'])}{self.pick(words.OBJECTS)}@{domain}"

    def price(self) -> str:
        """Draw an amount of money."""
        amount = self.number(1, 400)
        return self.pick([f"${amount}.{self.number(0, 99):02d}", f"${amount}.{self.number(0, 99):02d}", f"${amount}"])


_ONSETS = (
    "b c d f g h j k l m n p r s t v w z br cl dr fl gr pl st tr sh th qu ch kn wr sk sm sn sp sw tw ph y x bh kh zh"
).split()
_VOWELS = "a e i o u a e i o u ai ea ou oo ie y ui oa eu ee au".split()
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


_FACES = [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF), (0x2600, 0x26FF)]


def emoji(d: Draw) -> str:
    """Draw an emoji, sometimes with a skin tone or a joiner."""
    low, high = d.pick(_FACES)
    return chr(d.number(low, high)) + d.pick(["", "", "", "\ufe0f", "\U0001f3fd", "\u200d" + chr(d.number(*d.pick(_FACES)))])


def with_article(text: str) -> str:
    """Put `a` or `an` before a text."""
    return articles(f"a {text}")


def articles(text: str) -> str:
    """Replace `a` by `an` before vowels."""
    return re.sub(r"\b([Aa]) (?=(?!uni|use)[aeiou]|honest|hour)", r"\1n ", text)


_PLURALS = {"mouses": "mice", "gooses": "geese", "deers": "deer", "salmons": "salmon", "wolfs": "wolves", "knifes": "knives",
            "shelfs": "shelves", "potatos": "potatoes", "tomatos": "tomatoes", "mangos": "mangoes"}  # fmt: skip


def plurals(text: str) -> str:
    """Correct plurals that were formed with a bare `s`."""
    text = re.sub(r"\b([a-z]+[^aeiou\W])ys\b", r"\1ies", text)
    text = re.sub(r"\b([a-z]+(?:x|z|ch|sh))s\b", r"\1es", text)
    return re.sub(r"\b[a-z]+s\b", lambda match: _PLURALS.get(match[0], match[0]), text)


def capital(text: str) -> str:
    """Begin a text with a capital."""
    return text[:1].upper() + text[1:]
