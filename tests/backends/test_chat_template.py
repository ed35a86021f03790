"""Chat templates are programs of strangers: each ends in a text or a sentence; models without one, and users' own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.chat_template import Template, given_template
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.decoders import Generation, encode_prompt
from specchat.engine.drafts import _draft_options
from specchat.engine.options import ModelSelection

from ..fakes.answers import answered
from ..fakes.models.gguf_changes import changed
from ..fakes.models.llama_tiny import needs_llama

CHAT = [{"role": "user", "content": "hi \ud800 é"}]

BROKEN = {
    "syntax": ("{% for m in messages %}{{ m.content", "TemplateSyntaxError"),
    "python": ("{{ ''.__class__.__mro__ }}{{ messages.__class__.__base__.__subclasses__() }}", "SecurityError"),
    "change": ("{{ messages.append(1) }}", "SecurityError"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
    "undefined": ("{{ nothing.at.all }}", "UndefinedError"),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    "nesting": ("{{ " + "(" * 100_000, "RecursionError"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_a_template_does_wrong_is_a_sentence(case: str) -> None:
    source, sentence = BROKEN[case]
    with pytest.raises(UserError, match=f"chat template is broken .*({sentence})"):
        Template(source, {}).render(CHAT)


def test_a_refusal_is_no_fault() -> None:
    with pytest.raises(UserError, match=r"rejects this conversation \(Only users\)[.] Remove the system prompt"):
        Template("{{ raise_exception('Only users') }}", {}).render(CHAT)


LINES = "{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% endif %}{% endfor %}"

SHAPES = {
    "text": "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}",
    "either": "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    + LINES
    + "{% endif %}{% endfor %}",
    "loop": "{% for m in messages %}{{ '[' ~ m.role ~ ']' if m['content'][0]['type'] != 'image' else '' }}"
    + LINES
    + "{% endfor %}",
    "first": "{% for m in messages %}[{{ m.role }}]{{ m['content'][0]['text'] }}{% endfor %}",
}

TALK = [("system", "Be brief."), ("user", "What?\n "), ("assistant", "That."), ("user", "a")]


@pytest.mark.parametrize("shape", SHAPES)
def test_contents_come_as_the_template_wants_them(shape: str) -> None:
    template = Template(SHAPES[shape], {})
    for length in (2, 4):
        chat = [{"role": role, "content": content} for role, content in TALK[:length]]
        assert template.render(chat) == "".join(f"[{role}]{content}" for role, content in TALK[:length])


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", "leaves out the system prompt. Remove it"),
        ("{{ messages[0].content ~ messages[-1].content }}", "leaves out an earlier message of yours. Start a new chat"),
        ("{{ messages[0].content ~ messages[1].content }}", "leaves out your message. Use plain completion"),
        ("Hello, a user", "leaves out your message"),
    ],
)
def test_what_a_template_leaves_out_is_said(source: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        Template(source, {}).render([{"role": role, "content": content} for role, content in TALK])


RUNTIMES = ("transformers", pytest.param("llama.cpp", marks=needs_llama))
BEGINNING = "Once upon a time, in a small town by the sea, there lived"
TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "And?"}]


@pytest.fixture(scope="module", params=RUNTIMES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The built-in model without its template."""
    folder = tmp_path_factory.mktemp("base") / "base"
    if request.param == "llama.cpp":
        return str(changed(builtin_gguf(), folder.with_suffix(".gguf"), {"tokenizer.chat_template": None}))
    shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("chat_template.jinja"))
    return str(folder)


@pytest.fixture(scope="module")
def model(base: str) -> Iterator[Model]:
    loaded = load_model(base, LoadOptions(threads=1, context=512))
    yield loaded
    loaded.close()


def written(model: Model, prompt: str | list[dict[str, str]], method: str = "lookup", **options: Any) -> tuple[Generation, str]:
    generation, steps = answered(model, encode_prompt(model, prompt), method, **options)
    return generation, "".join(step.text for step in steps)


def test_it_goes_on_from_the_text(model: Model) -> None:
    assert not model.info.has_template
    _, first = written(model, BEGINNING, max_tokens=24)
    assert first.startswith(" "), "the space between its words is the answer's"
    whole = [{"role": "user", "content": BEGINNING}, {"role": "assistant", "content": first}]
    assert encode_prompt(model, whole) == model.encode(BEGINNING + first)
    _, more = written(model, whole, max_tokens=24)
    assert first + more == written(model, BEGINNING, "greedy", max_tokens=48)[1]


def test_a_message_is_a_paragraph_and_an_answer_goes_on_from_it(model: Model) -> None:
    assert encode_prompt(model, TURNS) == model.encode("HelloHi\n\nAnd?")
    assert encode_prompt(model, [{"role": "system", "content": "A letter."}, *TURNS[:1]]) == model.encode("A letter.\n\nHello")


def test_a_loop_is_ended(model: Model) -> None:
    looping, _ = written(model, "one two three " * 30, max_tokens=400, stop_loops=True)
    assert looping.finish_reason == "loop"
    assert len(looping.answer) < 400


def test_a_template_makes_a_chat_of_it(base: str) -> None:
    options = LoadOptions(threads=1, context=512, chat_template=str(builtin_path() / "chat_template.jinja"))
    base_model, chat_model = load_model(base, options), load_model("builtin", LoadOptions(threads=1, context=512))
    assert base_model.info.has_template
    assert encode_prompt(base_model, TURNS) == encode_prompt(chat_model, TURNS)
    base_model.close()
    chat_model.close()


def test_a_template_goes_before_the_models_own(tmp_path: Path) -> None:
    file = tmp_path / "plain.jinja"
    file.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    model = load_model("builtin-draft", LoadOptions(threads=1, context=512, chat_template=str(file)))
    assert model.decode(encode_prompt(model, TURNS)) == "user: Hello\nassistant: Hi\nuser: And?\nassistant:"
    model.close()


def test_a_template_that_does_not_work_is_refused_before_weights_are_read(base: str, tmp_path: Path) -> None:
    file, stages = tmp_path / "mine.jinja", list[str]()
    file.write_text("{% for m in messages %}{{ m.content }}")
    with pytest.raises(UserError, match=f"{file} does not work .TemplateSyntaxError: .*endfor"):
        load_model(base, LoadOptions(chat_template=str(file)), progress=lambda stage, *_: stages.append(stage))
    assert stages == []


def test_a_file_that_is_no_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.jinja").write_bytes(b"\xff\xfe\x00")
    for name, sentence in (("none.jinja", "No such file"), (".", "directory"), ("bytes.jinja", "UnicodeDecodeError")):
        with pytest.raises(UserError, match=sentence):
            given_template(str(tmp_path / name))
    assert given_template("") == ""


def test_a_draft_model_keeps_its_own_template() -> None:
    selection = ModelSelection("model", chat_template="mine.jinja")
    assert selection.target_options().chat_template == "mine.jinja"
    assert _draft_options(selection).chat_template == ""
