"""Small poems on request: rhymed couplets or three lines, on a topic that the reader names."""

from collections.abc import Callable

from . import words
from .draw import Draw, Message, exchange, with_article
from .wording import ask

TOPICS = """
autumn|winter|spring|summer|love|rain|snow|the sea|the moon|the sun|the stars|the wind|the night|the morning|music|silence|
friendship|time|hope|home|coffee|tea|sleep|dreams|work|school|the city|the forest|the mountains|the river|the ocean|my mother|
my father|my friend|my dog|my cat|flowers|roses|trees|birds|cats|dogs|children|war and peace|life|death|happiness|sadness|
loneliness|the future|the past|robots|computers|tokens|language models|programming|mathematics|the internet|books|football|
Christmas|birthdays|Monday|food|pizza|chocolate|bread|trains|the road|the rain in spring|a rainy day|the end of summer
""".replace("\n", "").split("|")

_COUPLETS = [
    "The morning comes, the sky is wide,\nwith {t} always at my side.",
    "I think of {t} when I wake,\nand of the light upon the lake.",
    "The rain may fall, the wind may blow,\nthere is more to {t} than we know.",
    "I asked the river and the tree\nwhat {t} could ever mean to me.",
    "Some look for gold, some look for fame,\nI look for {t} all the same.",
    "The days are short, the nights are long,\nfor {t} I sing a little song.",
    "A letter came, a page or two;\nit spoke of {t} and of you.",
    "I drew a map, I drew a line,\nand dreamed that {t} could be mine.",
    "Above the roofs the moon is bright;\nI talk to {t} half the night.",
    "No book, no bell, no silver ring\ncan tell of {t} everything.",
    "The winter went, the spring came near,\nand all I want is {t} here.",
    "My friends may laugh, so let them be:\nthey do not know of {t} and me.",
]
"""Stanzas in the order that poems keep, so that none comes twice."""

_ENDINGS = [
    "The clock goes on, the candle burns,\nto {t} every thought returns.",
    "When evening falls on field and town,\nI think of {t} and sit down.",
    "And so my little poem ends\nwith {t} and with all my friends.",
    "The lamp is out, the day is done;\nof all my songs, for {t} was one.",
]

_FIRST = ["Once more, {t}", "Early light, {t}", "All day long, {t}", "After the storm, {t}", "Nobody but {t}"]
_SECOND = [
    "a quiet road, a lantern", "the old gate stands wide open", "somebody opens a book", "the kettle begins to sing",
    "a letter lies on the step", "leaves are falling one by one",
]  # fmt: skip
_THIRD = ["then only the wind", "and the night is long", "the moon goes away", "I wait for the spring", "nobody speaks now"]


def _in_line(topic: str) -> str:
    """Replace a topic's indefinite article by the definite one for use inside the poem."""
    article, _, rest = topic.partition(" ")
    return f"the {rest}" if article in ("a", "an") and rest else topic


_ABOUT = "(about|about|on|for|about|with) {topic}"
_FREE = """
(a|a|one|a short|a little|a nice|a small|another|a simple) (poem|poem|verse|rhyme|piece of poetry)|
some (poetry|verses|rhymes)|poetry|a few (lines of poetry|rhymes|verses)|something that rhymes"""
_LINES = """
({n}|{n}|exactly {n}) lines (of poetry|of verse|that rhyme|)|a poem (of|with|in) {n} lines|a {n}-line poem|
a (short|little) poem, {n} lines"""
_HAIKU = "(a|a|one|another) (haiku|haiku|japanese poem)|three lines like a haiku"
_VERBS = """
(write|compose|make|make up|create|give me|tell me|recite|think of|write down|invent|do|come up with) ~|
(write|make) (me|us) ~|=~|=(I want|I'd like|I need|how about|let me have|once more|now) ~|do you (know|have) ~?|
(sing|say) me ~"""

_COUNTS = {2: "two", 4: "four", 6: "six", 8: "eight"}


def _topic(d: Draw) -> str:
    """Draw a topic."""
    makers: list[Callable[[], str]] = [
        lambda: d.pick(TOPICS), lambda: d.pick(TOPICS), d.noun_phrase, lambda: with_article(d.noun()), d.made_up,
        lambda: f"{d.pick(words.FOODS)}s", d.first_name, lambda: f"my {d.pick(words.ANIMALS)} {d.first_name()}",
        lambda: f"the {d.noun()} in the {d.pick(words.PLACES)}", lambda: f"{d.pick(words.ADJECTIVES)} {d.noun()}s",
        lambda: f"my {d.pick(words.RELATIVES)}",
    ]  # fmt: skip
    return d.pick(makers)()


def poem(d: Draw) -> list[Message]:
    """A poem or a haiku, about something if that is asked for, in as many lines as are asked for."""
    topic, named = d.pick(["the sea", "the moon", "the rain", "autumn", "the night"]), d.chance(0.75)
    if named:
        topic = _topic(d)
    lines, what = 0, _FREE
    kind = d.number(0, 9)
    if kind < 2:
        lines, what = 3, _HAIKU
    elif kind < 5:
        lines, what = d.pick([2, 4, 4, 4, 6, 8]), _LINES
    n = d.pick([str(lines), _COUNTS.get(lines, "")])
    pattern = _VERBS.replace("~", f"({what}) {_ABOUT if named else ''}")
    question = ask(d, pattern, topic=topic, n=n)
    line = _in_line(topic)
    if lines == 3:
        parts = [d.pick(_FIRST), d.pick(_SECOND), d.pick(_THIRD)]
        return exchange(question, ",\n".join(parts).format(t=line) + ".")
    middle = sorted(d.rng.sample(range(len(_COUPLETS)), lines // 2 - 1 if lines else d.number(1, 2)))
    parts = [*(_COUPLETS[number] for number in middle), d.pick(_ENDINGS)]
    return exchange(question, "\n\n".join(parts).format(t=line))
