"""Questions on decoding methods, on the parts of a language model, and on specchat, in any wording."""

import re

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


def _predicate(topic: Fact) -> str:
    """Return a fact's sentence without its subject, from the verb on."""
    name = next(name for name in topic.names if topic.short.lower().startswith(name.lower()))
    return topic.short[len(name) : -1].strip()


_NAMELESS = """
what {said}?|(which|what) (one|thing|method|part|word) {said}?|what do you call (it|something) that {said}?|
(what is|tell me) the name (of|for) (what|something that) {said}?|=something that {said}|which term means that it {said}?"""
_TRUE = """
is it (true|right|correct) that {name} {said}?|(does it mean|is it so) that {name} {said}?|=so {name} {said}|
why is it that {name} {said}?|how come that {name} {said}?|what does it mean that {name} {said}?|=they say {name} {said}"""
_DEFINED = [topic for topic in FACTS if any(topic.short.lower().startswith(name.lower()) for name in topic.names)]


def asked(d: Draw) -> list[Message]:
    """Ask why, what if, or how: questions that a fact answers without being named, or that quote its sentence."""
    if d.chance(0.3):
        topic = d.pick(_DEFINED)
        predicate, (short, *_) = _predicate(topic), re.split("[,:;]", _predicate(topic))
        return exchange(ask(d, d.pick([_NAMELESS, _TRUE]), name=_name(d, topic), said=d.pick([predicate, short])), topic.answer)
    name = d.pick(list(ASKED))
    return exchange(ask(d, ASKED[name]), _BY_NAME[name].answer)


def how_to(d: Draw) -> list[Message]:
    """Ask for the key or command for something in specchat."""
    name = d.pick(list(WISHES))
    wish = d.say(WISHES[name])
    return exchange(ask(d, HOW.replace("~", wish), method=d.pick(_SWITCHED)), _BY_NAME[name].answer)


def comparison(d: Draw) -> list[Message]:
    """Compare two or three topics, in a sentence each; two names of one topic get its answer."""
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
