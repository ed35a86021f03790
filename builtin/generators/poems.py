"""Small poems on request: rhymed couplets or three lines, on whatever the reader names."""

from . import words
from .draw import Draw, Message, exchange, loosely, with_article

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
"""Stanzas keep this order, so that none comes twice."""

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
    """What was asked for with an indefinite article is known inside the poem."""
    article, _, rest = topic.partition(" ")
    return f"the {rest}" if article in ("a", "an") and rest else topic


def poem(d: Draw) -> list[Message]:
    """A poem or a haiku, about something if that is asked for."""
    topic = d.pick(
        [d.pick(TOPICS), d.pick(TOPICS), d.noun_phrase(), with_article(d.noun()), d.made_up(), f"{d.pick(words.FOODS)}s"]
    )
    short = d.chance(0.25)
    what = d.pick(
        ["a haiku", "a haiku", "one haiku"] if short else ["a poem", "a poem", "a short poem", "a little poem", "a verse"]
    )
    verb = d.pick(
        ["Write", "Write", "Write me", "Please write", "Can you write", "Make", "Tell me", "Give me", "Compose", "I want"]
    )
    about = d.chance(0.7)
    named = f" {d.pick(['about', 'about', 'on'])} {topic}" if about else ""
    tail = "?" if verb.startswith("Can") else "."
    question = loosely(d, f"{verb} {what}{named}{tail}", names=True)
    if not about:
        topic = d.pick(["the sea", "the moon", "the rain", "autumn", "the night"])
    line = _in_line(topic)
    if short:
        parts = [d.pick(_FIRST), d.pick(_SECOND), d.pick(_THIRD)]
        text = ",\n".join(parts).format(t=line) + "."
    else:
        middle = sorted(d.rng.sample(range(len(_COUPLETS)), d.number(1, 2)))
        text = "\n\n".join([*(_COUPLETS[number] for number in middle), d.pick(_ENDINGS)]).format(t=line)
    return exchange(question, text)
