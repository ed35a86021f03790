"""Letters of words. A model sees tokens, not letters; changing case and sorting need letters, and spelling teaches them."""

from .. import words
from ..draw import Draw, Message, exchange
from ..wording import ask

_SPELL = """
spell (the word|) {x}(| letter by letter| for me| out)|how (do you|do I|would you|to) spell {x}?|
how is {x} (spelled|written)?|(write|say|give me) (the letters of|) {x} letter by letter|
(write|give me|list) the letters (of|in) {x}|what are the letters (of|in) {x}?"""
_BACKWARDS = "(spell|write|say) {x} (backwards|back to front|from the end) letter by letter|spell {x} (backwards|in reverse)"
_JOIN = """
(which|what) word is {x}?|what does {x} spell?|(put|join) the letters together: {x}|(join|combine) {x} into (a word|words)|
what do these letters spell: {x}?|read {x} as (a word|words)"""
_FIRST = """
(what|which) letter does {x} (begin|start) with?|(give me|tell me|write) the first letter of {x}|=first letter of {x}|
what is the first letter (of|in) {x}?|with which letter does {x} begin?"""
_LAST = """
(what|which) letter does {x} end with?|(give me|tell me) the last letter of {x}|=last letter of {x}|
what is the last letter (of|in) {x}?"""


def spelling(d: Draw) -> list[Message]:
    """Spell words, put spelled ones together, name first and last letters."""
    chosen = [_word(d) for _ in range(d.span(1, 5) if d.chance(0.4) else 1)]
    listed, spelled = ", ".join(chosen), ", ".join(map("-".join, chosen))
    quoted = f'"{listed}"' if d.chance(0.1) else listed
    match d.number(0, 7):
        case 0 | 1 | 2:
            return exchange(ask(d, _SPELL, x=quoted), spelled)
        case 3:
            return exchange(ask(d, _BACKWARDS, x=quoted), ", ".join("-".join(word[::-1]) for word in chosen))
        case 4 | 5:
            return exchange(ask(d, _JOIN, x=spelled), listed)
        case 6:
            return exchange(ask(d, _FIRST, x=quoted), ", ".join(word[0] for word in chosen))
        case _:
            return exchange(ask(d, _LAST, x=quoted), ", ".join(word[-1] for word in chosen))


def _word(d: Draw) -> str:
    word = d.one_of(lambda: d.pick(words.COMMON), d.word, d.noun, d.first_name, d.city, d.made_up)
    word = "".join(filter(str.isalpha, word))
    return d.pick([word, word, word.upper(), word.capitalize()])
