"""Models without a chat template, and templates that a user gives: on both runtimes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, UserError, load_model
from specchat.backends.chat_template import given_template
from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.decoders.conversation import encode_prompt
from specchat.decoders.loop import Generation
from specchat.engine.drafts import _draft_options, load_options
from specchat.engine.messages import Load

from ..fakes.answers import answered
from ..fakes.models.gguf_changes import changed
from ..fakes.models.llama_tiny import needs_llama

RUNTIMES = ("transformers", pytest.param("llama.cpp", marks=needs_llama))
BEGINNING = "Once upon a time, in a small town by the sea, there lived"
CHAT = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "And?"}]


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
    """An answer and its text."""
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
    assert encode_prompt(model, CHAT) == model.encode("HelloHi\n\nAnd?")
    assert encode_prompt(model, [{"role": "system", "content": "A letter."}, *CHAT[:1]]) == model.encode("A letter.\n\nHello")


@pytest.mark.parametrize("method", ["greedy", "lookup"])
def test_a_loop_is_ended(model: Model, method: str) -> None:
    looping, _ = written(model, "one two three " * 30, method, max_tokens=400, stop_loops=True)
    assert looping.finish_reason == "loop"
    assert len(looping.answer) < 400


def test_a_template_makes_a_chat_of_it(base: str) -> None:
    options = LoadOptions(threads=1, context=512, chat_template=str(builtin_path() / "chat_template.jinja"))
    given, own = load_model(base, options), load_model("builtin", LoadOptions(threads=1, context=512))
    assert given.info.has_template
    assert encode_prompt(given, CHAT) == encode_prompt(own, CHAT)
    given.close()
    own.close()


def test_a_template_goes_before_the_models_own(tmp_path: Path) -> None:
    file = tmp_path / "plain.jinja"
    file.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
    model = load_model("builtin", LoadOptions(threads=1, context=512, chat_template=str(file)))
    assert model.decode(encode_prompt(model, CHAT)) == "user: Hello\nassistant: Hi\nuser: And?\nassistant:"
    model.close()


TROUBLE = {
    "{% for m in messages %}{{ m.content }}": "does not work .TemplateSyntaxError: .*endfor",
    "{{ messages[0].content.nothing.at_all }}": "does not work .UndefinedError",
    "{{ ''.__class__.__mro__ }}{{ messages.append(1) }}": "does not work .SecurityError",
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}": "million characters",
    "You are a pirate.": "leaves out the message",
    " \n": "is empty",
}


@pytest.mark.parametrize("source", TROUBLE)
def test_a_template_that_does_not_work_is_refused_at_once(source: str, base: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text(source)
    stages: list[str] = []
    with pytest.raises(UserError, match=TROUBLE[source]) as refused:
        load_model(base, LoadOptions(chat_template=str(file)), progress=lambda stage, *_: stages.append(stage))
    assert str(file) in str(refused.value)
    assert stages == [], "before the weights are read"


def test_a_file_that_is_no_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.jinja").write_bytes(b"\xff\xfe\x00")
    for name, said in (("none.jinja", "No such file"), (".", "directory"), ("bytes.jinja", "is not text")):
        with pytest.raises(UserError, match=said):
            given_template(str(tmp_path / name))
    assert given_template("") == ""


def test_a_draft_model_keeps_its_own_template() -> None:
    command = Load(1, "model", chat_template="mine.jinja")
    assert load_options(command).chat_template == "mine.jinja"
    assert _draft_options(command).chat_template == ""
