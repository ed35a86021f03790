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
"""Longest message, in words, that is never held out: common first messages must not be missing from training."""


def _intent(d: Draw) -> Intent:
    return d.rng.choices(INTENTS, _SHARES)[0]


def _worded(d: Draw, intent: Intent) -> str:
    return articles(framed(d, intent.wording).format(**details(d)))


def is_for_evaluation(text: str) -> bool:
    """Tell whether a message belongs to evaluation, by its words regardless of their typing."""
    plain = " ".join(re.findall(r"\w+", text.lower()))
    return len(plain.split()) > _SHORT and is_held_out(plain)


def _small_talk(d: Draw) -> list[Message]:
    kind = d.number(0, 11)
    if kind == 0:
        name = d.first_name() if d.chance(0.9) else d.first_name().lower()
        return exchange(ask(d, NAMED, name=name, opened=0.3), MET.format(name))
    intent = _intent(d)
    text = _worded(d, intent)
    if kind == 1:
        # A courtesy comes first, and the question is answered.
        intent = d.pick(ABOUT_ITSELF + ABOUT_METHODS)
        text = d.pick([" ", " ", "\n"]).join(_worded(d, part) for part in (d.pick(COURTESIES), intent))
    elif kind < 6 and intent.answer != HELLO:
        text = opening(d) + text
    elif kind == 6 and intent.answer == HELLO:
        text = opening(d).rstrip()
        greeted = re.match(rf"(?i)({_GREETS})\b", text) and not re.search("(?i)than|thx", text)
        return exchange(text, HELLO) if greeted else _small_talk(d)
    if d.chance(0.04):
        text += " " + emoji(d)
    return exchange(text, intent.answer)


SMALL_TALK_WORDS = {word for intent in INTENTS for word in re.findall(r"[a-z]+", intent.wording.lower())}
"""Every word of small talk."""
_GREETS = "hi|hello|hey|good|yo|hiya|greetings|heya|howdy|morning"


def small_talk(d: Draw) -> list[Message]:
    """Make small talk, on the side of the split that `d` stands for."""
    while True:
        messages = _small_talk(d)
        if is_for_evaluation(messages[0]["content"]) == d.held_out:
            return messages
