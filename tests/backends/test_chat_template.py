"""Chat templates are programs of strangers: whatever one does ends in a text or a sentence, and never holds anything up. Limits
are constants, and made small."""

from __future__ import annotations

import pytest

from specchat.backends import chat_template
from specchat.backends.chat_template import Template
from specchat.errors import Cancelled, UserError

CHAT = [{"role": "user", "content": "hi \ud800 é"}]

ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
)

BROKEN = {
    "syntax": ("{% for m in messages %}{{ m.content", "TemplateSyntaxError"),
    "python": ("{{ ''.__class__.__mro__ }}{{ messages.__class__.__base__.__subclasses__() }}", "SecurityError"),
    "change": ("{{ messages.append(1) }}", "SecurityError"),
    "namespace": ("{{ namespace(__class__=1) }}", "SecurityError"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
    "codec": ("{{ messages[0].content.encode('nope') }}", "LookupError: unknown encoding"),
    "undefined": ("{{ nothing.at.all }}", "UndefinedError"),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    "nesting": ("{{ " + "(" * 100_000, "RecursionError"),
    "long": ("{% for i in range(2000) %}{{ 'a' * 100000 }}{% endfor %}", "million characters"),
    "loud": (ENDLESS.replace("{% endfor %}", "{{ a }}{% endfor %}"), "million characters"),
    "string": ("{{ 'a' * 10**9 }}", "memory|million characters"),
    "centre": ("{{ 'a' | center(10**9) }}", "memory|million characters"),
    "doubling": ("{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "memory"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_a_template_does_wrong_is_a_sentence(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 120.0)
    monkeypatch.setattr(chat_template, "MOST_MEMORY", 128 << 20)
    source, said = BROKEN[case]
    with pytest.raises(UserError, match=f"chat template is broken .*({said})"):
        Template(source, {}).render(CHAT)


LISTS = (
    "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set n.a = [n.a] * 2 %}{% set n.b = [n.b] * 2 %}"
    "{% endfor %}{{ n.a == n.b }}"
)


@pytest.mark.parametrize(
    "source", [ENDLESS, "{{ 10 ** (10 ** 9) }}", LISTS + "{{ n.a == n.b }}"], ids=["loops", "power", "lists"]
)
def test_what_does_not_end_is_ended(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing lists of lists of lists runs in C: 2^40 comparisons without a look at anything else."""
    good = Template("{{ messages[0].content }}{{ eos_token }}", {"eos_token": "</s>"})
    with monkeypatch.context() as patch:
        patch.setattr(chat_template, "MOST_SECONDS", 0.2)
        patch.setattr(chat_template, "FIND_SECONDS", 0.2)
        with pytest.raises(UserError, match="it did not finish within"):
            Template(source, {}).render(CHAT)
    assert good.render(CHAT) == "hi \ud800 é</s>"


def test_a_refusal_is_no_fault() -> None:
    with pytest.raises(UserError, match=r"rejects this conversation \(Only users\)[.] Remove the system prompt"):
        Template("{{ raise_exception('Only users') }}", {}).render(CHAT)


def test_cancelling_ends_an_endless_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "FIND_SECONDS", 0.2)
    polls = iter(range(1000))
    with pytest.raises(Cancelled):
        Template(ENDLESS, {}).render(CHAT, lambda: next(polls) > 2)
    assert next(polls) < 10


LINES = "{% for line in m['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}{% endif %}{% endfor %}"

SHAPES = {
    "text": ("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", ""),
    "either": (
        "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
        + LINES
        + "{% endif %}{% endfor %}",
        "",
    ),
    "loop": (
        "{% for m in messages %}{{ '[' ~ m.role ~ ']' if m['content'][0]['type'] != 'image' else '' }}"
        + LINES
        + "{% endfor %}",
        "user assistant system",
    ),
    "first": ("{% for m in messages %}[{{ m.role }}]{{ m['content'][0]['text'] }}{% endfor %}", "user assistant system"),
    "filter": (
        "{% for m in messages %}[{{ m.role }}]{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') "
        "| join }}{% endfor %}",
        "user assistant system",
    ),
    "user alone": (
        "{% for m in messages %}[{{ m.role }}]{% if m.role == 'user' %}" + LINES + "{% else %}{{ '' + m.content }}{% endif %}"
        "{% endfor %}",
        "user",
    ),
    "all but the system": (
        "{% for m in messages %}[{{ m.role }}]{% if m.role == 'system' %}{{ m.content }}{% else %}" + LINES + "{% endif %}"
        "{% endfor %}",
        "user assistant",
    ),
}

TALK = [("system", "Be brief."), ("user", "What?\n "), ("assistant", "That."), ("user", "a")]


@pytest.mark.parametrize("shape", SHAPES)
def test_contents_come_as_the_template_wants_them(shape: str) -> None:
    source, typed = SHAPES[shape]
    template = Template(source, {})
    for length in (2, 4):
        chat = [{"role": role, "content": content} for role, content in TALK[:length]]
        assert template.render(chat) == "".join(f"[{role}]{content}" for role, content in TALK[:length])
    assert set(template._typed) == set(typed.split())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", "leaves out the system prompt. Remove it"),
        ("{{ messages[0].content ~ messages[-1].content }}", "leaves out an earlier message of yours. Start a new chat"),
        ("{{ messages[0].content ~ messages[1].content }}", "leaves out your message. Use plain completion"),
        ("Hello, a user", "leaves out your message"),
        (
            "{% for m in messages %}{{ m.content if 'W' not in m.content }}{% endfor %}",
            "leaves out an earlier message of yours",
        ),
    ],
)
def test_what_a_template_leaves_out_is_said(source: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Template(source, {}).render([{"role": role, "content": content} for role, content in TALK])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson }}",
        "{% for m in messages %}{{ m.content | e | upper }}{% endfor %}",
        "{% for m in messages %}{{ m.content | replace('\n', ' ') | trim }}{% endfor %}",
        "{% for m in messages if m.role != 'assistant' %}"
        "{{ m.content.split('</think>')[-1] | replace('/no_think', '') }}{% endfor %}",
        "{{ messages[1].content ~ messages[0].content ~ messages[3].content }}",
        "{% for m in messages if m.role != 'system' %}{{ messages[0].content if loop.last }}{{ m.content }}{% endfor %}",
    ],
)
def test_what_a_template_writes_another_way_is_there(source: str) -> None:
    contents = ('Be "brief" & <b>\n\tclear</b>.', "Is 1 < 2?\n\n  Or 'not'? /no_think", "<think>Hm.</think>Yes.", "é\\n日本")
    chat = [{"role": role, "content": content} for (role, _), content in zip(TALK, contents, strict=True)]
    assert Template(source, {}).render(chat)
