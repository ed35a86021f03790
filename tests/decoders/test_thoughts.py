"""Models that think: thought and answer apart in every step, however an answer is cut; what a template tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends import Model, UserError
from specchat.backends.chat_template import Template
from specchat.backends.thinking.form import TAG, Marks
from specchat.backends.thinking.split import Splitter, compile_rules, from_vocabulary, units
from specchat.decoders import Conversation, Generation, Stops, encode_prompt
from specchat.decoders.step import StepRecord
from specchat.engine.lanes import Lanes
from specchat.engine.messages import Event, Failed, Finished, Generate, Started, Steps

from ..cases import cases
from ..fakes.models.llama_tiny import needs_llama
from ..fakes.models.thinkers import ANSWER, FAMILIES, NAMES, THOUGHT, TURN, thinker

RUNTIMES = ["transformers", pytest.param("llama.cpp", marks=needs_llama)]
HI = [{"role": "user", "content": "Hi"}]


def parted(steps: Sequence[StepRecord], tail: str = "") -> tuple[str, str]:
    """Thought and answer of some steps, whose spans add up to their text and tokens."""
    pieces = ["", ""]
    part = 0
    for step in steps:
        at = 0
        assert step.spans
        for part, characters, _ in step.spans:
            pieces[part] += step.text[at : at + characters]
            at += characters
        assert (at, sum(tokens for _, _, tokens in step.spans)) == (len(step.text), len(step.tokens))
    pieces[part] += tail
    return pieces[1], pieces[0]


def thinking(name: str) -> dict[str, Any]:
    """The template's variables for thinking."""
    return FAMILIES[name].on[1]


def answer(model: Model, chat: Sequence[Any], variables: dict[str, Any], method: str = "lookup", **more: Any) -> Generation:
    return Generation(Conversation(model), encode_prompt(model, chat, variables=variables), method, **more)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", FAMILIES)
def test_three_turns(name: str, runtime: str) -> None:
    """Each answer is parted, and the next prompt is what the template renders from messages in its authors' own form."""
    model, family, method = thinker(name, runtime), FAMILIES[name], "greedy" if runtime == "transformers" else "lookup"
    assert model.info.thinking is not None
    assert model.info.thinking.marks == family.marks
    talk, chat, messages, before = Conversation(model), list(HI), list(HI), 0
    for turn in range(3):
        prompt = encode_prompt(model, chat, variables=thinking(name))
        assert spelled(model, prompt) == rendered(name, messages)
        generation = Generation(talk, prompt, method, max_tokens=40)
        steps = list(generation)
        assert parted(steps) == (THOUGHT, ANSWER)
        assert generation.finish_reason == "eos"
        if family.kept == "all":  # all that was said before is in the cache
            assert generation.reused >= before
        before = len(generation.tokens) - 1
        chat += [{"role": "assistant", "content": ANSWER, "thought": THOUGHT}, {"role": "user", "content": f"More {turn}"}]
        messages += [{"role": "assistant", **family.structured(THOUGHT, ANSWER)}, chat[-1]]


def spelled(model: Model, prompt: Sequence[int]) -> str:
    assert model.thoughts is not None
    return model.thoughts.spell(prompt)


def rendered(name: str, chat: Sequence[Any]) -> str:
    from jinja2 import Environment

    program = Environment(extensions=["jinja2.ext.loopcontrols"]).from_string(FAMILIES[name].template)
    return str(program.render({**NAMES, **thinking(name), "messages": list(chat), "add_generation_prompt": True}))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.off[0] or family.default == "off"])
def test_switched_off(name: str, runtime: str) -> None:
    """A thought that the prompt closes is none; where only words ask for it, the model is free to think."""
    model, (_, variables) = thinker(name, runtime), FAMILIES[name].off
    pieces = parted(list(answer(model, HI, variables)))
    assert pieces == (("" if name != "told" else THOUGHT), ANSWER)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("budget", "thought"), [(0, ""), (1, "Hm,"), (2, THOUGHT), (9, THOUGHT)])
@pytest.mark.parametrize(("name", "method"), [("opens", "beam"), ("opened", "lookup"), ("channels", "greedy")])
def test_a_budget_ends_the_thought(name: str, method: str, budget: int, thought: str, runtime: str) -> None:
    """The end mark is put in after so many tokens, a note says so, and the answer follows."""
    model = thinker(name, runtime)
    talk, prompt = Conversation(model), encode_prompt(model, HI)
    for _ in range(2):  # the second time a draft holds the end already
        steps = list(Generation(talk, prompt, method, think_budget=budget, max_tokens=40))
        assert parted(steps) == (thought, ANSWER)
        forced = [step for step in steps if step.note.startswith("The thought had its")]
        # Of the channels' model the end of the thought is one token, and comes where the budget has just been kept.
        assert len(forced) == (budget < 9 and thought != THOUGHT) or thought == THOUGHT
        assert all(part == 1 for step in forced for part, _, _ in step.spans)


def test_limits_stops_and_cancels() -> None:
    """The limit may end the thought, which is told apart; a stop text ends the answer only; half a mark is never shown."""
    model = thinker("told", "transformers")
    for limit in range(1, 14):
        generation = answer(model, HI, {}, "greedy", max_tokens=limit)
        steps = list(generation)
        thought, text = parted(steps)
        assert THOUGHT.startswith(thought.removesuffix("</th"))
        assert ANSWER.startswith(text.removesuffix("</res")) or (limit, text) in ((1, "<th"), (6, "<"))
        assert generation.thinking == (2 <= limit < 6)
        assert not any(mark in step.held for step in steps for mark in "<>")
    assert parted(list(answer(model, HI, {}, stops=Stops(["so", " 42"])))) == (THOUGHT, "Yes,")
    for passes in range(1, 12):  # a cancel loses nothing: the text shown by then and the one flushed begin the whole
        generation = answer(model, HI, {}, "greedy")
        steps = [step for _ in range(passes) if (step := generation.advance()) is not None]
        generation.cancel()
        generation.advance()
        thought, text = parted(steps, generation.flush())
        assert THOUGHT.startswith(thought.removesuffix("</th")) or (passes, thought) == (1, "<th")
        assert not text or thought == THOUGHT


@pytest.fixture
def lanes() -> Iterator[tuple[Lanes, list[Event]]]:
    events: list[Event] = []
    worker = Lanes(events.append)
    yield worker, events
    worker.cancel_all()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_through_the_engine(lanes: tuple[Lanes, list[Event]], runtime: str) -> None:
    """The word goes into the prompt, the tail belongs to the last span, and what is unknown is one sentence."""
    running, events = lanes
    model = thinker("closed", runtime)

    def ask(**more: Any) -> list[Event]:
        events.clear()
        running.start(model, Generate(1, messages=HI, **more))
        while running.rest is not None:
            running.run_pass()
        return list(events)

    def told(came: Sequence[Event]) -> tuple[str, str]:
        (finished,) = (event for event in came if isinstance(event, Finished))
        return parted([step for event in came if isinstance(event, Steps) for step in event.steps], finished.tail)

    assert told(ask()) == ("", ANSWER)
    assert told(ask(think="on")) == (THOUGHT, ANSWER)
    started = [event for event in ask(think="max") if isinstance(event, Started)]
    assert started[0].prompt_tokens > len(encode_prompt(model, HI, variables={"thinking": True}))
    cut = ask(template_vars={"thinking": True}, max_tokens=1)
    assert told(cut) == ("Hm,", "")
    assert [(event.reason, event.thinking) for event in cut if isinstance(event, Finished)] == [("length", True)]
    for more, sentence in (({"think": "low"}, "off, on, max"), ({"template_vars": {"x": 1}}, "reasoning_effort, thinking")):
        (failed,) = ask(**more)
        assert isinstance(failed, Failed)
        assert sentence in failed.sentence


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_mark_that_a_user_types_is_text(runtime: str) -> None:
    """No token that is a mark gets into the prompt, though the tags are no control tokens."""
    model = thinker("opens", runtime)
    assert model.thoughts is not None
    typed = [{"role": "user", "content": "a</think>b<think>"}]
    plain = encode_prompt(model, HI)
    prompt = encode_prompt(model, typed)
    atoms = model.thoughts.splitter(prompt).atoms
    assert atoms & set(plain) == atoms & set(prompt)
    assert spelled(model, prompt) == spelled(model, plain).replace("Hi", "a</think>b<think>")


def template(source: str) -> Template:
    return Template(source, NAMES)


@pytest.mark.parametrize("name", FAMILIES)
def test_how_a_template_writes_thoughts_and_words_switch_them(name: str) -> None:
    family, thinking = FAMILIES[name], template(FAMILIES[name].template)
    form = thinking.form
    assert form is not None
    info = form.info
    assert (info.marks, info.carrier, info.words) == (family.marks, family.carrier, family.words)
    assert info.default == family.default
    assert all(word in form.sentence for word in (family.marks[0], *family.words))
    if not family.words:
        return
    prompts = {word: thinking.render(HI, thinking.variables(word, {})) for word in ("", *form.words)}
    assert prompts[info.default] == prompts[""]
    if "off" in prompts:
        assert prompts["off"] != prompts["on"]
        assert form.marks.state(prompts["on"]) != "answer"
    with pytest.raises(UserError, match=", ".join(info.words)):
        thinking.variables("sometimes", {})


PLAIN = "{% for m in messages %}" + TURN + "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"


def test_models_that_do_not_think_and_variables_that_no_template_reads() -> None:
    """None is found; `off` asks for nothing, other words are refused, and a thought that is sent along is left out."""
    thinking = template(PLAIN)
    assert thinking.form is None
    assert thinking.variables("off", {}) == {}
    with pytest.raises(UserError, match="does not think"):
        thinking.variables("on", {})
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thought": "c"}]
    assert thinking.render(messages) == "<|user|>a<|end|><|user|>b<|end|><|assistant|>"
    thinking = template(FAMILIES["closed"].template)
    assert thinking.variables("on", {"reasoning_effort": "max"}) == {"thinking": True, "reasoning_effort": "max"}
    with pytest.raises(UserError, match=r"no variable 'reasonin_effort'.*reasoning_effort"):
        thinking.variables("", {"reasonin_effort": "max"})
    with_marks = from_vocabulary({"<think>": 7, "</think>": 8, "<|end|>": 9})
    assert with_marks is not None
    assert with_marks.info.marks == ("<think>", "</think>")
    assert from_vocabulary({"<think>": 7, "<|end|>": 9}) is None


@pytest.mark.parametrize("source", ["{{ nothing.at.all }}", "{% for %}", "{{ raise_exception('no') }}"])
def test_no_template_can_fail_a_load(source: str) -> None:
    assert template(source).form is None


QWEN = Marks(open="<think>", close="</think>", finish="<|im_end|>", before="\n", after="\n", gap="\n\n")
BARE = Marks(open="[THINK]", close="[/THINK]", finish="</s>")
FRAMED = Marks("<think>", "</think>", resume="<response>", answer="<response>", finish="</response><|end|>")
CHANNELS = Marks(
    open="<|channel|>analysis<|message|>", close="<|end|>", resume="<|start|>assistant<|channel|>final<|message|>",
    answer="<|channel|>final<|message|>", finish="<|return|>",
)  # fmt: skip
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
    spelled = f"{marks.open}{marks.close}{marks.resume}{marks.answer}{marks.finish}"
    return {tag: 1000 + i for i, tag in enumerate(dict.fromkeys(TAG.findall(spelled)))}


def part(marks: Marks, whole: str, cuts: list[int], *, atoms: bool, prompt: str = "") -> tuple[str, str]:
    """Thought and answer of a text that comes in tokens of some lengths."""
    names = names_of(marks) if atoms else {}
    splitter, row, pieces, at = Splitter(compile_rules(marks, names), marks.state(prompt)), units(whole, names), ["", ""], 0
    for i in range(len(row) + 1):
        size = cuts[i % len(cuts)]
        piece = row[at : at + size]
        while any(isinstance(unit, int) for unit in piece[:-1]):
            piece = piece[:-1]
        at += len(piece)
        atom = piece[-1] if piece and isinstance(piece[-1], int) else None
        for kind, text in splitter.push("".join(unit for unit in piece if isinstance(unit, str)), atom):
            pieces[kind] += text
    for kind, text in splitter.finish():
        pieces[kind] += text
    return pieces[1], pieces[0]


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
    """Text is held back only where it may be a mark, also in a thought and where the model could still think."""
    splitter = Splitter(compile_rules(QWEN, names_of(QWEN)), "thought")
    assert splitter.push("Hm, so") == [(1, "Hm, so")]
    assert splitter.push(" <think>") == [(1, " <think>")]
    assert splitter.push(".\n") == [(1, ".")]
    assert splitter.push("", names_of(QWEN)["</think>"]) == []
    assert splitter.push("\n\nYes") == [(0, "Yes")]
