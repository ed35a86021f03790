"""Letters of words. A model sees tokens, not letters; changing case and sorting need letters, and spelling teaches them."""

from . import words
from .draw import Draw, Message, exchange


def spelling(d: Draw) -> list[Message]:
    """Spell words, put spelled ones together, name first letters."""
    chosen = [_word(d) for _ in range(d.span(1, 5))]
    listed = ", ".join(chosen)
    match d.number(0, 3):
        case 0 | 1:
            ask = ["Spell {}", "Spell the word {}", "How is {} spelled?", "How do you spell {}?"]
            if len(chosen) > 1:
                ask = ["Spell these words: {}", "Spell {}", "Write these words letter by letter: {}"]
            return exchange(d.pick(ask).format(listed), ", ".join(map("-".join, chosen)))
        case 2:
            ask = ["Which word is {}?", "What does {} spell?", "Put the letters together: {}"]
            if len(chosen) > 1:
                ask = ["Which words are {}?", "Put the letters together: {}"]
            return exchange(d.pick(ask).format(", ".join(map("-".join, chosen))), listed)
        case _:
            ask = ["What letter does {} begin with?", "First letter of {}"]
            if len(chosen) > 1:
                ask = ["What letters do these words begin with? {}", "First letters of {}"]
            return exchange(d.pick(ask).format(listed), ", ".join(word[0] for word in chosen))


def _word(d: Draw) -> str:
    kind = d.number(0, 9)
    word = d.pick(words.COMMON) if kind < 5 else d.noun() if kind < 7 else d.first_name() if kind < 9 else d.city()
    return d.pick([word, word, word.upper(), word.capitalize()])
