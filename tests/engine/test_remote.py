"""Answers of a server come through the engine as those of its own models do."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from specchat.backends.info import ServerInfo
from specchat.backends.remote.address import find_server
from specchat.backends.remote.model import connect
from specchat.engine import messages
from specchat.engine.client import EngineClient
from specchat.engine.options import ModelSelection
from specchat.engine.remote import measure_answer
from specchat.engine.tasks.work import Measured

from ..fakes.engines import answer
from ..fakes.model_servers import Pass, Written, llama_server, of_words, serving, vllm

ASKED = [{"role": "user", "content": "hi"}]
WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    """One for all: each test loads what it needs into it."""
    with EngineClient(log=tmp_path_factory.mktemp("servers") / "engine.log") as client:
        yield client


def loaded(client: EngineClient, model: str) -> messages.Event:
    return answer(client, client.load(ModelSelection(model)))[-1]


def until(client: EngineClient, holds: Callable[[messages.Event], bool]) -> messages.Event:
    while (event := client.wait(60)) is not None:
        if holds(event):
            return event
    raise AssertionError("the event did not come")


def test_a_server_answers_without_torch_in_any_process(tmp_path: Path) -> None:
    with serving("llama-server", llama_server(WRITTEN)) as fake, EngineClient(log=tmp_path / "log") as client:
        ready = loaded(client, fake.url)
        assert isinstance(ready, messages.Loaded)
        assert (ready.model.name, ready.model.backend, ready.model.context) == ("target.gguf", "server", 2048)
        assert ready.model.server == ServerInfo("llama-server", "ngram-simple")
        assert ready.model.device.startswith("llama-server at 127.0.0.1:")
        assert ready.unavailable["lookup"].endswith("decodes, and it decides how.")
        events = answer(client, client.generate("hi", max_tokens=40))
        assert client.pid is not None
        maps = {Path(region.path).name for region in psutil.Process(client.pid).memory_maps()} if os.name == "posix" else set()
    started, finished = events[0], events[-1]
    assert isinstance(started, messages.Started)
    assert (started.method, started.certainty) == ("ngram-simple", "exact")
    steps = [step for event in events if isinstance(event, messages.Steps) for step in event.steps]
    assert [len(step.tokens) for step in steps] == WRITTEN.lengths
    assert [(step.drafted, step.accepted) for step in steps] == [(one.drafted, one.accepted) for one in WRITTEN.passes]
    assert "".join(step.text for step in steps) == WRITTEN.text
    assert isinstance(finished, messages.Finished)
    assert (finished.reason, finished.prefill_seconds) == ("eos", 0.0315)
    assert finished.served == messages.ServedFigures(
        certainty="exact",
        prompt_tokens=13,
        reused=2,
        tokens=14,
        drafted=WRITTEN.drafted,
        accepted=WRITTEN.accepted,
    )
    assert not [name for name in maps if "torch" in name]


def test_what_a_server_cannot_do_is_said_and_the_answer_goes_on(client: EngineClient) -> None:
    said_all = threading.Event()
    with serving("vLLM", [*vllm(WRITTEN)[:3], lambda: said_all.wait(60), *vllm(WRITTEN)[3:]]) as fake:
        loaded(client, fake.url)
        id = client.generate("hi")
        until(client, lambda event: isinstance(event, messages.Steps))
        client.send(messages.Pause(id))
        client.send(messages.Switch(id, "lookup"))
        client.send(messages.ScoreStep(id, 0, 5))
        client.send(messages.ReadPieces(77))
        events: list[messages.Event] = []
        until(client, lambda event: bool(events.append(event)) or isinstance(event, messages.PieceTable))  # type: ignore[func-returns-value]
        said_all.set()
        events += client.stream(id)
    sentences = [event.sentence for event in events if isinstance(event, messages.Failed) and not event.ended]
    assert sentences == [
        "A server's answer cannot be paused. esc stops it.",
        f"lookup is not used there: {fake.url.removeprefix('http://')} decodes, and it decides how.",
    ]
    assert messages.Paused(id, False) in events
    assert messages.StepScores(id, 0, []) in events
    assert messages.PieceTable(77, []) in events
    assert isinstance(events[-1], messages.Finished)
    assert events[-1].served is not None
    assert events[-1].served.certainty == "exact"


@pytest.mark.parametrize(("options", "sentence"), [({"accept": "rejection"}, "decides which draft tokens it accepts")])
def test_what_no_server_can_do_is_refused(client: EngineClient, options: dict[str, Any], sentence: str) -> None:
    with serving("vLLM", vllm(WRITTEN)) as fake:
        loaded(client, fake.url)
        failed = answer(client, client.generate("hi", **options))[-1]
        assert isinstance(failed, messages.Failed)
        assert sentence in failed.sentence
        assert isinstance(answer(client, client.generate("hi"))[-1], messages.Finished)
        client.send(messages.Work(99, "measure"))
        assert "a server decides how it decodes" in until(client, lambda event: isinstance(event, messages.Failed)).sentence  # type: ignore[attr-defined]


def test_cancel_stops_the_server_and_keeps_what_came(client: EngineClient) -> None:
    with serving("llama-server", [*llama_server(WRITTEN)[:3], 60.0]) as fake:
        loaded(client, fake.url)
        id = client.generate("hi")
        until(client, lambda event: isinstance(event, messages.Steps))
        client.cancel(id)
        ended = list(client.stream(id))[-1]
        assert isinstance(ended, messages.Finished)
        assert ended.reason == "cancelled"
        while fake.running:
            time.sleep(0.01)
        # A cancel before the first byte closes the connection too.
        fake.stream = [60.0]
        id = client.generate("hi")
        while not fake.running:
            time.sleep(0.01)
        client.cancel(id)
        assert isinstance(list(client.stream(id))[-1], messages.Finished)
        while fake.running:
            time.sleep(0.01)


@pytest.mark.parametrize("opened", [False, True])
def test_a_measured_thought_has_its_marks_among_the_tokens(opened: bool) -> None:
    """llama-server is asked for the text as it is. A mark that the prompt opens the thought with it sends once more."""
    thought, end = "<think>", of_words("Hm,", " so", "</think>Hi", " there")
    first = Written((Pass((thought.encode(),)), *end.passes), eos=False) if not opened else end
    stream = llama_server(first, finish="length")
    if opened:
        stream[1] = stream[1].replace(b'"Hm,"', b'"<think>Hm,"')

    async def measured(url: str) -> Measured:
        address = find_server(url, {})
        assert address is not None
        model = await connect(address)
        try:
            return await measure_answer(model, messages=ASKED)
        finally:
            await model.close()

    with serving("llama-server", stream) as fake:
        pieces = asyncio.run(measured(fake.url))
        request = next(body for path, _, body in fake.asked if path == "/v1/chat/completions")
    assert request["reasoning_format"] == "none"
    assert pieces.text == "<think>Hm, so</think>Hi there"


def test_a_cancel_right_behind_its_prompt_ends_the_answer(client: EngineClient) -> None:
    """The answer's task may not have run a line by then."""
    with serving("llama-server", [60.0]) as fake:
        loaded(client, fake.url)
        for _ in range(5):
            id = client.generate("hi")
            client.cancel(id)
            ended = list(client.stream(id))[-1]
            assert isinstance(ended, messages.Finished)
            assert ended.reason == "cancelled"
