"""Chat templates are programs of strangers: whatever one does ends in a text or a sentence, and never holds anything up."""

from __future__ import annotations

import os

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
    "doubling": ("{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "memory|SIG"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_a_template_does_wrong_is_a_sentence(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 120.0)
    source, said = BROKEN[case]
    with pytest.raises(UserError, match=f"chat template is broken .*({said})"):
        Template(source, {}).render(CHAT)


@pytest.mark.parametrize("source", [ENDLESS, "{{ 10 ** (10 ** 9) }}"])
def test_what_does_not_end_is_ended(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = Template("{{ messages[0].content }}{{ eos_token }}", {"eos_token": "</s>"})
    with monkeypatch.context() as patch:
        patch.setattr(chat_template, "MOST_SECONDS", 0.2)
        with pytest.raises(UserError, match="it did not finish within"):
            Template(source, {}).render(CHAT)
    assert good.render(CHAT) == "hi \ud800 é</s>"


def test_a_refusal_is_no_fault() -> None:
    with pytest.raises(UserError, match=r"rejects this conversation \(Only users\)[.] Remove the system prompt"):
        Template("{{ raise_exception('Only users') }}", {}).render(CHAT)


def test_cancelling_ends_an_endless_template() -> None:
    polls = iter(range(1000))
    with pytest.raises(Cancelled):
        Template(ENDLESS, {}).render(CHAT, lambda: next(polls) > 2)
    assert next(polls) < 10


def test_long_conversations_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 120.0)
    chat = [{"role": "user", "content": "日本" * 1_000_000}]
    assert Template("{{ messages[0].content }}" * 2, {}).render(chat) == chat[0]["content"] * 2


def test_a_process_that_is_gone_is_started_again() -> None:
    template = Template("{{ messages | length }}", {})
    assert template.render(CHAT) == "1"
    running = chat_template._process._running()
    running.kill()
    running.wait()
    assert template.render(CHAT) == "1"
    with pytest.raises(UserError, match="its process was ended by signal 9"):
        Template(ENDLESS, {}).render(CHAT, killed)
    assert template.render(CHAT) == "1"


def killed() -> bool:
    """Asked in mid-rendering whether to go on, kills the process, as the system does when memory is short."""
    if (process := chat_template._process._process) is not None:
        os.kill(process.pid, 9)
    return False
