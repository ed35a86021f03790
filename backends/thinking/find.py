"""Finds out what a chat template does with thoughts by rendering it: without names of models, without a list of tags.

Chats of words that no template knows are rendered with a thought and without. What appears around the thought's word is its
mark; what a variable changes at the end of a prompt is a switch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product, takewhile
from typing import Any

from jinja2 import meta, nodes

from ..info import Thinking
from .form import TAG, Form, Marks

GIVEN = frozenset(
    "messages tools documents add_generation_prompt tool_choice functions custom_tools date_string add_vision_id".split()
)
"""Variables that are about something else."""

FIELDS = frozenset("role content tool_calls tool_call_id name type function arguments id text parameters".split())
"""Fields of a message that are about something else."""

WORD = re.compile(r"[a-z_]{2,12}")


@dataclass(frozen=True, slots=True)
class Proposals:
    """What to try."""

    variables: tuple[str, ...]
    """Names that the template reads where it may not have set them."""
    given: tuple[str, ...]
    """The variables that the template reads and never sets."""
    fields: tuple[str, ...]
    """Fields that are read from anything."""
    inside: tuple[str, ...]
    """Fields that are read from a content."""
    kinds: tuple[str, ...]
    """Texts that a field `type` is compared with."""
    words: tuple[str, ...]
    """Words that something is compared with."""
    cuts: tuple[str, ...]
    """Texts that something is split at, or looked for in something."""
    mapping: bool
    """Whether it looks for mappings."""


def propose(tree: nodes.Template, known: Iterable[str]) -> Proposals:
    """Read a template's tree; `known` are names that are always given."""
    fields, inside, kinds, words, cuts = (dict[str, None]() for _ in range(5))
    for read in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if name := _field(read):
            fields[name] = None
            if _field(getattr(read, "node", None)) == "content":
                inside[name] = None
    for call in tree.find_all(nodes.Call):
        method, told = _field(call.node), _texts(call.args[:1])
        if method == "get":
            fields |= dict.fromkeys(told)
        elif method in ("split", "partition", "rpartition", "startswith", "endswith", "find"):
            cuts |= dict.fromkeys(told)
    for compare in tree.find_all(nodes.Compare):
        sides = [compare.expr, *(operand.expr for operand in compare.ops)]
        told = [text for side in sides for text in _texts([side, *getattr(side, "items", ())])]
        words |= dict.fromkeys(told)
        if any(_field(each) == "type" for side in sides for each in (side, *side.find_all(nodes.Getattr))):
            kinds |= dict.fromkeys(told)
        if any(operand.op in ("in", "notin") for operand in compare.ops):
            cuts |= dict.fromkeys(told)
    for assign in tree.find_all(nodes.Assign):  # {% set end = "</think>" %} … content.split(end)
        cuts |= dict.fromkeys(_texts([assign.node]))
    variables = sorted(meta.find_undeclared_variables(tree) - GIVEN - set(known))
    own = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    return Proposals(
        tuple(variables),
        tuple(name for name in variables if name not in own),
        tuple(name for name in fields if name.isidentifier() and name not in FIELDS),
        tuple(inside),
        tuple(kinds),
        tuple(word for word in words if WORD.fullmatch(word)),
        tuple(dict.fromkeys(cut.strip() for cut in cuts if 3 <= len(cut.strip()) < 64)),
        any(test.name == "mapping" for test in tree.find_all(nodes.Test)),
    )


def _field(node: Any) -> str:
    """The field that an expression reads, if it reads one by its name."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    return next(iter(_texts([node.arg])), "") if isinstance(node, nodes.Getitem) else ""


def _texts(found: Iterable[nodes.Node]) -> list[str]:
    return [node.value for node in found if isinstance(node, nodes.Const) and isinstance(node.value, str)]


ASKED, TOLD, THOUGHT = ("zqxaskone", "zqxasktwo"), ("zqxtellone", "zqxtelltwo"), ("zqxmuseone", "zqxmusetwo")
PROBE = "zqxprobe"
"""The words."""

ABOUT_THINKING = re.compile(r"think|reason|effort|budget|thought", re.IGNORECASE)
"""The one place where names count: a variable that changes words of the prompt and no mark is a switch only if its name says
so."""

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
USUAL = LEVELS[1:4]
"""Levels of a template that writes whatever it is told into the prompt."""
HOW_MUCH = re.compile(r"effort|strength|level", re.IGNORECASE)
"""Names of variables that take such a level."""

SEGMENT = re.compile(rf"{TAG.pattern}|.", re.DOTALL)

Render = Callable[..., str]
"""Called with messages, whether the prompt for an answer follows, and variables; "" where the template refuses."""

CALL = {"id": "call00001", "type": "function", "function": {"name": "zqxtool", "arguments": {}}}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "zqxtool", "content": "zqxresult"}


@dataclass(frozen=True, slots=True)
class _Carrier:
    """A chat whose last answer shows a thought, and how."""

    name: str
    shape: tuple[str, ...]
    variables: Mapping[str, Any]
    """Without these it does not show it."""
    before: Sequence[Mapping[str, Any]]
    """The chat before the answer."""
    answer: Mapping[str, Any]
    behind: Sequence[Mapping[str, Any]] = ()


def find_form(render: Render, tree: Any, known: Iterable[str] = ()) -> Form | None:
    """What a template does with thoughts; None if it says nothing of them.

    Args:
        render: see Render.
        tree: the template's syntax tree.
        known: names that it is always given.
    """
    found = propose(tree, known)
    ask = [_asked(0)]
    prompt = render(ask, True)
    if not prompt:
        return None
    effects = _effects(render, found, {}, prompt)
    carrier = _carrier(render, found, [{}, *map(dict, effects)])
    tails = [_tail(render(ask, False), each) for each in dict.fromkeys([prompt, *effects.values()])]
    cut = next((cut for cut in found.cuts if carrier is None and _cuts(render, cut)), "")
    if carrier is not None:
        marks = _around(render, carrier, tails)
    elif cut:
        marks = _opened(cut, tails)
    else:
        marks = _added([*tails, _tail(prompt, render([*ask, _told(0)], False)).partition(TOLD[0])[0]])
        marks = marks if marks.close else _spoken(prompt, effects)
    if not marks.close:
        return None
    marks = replace(marks, finish=marks.finish + _finish(render, carrier.variables if carrier else {}))
    words, default = _words(render, found, effects, prompt, marks)
    name, shape = (carrier.name, carrier.shape) if carrier else ("content" if cut else "", ())
    info = Thinking(
        words=tuple(words),
        default=default,
        marks=(marks.open, marks.close),
        opened_by="prompt" if marks.state(prompt) == "thought" else "closed" if marks.state(prompt) == "answer" else "model",
        carrier=name,
        variables=tuple(sorted({*found.given, *(name for ((name, _),) in effects)})),
    )
    form = Form(marks, info, words, shape)
    return replace(form, info=replace(info, kept=_kept(render, form)))


def _asked(i: int) -> dict[str, Any]:
    return {"role": "user", "content": ASKED[i]}


def _told(i: int, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": TOLD[i], **more}


def _tail(base: str, prompt: str) -> str:
    """What a prompt has behind the last question beyond what stands there anyway (of a template that always asks for an answer:
    all of it)."""
    rest, usual = (text[text.rfind(ASKED[0]) + len(ASKED[0]) :] for text in (prompt, base))
    return rest if rest == usual else rest[len(_common([rest, usual])) :]


def _effects(render: Render, found: Proposals, given: Mapping[str, Any], prompt: str) -> dict[tuple[tuple[str, Any], ...], str]:
    """Settings of one variable that change the prompt → what the prompt is then. A text does not count that does what any text
    does, or what true does."""
    made: dict[tuple[tuple[str, Any], ...], str] = {}
    for name in found.variables:
        about = ABOUT_THINKING.search(name)
        any_text = render([_asked(0)], True, **{**given, name: PROBE})
        values: list[Any] = [True, False, *([0] if "budget" in name else []), *(found.words if about else ())]
        seen = [prompt]
        for value in values:
            text = render([_asked(0)], True, **{**given, name: value})
            if not text or text in seen or (isinstance(value, str) and text == any_text):
                continue
            # A number of tokens that does what false does is one, and the variable is no switch of two positions.
            if not (isinstance(value, bool) and "budget" in name):
                made[((name, value),)] = text
                seen += [text] if isinstance(value, bool) else []
    return made


def _carrier(render: Render, found: Proposals, settings: Sequence[Mapping[str, Any]]) -> _Carrier | None:
    """How a thought goes into an earlier answer: as a field of the message, in typed parts, in blocks, or as a field that shows
    only beside tool calls. Some templates show one only with a variable, or in every answer but the first."""
    fields = sorted(found.fields, key=lambda name: name != "reasoning_content")
    typed: list[tuple[str, tuple[str, ...], Any]] = [
        ("parts", (kind, name), [{"type": kind, name: THOUGHT[0]}, {"type": "text", "text": TOLD[0]}])
        for kind, name in product(found.kinds, (*found.kinds, "text"))
        if kind != "text"
    ]
    typed += [
        ("blocks", (rows, kind, other, "text"), {rows: [{"type": kind, "text": THOUGHT[0]}, {"type": other, "text": TOLD[0]}]})
        for rows, (kind, other) in product(found.inside, permutations(found.kinds, 2))
        if found.mapping
    ]
    answers: list[tuple[str, tuple[str, ...], dict[str, Any]]]
    answers = [(name, (), _told(0, **{name: THOUGHT[0]})) for name in fields]
    answers += [(name, shape, {"role": "assistant", "content": content}) for name, shape, content in typed]
    first, later = [_asked(0)], [_asked(1), _told(1), _asked(0)]
    for before, variables in product((first, later), settings):
        for name, shape, answer in answers if not variables else answers[: len(fields)]:
            text = render([*before, answer], False, **variables)
            at, then = text.find(THOUGHT[0]), text.rfind(TOLD[0])
            if 0 <= at < then and text.count(THOUGHT[0]) == 1 and not _printed(text, at):
                return _Carrier(name, shape, variables, before, answer)
    for variables, name in product(settings, fields):
        answer = _told(0, tool_calls=[CALL], **{name: THOUGHT[0]})
        text = render([*first, answer, RESULT], False, **variables)
        at, then = text.find(THOUGHT[0]), text.find(TOLD[0])
        if text.count(THOUGHT[0]) == 1 and not 0 <= then < at and not _printed(text, at):
            return _Carrier(name, (), variables, first, answer, [RESULT])
    return None


def _printed(text: str, at: int) -> bool:
    """Whether a template has printed a list or a mapping as Python does."""
    return "{'" in text[max(0, at - 80) : at]


def _cuts(render: Render, mark: str) -> bool:
    """Whether the template drops what stands before this mark in an earlier answer."""
    around = [_asked(1), _told(1), _asked(0)]
    text = render([_asked(0), {"role": "assistant", "content": f"{THOUGHT[0]}{mark}{TOLD[0]}"}, *around], True)
    return TOLD[0] in text and text == render([_asked(0), _told(0), *around], True)


def _around(render: Render, how: _Carrier, tails: Sequence[str]) -> Marks:
    """The marks, from what stands around a thought and does not stand around an answer without one."""
    base = render(how.before, False, **how.variables)
    whole = render([*how.before, how.answer, *how.behind], False, **how.variables)
    bare = [render([*how.before, _told(0), *more], False, **how.variables) for more in ([], [_asked(1)])]
    plain = [text[: text.find(TOLD[0])] for text in bare if text]
    cut = len(_common([base, whole, render(how.before, True, **how.variables), *plain]))
    plain, turn = [text[cut:] for text in plain], whole[cut:]
    at, then = turn.find(THOUGHT[0]), turn.find(TOLD[0])
    before, behind = turn[:at], turn[at + len(THOUGHT[0]) :]
    if how.behind or then < at:  # beside tool calls some show no text, or show it elsewhere
        tag = TAG.search(behind)
        between = behind[: tag.end()] if tag else ""
    else:
        between = behind[: behind.find(TOLD[0])]
    ends = [tail for tail in tails if tail and _common([tail, before])]
    header = _common([before, *plain, *ends])
    opening = before[len(header) :]
    last = next(iter(_tags(header)[-1:]), "")
    if last and header.endswith(last) and re.match(r"[^\s<\[]", opening):
        header = header.removesuffix(last)  # its last tag has words behind it: <|open|>think<|sep|>
    elif not opening.strip() and tails[0].startswith(before) and not _tags(tails[0][len(before) :]):
        before = tails[0]  # the prompt goes on with words that no earlier turn has: they open the thought
    opening = before[len(header) :]
    if not opening.strip():  # every header has it: the last tag, if only white space follows
        tag = next((tag for tag in TAG.finditer(before) if not before[tag.end() :].strip()), None)
        header = before[: tag.start()] if tag else header
        opening = before[len(header) :]
    close = _closing(opening.strip(), between, [*plain[:1], *ends])
    rest = close[len(close.rstrip()) :] + between[len(close) :]
    heads = [one.removeprefix(header) for one in (*plain[:1], *ends) if one.startswith(header)]
    heads = [one.rpartition(close.strip())[2] for one in heads if close.strip() in one or opening.strip() not in one]
    answer = next((one.strip() for one in heads if _tags(one)), "")
    return Marks(
        open=opening.strip(),
        close=close.strip(),
        resume=rest.strip(),
        answer=answer,
        lead=_blank(opening),
        before=opening[len(opening.rstrip()) :] if opening.strip() else "",
        after=_blank(close),
        gap=_blank(rest),
    )


def _closing(opening: str, between: str, others: Sequence[str]) -> str:
    """What of the text between thought and answer closes the thought: the rest leads into an answer without one as well."""
    last = (_tags(opening) or [""])[-1]
    words = TAG.sub("", opening)
    if words and last and opening.endswith(last) and 0 <= between.find(words + last) <= 24:  # <|close|>think<|sep|>
        return between[: between.find(words + last) + len(words + last)]
    resume = max((_common([between, one], -1) for one in others), key=len, default="")
    close = between[: len(between) - len(resume)]
    if _tags(close):
        return close
    tag = TAG.search(between)
    return between[: tag.end()] if tag else between


def _finish(render: Render, variables: Mapping[str, Any]) -> str:
    """Tags behind an answer."""
    text = render([_asked(0), _told(0)], False, **variables)
    behind = text[text.find(TOLD[0]) + len(TOLD[0]) :].strip() if text else ""
    return behind if TAG.match(behind) else ""


def _opened(close: str, tails: Sequence[str]) -> Marks:
    """Marks of which the closing one is known: the tag before it at the end of a prompt opens, or its other half."""
    other = close.replace("/", "", 1).replace("END", "START", 1).replace("end", "start", 1)
    opening, before = (other if other != close else ""), ""
    for tail in tails:
        tags = _tags(tail)
        if close in tags[1:]:
            opening = tags[tags.index(close) - 1]
        if tags[-1:] == [opening]:
            before = _blank(tail[tail.rfind(opening) + len(opening) :])
    return Marks(open=opening, close=close, before=before)


def _added(texts: Sequence[str]) -> Marks:
    """Marks of a prompt that goes on with an empty thought where another one ends."""
    for longer, shorter in permutations(texts, 2):
        extra = longer.removeprefix(shorter)
        if longer != extra and len(tags := _tags(extra)) == 2:
            blank = extra[extra.find(tags[0]) + len(tags[0]) : extra.rfind(tags[1])]
            if not blank.strip():
                half = (len(blank) + 1) // 2
                end = extra[len(extra.rstrip()) :]
                return Marks(open=tags[0], close=tags[1], before=blank[:half], after=blank[half:], gap=end)
    return Marks()


def _spoken(prompt: str, effects: Mapping[tuple[tuple[str, Any], ...], str]) -> Marks:
    """Marks of which only words of the prompt tell the model: pairs <x></x>, in what a switch adds, or where they always
    stand."""
    texts = [text[len(_common([text, prompt])) :] for ((name, _),), text in effects.items() if ABOUT_THINKING.search(name)]
    texts.append("".join(tag for tag in _tags(prompt) if ABOUT_THINKING.search(tag)))
    for text in texts:
        pairs = [(one, two) for one, two in pairwise(_tags(text)) if two == f"</{one[1:]}"]
        if pairs:
            (opening, close), (answer, finish) = pairs[0], next((pair for pair in pairs if pair != pairs[0]), ("", ""))
            return Marks(open=opening, close=close, resume=answer, answer=answer, finish=finish)
    return Marks()


def _words(
    render: Render, found: Proposals, effects: Mapping[tuple[tuple[str, Any], ...], str], prompt: str, marks: Marks
) -> tuple[dict[str, Mapping[str, Any]], str]:
    """What `think` may be, with the variables for each word, and the template's default."""
    state = marks.state(prompt)
    switches = [setting for setting, text in effects.items() if (marks.state(text) == "answer") != (state == "answer")]
    if not switches:  # it changes no mark, but words
        switches = [each for each in effects if ABOUT_THINKING.search(each[0][0]) and isinstance(each[0][1], bool)]
    words: dict[str, Mapping[str, Any]] = {}
    default, given = "", dict[str, Any]()
    if switches:
        ((name, value),) = min(switches, key=_plainness)
        changed = marks.state(effects[((name, value),)])
        turns_on = changed != "answer" if (changed == "answer") != (state == "answer") else bool(value)
        words = {"off": {}, "on": {name: value}} if turns_on else {"off": {name: value}, "on": {}}
        default, given = ("off", {name: value}) if turns_on else ("on", {})
    for name in filter(HOW_MUCH.search, found.variables):
        any_text = render([_asked(0)], True, **{**given, name: PROBE})
        for level in LEVELS:
            text = render([_asked(0)], True, **{**given, name: level})
            known = level in USUAL if PROBE in any_text else level in found.words and text not in ("", any_text)
            if known and level not in words and marks.state(text) != "answer":
                words[level] = {**given, name: level}
                default = level if text == prompt else default
    return {word: words[word] for word in ("off", "on", *LEVELS) if word in words}, default


def _plainness(setting: tuple[tuple[str, Any], ...]) -> tuple[bool, bool, bool, int]:
    """Which of several switches is the one to use: the least."""
    ((name, value),) = setting
    return not ABOUT_THINKING.search(name), not isinstance(value, bool), name != "enable_thinking", len(str(value))


def _kept(render: Render, form: Form) -> Any:
    """Thoughts of which earlier turns stand in the next prompt, thinking."""
    given = form.words.get("on", {})
    chat = [_asked(0), _told(0, thought=THOUGHT[0]), _asked(1), _told(1, thought=THOUGHT[1]), _asked(0)]
    text = render([form.message(message) for message in chat], True, **given)
    first, last = (thought in text for thought in THOUGHT)
    return "all" if first and last else "last" if last else "none"


def _common(texts: Sequence[str], step: int = 1) -> str:
    """Longest common beginning, in whole tags; with a step of -1 the longest common end."""
    rows = [SEGMENT.findall(text)[::step] for text in texts]
    same = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return "".join([column[0] for column in same][::step])


def _tags(text: str) -> list[str]:
    return TAG.findall(text)


def _blank(text: str) -> str:
    """White space that a text begins with."""
    return text[: len(text) - len(text.lstrip())]
