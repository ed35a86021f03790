"""Copy tasks: the model's strongest skill, and the one on which prompt lookup flies."""

from collections.abc import Callable

from .. import words
from ..draw import Draw, Message, exchange
from ..facts import FACTS
from ..sentences import sentence, sentences
from ..stories import story
from ..wording import ask

_COPY = """
(repeat|copy|echo|reproduce|retype) @text (exactly|word for word|unchanged|letter by letter|as it is|verbatim|once
more|for me|||)|
(write|type|say|print|give me|return|send me|post|output|show me|put) @text (again|once more|one more time|back|out again|
exactly as it is|again word for word|back unchanged|again without changes|without changing anything|the same way|verbatim)|
(repeat|copy|echo|say|copy out|write down) @next|(repeat|say) after me|(repeat|say|copy|echo|write|return|type)|
(write|say|repeat) (exactly|only|just|literally)( this|)|(make|give me|create|I need|write) (a|an exact|one) copy of @text|
=do not change anything, (just|only) (repeat|copy) @text|
(repeat|copy|write) @text (without changing|but don't change|and don't touch) (anything|a thing|a word|a single letter)|
answer with (exactly|only|nothing but|just) @text|(read|say) @text back to me|
(repeat|write|say) (word for word|letter by letter|exactly)( what I wrote|)"""

_CODE = """
(repeat|copy|retype|echo|reproduce) @code (exactly|unchanged|as it is|with the indentation||)|
(write|print|give me|show me|return|type) @code (again|once more|back unchanged|without changes|unchanged)|
(copy|repeat) (exactly|this||)"""

_TIMES = """
(write|say|repeat|print|type|give me|show me|put down|output) ({word}|"{word}"|the (word|name) {word}) {count} times( in a
row| on separate lines| for me|, one per line||)|show me {word} {count} times|=({word}|"{word}"), {count} times|
={count} times ({word}|"{word}")"""
_TIMES_LINE = """
(write|say|repeat|print|type|give me) (@text|that) {count} times( on separate lines| in a row|)|={count} times @text"""

_NUMBERS = ["two", "three", "four", "five", "six", "seven"]


def passage(d: Draw, most: int = 6) -> str:
    """One to `most` sentences from anywhere, sometimes in two paragraphs or line by line."""
    count = d.span(1, most)
    kind = d.number(0, 9)
    if kind == 0 or (kind == 1 and count <= 3):
        # Texts on the model's own subject: what it knows by heart must not win over what it reads.
        parts = [_altered(d, d.pick([fact.short, fact.more])) for fact in (d.pick(FACTS) for _ in range(count))]
    elif kind == 1 and count > 3:
        return story(d)
    else:
        parts = [sentence(d) for _ in range(count)]
    if len(parts) > 3 and d.chance(0.3):
        half = len(parts) // 2
        return " ".join(parts[:half]) + "\n\n" + " ".join(parts[half:])
    return d.pick([" ", " ", " ", " ", "\n"]).join(parts)


def _altered(d: Draw, text: str) -> str:
    """The text with some words replaced or left out."""
    if d.chance(0.3):
        return text
    altered = []
    for word in text.split(" "):
        if d.chance(0.12):
            word = d.pick([d.pick(words.COMMON), d.pick(words.COMMON), d.made_up(), ""]) + word[len(word.rstrip(".,;:")) :]
        altered.append(word)
    return " ".join(word for word in altered if word) or text


def copied(d: Draw, text: str) -> list[Message]:
    """A request to copy a text, and the text."""
    return exchange(ask(d, _COPY, text), text)


def copy_sentences(d: Draw) -> list[Message]:
    """Copy sentences."""
    return copied(d, passage(d))


def long_text(d: Draw) -> list[Message]:
    """Copy a text of several paragraphs."""
    return copied(d, "\n\n".join(sentences(d, d.span(1, 4)) for _ in range(d.span(1, 4))))


def random_words(d: Draw) -> list[Message]:
    """Copy words in no order: nothing but the prompt tells what comes next."""
    pool = d.pick([words.COMMON, words.COMMON, words.OBJECTS, words.ADJECTIVES, words.IDENTIFIERS])
    unknown = d.pick([0.15, 0.3, 0.3, 1.0])
    chosen = [d.made_up() if d.chance(unknown) else d.pick(pool) for _ in range(d.span(1, 40))]
    if d.chance(0.15):
        chosen = [word.upper() for word in chosen]
    elif d.chance(0.2):
        chosen = [word.capitalize() for word in chosen]
    elif d.chance(0.2):
        chosen = [d.pick([word, word.upper(), word.capitalize()]) for word in chosen]
    return copied(d, d.pick([" ", " ", " ", ", ", "\n", " - ", "-", " / ", "; "]).join(chosen))


def names(d: Draw) -> list[Message]:
    """Copy a list of people or cities."""
    chosen = [d.one_of(d.full_name, d.full_name, d.first_name, d.city) for _ in range(d.span(1, 12))]
    return copied(d, d.pick([", ", ", ", "\n", "; ", " and ", " "]).join(chosen))


def listing(d: Draw) -> list[Message]:
    """Copy a list."""
    kinds = [d.noun_phrase, lambda: sentence(d), d.made_up, d.city, d.full_name, d.word]
    items = [d.pick(kinds)() for _ in range(d.span(2, 8))]
    mark = d.pick(["- {1}", "- {1}", "* {1}", "{0}. {1}", "{0}) {1}", "{1}", "\u2022 {1}", "[ ] {1}"])
    return copied(d, "\n".join(mark.format(i, item) for i, item in enumerate(items, 1)))


def figures(d: Draw) -> list[Message]:
    """Copy numbers, dates, prices and addresses."""
    kinds: list[Callable[[], str]] = [
        lambda: str(d.number(0, 10 ** d.number(1, 7))), d.date, d.price, d.email, d.time,
        lambda: f"{d.number(1, 299)} {d.pick(words.STREETS)} Street, {d.city()}",
        lambda: f"{d.number(100, 999)}-{d.number(1000, 9999)}",
        lambda: "".join(d.pick("0123456789abcdefABCDEFXYZ") for _ in range(d.number(4, 12))),
        lambda: f"{d.made_up()}{d.number(0, 99)}", lambda: f"{d.made_up()}_{d.made_up()}.{d.pick(['txt', 'py', 'md', 'jpg'])}",
    ]  # fmt: skip
    return copied(d, d.pick([" ", ", ", "\n"]).join(d.pick(kinds)() for _ in range(d.span(1, 10))))


def code_text(d: Draw) -> str:
    """A few lines of Python."""
    a, b, c = d.some(words.IDENTIFIERS, 3)
    verb = d.pick(["get", "set", "make", "find", "read", "load", "sum", "update"])
    n, m = d.number(0, 99), d.number(1, 20)
    pieces = [
        f"def {verb}_{a}({b}, {c}):\n    return {b} {d.pick(['+', '-', '*', '/'])} {c}",
        f"for {a} in range({m}):\n    print({a})",
        f"{a} = [{', '.join(str(d.number(0, 50)) for _ in range(d.number(2, 6)))}]",
        f"if {a} > {n}:\n    {b} = {a} - {m}\nelse:\n    {b} = {c}",
        f"{a} = {b}.{verb}({c}, {n})",
        f"while {a} < {n}:\n    {a} += {m}",
        f"def {verb}_{a}({b}):\n    {c} = {n}\n    for item in {b}:\n        {c} += item\n    return {c}",
        f'{a} = {{"{b}": {n}, "{c}": {m}}}',
        f"class {a.capitalize()}:\n    def __init__(self, {b}):\n        self.{b} = {b}",
        f'print("{a}:", {b})',
        f"import {a}\nfrom {b} import {c}",
        f'{a} = "{d.made_up()}"  # {d.made_up()}',
    ]  # fmt: skip
    return "\n".join(d.some(pieces, d.span(1, 4)))


def code(d: Draw) -> list[Message]:
    """Copy code, whose indentation must survive."""
    text = code_text(d)
    return exchange(ask(d, _CODE, text), text)


def several_times(d: Draw) -> list[Message]:
    """Write a word or a short sentence several times."""
    text = d.one_of(d.word, d.made_up, d.first_name, lambda: sentence(d), d.city, lambda: f"{d.word()} {d.word()}")
    number = d.number(2, 7)
    count = d.pick([_NUMBERS[number - 2], str(number)])
    answer = "\n".join([text] * number)
    if text.endswith((".", "!", "?")):
        return exchange(ask(d, _TIMES_LINE, text, count=count), answer)
    return exchange(ask(d, _TIMES, word=text, count=count), answer)
