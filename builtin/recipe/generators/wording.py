"""The wording of requests: frames around a request or a question, the words before it, and its typing.

Every task, in scope or not, is worded in the same frames, so that the subject of a message decides its answer, not the wording.
Patterns are those of `draw.parsed`. In them `{name}` is a field, whose letters stay as they are, and `@list` is a phrase for
the text that the request is about, which depends on whether that text follows or came before.
"""

import re

from . import words
from .draw import Draw, articles, capital

GREETING = """
(hi|hello|hey|hi there|hello there|hey there|good (morning|evening|afternoon|day)|yo|hiya|greetings|heya|howdy|morning)
( specchat| bot| computer| friend| again| there| model| everyone| little model||||||)"""

REMARK = """
(I am|I'm) (new here|new to (this|all this)|still learning|just trying this out|back|back again|in a hurry|a bit
lost|curious| on (a train|the bus|my phone|an old laptop|holiday|my lunch break)|a
(teacher|student|programmer|nurse|writer|beginner)|at work| bored today|not good at this|preparing a talk|here for the
first time)|
this (is|looks) (cool|nice|neat|fun|great|interesting|strange|my first time|for school|for work|for my
(class|son|boss|daughter))|
my (friend|brother|boss|colleague|sister|teacher|neighbor|son) (told me about|showed me|sent me|recommended)
(this|you|specchat|it)|
(thanks|thank you|thx|many thanks)( a lot| so much| again|) (for (that|the last one|before|your help|the quick answer)|)|
(that|the last one|the last answer|that one) (was|worked) (great|well|nice|good|perfectly|fast|better than I thought)|
(sorry to bother you|one more thing|quick question|last one|another one|okay|right|let me try something|let's see| now
something else|next one|one question|me again|listen|I hope you are well|sorry for my english|here we go)|
I (just|only|finally) (installed|found|opened|got|downloaded) (this|specchat|you)( today| yesterday|)|
I (have|got) (a question|one more question|something for you|another one)|
it is (late|early|raining|sunny|cold|friday) (here|today|)|I (like|love) (this|the colors|how fast you are)|
I (was reading|read) (about this|the docs|a post about this)|
(I|we|my {relative}) (just |finally |){past} (my|the|a) {adjective} {noun}( in the {place}| on {day}||)|
my {noun} is {adjective}( today|)|my {animal} (is asleep|is hungry|sits on the keyboard|looks {adjective}|wants to play)|
(I am|we are) in the {place}( with my {relative}|)|
my {relative} (is a {job}|says hello|will come on {day}|likes {food}s|asked me to try this)|
(I am|I'm) (eating {food}s|having tea|waiting for my {noun})|there is a {animal} in the {place}|
I (work|live) (as a {job}|near a {place})|(on {day}|today) I have to {base} a {noun}|everybody talks about this|
I do not know much about computers"""

ORDER = """
~|~|~|~|~|~|~|(please|pls|plz|just|now|ok|so|then|next|kindly|ok so|and now|right,) ~|
~ (please|pls|for me|now|for me please|if you can|thanks|quickly|will you|ok|thank you|, thanks|, please|if possible|real
quick)|
(can|could|will|would|can|could) (you|u) (please|just|kindly|quickly|maybe|pls||||) ~ (for me|please|quickly|now|||||)?|
I (need|want|would like|'d like|wanted) (you|u) to ~|I (need|have|want|would like|am trying|was told) to ~|
I need to ~. can you help?|
(help me|help me to|help me please to|let's|let us|try to|go ahead and|do me a favor and|be so kind and|you should) ~|
(is it possible to|are you able to|any chance you could|do you think you can|would it be possible to|might you|may I ask
you to) ~?|(your|the|my) (task|job|request|wish|todo)(: | is to | is: )~|
it would be (great|nice|good|helpful) if you could ~|(how about you|why don't you|would you be able to) ~?|
I'd be (glad|happy|grateful) if you could ~|what if you ~?"""
"""Around a clause that begins with a verb."""

FRAGMENT = "~|~|~|~|~|~|~|(and|so|ok|well|right,|ok so|now,) ~|~(, please| please| thanks||||)"
"""Around a request without a verb."""

QUESTION = """
~?|~?|~?|~?|~?|~?|~?|(so|and|ok|but|well|hm|um|right,|ok so|now|then) ~?|
~(, please|, do you know| please| exactly| actually| btw)?|
(quick question|a question|question|another question|one question|short question|my question|tell me|please tell me| do
you know this|can you tell me|I wonder|serious question|stupid question|just wondering|just curious)(: |, | - )~?|
I (do not|don't) (know|get|understand) this: ~?|I (was|am) (wondering|asking myself): ~?|
~? I (forgot|have no idea|am not sure| want to know|can't find it|really want to understand it|need it for school)|
~? (thanks|thank you|thx|please)"""
"""Around a question."""

WHAT = """
what is {x}?|what is {x}( exactly| really| again| all about| in simple words||)?|what are {x}?|
what does {x} (mean|do|stand for)?|
explain {x}( to me| simply| in simple words| like I am five| like I am new to this| for a beginner| a bit|||)|explain {x}|
(tell|teach) me (about|something about|all about|more about|what you know about) {x}|describe {x}|
what do you know about {x}?|how does {x} work( exactly| inside| in practice|||)?|how do {x} work?|
=I (do not|don't|can't) (understand|get|follow) {x}|={x}?|={x}|define {x}|what is meant by {x}?|
=I want to (learn about|understand|know about|hear about|know more about) {x}|=explain: {x}|
give me (an explanation|a definition|an overview|an idea) of {x}|what is {x} (good for|for|used for)?|
help me (to|) understand {x}|why (is|are) {x} (useful|important|good|needed|there|a thing|so popular)?|
when (do|should|would|must|can) I (need|use|want) {x}?|
what (is|was) the (point|idea|purpose|use|benefit|meaning|aim) (of|behind) {x}?|
what is so (special|great|interesting) about {x}?|
why (do|would|should) (I|you|we|people|anyone) (use|need|want|care about|bother with) {x}?|what kind of thing is {x}?|
why {x}?|what (happens|do I get|do I gain|changes) (if|when) (I|you|we) (use|turn on|choose|try|have|pick) {x}?|
what about {x}?|
(is|are) {x} (useful|important|any good|worth it|complicated|hard to understand|something good|well known)?|
(does|do) {x} (help|matter|make a difference|make sense|make things better)( at all|)?|who (needs|uses|wants) {x}?|
should I (use|care about|know about|worry about|learn|try) {x}?|(have you heard of|do you know|are you familiar with) {x}?|
how (can|could|does) {x} help( me|)?|where is {x} used?|what should I know about {x}?|
how would you explain {x}( to a child|)?|
what is {x} and (why does it matter|how does it work|what is it for|when do I use it)?|=my question is about {x}|
(I read|I heard|somebody told me|people talk) about {x}, what is (it|that)?|what do people mean by {x}?|
=never heard of {x}|can you (help me with|explain|describe) {x}?|could you tell me what {x} (is|means)?|
I wonder what {x} is?|not sure what {x} is?"""
"""Questions about a topic, known or not."""

BRIEF = """
(in one sentence|in short|briefly|in a few words|in a nutshell|in ten words)(,|:|) what is {x}?|short answer: what is {x}?|
explain {x} (in one sentence|briefly|in short|in a nutshell|in ten words|quickly)|
what is {x}, (in short|in one sentence|briefly)?|
(give me|write) (a short|a brief|a one-sentence) (definition|explanation|description) of {x}|
define {x} (briefly|in one sentence)|=one sentence (about|on) {x}|sum up {x} in one sentence|=short definition of {x}|
={x} in one sentence"""
"""Requests for a topic in one sentence."""

SAME = """
(what is|what's|is there|explain|tell me|I want to know) (the|a) difference between {x} and {y}?|
(is|are) {x} (the same|the same thing| equal|identical|similar|just another word for it) (as|to) {y}?|
(is|are) {x} and {y} (the same|the same thing|equal|related|different things|alike)?|
how (is|are) {x} (different|any different) from {y}?|how do {x} and {y} (differ|compare|relate|go together)?|
={x} (vs|vs.|versus|or|compared to|against|/) {y}|={x} or {y}?|(compare|contrast) {x} (and|with|to) {y}|
compare {x} and {y}|(is|are) {x} (just|basically|only|really|another name for|a kind of) {y}?|does {x} work like {y}?|
what are {x} and {y}?|(is|are) {x} (better|faster|slower|worse|simpler|newer) than {y}?|
which (is|one is) (better|faster|simpler), {x} or {y}?|should I (use|take|choose|prefer) {x} or {y}?|
why (use|take) {x} (instead of|and not|rather than) {y}?|=I (mix up|confuse) {x} and {y}|
(explain|describe|define) {x} and {y}|do I need {x} if I have {y}?|can {x} replace {y}?|=difference between {x} and {y}|
what do {x} and {y} have in common?|when is {x} better than {y}?|isn't {x} the same as {y}?|
(tell|teach) me about {x} and {y}"""
"""Questions about two topics."""

HOW = """
how (do|can|would|could|should|do|do) (I|I|I|we|you|one) ~?|how to ~?|how do I ~?|can I ~( here| somehow|)?|
is it possible to ~?|
(what|which) (key|button|command|shortcut) (lets me|do I press to|do I use to|do I need to|is there to) ~?|how does one ~?|
is there (a|any) (key|command|way|shortcut|button|trick|chance) to ~?|
what (do|should|must) I (press|type|do|enter|use|say) to ~?|where (do|can) I ~?|
=I (want|need|would like|'d like|have|am trying) to ~( now|)|(tell|show|teach) me how to ~|=help me ~|any way to ~?|
=I (cannot|don't know how to|do not see how to|forgot how to|have no idea how to|can't find out how to) ~|=how to ~|=~|
let me ~|what is the (way|key|command|shortcut|easiest way) to ~?|do you know how to ~?|=the (key|command|shortcut) to ~|
would it be possible to ~?|what if I want to ~?|=~ (how|please|now)|(am I able|are we able|am I allowed) to ~?|
explain how to ~|do I have to do anything to ~?"""
"""Questions about doing something; `~` is a clause that begins with a verb."""

_NOUNS = {
    "text": ("""
        this|this text|this|the following|the following text|this (passage|message|bit of text)|my text|what I write here""",
             "this|that|this text|that text|the text above|the above|it|all of that|what I wrote above|the text"),
    "next": ("what follows|what comes now|the rest of my message|what I write|this", "what I wrote|this|what came before this"),
    "list": ("""
        this list|this list|these|these items|the following|the following (list|items|things)|my list|these (words|things)|"""
             "the list",
             "this list|that list|these|those|these items|them|the list above|the list|those things|the items above"),
    "words": ("these words|these|the following words|the words|my words", "these words|those words|these|them|the words above"),
    "numbers": ("these numbers|these|the following numbers|the numbers|these figures",
                "these numbers|those numbers|these|them|the numbers above"),
    "code": ("""
        this code|this|the following code|this (program|snippet|script)|my code""", "this code|that|the code above|it|this"),
    "table": ("this table|this|the following table|the table", "this table|that table|the table above|it|that"),
    "lines": ("these lines|this|the following lines|the following|these|my notes|this data|these values|the data",
              "these lines|this|those lines|the lines above|that|this data|these values|it"),
}  # fmt: skip
"""Words for a text that follows, and for one that came before."""

_CONTRACTED = {
    "what is ": ["what's ", "whats "], "who is ": ["who's ", "whos "], "I am ": ["I'm ", "im "], "how is ": ["how's "],
    "where is ": ["where's ", "wheres "], "do you ": ["do u ", "d'you "], "can you ": ["can u "],
    "do not ": ["don't ", "dont "],
    "are you": ["are u", "r u"], "please ": ["pls ", "plz "], "cannot ": ["can't ", "cant "], "want to ": ["wanna "],
    "does not ": ["doesn't ", "doesnt "], "going to ": ["gonna "], "because ": ["cause ", "bc "], "it is ": ["it's ", "its "],
    "that is ": ["that's ", "thats "], "I have ": ["I've "], "I would ": ["I'd "], "could you ": ["could u "], "and ": ["& "],
}  # fmt: skip


def details(d: Draw) -> dict[str, str]:
    """Draw everyday words for the fields of remarks."""
    base, past = d.pick(words.PAIRS).split("/")
    return {
        "noun": d.pick(words.OBJECTS), "animal": d.pick(words.ANIMALS), "food": d.pick(words.FOODS), "base": base, "past": past,
        "place": d.pick(words.PLACES), "adjective": d.pick(words.ADJECTIVES), "relative": d.pick(words.RELATIVES),
        "job": d.pick(words.JOBS), "day": d.pick(words.DAYS), "n": str(d.number(2, 60)),
    }  # fmt: skip


def loosely(d: Draw, text: str) -> str:
    """Retype a text as people do: without capitals or the final mark, with contractions and slips. Fields stay as they are."""
    for whole, short in _CONTRACTED.items():
        if whole in text and d.chance(0.3):
            text = re.sub(rf"\b{whole}", d.pick(short), text, count=1)
    text = capital(text)
    plain = re.split(r"(\{\w+\})", text)  # every other part is a field
    if d.chance(0.3):
        plain[::2] = [part.lower() for part in plain[::2]]
    elif d.chance(0.15):
        plain[0] = plain[0][:1].lower() + plain[0][1:]
    elif d.chance(0.015):
        plain[::2] = [part.upper() for part in plain[::2]]
    if d.chance(0.3):
        plain[-1] = plain[-1].rstrip(".?!")
    elif d.chance(0.05):
        plain[-1] = plain[-1].rstrip(".?!") + d.pick(["?", "!", "??", "!!", "...", " ?"])
    if d.chance(0.04):
        plain[-1] = plain[-1].replace(",", "").replace("'", "")
    if d.chance(0.1):  # in a hurry
        plain[::2] = [re.sub("[.,!?']", "", part).lower() for part in plain[::2]]
    long = [at for at in range(0, len(plain), 2) if len(plain[at]) > 8]
    if long and d.chance(0.08):
        at = d.pick(long)
        plain[at] = _slip(d, plain[at])
    return "".join(plain)


def _slip(d: Draw, text: str) -> str:
    """Leave out or double a letter, or swap it with its neighbour."""
    at = d.number(1, len(text) - 2)
    match d.number(0, 2):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + text[at] + text[at:]
        case _:
            return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def opening(d: Draw) -> str:
    """Draw words before the point: a greeting, a remark, or both."""
    greeting = d.say(GREETING) + d.pick(["!", ",", ".", "!", ",", ""])
    remark = capital(d.say(REMARK)) + d.pick([".", ".", "!", ",", ":", " -", "..."])
    text = d.pick([greeting, greeting, remark, f"{greeting} {remark}", f"{greeting}\n{remark}"])
    return loosely(d, articles(text.format(**details(d)))) + d.pick([" ", " ", " ", " ", "\n", "\n\n"])


def framed(d: Draw, pattern: str, before: bool = False) -> str:
    """Word a request or a question in one of the frames, as typed; fields stay open.

    Args:
        d: the stream of choices.
        pattern: clauses that begin with a verb, questions with a question mark, and after `=` anything else.
        before: whether the text that it is about came before.
    """
    core = d.say(_named(pattern, before))
    if core.startswith("="):
        text = d.say(FRAGMENT).replace("~", core[1:].strip())
    elif core.endswith("?"):
        text = d.say(QUESTION).replace("~", core[:-1])
    else:
        text = d.say(ORDER).replace("~", core)
        text += "" if text.endswith("?") else "."
    return loosely(d, text)


def _named(pattern: str, before: bool) -> str:
    return re.sub(r"@(\w+)", lambda match: f"({_NOUNS[match[1]][before]})", pattern)


OPENED = 0.08
"""Share of requests with a greeting or a remark in front."""


def ask(d: Draw, pattern: str, text: str = "", opened: float = OPENED, **fields: str) -> str:
    """Word a request or a question as people do, together with the text that it is about.

    Args:
        d: the stream of choices.
        pattern: see `framed`.
        text: unchanged, before or after the request.
        opened: share of requests with a greeting or a remark in front.
        fields: values for the pattern's braces.
    """
    before = bool(text) and d.chance(0.2)
    request = framed(d, pattern, before).format(**fields)
    if before:
        return f"{text}{_gap(d, text)}{request}"
    lead = opening(d) if d.chance(opened) else ""
    return lead + (_joined(d, request, text) if text else request)


def _gap(d: Draw, text: str) -> str:
    """Draw the gap between a text and the request about it."""
    if "\n" not in text and text[-1] in ".!?" and d.chance(0.25):
        return " "
    return d.pick(["\n\n", "\n\n", "\n\n", "\n", "\n---\n", "\n\n\n"])


def _joined(d: Draw, request: str, text: str) -> str:
    """Join a request and the text that follows it."""
    bare = request.rstrip(".?!, ")
    if d.chance(0.07) and "```" not in text:
        return f"{request}\n```\n{text}\n```"
    if "\n" in text:
        return d.pick([f"{bare}:\n{text}", f"{bare}:\n{text}", f"{bare}:\n\n{text}", f"{request}\n{text}",
                       f"{request}\n\n{text}", f"{bare}: {text}", f"{bare}\n\n{text}"])  # fmt: skip
    if '"' not in text and d.chance(0.12):
        return d.pick([f'{bare}: "{text}"', f'{bare} "{text}"', f"{bare}: \u201c{text}\u201d", f'{bare}:\n"{text}"'])
    # A word after a space is a different token than the same word at the start of the answer: both forms are taught.
    return d.pick([f"{bare}: {text}", f"{bare}: {text}", f"{bare}: {text}", f"{bare}: {text}", f"{bare}:\n{text}",
                   f"{bare}:\n{text}", f"{bare}:\n\n{text}", f"{request}\n{text}", f"{request}\n\n{text}", f"{bare} - {text}",
                   f"{bare}\n\n{text}"])  # fmt: skip
