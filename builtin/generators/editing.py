"""Editing, reformatting, extraction and counting: exact tasks over text that the prompt holds."""

import json

from . import words
from .draw import Draw, Message, exchange, loosely


def _items(d: Draw, most: int = 8, least: int = 2) -> list[str]:
    pool = d.pick([words.FOODS, words.ANIMALS, words.OBJECTS, words.COLORS, words.ADJECTIVES, words.PLACES])
    kind = d.number(0, 3)
    if kind == 0:
        return list(dict.fromkeys(d.first_name() for _ in range(d.span(least, most))))
    if kind == 1:
        return list(dict.fromkeys(d.city() for _ in range(d.span(least, most))))
    return d.some(pool, d.span(least, most))


def _bullets(items: list[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _numbered(items: list[str]) -> str:
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def _ask(d: Draw, requests: list[str], text: str) -> str:
    return d.pick(["{}: {}", "{}: {}", "{}:\n{}", "{}:\n\n{}"]).format(d.pick(requests), text)


def replace_word(d: Draw) -> list[Message]:
    """Replace one word wherever it occurs."""
    if d.chance(0.08):
        return _replace_mark(d)
    text = d.sentences(d.span(1, 2))
    bare = [word for word in text.split() if word.isalpha() and len(word) > 2]
    if not bare:
        return replace_word(d)
    old = d.pick(bare)
    new = d.pick([d.noun(), d.made_up(), d.first_name(), d.pick(words.COMMON)])
    answer = " ".join(new + word[len(old) :] if word.rstrip(".,!?;:") == old else word for word in text.split(" "))
    ask = d.pick(
        [f"Replace {old} with {new}", f'Replace "{old}" with "{new}"', f"Change {old} to {new}",
         f"Replace the word {old} by {new}", f"Write {new} instead of {old}"]
    )  # fmt: skip
    where = d.pick(["", "", " in this text", " in this sentence", " in the following text"])
    return exchange(f"{ask}{where}{d.pick([': ', ': ', ':' + chr(10)])}{text}", answer)


def _replace_mark(d: Draw) -> list[Message]:
    """Replace one punctuation mark wherever it occurs."""
    name, mark = d.pick([("comma", ", "), ("semicolon", "; "), ("dash", " - "), ("slash", "/"), ("colon", ": ")])
    new_name, new = d.pick([pair for pair in _MARKS if pair[0] != name])
    items = _items(d, 6)
    ask = d.pick([f"Replace every {name} with a {new_name}", f"Replace each {name} by a {new_name}",
                  f"Use a {new_name} instead of a {name}"])  # fmt: skip
    return exchange(f"{ask}: {mark.join(items)}", new.join(items))


_MARKS = [("semicolon", "; "), ("dash", " - "), ("slash", "/"), ("comma", ", "), ("colon", ": ")]


def _short_text(d: Draw) -> str:
    """What case is changed in: words, a list or a short sentence."""
    kind = d.number(0, 9)
    if kind < 4:
        return " ".join(d.pick(words.COMMON) for _ in range(d.span(1, 8)))
    if kind < 6:
        return d.pick([" ", ", "]).join(_items(d, 6, 1))
    while True:
        text = d.sentence()
        if len(text.split()) <= 12:
            return text


def change_case(d: Draw) -> list[Message]:
    """Upper case, lower case, title case."""
    text = _short_text(d)
    match d.number(0, 2):
        case 0:
            ask = ["Write this in upper case", "Make this upper case", "In capital letters", "Convert to uppercase",
                   "Put this text in upper case"]  # fmt: skip
            return exchange(_ask(d, ask, text), text.upper())
        case 1:
            ask = ["Write this in lower case", "Make this lower case", "Convert to lowercase", "In small letters",
                   "Put this text in lower case"]  # fmt: skip
            return exchange(_ask(d, ask, text.upper() if d.chance(0.5) else text), text.lower())
        case _:
            ask = ["Write this in title case", "Capitalize every word", "Start every word with a capital"]
            return exchange(_ask(d, ask, text), " ".join(word[:1].upper() + word[1:] for word in text.split(" ")))


def sort_items(d: Draw) -> list[Message]:
    """Sort words or numbers."""
    if d.chance(0.35):
        numbers = [d.number(0, 99) for _ in range(d.span(2, 6))]
        text = ", ".join(map(str, numbers))
        if d.chance(0.3):
            ask = ["Sort these numbers from high to low", "Sort in descending order"]
            return exchange(_ask(d, ask, text), ", ".join(map(str, sorted(numbers, reverse=True))))
        ask = ["Sort these numbers", "Sort from low to high", "Put these numbers in order"]
        return exchange(_ask(d, ask, text), ", ".join(map(str, sorted(numbers))))
    items = _items(d, 6)
    ask = ["Sort these words", "Sort this list alphabetically", "Put these words in alphabetical order", "Sort"]
    return exchange(_ask(d, ask, ", ".join(items)), ", ".join(sorted(items, key=str.lower)))


def reverse_items(d: Draw) -> list[Message]:
    """Reverse a list."""
    items = _items(d, 6)
    ask = ["Reverse this list", "Write this list backwards", "Give me these words in reverse order", "Reverse"]
    return exchange(_ask(d, ask, ", ".join(items)), ", ".join(reversed(items)))


def _as_json(items: list[str]) -> str:
    return json.dumps(items)


_FORMS = {
    "comma": (", ".join, ["Write this as a comma-separated list", "Turn this into a comma list",
                          "Put these on one line, separated by commas", "Convert this to a comma separated list"]),
    "bullets": (_bullets, ["Write this as a bulleted list", "Turn this into bullets", "Make a bullet list",
                           "Convert this to a bullet list", "As bullet points"]),
    "numbered": (_numbered, ["Write this as a numbered list", "Number these items", "Make a numbered list",
                             "Convert this to a numbered list"]),
    "json": (_as_json, ["Write this as JSON", "Turn this into a JSON list", "Convert this to a JSON array",
                        "As JSON", "Make a JSON array"]),
    "lines": ("\n".join, ["Write each item on its own line", "One item per line", "Put each item on a line"]),
}  # fmt: skip


def reformat(d: Draw) -> list[Message]:
    """Turn a list from one notation into another, perhaps into a third one in the next turn."""
    items = _items(d, 10)
    forms = d.some(list(_FORMS), 3)
    source, target, third = (_FORMS[form] for form in forms)
    messages = exchange(_ask(d, target[1], source[0](items)), target[0](items))
    if d.chance(0.25):
        request = d.pick(third[1])
        messages += exchange(f"Now {request[0].lower() + request[1:]}." if request[:2] != "As" else f"Now as {request[3:]}.",
                             third[0](items))  # fmt: skip
    return messages


def record_json(d: Draw) -> list[Message]:
    """One record as JSON, from a sentence or from key: value lines."""
    name, age, city = d.full_name(), d.number(18, 90), d.city()
    record = {"name": name, "age": age, "city": city}
    text = d.pick(
        [f"{name} is {age} years old and lives in {city}.", f"name: {name}\nage: {age}\ncity: {city}",
         f"{name}, {age}, {city}", f"{name}, aged {age}, comes from {city}."]
    )  # fmt: skip
    ask = ["Write this as a JSON object", "Turn this into a JSON object", "Convert to a JSON object with name, age and city"]
    return exchange(_ask(d, ask, text), json.dumps(record))


def extract(d: Draw) -> list[Message]:
    """Find dates, numbers, prices, mail addresses or times in a passage."""
    kind = d.pick(["date", "number", "price", "email", "time"])
    found: list[str] = []
    lines: list[str] = []
    for _ in range(d.span(1, 4)):
        who, noun = d.first_name(), d.noun()
        match kind:
            case "date":
                value = d.date()
                line = d.pick([f"{who} arrived on {value}.", f"The {noun} was made on {value}.", f"On {value}, {who} left."])
            case "number":
                value = str(d.number(2, 999))
                line = d.pick([f"{who} has {value} {noun}s.", f"There are {value} {noun}s.", f"{who} sold {value} {noun}s."])
            case "price":
                value = d.price()
                line = d.pick([f"The {noun} costs {value}.", f"{who} paid {value}.", f"{who} got {value} for the {noun}."])
            case "email":
                value = d.email()
                line = d.pick([f"Write to {value}.", f"{who} has the address {value} now.", f"Please ask {value} first."])
            case _:
                value = f"{d.number(0, 23):02d}:{d.number(0, 59):02d}"
                line = d.pick([f"{who} comes at {value}.", f"The train leaves at {value}.", f"At {value} the {noun} rang."])
        found.append(value)
        lines.append(line)
        if d.chance(0.4):
            lines.append(f"{d.first_name()} {d.pick(words.VERBS)} {d.noun_phrase()}.")
    plural = {"date": "dates", "number": "numbers", "price": "prices", "email": "email addresses", "time": "times"}[kind]
    ask = [f"Extract the {plural}", f"List all {plural} in this text", f"Find the {plural}", f"Which {plural} are in this text"]
    return exchange(_ask(d, ask, " ".join(lines)), ", ".join(found))


def count_items(d: Draw) -> list[Message]:
    """Count items or words aloud: a model that writes one token after another counts best by numbering."""
    listed = d.chance(0.6)
    items = _items(d, 7, 1) if listed else [d.pick(words.COMMON) for _ in range(d.span(2, 8))]
    if listed:
        ask = ["How many items are in this list", "Count the items", "Count these", "How many are there", "Count"]
        what = "item"
    else:
        ask = ["How many words are in this text", "Count the words", "How many words are there", "Count these words"]
        what = "word"
    return exchange(
        _ask(d, ask, (", " if listed else " ").join(items)),
        f"{_numbered(items)}\n{len(items)} {what}{'' if len(items) == 1 else 's'}.",
    )


def count_up(d: Draw) -> list[Message]:
    """Count from one number to another."""
    start, step = d.pick([0, 1, 1, 1, 1, d.number(2, 30)]), 1
    if d.chance(0.2):
        start, step = 0, d.pick([2, 5, 10])
    stop = start + step * d.span(3, 12)
    ask = f"Count from {start} to {stop}" + (f" in steps of {step}" if step > 1 else "")
    if start == 1 and d.chance(0.3):
        ask = d.pick([f"Count to {stop}", f"List the numbers from 1 to {stop}", f"Count up to {stop}"])
    return exchange(ask + d.pick(["", "."]), ", ".join(map(str, range(start, stop + 1, step))))


TOO_LARGE = "Sorry, I can only calculate with small numbers."


def large_numbers(d: Draw) -> list[Message]:
    """What is beyond the sums that the model knows."""
    a, b = d.number(13, 10 ** d.number(2, 5)), d.number(13, 10 ** d.number(2, 4))
    sign, spoken = d.pick(
        [("*", "times"), ("*", "multiplied by"), ("x", "times"), ("/", "divided by"), ("+", "plus"), ("-", "minus")]
    )
    if sign in "+-":
        a, b = a + 100, b + 10
    elif sign != "/" and d.chance(0.4):
        b = d.number(2, 9)
    form = d.pick(
        ["What is {0} {1} {2}?", "What is {0} {3} {2}?", "{0} {1} {2} =", "Calculate {0} {1} {2}.", "{0}{1}{2}", "{0} {1} {2}",
         "How much is {0} {3} {2}?", "Compute {0}{1}{2}", "what is {0}{1}{2}", "{0}{1}{2}=?"]
    )  # fmt: skip
    return exchange(loosely(d, form.format(a, sign, b, spoken), names=True), TOO_LARGE)


def arithmetic(d: Draw) -> list[Message]:
    """Sums and differences up to 20, a digit more or less on two digits, the multiplication table: few enough to know."""
    operation = d.pick(["+", "+", "-", "*"])
    if operation == "*" or d.chance(0.6):
        a, b = d.number(0, 12), d.number(0, 12)
    else:
        a, b = d.number(10, 90), d.number(1, 9)
    if operation == "-" and b > a:
        a, b = b, a
    result = {"+": a + b, "-": a - b, "*": a * b}[operation]
    spoken = {"+": "plus", "-": "minus", "*": "times"}[operation]
    question = d.pick([f"What is {a} {operation} {b}?", f"What is {a} {spoken} {b}?", f"{a} {operation} {b} =",
                       f"Calculate {a} {operation} {b}.", f"How much is {a} {spoken} {b}?", f"{a} {operation} {b}",
                       f"what's {a} {spoken} {b}", f"what is {a}{operation}{b}?", f"{a}{operation}{b}", f"{a}{operation}{b}=?",
                       f"What is {a}{operation}{b}", f"Can you tell me what {a} {spoken} {b} is?"])  # fmt: skip
    return exchange(loosely(d, question, names=True), f"{a} {operation} {b} = {result}")


def table(d: Draw) -> list[Message]:
    """A Markdown table from lines of key: value, or back."""
    rows = [(name, str(d.number(1, 99))) for name in _items(d, 6)]
    head = d.pick([("Name", "Count"), ("Item", "Price"), ("Name", "Age"), ("Item", "Number")])
    plain = "\n".join(f"{key}: {value}" for key, value in rows)
    markdown = "\n".join([f"| {head[0]} | {head[1]} |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows)])
    if d.chance(0.35):
        comma = "\n".join(f"{key},{value}" for key, value in [head, *rows])
        if d.chance(0.5):
            ask = [f"Write this as CSV with the columns {head[0]} and {head[1]}", f"Convert this to CSV ({head[0]}, {head[1]})"]
            return exchange(f"{d.pick(ask)}:\n{plain}", comma)
        ask = ["Turn this CSV into a table", "Make a table of this CSV", "Write this CSV as a table"]
        return exchange(f"{d.pick(ask)}:\n{comma}", markdown)
    if d.chance(0.7):
        ask = [f"Make a table with the columns {head[0]} and {head[1]}", f"Write this as a table ({head[0]}, {head[1]})"]
        return exchange(f"{d.pick(ask)}:\n{plain}", markdown)
    return exchange(f"{d.pick(['Write this table as lines', 'Turn this table into a list'])}:\n{markdown}", plain)


def follow_up(d: Draw) -> list[Message]:
    """A list or a sentence, then one or more wishes about the last answer."""
    if d.chance(0.5):
        text = _short_text(d)
        messages = exchange(d.pick(["Repeat this: {}", "Copy this: {}", "Say: {}"]).format(text), text)
    else:
        items = _items(d, 6)
        text = ", ".join(items)
        messages = exchange(f"Write this as a comma-separated list: {' '.join(items)}", text)
    for _ in range(d.number(1, 2)):
        match d.number(0, 3):
            case 0:
                text = text.upper()
                ask = d.pick(["Now in upper case.", "Now in capital letters.", "Make it upper case.", "In upper case please"])
            case 1:
                text = text.lower()
                ask = d.pick(["Now in lower case.", "Make it lower case.", "And in lower case?", "In small letters please"])
            case 2:
                ask = d.pick(["Repeat that.", "Again, please.", "Say that again.", "Once more.", "Can you repeat that?"])
            case _:
                if "," in text and "\n" not in text and " - " not in text and not text.endswith("."):
                    text = _bullets(text.split(", "))
                    ask = d.pick(["Now as bullets.", "Now as a bulleted list.", "Make that a bullet list."])
                else:
                    ask = d.pick(["Repeat your last answer.", "What did you just say?", "Write that again."])
        messages += exchange(ask, text)
    return messages
