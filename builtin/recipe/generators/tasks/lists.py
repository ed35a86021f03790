"""Lists in any notation: sorted, reversed, rewritten, shortened, added to and counted."""

import json
from collections.abc import Callable, Sequence

from .. import words
from ..draw import Draw, Message, exchange
from ..sentences import plain_sentence
from ..wording import ask


def bullets(items: Sequence[str]) -> str:
    """Write one item a line, each behind a dash."""
    return "\n".join(f"- {item}" for item in items)


def numbered(items: Sequence[str]) -> str:
    """Write one item a line, each behind its number."""
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def _with_and(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}" if len(items) > 1 else items[0]


Form = Callable[[Sequence[str]], str]

SOURCES: list[tuple[Form, Form]] = [
    *[(", ".join, ", ".join)] * 5, *[("\n".join, "\n".join)] * 4, *[(bullets, bullets)] * 2, (numbered, numbered),
    (_with_and, ", ".join), ("; ".join, "; ".join),
]  # fmt: skip
"""Notations of a list in the request, each with the one in the answer."""


def items(d: Draw, most: int = 8, least: int = 2, single: bool = False) -> list[str]:
    """Draw distinct items of one kind, or of all kinds.

    Args:
        d: the stream of choices.
        most: highest number of items.
        least: lowest number of items.
        single: only words without a space.
    """
    pools = [words.FOODS, words.ANIMALS, words.OBJECTS, words.COLORS, words.ADJECTIVES, words.PLACES, words.COMMON]
    pool = d.pick(pools)
    kinds: list[Callable[[], str]] = [
        *[lambda: d.pick(pool)] * 4, d.first_name, d.city, d.made_up, d.word, lambda: d.pick(pool).capitalize(),
    ]  # fmt: skip
    if not single:
        kinds += [
            d.full_name, lambda: f"{d.pick(words.ADJECTIVES)} {d.pick(pool)}", lambda: f"{d.number(2, 12)} {d.pick(pool)}",
            lambda: f"{d.word()} {d.word()}", lambda: f"{d.pick(words.COLORS)} {d.noun()}",
            lambda: f"{d.pick(words.PAIRS).split('/')[0]} the {d.noun()}",
        ]  # fmt: skip
    make = d.pick(kinds)
    count, distinct = d.span(least, most), dict[str, None]()
    tried = 0
    while len(distinct) < count:
        distinct[make() if tried < 200 else d.made_up()] = None  # few cities are held out
        tried += 1
    return list(distinct)


_SORT = """
(sort|order|arrange|alphabetize) @list {how}|(put|bring|write|list|get|rewrite|give me) @list {how}|(sort|order) {how}|
=@list, {how}|=@list {how}|what is @list {how}?"""
_FROM_A = "(alphabetically|from a to z|by alphabet|in alphabetical order|a-z|in abc order|by name|by first letter)"
_FROM_Z = "(from z to a|backwards|in reverse alphabetical order|reverse alphabetically|z-a|descending)"
_UP = "(from (low to high|small to large|the smallest to the largest)|in ascending order|by size|in order|in the right order)"
_DOWN = "(from (high to low|large to small|the largest to the smallest)|in descending order|descending)"
_JUST_SORT = "(sort|order|arrange) @list|sort|(put|bring|get) @list (in|into) order"


def sort_items(d: Draw) -> list[Message]:
    """Sort words or numbers."""
    source, form = d.pick(SOURCES)
    down, unsorted = d.chance(0.2), items(d, 7)
    while any(item[0].isdigit() for item in unsorted):
        unsorted = items(d, 7)
    ordered, how, noun = sorted(unsorted, key=str.lower, reverse=down), _FROM_Z if down else _FROM_A, "list"
    if d.chance(0.3):
        numbers = [d.number(0, d.pick([99, 99, 999])) for _ in range(d.span(2, 7))]
        unsorted, ordered = ([*map(str, values)] for values in (numbers, sorted(numbers, reverse=down)))
        how, noun = _DOWN if down else _UP, "numbers"
    pattern = _JUST_SORT if not down and d.chance(0.15) else _SORT.replace("{how}", how)
    return exchange(ask(d, pattern.replace("@list", f"@{noun}"), source(unsorted)), form(ordered))


def reverse_items(d: Draw) -> list[Message]:
    """Reverse a list."""
    source, form = d.pick(SOURCES)
    chosen = items(d, 7)
    pattern = """
        (reverse|flip|turn around|invert) (@list|the order|the order of @list)|
        (write|list|give me|put|say|repeat) @list (backwards|in reverse|in reverse order|from (last to first|back to
        front|the end)|the other way round)|start @list with the last one|what is @list (backwards|in reverse order)?|
        reverse"""
    return exchange(ask(d, pattern, source(chosen)), form(chosen[::-1]))


_FORMS: dict[str, tuple[Form, str]] = {
    "comma": (", ".join, """
        (write|make|turn|convert|rewrite) @list (into|to|as) (a comma list|a comma-separated list|one line with commas|a
        line separated by commas|comma separated values)|
        (put|write) @list (on|in) one line( separated by commas| with commas between|)|separate @list (by|with) commas|
        join @list with commas|=as a comma( separated|-separated|) list"""),
    "bullets": (bullets, """
        (write|turn|convert|make|rewrite|format) @list (into|to|as) (bullets|a bulleted list|a bullet list| bullet points)|
        (make|create) (a bulleted list|a bullet list|bullets|bullet points) (out of|of|from) @list|
        (bullet|bulletize) @list|
        (put|add|set) (a dash|dashes|bullets|a bullet) before (each item|every line|each of @list)|
        =as (bullets|bullet points|a bulleted list)"""),
    "numbered": (numbered, """
        (write|turn|convert|make|rewrite) @list (into|to|as) (a numbered list|a list with numbers)|
        number (@list|each of @list|the items)|(make|create) a numbered list (out of|of|from) @list|
        (put|add) (numbers|a number) before (each item|every line|each line)|=as a numbered list|give each item a number"""),
    "json": (json.dumps, """
        (write|turn|convert|make|rewrite) @list (into|to|as) (json|a json list|a json array|an array in json)|
        (make|create) a json (list|array) (out of|of|from) @list|=as (json|a json list|a json array)|=json array of @list"""),
    "lines": ("\n".join, """
        (write|put|print) (each|every) (item|one|thing|word) (on|in) (its own|a new|a separate) line|
        =(one item|one|one word) per line|split @list into lines|
        (write|put|break) @list (on separate lines|line by line| one below the other|into lines)|
        (remove|drop|delete) the (bullets|dashes|commas) and use lines|=a new line for each item"""),
}  # fmt: skip


def reformat(d: Draw) -> list[Message]:
    """Turn a list from one notation into another, perhaps into a third one in the next turn."""
    names = d.some(list(_FORMS), 3)
    source, (target, pattern), (third, next_pattern) = (_FORMS[name] for name in names)
    chosen = items(d, 10)
    text = source[0](chosen)
    if d.chance(0.15):
        chosen = items(d, 6, single=True)
        text = " ".join(chosen)
    elif d.chance(0.15):
        text = _with_and(chosen)
    messages = exchange(ask(d, pattern, text), target(chosen))
    if d.chance(0.25):
        messages += exchange(ask(d, next_pattern.replace("@list", "(it|that|this|the list)"), opened=0.03), third(chosen))
    return messages


_ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
_SHORT = ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th"]
_COUNTS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]

_WITHOUT = """
(remove|delete|drop|leave out|cut|take out|skip|erase|get rid of|strip|kick out) {which} (from|in) @%s|
(remove|delete|drop|leave out|cut|take out|erase|throw out) {which}|
(give me|show me|I want|tell me|return|write|copy) (the rest| @%s|everything|all|all of it) (without|except|except for|but
not|minus|but) {which}|(repeat|write|copy|show me|print) @%s without {which}|=@%s without {which}|
=(everything|all|the whole thing) (but|except|without) {which}"""
_ONLY = """
(give me|keep|write|repeat|copy|show me|return|quote|print|I need|I only want|extract|take) (only|just||||) {which}
(of|from|in) @%s|(give me|keep|write|repeat|copy|show me|return|quote|print|I need) (only|just||||) {which}|
={which}( only|)|=only {which}|(what is|what's|which is|can I have) {which} (of|in|from) @%s?|
(what does|how does) {which} (say|read|go)?"""
_WITHOUT_ITEM = """
(remove|delete|drop|leave out|take out|cross out|strike) ({old}|"{old}") (from @list|from the list|)|
(write|repeat|give me|copy|show me) @list (without|but not|except|minus) {old}|=@list (without|minus) {old}|
=I (do not|don't) (want|need) {old} in @list|=I already have {old}, (cross it out|take it off @list|remove it)"""
_ADD = """
(add|append|put|write|insert) ({new}|"{new}") (to (the end of|the bottom of||||) @list|at the end of @list|to it)|
=@list and {new}|(extend @list by|complete @list with|also put on @list:) {new}|={new} is missing, add it|
=I forgot {new}, (add it|put it on @list)"""
_UNIQUE = """
(remove|delete|drop) (the|all|any|) (duplicates|repeated ones|double entries|repetitions|doubles)( from @list|)|
(deduplicate|dedupe) @list|(write|give me|list|keep|show me) (each|every) (item|one|word) (only|just|) once|
(give me|write) @list without (duplicates|repeats|repetitions)|keep only the unique ones|=unique (items|values)( of @list|)"""


def parts(d: Draw) -> list[Message]:
    """Ask for some items, lines, sentences or words of a text, or for all but these."""
    unit = d.pick(["item", "item", "line", "line", "sentence", "word"])
    source: Form = " ".join if unit in ("sentence", "word") else "\n".join
    form = source
    match unit:
        case "item":
            source, form = d.pick(SOURCES)
            units = items(d, 8)
        case "word":
            units = items(d, 8, single=True)
        case _:
            units = list(dict.fromkeys(_line(d, unit == "sentence") for _ in range(d.span(3, 6))))
    at = d.number(0, min(len(units), len(_ORDINALS)) - 1)
    picked = [units[at]]
    names = [f"the {_ORDINALS[at]} {unit}", f"the {_ORDINALS[at]} {unit}", f"the {_SHORT[at]} {unit}", f"{unit} {at + 1}",
             f"{unit} number {at + 1}", f"{unit} {_COUNTS[at]}"]  # fmt: skip
    if at == len(units) - 1:
        names += [f"the last {unit}"] * 6
    if len(units) > 2 and d.chance(0.3):
        count = d.number(2, min(len(units) - 1, 5))
        side = d.pick(["first", "last"])
        picked = units[:count] if side == "first" else units[-count:]
        names = [f"the {side} {_COUNTS[count - 1]} {unit}s", f"the {side} {count} {unit}s"]
    noun = {"item": "list"}.get(unit, "text")
    if unit == "line" and d.chance(0.5):
        noun = "lines"
    rest = [unit_text for unit_text in units if unit_text not in picked]
    if rest and d.chance(0.55):
        return exchange(ask(d, _WITHOUT.replace("%s", noun), source(units), which=d.pick(names)), form(rest))
    answer = form(picked) if picked[1:] else picked[0]
    return exchange(ask(d, _ONLY.replace("%s", noun), source(units), which=d.pick(names)), answer)


def _line(d: Draw, whole: bool) -> str:
    if whole or d.chance(0.5):
        return plain_sentence(d)
    return d.one_of(d.noun_phrase, d.full_name, lambda: f"{d.word()} {d.word()}", lambda: f"{d.word()}: {d.number(1, 99)}")


def change_items(d: Draw) -> list[Message]:
    """Take one item off a list, put one on it, or write repeated ones once."""
    source, form = d.pick(SOURCES)
    chosen = items(d, 8)
    match d.number(0, 2):
        case 0:
            old = d.pick(chosen)
            rest = [item for item in chosen if item != old]
            return exchange(ask(d, _WITHOUT_ITEM, source(chosen), old=old), form(rest))
        case 1:
            new = next(item for item in iter(d.word, "") if item not in chosen)
            return exchange(ask(d, _ADD, source(chosen), new=new), form([*chosen, new]))
        case _:
            more = list(chosen)
            for _ in range(d.number(1, 3)):
                more.insert(d.number(0, len(more)), d.pick(chosen))
            return exchange(ask(d, _UNIQUE, source(more)), form(list(dict.fromkeys(more))))


def count_items(d: Draw) -> list[Message]:
    """Ask for a count; the answer numbers the items, which is how a language model counts best."""
    unit = d.pick(["item", "item", "item", "word", "word", "line", "sentence"])
    noun = "list" if unit == "item" else "text"
    match unit:
        case "item":
            units = items(d, 8, 1)
            text = d.pick(SOURCES)[0](units)
        case "word":
            units = [d.word() for _ in range(d.span(2, 8))]
            text = " ".join(units)
        case "line":
            units = [_line(d, False) for _ in range(d.span(2, 5))]
            text = "\n".join(units)
        case _:
            units = [plain_sentence(d) for _ in range(d.span(2, 4))]
            text = " ".join(units)
    nouns = f"({unit}s|{unit}s|things|entries)" if unit == "item" else f"{unit}s"
    pattern = f"""
        how many {nouns} (are|are there|do you see|do you count|can you find|did I write) (in @{noun}|here|)?|
        count (the|all|all the) {nouns} (in @{noun}|)|what is the number of {nouns} (in @{noun}|)?|
        (tell me|give me|find) the number of {nouns} (in @{noun}|)|
        (tell me|say|find out|work out) how many {nouns} there are|=number of {nouns}"""
    if unit == "item":
        pattern += "|count (@list|these)|how (many|long) is @list?|how many?|how many are (there|these|on @list)?|count"
    return exchange(ask(d, pattern, text), f"{numbered(units)}\n{len(units)} {unit}{'' if len(units) == 1 else 's'}.")
