"""Passages about everyday things, with questions and summaries.

The answer to a question is the sentence that contains it, unchanged: a model of this size can find that in any text, and prompt
lookup drafts it in one go. A summary is the first sentence, which carries the point.
"""

from collections.abc import Callable
from typing import NamedTuple

from . import words
from .draw import Draw, Message, articles, capital, exchange, plurals, with_article
from .happenings import HAPPENINGS
from .sentences import plain_sentence, sentence
from .wording import ask, loosely


class Line(NamedTuple):
    """A sentence, the questions that it answers, its subjects, which no other sentence may share, and its person."""

    text: str
    questions: list[str]
    about: set[str]
    who: str


def somebody(d: Draw) -> tuple[str, str]:
    """Draw a person: the name at the start of a sentence, and the name in a question."""
    first, last = d.first_name(), d.last_name()
    role = d.pick([f"my {d.pick(words.RELATIVES)}", f"our {d.pick(words.RELATIVES)}", f"the {d.pick(words.JOBS)}"])
    return d.pick(
        [(first, first), (first, first), (f"{first} {last}", first), (f"{first} {last}", f"{first} {last}"), (role, role),
         (f"{d.pick(['Mr.', 'Mrs.', 'Dr.', 'Ms.'])} {last}", last), (f"{role} {first}", first), (f"{first}, {role},", first)]
    )  # fmt: skip


_REASONS = """
the old one was broken|it was raining|nobody else had time|the {place} was closed|{first} was ill|the bus was late|
it was too cold|it was {adjective}|{first} had asked for it|there was no {food} left|it was a birthday|
the {noun} was too expensive|it was snowing|the car did not start|guests were coming|the doctor said so|
it smelled of {food}|the door was locked|the lights went out|{first} had lost the {noun}|the {animal} was hungry|
it was cheaper|the train was full|everybody liked it|the floor was wet"""
_TIMES = """
(on|last|every) {day}|(on|last|every) {day}|(on|last) {day} (morning|evening|afternoon)|in {month}|in {year}|at {hour}|
yesterday|in (spring|summer|autumn|winter)|before (breakfast|lunch|dinner|school)|
after (breakfast|lunch|dinner|work|school|the storm)|at (noon|midnight)|(two|three|four|ten) (days|weeks|years) ago|
on {date}|last (week|month|year|night)|early in the morning"""


def fields(d: Draw) -> dict[str, str]:
    """Draw values for the braces of a happening, all different from each other."""
    who, s = somebody(d)
    nouns, animals, foods = d.some(words.OBJECTS, 2), d.some(words.ANIMALS, 2), d.some(words.FOODS, 3)
    places, days, months = d.some(words.PLACES, 2), d.some(words.DAYS, 2), words.MONTHS
    hour = d.number(1, 11)
    values = {
        "who": who, "s": s, "who2": d.first_name(), "first": d.first_name(), "city": d.city(), "city2": d.city(),
        "street": d.pick(words.STREETS), "place": places[0], "place2": places[1], "noun": nouns[0], "noun2": nouns[1],
        "animal": animals[0], "animal2": animals[1], "food": foods[0], "food2": foods[1], "food3": foods[2],
        "day": days[0], "day2": days[1], "month": d.pick(months), "year": str(d.number(1750, 2029)), "date": d.date(),
        "n": d.pick([str(d.number(2, 99)), d.pick(_NUMBERS[1:])]), "n2": str(d.number(2, 99)), "price": d.price(),
        "price2": d.price(), "time": d.time(), "hour": d.pick([str(hour), _NUMBERS[hour - 1], f"{hour} o'clock"]),
        "hour2": str(hour + 1), "job": d.pick(words.JOBS), "color": d.pick(words.COLORS), "adjective": d.pick(words.ADJECTIVES),
        "made": d.made_up().capitalize(), "made2": d.made_up(),
        "event": d.pick(["festival", "concert", "fair", "race", "show"]),
        "code": "".join(d.pick("0123456789ABCXYZ") for _ in range(4)),
    }  # fmt: skip
    base, past = d.pick(words.PAIRS).split("/")
    values |= {"base": base, "past": past, "a_job": with_article(values["job"])}
    values["thing"] = with_article(d.pick([nouns[0], f"{values['adjective']} {nouns[0]}", f"{values['color']} {nouns[0]}"]))
    values["reason"] = d.say(_REASONS).format(**values)
    values["when"] = d.say(_TIMES).format(**values)
    return values


_NUMBERS = "one two three four five six seven eight nine ten eleven twelve".split()


def line(d: Draw, who: str = "") -> Line:
    """Draw a sentence about something that happens, with questions.

    Args:
        d: the stream of choices.
        who: the person of the sentence before, who becomes a pronoun in this one.
    """
    statement, questions_pattern = d.pick(_PERSONAL if who else HAPPENINGS)
    values = fields(d)
    if who:
        values |= {"who": "she" if who.split()[-1][-1] in "aeihy" else "he", "s": who}
    # Statement and questions draw their words independently, so anything that a question repeats is a field.
    text, *questions = (
        capital(articles(plurals(d.say(pattern).format(**values))))
        for pattern in (statement, questions_pattern, questions_pattern, questions_pattern)
    )
    about = {statement} | {values[name] for name in _UNIQUE if f"{{{name}}}" in statement.replace("{thing}", "{noun}")}
    return Line(text, questions, about if who else about | {values["s"]}, values["s"] if "{who}" in statement else "")


_UNIQUE = ["noun", "place", "when", "reason", "city", "animal", "who2"]
"""Fields in which two sentences of a passage must differ."""


_PERSONAL = [pair for pair in HAPPENINGS if "{who}" in pair[0]]


def lines(d: Draw, count: int) -> list[Line]:
    """Draw sentences about different things; sometimes two in a row have the same person."""
    passage: list[Line] = []
    subjects: set[str] = set()
    while len(passage) < count:
        new = line(d, passage[-1].who if passage and d.chance(0.25) else "")
        if not new.about & subjects:
            passage.append(new)
            subjects |= new.about
    return passage


def _attached(d: Draw, text: str, question: str) -> str:
    """Word a question about a file, in the form in which the chat sends one."""
    name = f"{d.pick([d.noun().replace(' ', '-'), 'notes', 'text', 'people', d.made_up()])}.{d.pick(['txt', 'txt', 'md'])}"
    request = d.pick([f"{question} @{name}", f"{question}\n@{name}", f"@{name} {question}", question])
    size = len(text.encode()) + 1
    size_text = f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB"
    return f"Attached file: {name} ({size_text})\n```\n{text}\n```\n\n{request}"


_INTRO = """
(read|look at|here is|this is) (this|a|the|my|some) (text|story|note|passage|message|email)|text|passage|
(given|from) this text|context|(I have|I got|my friend wrote|here comes) (this|this text|the following)|
(use|take) this text|(the|a) (story|note|letter|report)"""
_CALL = "question|my question|q|now|so|tell me|please answer|the question is|I want to know|answer this|can you tell me"
_ABOUT = """
answer (the|my|this) question (about|on|with) @text|(read|look at) @text and (answer|tell me)|a question about @text|
use @text to answer|what does @text say?"""


def prompt(d: Draw, text: str, question: str) -> str:
    """Combine a passage and a question in one of several ways."""
    question = loosely(d, question)
    if d.chance(0.12):
        return _attached(d, text, question)
    lead, call = capital(d.say(_INTRO)), capital(d.say(_CALL))
    gap = d.pick(["\n\n", "\n\n", "\n"])
    match d.number(0, 11):
        case 0 | 1 | 2 | 3 | 4:
            return f"{text}\n\n{question}"
        case 5:
            return f"{text}\n{question}"
        case 6:
            return f"{text} {question}" if question.endswith("?") else f"{text}\n\n{question}"
        case 7:
            return f"{question}{gap}{text}"
        case 8:
            return f"{lead}:{d.pick([' ', gap])}{text}{gap}{call}: {question}"
        case 9:
            return f"{text}{gap}{call}: {question}"
        case 10:
            return f'{lead}: "{text}"{d.pick([" ", gap])}{question}' if '"' not in text else f"{text}{gap}{question}"
        case _:
            return ask(d, _ABOUT, f"{text}{gap}{question}")


def passage_question(d: Draw) -> list[Message]:
    """Ask one to three questions about a passage, one each turn."""
    passage = lines(d, d.span(1, 6))
    pairs = [(question, fact.text) for fact in passage for question in dict.fromkeys(fact.questions)]
    parts = [fact.text for fact in passage]
    if d.chance(0.25):
        parts.insert(d.number(0, len(parts)), capital(d.say(_FILLER)))
    chosen = [pairs[at] for at in d.rng.sample(range(len(pairs)), min(len(pairs), 1 if d.chance(0.65) else 3))]
    text = d.pick([" ", " ", " ", " ", "\n", "\n\n"]).join(parts)
    messages = exchange(prompt(d, text, chosen[0][0]), chosen[0][1])
    for question, answer in chosen[1:]:
        messages += exchange(loosely(d, d.pick(["", "", "", "and ", "ok, "]) + question), answer)
    return messages


_FILLER = """
it was a (quiet|long|busy|cold|strange) day.|nobody knows why.|that is all we know.|everything was quiet.|
the sun was shining.|(we|they) were happy.|it happens every year.|nothing else is new.|the rest is not important.|
I will write again soon."""


def long_passage(d: Draw) -> list[Message]:
    """Ask a question about a passage of up to 1,400 tokens, most of which does not matter."""
    passage = lines(d, d.span(1, 6))
    parts = [fact.text for fact in passage] + [sentence(d) for _ in range(d.span(6, 46))]
    d.rng.shuffle(parts)
    chosen = d.pick(passage)
    text = d.pick([" ", " ", "\n", "\n\n"]).join(parts)
    return exchange(prompt(d, text, d.pick(chosen.questions)), chosen.text)


_SUMMARY = """
(summarize|summarise|sum up|condense|shorten) @text( in one sentence| briefly| in a sentence| for me|||)|
(summarize|summarise|sum up)|(give me|write|make|I need) (a|a short|a brief|a one-sentence) summary( of @text|)|
what is @text about?|what is the (main point|gist| point|main idea) (of @text|here|)?|=tl;dr|
(tell me|say) (in one sentence|briefly) what @text is about|what does @text say( in short| in one sentence|)?|
(boil @text down|cut @text down) to one sentence|what happened( in short|)?|
=(in short|in one sentence|the main point|short version|summary)"""


def summarise(d: Draw) -> list[Message]:
    """Ask for the summary of a text, which is its first sentence."""
    first = d.one_of(lambda: line(d).text, lambda: line(d).text, lambda: plain_sentence(d))
    rest: Callable[[], str] = d.pick([lambda: sentence(d), lambda: line(d).text])
    parts = [first, *(rest() for _ in range(d.span(1, 5)))]
    text = d.pick([" ", " ", " ", "\n"]).join(parts)
    if d.chance(0.12):
        return exchange(_attached(d, text, d.pick(["Summarize this.", "sum this up", "What is this text about?"])), first)
    return exchange(ask(d, _SUMMARY, text), first)
