"""Short stories, often about characters that the request names."""

import re

from . import words
from .draw import Draw, Message, articles, exchange
from .wording import ask

_OPENINGS = [
    "Once upon a time, {a} the {job} lived in a {adj} {place} near {city}.",
    "{a} was a {adj} {job} who lived in {city}.",
    "In a {adj} {place} outside {city} there lived a {job} called {a}.",
    "Every morning {a} walked to the {place}, for {a} was a {job}.",
    "Long ago, a {adj} {animal} lived in the {place} behind the house of {a}.",
]
_ABOUT = [
    "Once upon a time, a {adj} {animal} lived in a {place} near {city}.",
    "There was once a {animal} who was {adj} and lived with {a} in {city}.",
    "Long ago, a {adj} {animal} lived in the {place} behind the house of {a}.",
    "In a {adj} {place} outside {city} there lived a {animal}, and its best friend was {a}.",
]
"""Openings of a story about a character without a name."""
_NAMED = [
    "Once upon a time, a {kind} called {a} lived in a {adj} {place} near {city}.",
    "There was once a {adj} {kind} called {a} who lived in {city}.",
    "In a {adj} {place} outside {city} there lived a {kind} called {a}.",
    "Long ago there was a {kind} called {a}, whose best friend was {b}.",
]
_PAIR = [
    "Once upon a time, a {kind} called {a} and a {friend} called {b} lived in a {adj} {place}.",
    "There was once a {kind} called {a} whose best friend was a {friend} called {b}.",
    "In {city} there lived a {kind} called {a} and a {friend} called {b}.",
]
"""Openings of a story about two characters with names."""
_TROUBLES = [
    "One day {a} found a {adj2} {object} under a {object2}.",
    "One evening the {adj2} {object} of the {job} was gone.",
    "Then a {adj2} {animal} came to the door and asked for help.",
    "One night a storm came, and the {object} fell into the {place2}.",
    "One day a letter from {b} arrived, and inside was a {adj2} {object}.",
]
_MIDDLES = [
    "{a} did not know what to do with it, so {a} went to {b}.",
    '"Have you seen my {object}?" asked {a}.',
    '"Follow me to the {place2}," said the {animal}.',
    "They looked in the {place}, behind the {object2} and even in the {place2}, but they found nothing.",
    "{b} smiled and gave {a} a {object2}.",
    "The way to the {place2} was long, and the night was {adj2}.",
    "On the way they met a {animal} who carried a {object2}.",
    '"It belongs to the {animal} of the {place2}," {b} said quietly.',
    "So {a} and {b} took a {object2} and walked all night.",
    "{a} was tired, but the {animal} was still full of hope.",
    "In the {place2} they saw a light, and beside it lay the {object}.",
    "For a moment nobody said a word.",
]
_ENDINGS = [
    "In the end {a} gave the {object} to the {animal}, and they became friends.",
    "When the sun rose, {a} was home again with the {object}.",
    "At last they found the {object}, and {b} laughed for joy.",
    "{a} put the {object} on the table, and it has been there ever since.",
]
_LESSONS = [
    "From that day on, {a} and {b} met every {day}.",
    "And {a} never forgot the {adj2} {animal}.",
    "Since then nobody in {city} is afraid of a {animal}.",
    "And that is how the {object} came to {city}.",
]


def story(d: Draw, hero: str = "", kind: str = "", friend: str = "", friend_kind: str = "", introduced: bool = False) -> str:
    """Draw a story of six to nine sentences in three or four paragraphs. Its middle sentences keep the
    order of `_MIDDLES`, and none comes twice.

    Args:
        d: the stream of choices.
        hero: the name of the main character.
        kind: an animal, a job or a thing: the hero's if `introduced`, else that of a character without a name.
        friend: the name of the second character.
        friend_kind: the friend's kind.
        introduced: introduce the hero as a `kind`.
    """
    places = d.some(words.PLACES, 2)
    objects = d.some(words.OBJECTS, 2)
    adjectives = d.some(words.ADJECTIVES, 2)
    first = hero or d.first_name()
    second = friend or next(name for name in iter(d.first_name, "") if name != first)
    fields = {
        "a": first, "b": second, "job": d.pick(words.JOBS), "city": d.city(), "kind": kind, "friend": friend_kind,
        "animal": d.pick(words.ANIMALS) if introduced else kind or d.pick(words.ANIMALS), "day": d.pick(words.DAYS),
        "place": places[0], "place2": places[1], "object": objects[0], "object2": objects[1], "adj": adjectives[0],
        "adj2": adjectives[1],
    }  # fmt: skip
    # What the request has introduced is not introduced again; `$^` matches no line.
    introduction = re.compile(r"\ba (\{adj2\} )?\{animal\}" if kind and not introduced else "$^")
    troubles, lines = ([line for line in pool if not introduction.search(line)] for pool in (_TROUBLES, _MIDDLES))
    middles = [lines[number] for number in sorted(d.rng.sample(range(len(lines)), d.number(2, 5)))]
    openings = _ABOUT if kind and not hero else _OPENINGS
    if introduced:
        openings = _PAIR if friend_kind else _NAMED
    paragraphs = [
        [d.pick(openings), d.pick(troubles)],
        middles[:2],
        middles[2:],
        [d.pick(_ENDINGS), d.pick(_LESSONS)],
    ]
    return articles("\n\n".join(" ".join(lines).format(**fields) for lines in paragraphs if lines))


_CHARACTERS = """
robot dragon wizard witch ghost princess prince king queen knight pirate astronaut detective giant monster unicorn fairy elf
alien monkey lion tiger bee ant worm shark dolphin panda koala parrot chicken pig cow sheep kitten puppy snake frog computer
machine child girl boy man woman tree cloud star river snowman ship train house tractor teapot
""".split()

_DEEDS = """
learns to swim|wants to fly|is afraid of the dark|lost a friend|finds a treasure|goes on a journey|can talk|cannot sleep|
saves the world|learns to cook|moves to the city|loves music|is looking for home|travels to the moon|makes a mistake|
wants to be a {job}|lives in a {place}|finds a {object}|eats too much|never gives up|meets a {animal}|is always late
""".replace("\n", "").split("|")

_TALE = "(a|a|one|a short|a little|a nice|a small|a quick|a funny|another) (story|story|tale|bedtime story|fairy tale)"
_WISH = """
|for (my daughter|my son|kids|children|a child|bedtime|tonight|my class)|with a happy end|that ends well|
, (not|nothing) too long|, keep it short|, short please|in a few lines||||||"""
_TELL = f"""
(tell|read|give) me {_TALE}{{about}}({_WISH})|
(write|tell|make up|invent|create|compose|write down|think of|come up with) {_TALE}{{about}}({_WISH})|
(write|make|tell) (us|me) {_TALE}{{about}}({_WISH})|=(once more|and now|now|) {_TALE}{{about}}({_WISH})|
=(I want|I'd like|I want to hear|I need|how about|do you have|is there|let me hear) {_TALE}{{about}}({_WISH})|
do you know {_TALE}{{about}}?|=(story|a story|bedtime story|fairy tale){{about}}|=story time{{about}}"""


def _somebody(d: Draw, deed: bool = True) -> tuple[str, str]:
    """Draw a character: the words in the request, and the kind in the story."""
    kind = d.pick(d.pick([words.ANIMALS, words.ANIMALS, _CHARACTERS, words.JOBS, words.OBJECTS]))
    if d.chance(0.1):
        kind = d.made_up()
    phrase = f"{d.pick(words.ADJECTIVES)} {kind}" if d.chance(0.3) else kind
    if deed and d.chance(0.3):
        pools = {"job": words.JOBS, "place": words.PLACES, "object": words.OBJECTS, "animal": words.ANIMALS}
        phrase += f" {d.pick(['who', 'that'])} {d.pick(_DEEDS).format(**{key: d.pick(pool) for key, pool in pools.items()})}"
    return articles(f"a {phrase}"), kind


def _named(d: Draw, name: str) -> tuple[str, str]:
    """Draw a character with a name: the words in the request, and the kind."""
    phrase, kind = _somebody(d, deed=False)
    called = d.pick(["called", "called", "named", "named", "with the name", "whose name is", "who is called"])
    phrases = [f"{name} the {kind}", f"{name}, {phrase}", f"the {kind} {name}", f"my {kind} {name}"]
    return f"{phrase} {called} {name}" if d.chance(0.6) else d.pick(phrases), kind


def tell_story(d: Draw) -> list[Message]:
    """Tell a story on request, perhaps about a character, who may have a name and a friend."""
    draw_name = d.first_name if d.chance(0.85) else lambda: d.made_up().capitalize()
    hero = draw_name()
    friend = next(candidate for candidate in iter(draw_name, "") if candidate != hero)
    about, and_ = d.pick([" about ", " about ", " with ", " on "]), d.pick([" and ", " and ", " & "])
    match d.number(0, 9):
        case 0 | 1:
            about, text = "", story(d)
        case 2 | 3:
            phrase, kind = _somebody(d)
            about, text = f"{about}{phrase}", story(d, kind=kind)
        case 4:
            about, text = f"{about}{hero}", story(d, hero)
        case 5:
            phrase, kind = _somebody(d)
            about, text = f"{about}{hero}{and_}{phrase}", story(d, hero, kind)
        case 6 | 7:
            phrase, kind = _named(d, hero)
            about, text = f"{about}{phrase}", story(d, hero, kind, introduced=True)
        case 8:
            (phrase, kind), (other, other_kind) = _named(d, hero), _named(d, friend)
            about, text = f"{about}{phrase}{and_}{other}", story(d, hero, kind, friend, other_kind, introduced=True)
        case _:
            about, text = f"{about}{hero}{and_}{friend}", story(d, hero, friend=friend)
    return exchange(ask(d, _TELL, about=about), text)
