"""The engine with GGUF models: options and a draft model arrive; files that are broken or made to do harm are one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specchat.backends.loading import builtin_gguf
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Generate, Load, Loaded, Loading, Unloaded

from ...fakes.engines import BareEngine, answer, steps_of
from ...fakes.models.gguf_changes import changed, tokens
from ...fakes.models.llama_tiny import gguf_of, needs_llama, tiny_folder

pytestmark = needs_llama

EXACT = {"device": "cpu", "threads": 1, "kv_type": "f32", "flash_attention": "off", "context": 300}


def written(engine: BareEngine, id: int, method: str) -> list[int]:
    engine.send(Generate(id, prompt="one two three one two", raw=True, method=method, max_tokens=24))
    events = engine.until(id, Finished, Failed)
    assert isinstance(events[-1], Finished), events[-1]
    return [token for step in steps_of(events, id) for token in step.tokens]


def damaged(file: Path, change: Callable[[bytes], bytes]) -> str:
    file.write_bytes(change(gguf_of(tiny_folder()).read_bytes()))
    return str(file)


def test_drafts_and_broken_files(engine: BareEngine, tmp_path: Path) -> None:
    model = str(gguf_of(tiny_folder()))
    engine.send(Load(1, model, draft_model=model, **EXACT))  # type: ignore[arg-type]
    events = engine.until(1, Loaded, Failed)
    loaded = events[-1]
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.info["backend"], loaded.info["context"]) == ("llama.cpp", 300)
    assert [(info["name"], info["context"]) for info in loaded.drafts] == [(model, 300)]
    assert set(loaded.unavailable) == {"early-exit", "eagle", "medusa", "dflash", "mtp", "pard"}
    stages = list(dict.fromkeys(event.stage for event in events if isinstance(event, Loading)))
    assert stages == ["import", "weights", "check", "draft weights", "draft check"]
    plain = written(engine, 2, "greedy")
    assert len(plain) > 3
    for id, method in enumerate(("draft", "tree"), 3):
        assert written(engine, id, method) == plain
    broken = {
        damaged(tmp_path / "magic.gguf", lambda data: b"PK" + data[2:]): "not a GGUF file",
        damaged(tmp_path / "short.gguf", lambda data: data[: len(data) // 2]): "incomplete",
        damaged(tmp_path / "new.gguf", lambda data: data.replace(b"llama", b"llamb")): "'llamb', which this version",
        str(tmp_path / "none.gguf"): "There is no file",
    }
    for id, (file, said) in enumerate(broken.items(), 10):
        engine.send(Load(id, file))
        *before, failed = engine.until(id, Failed, Loaded)
        assert isinstance(failed, Failed), failed
        assert failed.cause == "user"
        assert said in failed.sentence
        assert "\n" not in failed.sentence
        if Unloaded() in before:  # llama.cpp itself refused it, when the room had been made
            assert "Load one again" in failed.sentence
            engine.send(Load(20, model, **EXACT))  # type: ignore[arg-type]
            engine.until(20, Loaded)
    assert written(engine, 30, "greedy") == plain


def test_a_file_that_ends_the_engine_is_named_and_the_next_one_loads(tmp_path: Path) -> None:
    deep = changed(builtin_gguf(), tmp_path / "deep.gguf", {"llama.block_count": 513})  # llama.cpp takes 512
    with EngineClient(log=tmp_path / "engine.log") as client:
        failed = list(client.stream(client.load(str(deep))))[-1]
        assert isinstance(failed, Failed)
        assert failed.cause == "died"
        assert f"while it loaded {deep}" in failed.sentence
        assert isinstance(list(client.stream(client.load(str(builtin_gguf()))))[-1], Loaded)


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
