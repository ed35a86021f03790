"""Copy tasks: the model's strongest skill, and the one on which prompt lookup flies."""

from collections.abc import Callable

from . import words
from .draw import Draw, Message, exchange
from .facts import FACTS
from .prose import story

_ASKS = [
    "Repeat this text exactly:", "Repeat this exactly:", "Repeat the following text:", "Copy this text:",
    "Copy the following exactly:", "Write this again:", "Say this again word for word:", "Repeat after me:",
    "Please repeat this text:", "Please copy this text exactly:", "Repeat this sentence:", "Echo this:", "Copy:",
    "Repeat:", "Type this text again, unchanged:", "Give me this text back without changes:",
    "Can you repeat the following text exactly?", "Could you copy this text for me?", "Say:", "Return this text unchanged:",
    "Repeat word for word:", "Write out this text again:", "Please write the following:", "Reproduce this text:",
]  # fmt: skip

_AFTER = [
    "Repeat the text above exactly.", "Copy the text above.", "Please repeat this.", "Repeat that word for word.",
    "Now write it again, unchanged.", "Please copy this text.", "Repeat this text exactly.", "Say that again.",
]  # fmt: skip


def ask(d: Draw, text: str) -> str:
    """A request to copy `text`, in one of many forms."""
    if d.chance(0.15):
        return f"{text}\n\n{d.pick(_AFTER)}" if d.chance(0.7) else f"{text} {d.pick(_AFTER)}"
    request = d.pick(_ASKS)
    if d.chance(0.2):
        request = request[0].lower() + request[1:]
    # A first word after a space is another token than the same word at the start of the answer: both forms are taught.
    form = d.pick(["{0} {1}", "{0} {1}", "{0} {1}", "{0}\n{1}", "{0}\n{1}", "{0}\n\n{1}", '{0} "{1}"'])
    if '"' in text and form.endswith('"'):
        form = "{0}\n{1}"
    return form.format(request, text)


def passage(d: Draw, most: int = 6) -> str:
    """One to `most` sentences from anywhere, sometimes in two paragraphs."""
    count = d.span(1, most)
    kind = d.number(0, 9)
    if kind == 0 or (kind == 1 and count <= 3):
        # Texts on the model's own subject: what it knows by heart must not win over what it reads.
        parts = [_altered(d, d.pick([fact.short, fact.more])) for fact in (d.pick(FACTS) for _ in range(count))]
    elif kind == 1 and count > 3:
        return story(d)
    else:
        parts = [d.sentence() for _ in range(count)]
    if len(parts) > 3 and d.chance(0.3):
        half = len(parts) // 2
        return " ".join(parts[:half]) + "\n\n" + " ".join(parts[half:])
    return " ".join(parts)


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


def sentences(d: Draw) -> list[Message]:
    """Copy sentences."""
    text = passage(d)
    return exchange(ask(d, text), text)


def long_text(d: Draw) -> list[Message]:
    """Copy a text of several paragraphs."""
    text = "\n\n".join(d.sentences(d.span(1, 4)) for _ in range(d.span(1, 4)))
    return exchange(ask(d, text), text)


def random_words(d: Draw) -> list[Message]:
    """Copy words in no order: nothing but the prompt tells what comes next."""
    pool = d.pick([words.COMMON, words.COMMON, words.OBJECTS, words.ADJECTIVES, words.IDENTIFIERS])
    unknown = d.pick([0.15, 0.15, 0.15, 1.0])
    chosen = [d.made_up() if d.chance(unknown) else d.pick(pool) for _ in range(d.span(3, 40))]
    if d.chance(0.15):
        chosen = [word.upper() for word in chosen]
    elif d.chance(0.15):
        chosen = [word.capitalize() for word in chosen]
    text = d.pick([" ", " ", " ", ", ", "\n", " - "]).join(chosen)
    return exchange(ask(d, text), text)


def names(d: Draw) -> list[Message]:
    """Copy a list of people or cities."""
    count = d.span(2, 12)
    chosen = [d.pick([d.full_name, d.full_name, d.first_name, d.city])() for _ in range(count)]
    text = d.pick([", ", ", ", "\n", "; "]).join(chosen)
    return exchange(ask(d, text), text)


def listing(d: Draw) -> list[Message]:
    """Copy a bulleted or numbered list."""
    items = [d.pick([d.noun_phrase, d.sentence, d.made_up, d.city, d.full_name])() for _ in range(d.span(2, 8))]
    mark = d.pick(["- {1}", "- {1}", "* {1}", "{0}. {1}", "{0}) {1}"])
    text = "\n".join(mark.format(i, item) for i, item in enumerate(items, 1))
    return exchange(ask(d, text), text)


def figures(d: Draw) -> list[Message]:
    """Copy numbers, dates, prices and addresses."""
    kinds: list[Callable[[], str]] = [
        lambda: str(d.number(0, 10 ** d.number(1, 7))), d.date, d.price, d.email,
        lambda: f"{d.number(1, 299)} {d.pick(words.STREETS)} Street, {d.city()}",
        lambda: f"{d.number(0, 23):02d}:{d.number(0, 59):02d}",
        lambda: f"{d.number(100, 999)}-{d.number(1000, 9999)}",
        lambda: "".join(d.pick("0123456789abcdefABCDEFXYZ") for _ in range(d.number(4, 12))),
    ]  # fmt: skip
    text = d.pick([" ", ", ", "\n"]).join(d.pick(kinds)() for _ in range(d.span(1, 10)))
    return exchange(ask(d, text), text)


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
    ]  # fmt: skip
    return "\n".join(d.some(pieces, d.span(1, 4)))


def code(d: Draw) -> list[Message]:
    """Copy code, whose indentation must survive."""
    text = code_text(d)
    request = d.pick(["Repeat this code:", "Copy this code exactly:", "Repeat exactly:", "Write this code again:"])
    return exchange(f"{request}\n{text}", text)


def several_times(d: Draw) -> list[Message]:
    """Write a word or a short sentence several times."""
    text = d.pick([d.noun, d.made_up, d.first_name, d.sentence, d.city])()
    count = d.number(2, 6)
    spelled = ["two", "three", "four", "five", "six"][count - 2]
    request = d.pick(
        [
            f"Write {text} {spelled} times.",
            f"Say {text} {count} times.",
            f"Repeat {text} {spelled} times.",
            f'Say "{text}" {spelled} times.',
            f"write {text} {spelled} times",
            f"say {text} {spelled} times",
            f"Print {text} {count} times.",
            f'Please write "{text}" {count} times.',
        ]
        if not text.endswith((".", "!", "?"))
        else [f"Write this {spelled} times: {text}", f"Repeat this {count} times:\n{text}"]
    )
    return exchange(request, "\n".join([text] * count))
