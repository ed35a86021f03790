"""Extraction from a text: names, dates, prices, times, addresses and numbers, listed or counted."""

import re
from collections.abc import Callable

from .. import words
from ..draw import Draw, Message, exchange, plurals
from ..wording import ask
from .lists import numbered

_KINDS: dict[str, tuple[Callable[[Draw], str], str]] = {
    "name": (Draw.full_name, "names|people|persons|names|names of people"),
    "first": (Draw.first_name, "names|people|persons"),
    "date": (Draw.date, "dates|dates|calendar dates"),
    "price": (Draw.price, "prices|amounts|prices|sums of money"),
    "email": (Draw.email, "email addresses|emails|mail addresses|e-mail addresses|addresses"),
    "time": (Draw.time, "times|times of day|times"),
    "number": (lambda d: str(d.number(2, 999)), "numbers|figures|numbers"),
    "city": (Draw.city, "cities|towns|cities"),
    "phone": (lambda d: f"555-{d.number(1000, 9999)}", "phone numbers|telephone numbers|phone numbers"),
}  # fmt: skip

_LINES = """
<name> arrived on <date>.|On <date>, <name> left for <city>.|The {thing} costs <price>.|
<name> paid <price> for the {thing}.|Call <first> at <phone> after <time>.|Write to <email> before <date>.|
<name> and <name> met in <city>.|<first> met <name> at <time>.|There are <number> {thing}s in the {place}.|
The train to <city> leaves at <time>.|Dear <name>, your {thing} arrives on <date>.|
<name> (will bring|brought|sold|wants|found) <number> {thing}s.|The office in <city> opens at <time>.|
(Ask|Thank|Help) <name> first.|The {place} in <city> was built by <name>.|<first>'s number is <phone> now.|
(Tickets|Two seats|A room) (cost|for) <price>.|<name> was born on <date> in <city>.|
The (meeting|party|exam|concert) is on <date> at <time>.|<first> got <price> for the {thing}.|
Please send the {thing} to <email>.|(Contact|Invite|Tell) <name>, <email>.|<name> has the address <email> now.|
From <date> to <date> the {place} is closed.|I (saw|met|visited) <first> and <first> in <city>.|
The {thing} was made on <date>.|At <time> the {thing} rang.|The old price was <price>, the new one is <price>.|
It was sold for <price> on <date>.|The bus stops at <time> and <time>.|<name> is <number> years old.|
We drove from <city> to <city>.|<first> called, then <first>.|<number> people came, and <number> of them stayed.|
Lunch with <first> (and <name>|) at <time>.|Bill: <price>, paid on <date>.|<name>, <date>|<first>: <price>|
{thing} - <price>|<time> {thing}, <time> {place}|The {thing} of <first> is in the {place}."""
"""Sentences; a value in angle brackets may be asked for."""
_PLAIN = """
The {thing} was {adjective}.|Nobody knew why.|It rained all day.|The {place} was {adjective} and the {thing} old.|So it goes."""

_FIND = """
(list|extract|find|give me|show me|pull out|get|pick out|collect|write down|tell me|return|name|filter out|output)
(all|every one of the|all the|the|just the|only the|) ~ (in|from|of|mentioned in|that occur in) @text|
(list|extract|find|give me|show me|pull out|get|pick out|write down|return) (all|all the|the|just the|only the|) ~|
(which|what) ~ (are|occur|appear|are mentioned|are named|do you see|can you find) (in @text|here|there)?|=just the ~|
=~ only|what are the ~ (in @text|here|)?|(make|give me) a list of (all|the|all the) ~ (in @text|)|
copy (all|the|only the) ~ out of @text"""
_WHO = "|who (is|are) (named|mentioned|in it|all in there) (in @text|here)?|who (occurs|appears|do you find) (in @text|here)?"
_COUNT = """
how many ~ (are|occur|appear|are mentioned|are named|are there|do you see|can you find) (in @text|here|)?|
count (the|all the|all) ~ (in @text|)|what is the number of ~ (in @text|)?|(tell me|give me) the number of ~ (in @text|)"""
_BOTH = """
(list|extract|find|give me|show me|pull out|get|pick out|write down) (all|all the|the|) ~ and (all|all the|the|) +
(in|from) @text|(list|extract|find|give me|get) (all|the|) ~ and +|which ~ and + (are|occur) (in @text|here)?|
=both the ~ and the + (in|from) @text|what are the ~ and + (in @text|here)?"""
_TITLES = {"name": "Names", "first": "Names", "date": "Dates", "price": "Prices", "email": "Addresses", "time": "Times",
           "number": "Numbers", "city": "Cities", "phone": "Numbers"}  # fmt: skip
_SINGLE = {"name": "name", "first": "name", "date": "date", "price": "price", "email": "address", "time": "time",
           "number": "number", "city": "city", "phone": "number"}  # fmt: skip
_PEOPLE = {"name", "first"}
_DIGITS = {"date", "price", "time", "phone"}


def _text(d: Draw, count: int) -> tuple[str, list[tuple[str, str]]]:
    """Draw lines, and list the values that may be asked for, in order: kind and text."""
    values: list[tuple[str, str]] = []

    def value(match: re.Match[str]) -> str:
        kind = match[1]
        new = next(
            candidate for candidate in iter(lambda: _KINDS[kind][0](d), "") if candidate not in [old for _, old in values]
        )
        values.append((kind, new))
        return new

    lines = []
    for _ in range(count):
        line = d.say(_LINES if d.chance(0.8) else _PLAIN)
        line = line.format(thing=d.pick(words.OBJECTS), place=d.pick(words.PLACES), adjective=d.pick(words.ADJECTIVES))
        line = plurals(line)
        lines.append(re.sub("<([a-z]+)>", value, line))
    return d.pick([" ", " ", " ", "\n"]).join(lines), values


def _asked(d: Draw, values: list[tuple[str, str]]) -> list[str]:
    """Choose up to two kinds to ask for; numbers only if no other kind has digits."""
    kinds = dict.fromkeys("first" if kind in _PEOPLE else kind for kind, _ in values)
    return d.some([kind for kind in kinds if kind != "number" or not kinds.keys() & _DIGITS], 2)


def _values(kind: str, values: list[tuple[str, str]]) -> list[str]:
    kinds = _PEOPLE if kind in _PEOPLE else {kind}
    return [value for value_kind, value in values if value_kind in kinds]


def extract(d: Draw) -> list[Message]:
    """List or count one kind of value in a text, or list two kinds."""
    kinds: list[str] = []
    while not kinds:
        text, values = _text(d, d.span(1, 5))
        kinds = _asked(d, values)
    first = _values(kinds[0], values)
    named = f"({_KINDS[kinds[0]][1]})"
    if len(kinds) > 1 and d.chance(0.3):
        pattern = _BOTH.replace("~", named).replace("+", f"({_KINDS[kinds[1]][1]})")
        second = _values(kinds[1], values)
        answer = f"{_TITLES[kinds[0]]}: {', '.join(first)}\n{_TITLES[kinds[1]]}: {', '.join(second)}"
        return exchange(ask(d, pattern, text), answer)
    if d.chance(0.2):
        one = _SINGLE[kinds[0]]
        many = one if len(first) == 1 else _TITLES[kinds[0]].lower()
        return exchange(ask(d, _COUNT.replace("~", named), text), f"{numbered(first)}\n{len(first)} {many}.")
    pattern = _FIND.replace("~", named) + (_WHO if kinds[0] in _PEOPLE else "")
    return exchange(ask(d, pattern, text), ", ".join(first))
