"""What is found out about a template: its marks, its switch, and how a thought goes back."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.backends.chat_template import Template
from specchat.backends.thinking.find import find_form
from specchat.backends.thinking.form import Form
from specchat.backends.thinking.thoughts import from_response_template, from_vocabulary
from specchat.errors import UserError
from tests.fakes.models.thinkers import ANSWER, FAMILIES, NAMES, THOUGHT, TURN, Family


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


@pytest.mark.parametrize("name", FAMILIES)
def test_a_thought_goes_back_as_the_template_wants_it(name: str) -> None:
    """What is rendered is what the template makes of messages in its authors' own form."""
    family = FAMILIES[name]
    ours, plain = template(family.template), template(family.template)
    chat: list[Any] = []
    for turn in range(3):
        asked = {"role": "user", "content": f"Question {turn}?"}
        answered = {"role": "assistant", "content": ANSWER, "thought": THOUGHT}
        for word, variables in (("", {}), family.on, family.off):
            got = ours.render([*chat, asked], None, ours.variables(word, {}))
            assert got == rendered(plain, family, [*chat, asked], variables)
        chat += [asked, answered]


def rendered(plain: Template, family: Family, chat: list[Any], variables: dict[str, Any]) -> str:
    """The template's own text."""
    own = [{"role": "assistant", **family.structured(THOUGHT, ANSWER)} if "thought" in m else m for m in chat]
    values = {"tools": None, "documents": None, "add_generation_prompt": True, **NAMES, **variables, "messages": own}
    return plain._program.render(values, 10**6)


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


def test_it_is_found_once_for_each_template(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def find(*told: Any) -> Form | None:
        calls.append(told)
        return find_form(*told)

    monkeypatch.setattr("specchat.backends.chat_template.find_form", find)
    source = FAMILIES["opens"].template + "{# another #}"
    assert template(source).form is template(source).form is not None
    assert len(calls) == 1


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
