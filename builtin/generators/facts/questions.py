"""Questions on decoding methods, on the parts of a language model, and on specchat, in any wording."""

from ..draw import Draw, Message, capital, exchange
from ..wording import BRIEF, HOW, SAME, WHAT, ask
from . import CONCEPTS, FACTS, METHODS, PARTS, Fact
from .asked import ASKED
from .wishes import WISHES

_OVERVIEW = """
(explain|describe|define) {x}, {y} and {z}|(tell|teach) me about {x}, {y} and {z}|what are {x}, {y} and {z}?|
(give me|make|write) a list that explains {x}, {y} and {z}|what do {x}, {y} and {z} mean?|
what is {x}, what is {y} and what is {z}?"""
_MORE = """
(tell me|say|write) (a bit |some |)more|=go on|=more|=and what else|=what else|=continue|=keep going|=in more detail|
=details|(explain|say) (that|it) in more detail|is that all?|is there more?|=I want to know more|=longer"""
_SHORTER = """
(make|say|write|put) (it|that|this) (shorter|in one sentence|briefly|in short)|=shorter|=in one sentence|=too long|
=the short version|=briefly|=in short|=that is too much text|can I have that in one sentence?"""

_BY_NAME = {topic.names[0]: topic for topic in FACTS}
_SWITCHED = "lookup greedy sample recompute beam ngram recycle jacobi lookahead draft tree early-exit fusion auto pard".split()
"""Methods by the names that the menu has."""


def _topic(d: Draw) -> Fact:
    return d.pick(d.pick([METHODS, METHODS, CONCEPTS, CONCEPTS, PARTS]))


def _name(d: Draw, topic: Fact) -> str:
    name = d.pick(topic.names)
    # Abbreviations and keys are known in any letters.
    return d.pick([name, name, name, name.lower(), capital(name), name.upper() if d.chance(0.2) else name])


def fact(d: Draw) -> list[Message]:
    """One topic, at length or in a sentence, perhaps with a follow-up."""
    topic = _topic(d)
    if d.chance(0.2):
        messages = exchange(ask(d, BRIEF, x=_name(d, topic)), topic.short)
        if d.chance(0.4):
            messages += exchange(ask(d, _MORE, opened=0.03), topic.more)
        return messages
    messages = exchange(ask(d, WHAT, x=_name(d, topic)), topic.answer)
    if d.chance(0.12):
        messages += exchange(ask(d, _SHORTER, opened=0.03), topic.short)
    return messages


def asked(d: Draw) -> list[Message]:
    """Why, what if, and how: questions that a fact answers though they do not say its name."""
    name = d.pick(list(ASKED))
    return exchange(ask(d, ASKED[name]), _BY_NAME[name].answer)


def how_to(d: Draw) -> list[Message]:
    """How to do something in specchat, by key or by command."""
    name = d.pick(list(WISHES))
    wish = d.say(WISHES[name])
    return exchange(ask(d, HOW.replace("~", wish), method=d.pick(_SWITCHED)), _BY_NAME[name].answer)


def comparison(d: Draw) -> list[Message]:
    """Two or three topics, a sentence for each; two names of one topic get its answer."""
    if d.chance(0.15):
        topic = _topic(d)
        x, y, *_ = d.some(topic.names, 2)
        if x.split()[-1].lower() not in y.lower() and y.split()[-1].lower() not in x.lower():
            return exchange(ask(d, SAME, x=x, y=y), topic.answer)
    pool = d.pick([METHODS, METHODS, CONCEPTS, FACTS])
    names = d.some([topic.names[0] for topic in pool], 3)
    topics = [_BY_NAME[name] for name in names]
    x, y, z = (_name(d, topic) for topic in topics)
    if d.chance(0.8):
        return exchange(ask(d, SAME, x=x, y=y), "\n\n".join(topic.short for topic in topics[:2]))
    return exchange(ask(d, _OVERVIEW, x=x, y=y, z=z), "\n".join(f"- {topic.short}" for topic in topics))
