"""Short stories, and questions and summaries over a passage that is given."""

import re

from . import words
from .draw import Draw, Message, articles, exchange, loosely, with_article

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
"""Openings of a story about somebody who has no name."""
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


def story(d: Draw, hero: str = "", animal: str = "") -> str:
    """A story of five to nine sentences in three or four paragraphs. Its middle keeps an order, so that nothing comes twice."""
    places, objects, adjectives = (
        d.some(words.PLACES, 2),
        d.some(words.OBJECTS, 2),
        d.some(words.ADJECTIVES, 2),
    )
    first = hero or d.first_name()
    second = next(name for name in iter(d.first_name, "") if name != first)
    fields = {
        "a": first, "b": second, "job": d.pick(words.JOBS), "city": d.city(),
        "animal": animal or d.pick(words.ANIMALS), "day": d.pick(words.DAYS), "place": places[0], "place2": places[1],
        "object": objects[0], "object2": objects[1], "adj": adjectives[0], "adj2": adjectives[1],
    }  # fmt: skip
    known = re.compile(r"\ba (\{adj2\} )?\{animal\}" if animal else "$^")  # who is known needs no introduction
    troubles, lines = ([line for line in pool if not known.search(line)] for pool in (_TROUBLES, _MIDDLES))
    middles = [lines[number] for number in sorted(d.rng.sample(range(len(lines)), d.number(2, 5)))]
    paragraphs = [
        [d.pick(_ABOUT if animal and not hero else _OPENINGS), d.pick(troubles)],
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

_TELL = """
Tell me|Tell me|Write|Please write|Please tell me|Can you tell me|Write me|I want|Tell|Make up|Give me|Could you write|Make
""".strip().split("|")
_TALES = "a short story|a story|a story|a little story|a tale|one story|a bedtime story|a fairy tale".split("|")


def _somebody(d: Draw) -> tuple[str, str]:
    """Whom a story is to be about, as it is asked for, and in the story."""
    name = d.pick(d.pick([words.ANIMALS, words.ANIMALS, _CHARACTERS, words.JOBS, words.OBJECTS]))
    if d.chance(0.1):
        name = d.made_up()
    asked = f"{d.pick(words.ADJECTIVES)} {name}" if d.chance(0.3) else name
    if d.chance(0.3):
        things = {"job": words.JOBS, "place": words.PLACES, "object": words.OBJECTS, "animal": words.ANIMALS}
        deed = d.pick(_DEEDS).format(**{name: d.pick(pool) for name, pool in things.items()})
        asked += f" {d.pick(['who', 'that', 'who'])} {deed}"
    return articles(f"a {asked}"), name


def tell_story(d: Draw) -> list[Message]:
    """A story on request, about somebody if that is asked for."""
    (asked, somebody), hero = _somebody(d), d.first_name()
    verb, what = d.pick(_TELL), d.pick(_TALES)
    match d.number(0, 4):
        case 0 | 1:
            about, text = "", story(d)
        case 2:
            about, text = f" about {asked}", story(d, animal=somebody)
        case 3:
            about, text = f" about {hero}", story(d, hero=hero)
        case _:
            about, text = f" about {hero} and {asked}", story(d, hero=hero, animal=somebody)
    return exchange(loosely(d, f"{verb} {what}{about}{'?' if 'ould' in verb or 'Can' in verb else '.'}", names=True), text)


def _people(d: Draw) -> tuple[list[str], list[tuple[str, str]]]:
    """Sentences about people, and questions with answers over them."""
    lines: list[str] = []
    asked: list[tuple[str, str]] = []
    seen: set[str] = set()
    wanted = d.span(2, 6)
    while len(lines) < wanted:
        name = d.first_name()
        if name in seen:
            continue
        seen.add(name)
        city, job, thing = d.city(), with_article(d.pick(words.JOBS)), with_article(f"{d.pick(words.ADJECTIVES)} {d.noun()}")
        number, day, color = d.number(2, 99), d.pick(words.DAYS), d.pick(words.COLORS)
        match d.number(0, 4):
            case 0:
                lines.append(f"{name} is {job} from {city}.")
                asked += [
                    (f"Where is {name} from?", f"{name} is from {city}."),
                    (f"What is {name}'s job?", f"{name} is {job}."),
                ]
            case 1:
                lines.append(f"{name} lives in {city} and owns {thing}.")
                asked += [
                    (f"Where does {name} live?", f"{name} lives in {city}."),
                    (f"What does {name} own?", f"{name} owns {thing}."),
                ]
            case 2:
                lines.append(f"{name} is {number} years old and works as {job}.")
                asked += [
                    (f"How old is {name}?", f"{name} is {number} years old."),
                    (f"What does {name} work as?", f"{name} works as {job}."),
                ]
            case 3:
                lines.append(f"On {day}, {name} travels to {city}.")
                asked += [
                    (f"When does {name} travel?", f"{name} travels on {day}."),
                    (f"Where does {name} travel?", f"{name} travels to {city}."),
                ]
            case _:
                lines.append(f"The favorite color of {name} is {color}, and the lucky number is {number}.")
                asked += [
                    (f"What is the favorite color of {name}?", f"The favorite color of {name} is {color}."),
                    (f"What is the lucky number of {name}?", f"The lucky number of {name} is {number}."),
                ]
    return lines, asked


def _attached(d: Draw, text: str, question: str) -> str:
    """A question about a file, in the form in which the chat sends one."""
    name = f"{d.pick([d.noun().replace(' ', '-'), 'notes', 'text', 'people', d.made_up()])}.{d.pick(['txt', 'txt', 'md'])}"
    ask = d.pick([f"{question} @{name}", f"{question}\n@{name}", f"@{name} {question}", question])
    size = len(text.encode()) + 1
    told = f"{size} B" if size < 1000 else f"{size / 1000:,.1f} kB"
    return f"Attached file: {name} ({told})\n```\n{text}\n```\n\n{ask}"


def passage_question(d: Draw) -> list[Message]:
    """One to three questions, turn by turn, over one passage."""
    lines, asked = _people(d)
    text = " ".join(lines)
    order = d.some([question for question, _ in asked], 1 if d.chance(0.6) else 3)
    answers = dict(asked)
    first = order[0]
    prompt = d.pick(
        [f"{text}\n\n{first}", f"{text} {first}", f"Read this: {text}\n\nQuestion: {first}", f"{first}\n\n{text}",
         f"Answer the question about this text.\n\n{text}\n\n{first}"]
    )  # fmt: skip
    if d.chance(0.2):
        prompt = _attached(d, text, first)
    messages = exchange(prompt, answers[first])
    for question in order[1:]:
        messages += exchange(question, answers[question])
    return messages


def long_passage(d: Draw) -> list[Message]:
    """One question over a passage of up to 1,400 tokens, most of which does not matter."""
    lines, asked = _people(d)
    first = d.pick(lines[:1])
    lines += [d.sentence() for _ in range(d.span(6, 50))]
    d.rng.shuffle(lines)
    question, answer = d.pick(asked)
    if d.chance(0.2) and lines[0] != first:
        return exchange(f"{' '.join(lines)}\n\nWhat is the first sentence of this text?", lines[0])
    text = " ".join(lines)
    prompt = d.pick([f"{text}\n\n{question}", f"Read this: {text}\n\nQuestion: {question}"])
    return exchange(_attached(d, text, question) if d.chance(0.2) else prompt, answer)


def summarise(d: Draw) -> list[Message]:
    """The first sentence carries the point; the summary names it and the people."""
    topic, city, day = d.pick(words.OBJECTS), d.city(), d.pick(words.DAYS)
    people = [d.first_name() for _ in range(d.number(1, 2))]
    who = " and ".join(dict.fromkeys(people))
    event = d.pick(["lost", "found", "sold", "repaired", "painted", "built"])
    lines = [f"On {day}, {who} {event} {with_article(f'{d.pick(words.ADJECTIVES)} {topic}')} in {city}."]
    lines += [d.sentence() for _ in range(d.span(1, 4))]
    ask = d.pick(
        ["Summarize this text in one sentence:", "Summarise in one sentence:", "Summarize:", "Give me a short summary:",
         "What is this text about?", "Sum up this text:"]
    )  # fmt: skip
    text = " ".join(lines)
    prompt = _attached(d, text, ask.rstrip(":")) if d.chance(0.2) else f"{ask}\n\n{text}"
    return exchange(prompt, f"{who} {event} {with_article(topic)} in {city} on {day}.")


def list_people(d: Draw) -> list[Message]:
    """Name every person of a passage."""
    names = list(dict.fromkeys(d.full_name() for _ in range(d.span(1, 4))))
    templates = ["{} {} {}.", "{} then {} {}.", "Yesterday {} {} {}.", "In the evening {} {} {}."]
    lines = [d.pick(templates).format(name, d.pick(words.VERBS), d.noun_phrase()) for name in names]
    ask = d.pick(
        ["List the names in this text:", "Extract the names:", "Which people are named in this text?",
         "Who is named here?", "Give me all names in the text:"]
    )  # fmt: skip
    return exchange(f"{ask}\n\n{' '.join(lines)}" if d.chance(0.7) else f"{ask} {' '.join(lines)}", ", ".join(names))
