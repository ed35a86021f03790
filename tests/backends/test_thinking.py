"""Thoughts: what is found out about a template, and parting an answer, exact however it is cut. Patience is a constant, made
short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import UserError
from specchat.backends.chat_template import Template
from specchat.backends.thinking.form import TAG, Marks
from specchat.backends.thinking.split import Splitter, compile_rules, units
from specchat.backends.thinking.thoughts import from_response_template, from_vocabulary

from ..cases import cases
from ..fakes.models.thinkers import FAMILIES, NAMES, TURN


def template(source: str) -> Template:
    return Template(source, NAMES)


@pytest.mark.parametrize("name", FAMILIES)
def test_how_a_template_writes_thoughts(name: str) -> None:
    family, form = FAMILIES[name], template(FAMILIES[name].template).form
    assert form is not None
    info = form.info
    assert info.marks == family.marks
    assert (info.opened_by, info.kept, info.carrier) == (family.opened_by, family.kept, family.carrier)
    assert (info.words, info.default) == (family.words, family.default)
    assert family.marks[0] in form.sentence
    assert all(word in form.sentence for word in family.words)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.words])
def test_words_switch_thinking(name: str) -> None:
    found = template(FAMILIES[name].template)
    assert found.form is not None
    ask = [{"role": "user", "content": "Hi"}]
    prompts = {word: found.render(ask, None, found.variables(word, {})) for word in ("", *found.form.words)}
    assert prompts[found.form.info.default] == prompts[""]
    states = {word: found.form.marks.state(prompt) for word, prompt in prompts.items()}
    if "off" in prompts:
        assert prompts["off"] != prompts["on"]
        assert states["on"] != "answer"
    with pytest.raises(UserError, match=", ".join(found.form.info.words)):
        found.variables("sometimes", {})


def test_variables_are_those_that_the_template_reads() -> None:
    found = template(FAMILIES["closed"].template)
    assert found.variables("on", {"reasoning_effort": "max"}) == {"thinking": True, "reasoning_effort": "max"}
    with pytest.raises(UserError, match=r"no variable 'reasonin_effort'.*reasoning_effort"):
        found.variables("", {"reasonin_effort": "max"})


PLAIN = "{% for m in messages %}" + TURN + "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"


def test_models_that_do_not_think() -> None:
    """None is found; `off` asks for nothing, other words are refused, and a thought that is sent along is left out."""
    found = template(PLAIN)
    assert found.form is None
    assert found.variables("off", {}) == {}
    with pytest.raises(UserError, match="does not think"):
        found.variables("on", {})
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thought": "c"}]
    assert found.render(messages) == "<|user|>a<|end|><|user|>b<|end|><|assistant|>"


@pytest.mark.parametrize(
    "source", ["{{ nothing.at.all }}", "{% for %}", "{{ raise_exception('no') }}", "{% for i in range(10**9) %}{% endfor %}"]
)
def test_no_template_can_fail_a_load(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.chat_template.FIND_SECONDS", 0.2)
    assert template(source).form is None


def test_marks_that_only_the_vocabulary_or_the_checkpoint_tells() -> None:
    found = from_vocabulary({"<think>": 7, "</think>": 8, "<|end|>": 9})
    assert found is not None
    assert found.info.marks == ("<think>", "</think>")
    assert from_vocabulary({"<think>": 7, "<|end|>": 9}) is None
    spec = {
        "fields": {
            "reasoning_content": {"open": "<|channel>thought\n", "close": "<channel|>", "content": "text"},
            "content": {"close": "<turn|>", "content": "text"},
        }
    }
    found = from_response_template(spec)
    assert found is not None
    assert (found.info.marks, found.marks.before) == (("<|channel>thought", "<channel|>"), "\n")
    assert from_response_template(None) is from_response_template({"fields": {"content": {}}}) is None


QWEN = Marks(open="<think>", close="</think>", finish="<|im_end|>", before="\n", after="\n", gap="\n\n")
BARE = Marks(open="[THINK]", close="[/THINK]", finish="</s>")
FRAMED = Marks("<think>", "</think>", resume="<response>", answer="<response>", finish="</response><|end|>")
CHANNELS = Marks(
    open="<|channel|>analysis<|message|>",
    close="<|end|>",
    resume="<|start|>assistant<|channel|>final<|message|>",
    answer="<|channel|>final<|message|>",
    finish="<|return|>",
)
WORDS = Marks(open="Here are my steps:", close="[BEGIN ANSWER]", before="\n", after="\n", gap="\n")
ALL = (QWEN, BARE, FRAMED, CHANNELS, WORDS)
COMMENTARY = "<|start|>assistant<|channel|>commentary to=user<|message|>"

BITS = [
    "a", "b c", "\n", "\n\n", " ", "é", "日本", "<", "</", "think", ">", "[", "]", "<b>", "x < y", "|", "e\u0301", "<|",
    "|>",
]  # fmt: skip

NO_MARK = "é日本xb.1"
"""Characters that no mark has."""

TRIES = cases(10_000, 200)
texts = st.lists(st.sampled_from(BITS), min_size=1, max_size=20).map(lambda bits: "".join(bits).strip())
texts = texts.filter(lambda text: text and "think>" not in text)  # a whole mark would be one


def names_of(marks: Marks) -> dict[str, int]:
    """An id for each of its tags."""
    spelled = f"{marks.open}{marks.close}{marks.resume}{marks.answer}{marks.finish}"
    return {tag: 1000 + i for i, tag in enumerate(dict.fromkeys(TAG.findall(spelled)))}


def part(marks: Marks, whole: str, cuts: list[int], *, atoms: bool, prompt: str = "") -> tuple[str, str]:
    """Thought and answer of a text that comes in tokens of some lengths."""
    names = names_of(marks) if atoms else {}
    splitter, row, told, at = Splitter(compile_rules(marks, names), marks.state(prompt)), units(whole, names), ["", ""], 0
    for i in range(len(row) + 1):
        size = cuts[i % len(cuts)]
        piece = row[at : at + size]
        while any(isinstance(unit, int) for unit in piece[:-1]):
            piece = piece[:-1]
        at += len(piece)
        atom = piece[-1] if piece and isinstance(piece[-1], int) else None
        for kind, text in splitter.push("".join(unit for unit in piece if isinstance(unit, str)), atom):
            told[kind] += text
    for kind, text in splitter.finish():
        told[kind] += text
    return told[1], told[0]


@TRIES
@given(st.sampled_from(ALL), texts, texts, st.lists(st.integers(1, 9), min_size=1, max_size=9), st.booleans())
def test_thought_and_answer_are_those_of_the_whole_text(
    marks: Marks, thought: str, answer: str, cuts: list[int], atoms: bool
) -> None:
    whole = marks.written(thought, answer)
    assert part(marks, whole, cuts, atoms=atoms) == (thought, answer)
    assert part(marks, f"{marks.answer}{answer}", cuts, atoms=atoms) == ("", answer)
    assert part(marks, whole.partition(marks.open)[2], cuts, atoms=atoms, prompt=marks.open) == (
        f"{marks.before}{thought}",
        answer,
    )


@TRIES
@given(
    st.sampled_from(ALL),
    st.lists(st.integers(0, 40), max_size=16),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.booleans(),
)
def test_rubbish_comes_out_the_same_however_it_is_cut(marks: Marks, drawn: list[int], cuts: list[int], atoms: bool) -> None:
    """Marks, halves of them and text in any order: no cut makes a difference, and no character is lost that is not a mark's."""
    pool = [mark for mark in (marks.open, marks.close, marks.resume, marks.answer, marks.finish) if mark]
    pool += [mark[: len(mark) // 2] for mark in pool] + [mark[len(mark) // 2 :] for mark in pool] + BITS
    whole = "".join(pool[i % len(pool)] for i in drawn)
    thought, answer = part(marks, whole, cuts, atoms=atoms)
    assert (thought, answer) == part(marks, whole, [1], atoms=atoms) == part(marks, whole, [1000], atoms=atoms)
    if marks is not CHANNELS:  # between <|start|> and <|message|> any words are a header's
        assert sorted(char for char in thought + answer if char in NO_MARK) == sorted(char for char in whole if char in NO_MARK)


def test_what_is_hard() -> None:
    """One case of each kind: text, marks, whether its tags are tokens, where the prompt leaves it, thought and answer."""
    thinks = "<|channel|>analysis<|message|>Hm.<|end|>"
    final = "<|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    cases = [
        ("<think>\nHm, so", QWEN, True, "", "Hm, so", ""),
        ("<think>\n\n</think>\n\nYes.", QWEN, True, "", "", "Yes."),
        ("\n\n<think>\nHm.\n</think>\n\nYes.", QWEN, True, "", "Hm.", "Yes."),
        ("<think>Hm.</think>Yes.", QWEN, False, "", "Hm.", "Yes."),
        ("<think>\n\nHm.\n</think>\n\n\nYes.", QWEN, False, "", "\nHm.", "\nYes."),
        ("<think>\nHm.</thi", QWEN, False, "", "Hm.</thi", ""),
        ("<thi", QWEN, False, "", "", "<thi"),
        ("Yes, <think> is a tag.", QWEN, False, "", "", "Yes, <think> is a tag."),
        ("<think>\nA.\n</think>\n\nB.<think>\nC.\n</think>\n\nD.", QWEN, True, "", "A.C.", "B.D."),
        ("Yes.", QWEN, True, "<think>\n\n</think>\n\n", "", "Yes."),
        (thinks + final, CHANNELS, True, "<|start|>assistant", "Hm.", "Yes."),
        ("<|channel|>final<|message|>Yes.<|return|>", CHANNELS, True, "<|start|>assistant", "", "Yes."),
        (f"{thinks}{COMMENTARY}I look.<|end|>{final}", CHANNELS, True, "<|start|>assistant", "Hm.", "I look.Yes."),
        (f"{thinks}<|start|>assistant{thinks}{final}", CHANNELS, True, "<|start|>assistant", "Hm.Hm.", "Yes."),
        ("<think>Hm.</think><response>Yes.</response>", FRAMED, False, "", "Hm.", "Yes."),
        ("<response>A </response> in it.</response>", FRAMED, False, "", "", "A </response> in it."),
    ]
    for whole, marks, atoms, prompt, thought, answer in cases:
        for cuts in ([1], [2], [5, 1], [1000]):
            assert part(marks, whole, cuts, atoms=atoms, prompt=prompt) == (thought, answer), (whole, cuts)


def test_a_tag_that_is_a_token_is_text_where_it_is_spelled() -> None:
    """An answer that explains <think> writes it in pieces, and stays an answer."""
    splitter = Splitter(compile_rules(QWEN, names_of(QWEN)), "start")
    pieces = [*splitter.push("Write "), *splitter.push("<th"), *splitter.push("ink> and </think>.\n"), *splitter.finish()]
    assert "".join(text for _, text in pieces) == "Write <think> and </think>.\n"
    assert {kind for kind, _ in pieces} == {0}


def test_plain_text_passes_at_once() -> None:
    """Nothing is held back of an answer whose model could still think, nor of a thought, but what may be a mark."""
    splitter = Splitter(compile_rules(QWEN, names_of(QWEN)), "thought")
    assert splitter.push("Hm, so") == [(1, "Hm, so")]
    assert splitter.push(" <think>") == [(1, " <think>")]
    assert splitter.push(".\n") == [(1, ".")]
    assert splitter.push("", names_of(QWEN)["</think>"]) == []
    assert splitter.push("\n\nYes") == [(0, "Yes")]
