"""Small talk: greetings, remarks and questions about the model, alone or one after the other."""

import re

from ..draw import Draw, Message, articles, emoji, exchange, is_held_out
from ..wording import ask, details, framed, opening
from .about_methods import ABOUT_METHODS
from .courtesies import COURTESIES, HELLO, NAMED
from .intents import ABOUT_ITSELF, Intent

MET = "Nice to meet you, {}! What would you like to try?"

INTENTS = COURTESIES + ABOUT_ITSELF + ABOUT_METHODS
_SHARES = [intent.share for intent in INTENTS]
_SHORT = 3
"""Words up to which training sees everything: what people type first must not be missing."""


def _intent(d: Draw) -> Intent:
    return d.rng.choices(INTENTS, _SHARES)[0]


def _worded(d: Draw, intent: Intent) -> str:
    return articles(framed(d, intent.said).format(**details(d)))


def kept(text: str) -> bool:
    """Whether a message belongs to evaluation: by its words, not by how they are typed."""
    plain = " ".join(re.findall(r"\w+", text.lower()))
    return len(plain.split()) > _SHORT and is_held_out(plain)


def _said(d: Draw) -> list[Message]:
    kind = d.number(0, 11)
    if kind == 0:
        name = d.first_name() if d.chance(0.9) else d.first_name().lower()
        return exchange(ask(d, NAMED, name=name, opened=0.3), MET.format(name))
    intent = _intent(d)
    text = _worded(d, intent)
    if kind == 1:
        # A courtesy comes first, and the question is answered.
        intent = d.pick(ABOUT_ITSELF + ABOUT_METHODS)
        text = d.pick([" ", " ", "\n"]).join(_worded(d, each) for each in (d.pick(COURTESIES), intent))
    elif kind < 6 and intent.answer != HELLO:
        text = opening(d) + text
    elif kind == 6 and intent.answer == HELLO:
        text = opening(d).rstrip()
        greeted = re.match(rf"(?i)({_GREETS})\b", text) and not re.search("(?i)than|thx", text)
        return exchange(text, HELLO) if greeted else _said(d)
    if d.chance(0.04):
        text += " " + emoji(d)
    return exchange(text, intent.answer)


SAID = {word for intent in INTENTS for word in re.findall(r"[a-z]+", intent.said.lower())}
"""Every word of small talk."""
_GREETS = "hi|hello|hey|good|yo|hiya|greetings|heya|howdy|morning"


def small_talk(d: Draw) -> list[Message]:
    """Something that is said, on the side of the split that `d` stands for."""
    while True:
        messages = _said(d)
        if kept(messages[0]["content"]) == d.held_out:
            return messages
