"""Edits of a given text: words and marks replaced, other cases, changes to the last answer."""

import re

from .. import words
from ..draw import Draw, Message, exchange
from ..sentences import sentence, sentences
from ..wording import ask
from .lists import bullets, items

_REPLACE = """
(replace|swap|exchange|substitute) (every|each|all|the word|all occurrences of||||) {old} (with|by|for) {new} ( in @text|
everywhere||||)|(change|turn) (the word|every|all||||) {old} (to|into) {new}( in @text| everywhere|||)|
(write|use|put|say) {new} (instead of|in place of|where it says|for) {old}( in @text|||)|
=(wherever it says|where it says|instead of) {old} (write|put|use) {new}|rename {old} to {new}( in @text||)|
=it should (say|be) {new}, not {old}|make it {new} (instead of|not) {old}|=s/{old}/{new}/|={old} -> {new}"""


def replace_word(d: Draw) -> list[Message]:
    """Replace one word wherever it occurs."""
    if d.chance(0.08):
        return _replace_mark(d)
    text = sentences(d, d.span(1, 3))
    if d.chance(0.15):
        text = text.replace(". ", ".\n")
    old = d.pick([word for word in text.split() if word.isalpha() and word.isascii()] or [""])
    # Separate words only: the result of "don't" or "3-day" would be a matter of taste, as would "The" for "the".
    if not old or len(re.findall(rf"(?i)\b{old}\b", text)) != len(
        re.findall(rf"(?<![\w'’@./-]){old}(?!['’@/-]|\w|\.\w)", text)
    ):
        return replace_word(d)
    new = d.one_of(d.noun, d.made_up, d.first_name, d.word, lambda: f"{d.pick(words.ADJECTIVES)} {d.noun()}")
    answer = re.sub(rf"\b{old}\b", new, text)
    # A short word would read like one of the request's own.
    mark = d.pick(['"', '"', "'"]) if len(old) < 5 or d.chance(0.4) else ""
    return exchange(ask(d, _REPLACE, text, old=f"{mark}{old}{mark}", new=f"{mark}{new}{mark}"), answer)


_MARKS = [("semicolon", "; "), ("dash", " - "), ("slash", "/"), ("comma", ", "), ("colon", ": ")]


def _replace_mark(d: Draw) -> list[Message]:
    """Replace one punctuation mark wherever it occurs."""
    name, mark = d.pick(_MARKS)
    new_name, new = d.pick([pair for pair in _MARKS if pair[0] != name])
    chosen = items(d, 6)
    pattern = f"""
        (replace|change) (every|each|the) {name} (with|by|to|into) a {new_name}|
        use a {new_name} instead of (a|each|every) {name}|
        (put|write) a {new_name} (instead of|in place of) (every|each|the) {name}"""
    return exchange(ask(d, pattern, mark.join(chosen)), new.join(chosen))


def short_text(d: Draw) -> str:
    """Draw a text for changes of case: words, a list or a short sentence."""
    kind = d.number(0, 9)
    if kind < 4:
        return " ".join(d.word() for _ in range(d.span(1, 8)))
    if kind < 6:
        return d.pick([" ", ", ", "\n"]).join(items(d, 6, 1))
    while True:
        text = sentence(d)
        if len(text.split()) <= 14:
            return text


_HOW = "(write|make|put|turn|convert|type|rewrite|change|give me|print|set) @text (in|into|to|all in|in all)"
_UPPER = f"""
{_HOW} (upper case|uppercase|capitals|capital letters|caps|all caps|big letters|upper-case letters)|
(uppercase|upper|shout|capitalize all of) @text|make @text (all caps|big|loud|upper case|uppercase)|
=in (capital letters|capitals| upper case|caps)|use (only|) capital letters (for @text|)|=(uppercase|all caps|upper case)"""
_LOWER = f"""
{_HOW} (lower case|lowercase|small letters|lower-case letters|all lower case)|(lowercase|lower) @text|
make @text (lower case|lowercase|all small)|=in (small letters|lower case)|remove the capitals( in @text|)|
=(no|without) capitals|=(lowercase|lower case)|use (only|) small letters (for @text|)"""
_TITLE = f"""
{_HOW} title case|(capitalize|uppercase) (every|each) word( in @text|)|
(start|begin) (every|each) word (of @text |)with a capital( letter|)|=title case|
(capitalize|uppercase) the first letter of (every|each) word|=a capital letter (for|at the start of) (each|every) word"""


def change_case(d: Draw) -> list[Message]:
    """Change a text to upper case, lower case, or title case."""
    text = short_text(d)
    match d.number(0, 2):
        case 0:
            return exchange(ask(d, _UPPER, text), text.upper())
        case 1:
            text = d.pick([text, text.upper(), text.title()])
            return exchange(ask(d, _LOWER, text), text.lower())
        case _:
            text = text.lower() if d.chance(0.2) else text
            return exchange(ask(d, _TITLE, text), re.sub(r"(?:^|(?<=\s))\S", lambda match: match[0].upper(), text))


_AGAIN = """
(repeat|say|write|print) (that|it|this|your last answer)( again| once more|)|=again|=once more|=one more time|
what did you (just|) (say|write)?|(write|say) (it|that) again"""
_MAKE = "(make|write|put|turn|do) (it|that|this|all of it) (in|into|to|)"


def follow_up(d: Draw) -> list[Message]:
    """Begin with a list or a sentence, then make one or two wishes about the last answer."""
    if d.chance(0.5):
        text = short_text(d)
        pattern = "(repeat|copy|say|write|type|echo) @text(| again| exactly)|(repeat|copy|say|write|echo)"
        messages = exchange(ask(d, pattern, text), text)
    else:
        chosen = items(d, 6, single=True)
        text = ", ".join(chosen)
        messages = exchange(
            ask(
                d,
                """
                    write @list as a (comma-separated list|comma list)|put commas between @list""",
                " ".join(chosen),
            ),
            text,
        )
    for _ in range(d.number(1, 2)):
        match d.number(0, 3):
            case 0:
                text = text.upper()
                pattern = f"""
                    {_MAKE} (upper case|capital letters|capitals|all caps)|=(in|now in|all in) (capitals|upper case)|
                    shout it"""
            case 1:
                text = text.lower()
                pattern = f"{_MAKE} (lower case|small letters)|=(in|now in|all in) (lower case|small letters)|=without capitals"
            case 2:
                pattern = _AGAIN
            case _:
                if ", " in text and "\n" not in text and " - " not in text and not text.endswith((".", "?", "!")):
                    text = bullets(text.split(", "))
                    pattern = """
                        (make|turn|write) (it|that|them) (into|as) (bullets|a bulleted list|bullet points)|
                        =(now|and|) as (bullets|bullet points)"""
                else:
                    pattern = _AGAIN
        messages += exchange(ask(d, pattern, opened=0.04), text)
    return messages
