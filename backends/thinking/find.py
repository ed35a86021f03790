"""Detection of a chat template's handling of thoughts by rendering it, without names of models or a list of tags.

Chats of made-up words are rendered with a thought and without. The text around the thought's word gives its marks; a variable
that changes the end of a prompt is a switch.
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
"""Variables for other purposes."""

FIELDS = frozenset("role content tool_calls tool_call_id name type function arguments id text parameters".split())
"""Fields of a message for other purposes."""

WORD = re.compile(r"[a-z_]{2,12}")


@dataclass(frozen=True, slots=True)
class Proposals:
    """Names and texts in a template that may have to do with thoughts."""

    variables: tuple[str, ...]
    """Names that the template may read without having set them."""
    inputs: tuple[str, ...]
    """The variables that the template reads and never sets."""
    fields: tuple[str, ...]
    """Fields that it reads."""
    inside: tuple[str, ...]
    """Fields that it reads from a content."""
    kinds: tuple[str, ...]
    """Texts that it compares with a field `type`."""
    words: tuple[str, ...]
    """Words in comparisons."""
    cuts: tuple[str, ...]
    """Texts that it splits at, or searches for."""
    mapping: bool
    """Whether it tests for mappings."""


def propose(tree: nodes.Template, always_set: Iterable[str]) -> Proposals:
    """Read a template's tree.

    Args:
        tree: the template's.
        always_set: names that are set in every prompt.
    """
    fields, inside, kinds, words, cuts = (dict[str, None]() for _ in range(5))
    for read in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if name := _field(read):
            fields[name] = None
            if _field(getattr(read, "node", None)) == "content":
                inside[name] = None
    for call in tree.find_all(nodes.Call):
        method, texts = _field(call.node), _texts(call.args[:1])
        if method == "get":
            fields |= dict.fromkeys(texts)
        elif method in ("split", "partition", "rpartition", "startswith", "endswith", "find"):
            cuts |= dict.fromkeys(texts)
    for compare in tree.find_all(nodes.Compare):
        sides = [compare.expr, *(operand.expr for operand in compare.ops)]
        texts = [text for side in sides for text in _texts([side, *getattr(side, "items", ())])]
        words |= dict.fromkeys(texts)
        if any(_field(node) == "type" for side in sides for node in (side, *side.find_all(nodes.Getattr))):
            kinds |= dict.fromkeys(texts)
        if any(operand.op in ("in", "notin") for operand in compare.ops):
            cuts |= dict.fromkeys(texts)
    for assign in tree.find_all(nodes.Assign):  # {% set end = "</think>" %} … content.split(end)
        cuts |= dict.fromkeys(_texts([assign.node]))
    variables = sorted(meta.find_undeclared_variables(tree) - GIVEN - set(always_set))
    stored = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    return Proposals(
        variables=tuple(variables),
        inputs=tuple(name for name in variables if name not in stored),
        fields=tuple(name for name in fields if name.isidentifier() and name not in FIELDS),
        inside=tuple(inside),
        kinds=tuple(kinds),
        words=tuple(word for word in words if WORD.fullmatch(word)),
        cuts=tuple(dict.fromkeys(cut.strip() for cut in cuts if 3 <= len(cut.strip()) < 64)),
        mapping=any(test.name == "mapping" for test in tree.find_all(nodes.Test)),
    )


def _field(node: Any) -> str:
    """Return the name of the field that an expression reads; empty if it reads none."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    return next(iter(_texts([node.arg])), "") if isinstance(node, nodes.Getitem) else ""


def _texts(expressions: Iterable[nodes.Node]) -> list[str]:
    return [node.value for node in expressions if isinstance(node, nodes.Const) and isinstance(node.value, str)]


QUESTIONS, ANSWERS = ("zqxaskone", "zqxasktwo"), ("zqxtellone", "zqxtelltwo")
THOUGHT, PROBE = "zqxmuse", "zqxprobe"
"""The made-up words."""

ABOUT_THINKING = re.compile(r"think|reason|effort|budget|thought", re.IGNORECASE)
"""Matches the name of a variable that may be a switch although it changes words of the prompt only, and no mark."""

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
USUAL = LEVELS[1:4]
"""Levels for a template that writes any level into the prompt."""
HOW_MUCH = re.compile(r"effort|strength|level", re.IGNORECASE)
"""Names of variables that take such a level."""

SEGMENT = re.compile(rf"{TAG.pattern}|.", re.DOTALL)

Render = Callable[..., str]
"""Renders messages, with a flag whether the prompt for an answer follows, and variables; returns "" if the template refuses."""

Effects = Mapping[tuple[str, Any], str]
"""Variable and value → the prompt that it leads to."""

CALL = {"id": "call00001", "type": "function", "function": {"name": "zqxtool", "arguments": {}}}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "zqxtool", "content": "zqxresult"}


@dataclass(frozen=True, slots=True)
class _Carrier:
    """A chat whose last answer shows a thought."""

    name: str
    shape: tuple[str, ...]
    variables: Mapping[str, Any]
    """Variables that make it show the thought."""
    before: Sequence[Mapping[str, Any]]
    """The chat before the answer."""
    answer: Mapping[str, Any]
    behind: Sequence[Mapping[str, Any]] = ()


def find_form(render: Render, tree: Any, always_set: Iterable[str] = ()) -> Form | None:
    """Find out how a template handles thoughts; None if it does not.

    Args:
        render: see Render.
        tree: the template's syntax tree.
        always_set: names that are set in every prompt.
    """
    proposals = propose(tree, always_set)
    ask = [_question(0)]
    prompt = render(ask, True)
    if not prompt:
        return None
    effects = _effects(render, proposals, prompt)
    carrier = _carrier(render, proposals, [{}, *({name: value} for name, value in effects)])
    tails = [_tail(render(ask, False), text) for text in dict.fromkeys([prompt, *effects.values()])]
    cut = next((cut for cut in proposals.cuts if carrier is None and _cuts(render, cut)), "")
    if carrier is not None:
        marks = _around(render, carrier, tails)
    elif cut:
        marks = _opened(cut, tails)
    else:
        marks = _added([*tails, _tail(prompt, render([*ask, _answer(0)], False)).partition(ANSWERS[0])[0]])
        marks = marks if marks.close else _spoken(prompt, effects)
    if not marks.close:
        return None
    marks = replace(marks, finish=marks.finish + _finish(render, carrier.variables if carrier else {}))
    words, default = _words(render, proposals, effects, prompt, marks)
    carrier_name = "content" if cut else ""
    shape: tuple[str, ...] = ()
    if carrier is not None:
        carrier_name, shape = carrier.name, carrier.shape
    variables = tuple(sorted({*proposals.inputs, *(name for name, _ in effects)}))
    return Form(marks, Thinking(tuple(words), default, (marks.open, marks.close), carrier_name, variables), words, shape)


def _question(i: int) -> dict[str, Any]:
    return {"role": "user", "content": QUESTIONS[i]}


def _answer(i: int, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": ANSWERS[i], **more}


def _tail(base: str, prompt: str) -> str:
    """Return the end of a prompt behind the last question, without the part that `base` has as well; all of it if they are the
    same there, as with a template that always asks for an answer."""
    rest, usual = (text[text.rfind(QUESTIONS[0]) + len(QUESTIONS[0]) :] for text in (prompt, base))
    return rest if rest == usual else rest[len(_common([rest, usual])) :]


def _effects(render: Render, proposals: Proposals, prompt: str) -> Effects:
    """Find the values of single variables that change the prompt. A text that has the effect of any text, or of true, does not
    count."""
    effects: dict[tuple[str, Any], str] = {}
    for name in proposals.variables:
        about = ABOUT_THINKING.search(name)
        any_text = render([_question(0)], True, **{name: PROBE})
        outcomes = [prompt]
        for value in (True, False, *([0] if "budget" in name else []), *(proposals.words if about else ())):
            text = render([_question(0)], True, **{name: value})
            if not text or text in outcomes or (isinstance(value, str) and text == any_text):
                continue
            # A budget is a number of tokens, no switch with two positions.
            if not (isinstance(value, bool) and "budget" in name):
                effects[name, value] = text
                outcomes += [text] if isinstance(value, bool) else []
    return effects


def _carrier(render: Render, proposals: Proposals, settings: Sequence[Mapping[str, Any]]) -> _Carrier | None:
    """Find how an earlier answer carries a thought: as a field of the message, in typed parts, in blocks, or as a field that
    shows only with tool calls. Some templates show one only with a variable, or in all answers but the first."""
    fields = sorted(proposals.fields, key=lambda name: name != "reasoning_content")
    typed: list[tuple[str, tuple[str, ...], Any]] = [
        ("parts", (kind, name), [{"type": kind, name: THOUGHT}, {"type": "text", "text": ANSWERS[0]}])
        for kind, name in product(proposals.kinds, (*proposals.kinds, "text"))
        if kind != "text"
    ]
    typed += [
        (
            "blocks",
            (rows, kind, other, "text"),
            {rows: [{"type": kind, "text": THOUGHT}, {"type": other, "text": ANSWERS[0]}]},
        )
        for rows, (kind, other) in product(proposals.inside, permutations(proposals.kinds, 2))
        if proposals.mapping
    ]
    answers: list[tuple[str, tuple[str, ...], dict[str, Any]]]
    answers = [(name, (), _answer(0, **{name: THOUGHT})) for name in fields]
    answers += [(name, shape, {"role": "assistant", "content": content}) for name, shape, content in typed]
    first, later = [_question(0)], [_question(1), _answer(1), _question(0)]
    for before, variables in product((first, later), settings):
        for name, shape, answer in answers if not variables else answers[: len(fields)]:
            text = render([*before, answer], False, **variables)
            at, then = text.find(THOUGHT), text.rfind(ANSWERS[0])
            if 0 <= at < then and text.count(THOUGHT) == 1 and not _printed(text, at):
                return _Carrier(name, shape, variables, before, answer)
    for variables, name in product(settings, fields):
        answer = _answer(0, tool_calls=[CALL], **{name: THOUGHT})
        text = render([*first, answer, RESULT], False, **variables)
        at, then = text.find(THOUGHT), text.find(ANSWERS[0])
        if text.count(THOUGHT) == 1 and not 0 <= then < at and not _printed(text, at):
            return _Carrier(name, (), variables, first, answer, [RESULT])
    return None


def _printed(text: str, at: int) -> bool:
    """Tell whether a template has printed a list or a mapping in Python's notation."""
    return "{'" in text[max(0, at - 80) : at]


def _cuts(render: Render, mark: str) -> bool:
    """Tell whether the template drops the text before this mark in an earlier answer."""
    around = [_question(1), _answer(1), _question(0)]
    text = render([_question(0), {"role": "assistant", "content": f"{THOUGHT}{mark}{ANSWERS[0]}"}, *around], True)
    return ANSWERS[0] in text and text == render([_question(0), _answer(0), *around], True)


def _around(render: Render, how: _Carrier, tails: Sequence[str]) -> Marks:
    """Find the marks: the text around a thought that is not around an answer without one."""
    base = render(how.before, False, **how.variables)
    whole = render([*how.before, how.answer, *how.behind], False, **how.variables)
    bare = [render([*how.before, _answer(0), *more], False, **how.variables) for more in ([], [_question(1)])]
    plain = [text[: text.find(ANSWERS[0])] for text in bare if text]
    cut = len(_common([base, whole, render(how.before, True, **how.variables), *plain]))
    plain, turn = [text[cut:] for text in plain], whole[cut:]
    at, then = turn.find(THOUGHT), turn.find(ANSWERS[0])
    before, behind = turn[:at], turn[at + len(THOUGHT) :]
    if how.behind or then < at:  # beside tool calls some show no text, or show it elsewhere
        tag = TAG.search(behind)
        between = behind[: tag.end()] if tag else ""
    else:
        between = behind[: behind.find(ANSWERS[0])]
    ends = [tail for tail in tails if tail and _common([tail, before])]
    header = _common([before, *plain, *ends])
    opening = before[len(header) :]
    last = next(iter(TAG.findall(header)[-1:]), "")
    if last and header.endswith(last) and re.match(r"[^\s<\[]", opening):
        header = header.removesuffix(last)  # the last tag is followed by words: <|open|>think<|sep|>
    elif not opening.strip() and tails[0].startswith(before) and not TAG.findall(tails[0][len(before) :]):
        before = tails[0]  # the prompt ends in words that no earlier turn has: they open the thought
    opening = before[len(header) :]
    if not opening.strip():  # every header has it: the last tag, if only white space follows
        tag = next((tag for tag in TAG.finditer(before) if not before[tag.end() :].strip()), None)
        header = before[: tag.start()] if tag else header
        opening = before[len(header) :]
    close = _closing(opening.strip(), between, [*plain[:1], *ends])
    rest = close[len(close.rstrip()) :] + between[len(close) :]
    heads = [one.removeprefix(header) for one in (*plain[:1], *ends) if one.startswith(header)]
    heads = [one.rpartition(close.strip())[2] for one in heads if close.strip() in one or opening.strip() not in one]
    answer = next((one.strip() for one in heads if TAG.findall(one)), "")
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


def _closing(opening: str, between: str, answers: Sequence[str]) -> str:
    """Find the part of the text between thought and answer that closes the thought; the rest also precedes an answer without
    a thought."""
    last = (TAG.findall(opening) or [""])[-1]
    words = TAG.sub("", opening)
    if words and last and opening.endswith(last) and 0 <= between.find(words + last) <= 24:  # <|close|>think<|sep|>
        return between[: between.find(words + last) + len(words + last)]
    resume = max((_common([between, one], -1) for one in answers), key=len, default="")
    close = between[: len(between) - len(resume)]
    if TAG.findall(close):
        return close
    tag = TAG.search(between)
    return between[: tag.end()] if tag else between


def _finish(render: Render, variables: Mapping[str, Any]) -> str:
    """Return the tags behind an answer."""
    text = render([_question(0), _answer(0)], False, **variables)
    behind = text[text.find(ANSWERS[0]) + len(ANSWERS[0]) :].strip() if text else ""
    return behind if TAG.match(behind) else ""


def _opened(close: str, tails: Sequence[str]) -> Marks:
    """Find the opening mark for a known closing one: the tag before it at the end of a prompt, or its counterpart."""
    other = close.replace("/", "", 1).replace("END", "START", 1).replace("end", "start", 1)
    opening, before = (other if other != close else ""), ""
    for tail in tails:
        tags = TAG.findall(tail)
        if close in tags[1:]:
            opening = tags[tags.index(close) - 1]
        if tags[-1:] == [opening]:
            before = _blank(tail[tail.rfind(opening) + len(opening) :])
    return Marks(open=opening, close=close, before=before)


def _added(texts: Sequence[str]) -> Marks:
    """Find the marks in a prompt that ends in an empty thought where another prompt does not."""
    for longer, shorter in permutations(texts, 2):
        extra = longer.removeprefix(shorter)
        if longer != extra and len(tags := TAG.findall(extra)) == 2:
            blank = extra[extra.find(tags[0]) + len(tags[0]) : extra.rfind(tags[1])]
            if not blank.strip():
                half = (len(blank) + 1) // 2
                end = extra[len(extra.rstrip()) :]
                return Marks(open=tags[0], close=tags[1], before=blank[:half], after=blank[half:], gap=end)
    return Marks()


def _spoken(prompt: str, effects: Effects) -> Marks:
    """Find marks that the prompt only describes to the model: pairs <x></x>, in the text that a switch adds, or always
    there."""
    texts = [text[len(_common([text, prompt])) :] for (name, _), text in effects.items() if ABOUT_THINKING.search(name)]
    texts.append("".join(tag for tag in TAG.findall(prompt) if ABOUT_THINKING.search(tag)))
    for text in texts:
        pairs = [(one, two) for one, two in pairwise(TAG.findall(text)) if two == f"</{one[1:]}"]
        if pairs:
            (opening, close), (answer, finish) = pairs[0], next((pair for pair in pairs if pair != pairs[0]), ("", ""))
            return Marks(open=opening, close=close, resume=answer, answer=answer, finish=finish)
    return Marks()


def _words(
    render: Render, proposals: Proposals, effects: Effects, prompt: str, marks: Marks
) -> tuple[dict[str, Mapping[str, Any]], str]:
    """Find the words that `think` accepts, with the variables for each, and the template's default."""
    state = marks.state(prompt)
    switches = [setting for setting, text in effects.items() if (marks.state(text) == "answer") != (state == "answer")]
    if not switches:  # it changes no mark, but words
        switches = [setting for setting in effects if ABOUT_THINKING.search(setting[0]) and isinstance(setting[1], bool)]
    words: dict[str, Mapping[str, Any]] = {}
    default, switched_on = "", dict[str, Any]()
    if switches:
        name, value = min(switches, key=_plainness)
        changed = marks.state(effects[name, value])
        turns_on = changed != "answer" if (changed == "answer") != (state == "answer") else bool(value)
        words = {"off": {}, "on": {name: value}} if turns_on else {"off": {name: value}, "on": {}}
        default, switched_on = ("off", {name: value}) if turns_on else ("on", {})
    for name in filter(HOW_MUCH.search, proposals.variables):
        any_text = render([_question(0)], True, **{**switched_on, name: PROBE})
        for level in LEVELS:
            text = render([_question(0)], True, **{**switched_on, name: level})
            is_level = level in USUAL if PROBE in any_text else level in proposals.words and text not in ("", any_text)
            if is_level and level not in words and marks.state(text) != "answer":
                words[level] = {**switched_on, name: level}
                default = level if text == prompt else default
    return {word: words[word] for word in ("off", "on", *LEVELS) if word in words}, default


def _plainness(setting: tuple[str, Any]) -> tuple[bool, bool, bool, int]:
    """Sort key of switches: the plainest is the one to use."""
    name, value = setting
    return not ABOUT_THINKING.search(name), not isinstance(value, bool), name != "enable_thinking", len(str(value))


def _common(texts: Sequence[str], step: int = 1) -> str:
    """Return the longest common beginning, in whole tags; with a step of -1 the longest common end."""
    rows = [SEGMENT.findall(text)[::step] for text in texts]
    same = takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False))
    return "".join([column[0] for column in same][::step])


def _blank(text: str) -> str:
    """Return the white space that a text begins with."""
    return text[: len(text) - len(text.lstrip())]
