"""Questions on decoding methods, on the parts of a language model, and on specchat."""

from .draw import Draw, Message, exchange, loosely
from .facts import CONCEPTS, FACTS, METHODS, PARTS, Fact

_WHAT = [
    "What is {0}?", "What is {0}?", "what is {0}", "Explain {0}.", "Please explain {0}.", "Tell me about {0}.",
    "What does {0} mean?", "Can you explain {0}?", "What do you know about {0}?", "Describe {0}.", "How does {0} work?",
    "I do not understand {0}.", "Explain {0} to me.", "What's {0}?", "{0}?", "Define {0}.", "Could you tell me what {0} is?",
    "how does {0} work?", "What is meant by {0}?", "I want to learn about {0}.", "Give me an explanation of {0}.",
    "What is {0} good for?", "Why is {0} useful?",
    "When do I need {0}?", "Explain {0} like I am new to this.", "{0}", "Help me understand {0}.", "What does {0} do?",
]  # fmt: skip

_BRIEF = [
    "In one sentence, what is {0}?", "Explain {0} in one sentence.", "What is {0}, in short?", "Briefly, what is {0}?",
    "Explain {0} briefly.", "Give me a short definition of {0}.", "Short answer: what is {0}?",
]  # fmt: skip

_COMPARE = [
    "What is the difference between {0} and {1}?", "Compare {0} and {1}.", "{0} or {1}?", "How do {0} and {1} differ?",
    "{0} versus {1}", "Explain {0} and {1}.", "What are {0} and {1}?",
]  # fmt: skip

_OVERVIEW = [
    "Explain {0}, {1} and {2}.", "Tell me about {0}, {1} and {2}.", "What are {0}, {1} and {2}?",
    "Give me a list that explains {0}, {1} and {2}.",
]  # fmt: skip


def _answer(fact: Fact) -> str:
    return f"{fact.short} {fact.more}"


def _question(d: Draw, form: str, *facts: Fact) -> str:
    text = form.format(*(d.pick(fact.names) for fact in facts))
    return loosely(d, text[0].upper() + text[1:] if form[0] == "{" and d.chance(0.7) else text)


def fact(d: Draw) -> list[Message]:
    """One topic, at length or in a sentence, perhaps with a follow-up."""
    topic = d.pick(d.pick([METHODS, METHODS, CONCEPTS, CONCEPTS, PARTS]))
    if d.chance(0.25):
        messages = exchange(_question(d, d.pick(_BRIEF), topic), topic.short)
        if d.chance(0.4):
            messages += exchange(d.pick(["Tell me more.", "Go on.", "More, please.", "And what else?"]), topic.more)
        return messages
    messages = exchange(_question(d, d.pick(_WHAT), topic), _answer(topic))
    if d.chance(0.15):
        messages += exchange(d.pick(["Shorter, please.", "Shorter.", "In one sentence.", "Make it shorter."]), topic.short)
    return messages


def comparison(d: Draw) -> list[Message]:
    """Two or three topics, a sentence for each."""
    pool = d.pick([METHODS, FACTS])
    names = d.some([topic.names[0] for topic in pool], 3)
    topics = [next(topic for topic in pool if topic.names[0] == name) for name in names]
    if d.chance(0.7):
        return exchange(_question(d, d.pick(_COMPARE), *topics[:2]), "\n\n".join(topic.short for topic in topics[:2]))
    return exchange(_question(d, d.pick(_OVERVIEW), *topics), "\n".join(f"- {topic.short}" for topic in topics))
