"""Models made to do harm, in a real engine: one sentence, and the chat goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specchat.backends.loading import builtin_gguf
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Loaded

from ...fakes.engines import answer
from ...fakes.models.gguf_changes import changed, tokens
from ...fakes.models.llama_tiny import needs_llama

pytestmark = needs_llama

CHAT = [{"role": "user", "content": "Hello"}]

ENDLESS = (
    "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
)


def load(client: EngineClient, model: str) -> Event:
    return answer(client, client.load(model, device="cpu", threads=1))[-1]


def ask(client: EngineClient, **options: Any) -> Event:
    return answer(client, client.generate(max_tokens=4, **({"messages": CHAT} | options)))[-1]


def test_each_costs_one_answer_or_load(client: EngineClient, tmp_path: Path) -> None:
    def made(**values: Any) -> str:
        return str(changed(builtin_gguf(), tmp_path / "model.gguf", {key.replace("__", "."): values[key] for key in values}))

    # An endless template ends with the answer.
    loaded = load(client, made(tokenizer__chat_template=ENDLESS))
    assert isinstance(loaded, Loaded), loaded
    id = client.generate(messages=CHAT)
    client.cancel(id)
    failed: Event = answer(client, id)[-1]
    assert isinstance(failed, Failed)
    assert (failed.cause, failed.sentence) == ("cancelled", "Cancelled.")
    assert isinstance(ask(client, messages=None, prompt="Once", raw=True), Finished)
    # What ends the process: with this kind of vocabulary it looks for a token of each byte that is written.
    names = [b"token %d" % index for index, _ in enumerate(tokens(builtin_gguf()))]
    failed = load(client, made(tokenizer__ggml__model="llama", tokenizer__ggml__tokens=names))
    if isinstance(failed, Loaded):
        failed = ask(client, messages=None, prompt="Once", raw=True)
    assert isinstance(failed, Failed)
    assert failed.cause == "died"
    assert "The engine stopped" in failed.sentence
    assert isinstance(load(client, str(builtin_gguf())), Loaded)
    assert isinstance(ask(client), Finished)
