"""Real servers of the built-in model (`SPECCHAT_SERVERS=1`, fakes/real_servers.py): text, counts, passes, and a cancel."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from specchat.backends.info import ModelInfo
from specchat.backends.remote.address import find_server
from specchat.backends.remote.bodies import ServerRequest, build_body
from specchat.backends.remote.model import connect
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Loaded, StepRecord, Steps
from specchat.engine.options import ModelSelection

from ...fakes.real_servers import RealServer, kinds, real_server

pytestmark = pytest.mark.skipif(not os.environ.get("SPECCHAT_SERVERS"), reason="SPECCHAT_SERVERS=1 starts real servers")

PROMPTS = (
    "Tell me a short story about a fox.",
    "What is a KV cache?",
    "Repeat this text exactly: one two three one two three",
    "Repeat this text exactly: The lighthouse stood on the northern rock. Every evening Ana lit the lamp.",
    "Count from one to ten.",
)
LIMIT = 96
LONG = "Repeat this text exactly: " + " ".join(map(str, range(100, 250)))
"""Its answer goes on for as long as it may."""


@dataclass
class Asked:
    """A server, and an engine that has loaded it."""

    kind: str
    server: RealServer
    engine: EngineClient
    info: ModelInfo

    def begin(self, prompt: str, limit: int = LIMIT, **options: Any) -> int:
        assert self.info.server is not None
        chat, method = [{"role": "user", "content": prompt}], self.info.server.method
        return self.engine.generate(messages=chat, method=method, max_tokens=limit, **options)

    def answer(self, prompt: str, limit: int = LIMIT, **options: Any) -> tuple[list[StepRecord], Finished]:
        """The passes of an answer, and its end."""
        events = list(self.engine.stream(self.begin(prompt, limit, **options)))
        assert isinstance(events[-1], Finished), events[-1]
        return [step for event in events if isinstance(event, Steps) for step in event.steps], events[-1]

    def whole(self, prompt: str) -> Any:
        """The server's answer to another client, without streaming."""

        async def body() -> tuple[str, dict[str, Any]]:
            address = find_server(f"{self.server.url}#{self.server.model}", {})
            assert address is not None
            model = await connect(address)
            await model.close()
            return build_body(model.served, ServerRequest([{"role": "user", "content": prompt}], max_tokens=LIMIT))

        path, request = asyncio.run(body())
        request.pop("stream_options", None)
        return self.server.post(path, {**request, "stream": False})

    def busy(self) -> bool:
        """Whether it computes: what it says of itself, else the processor time that it takes."""
        if self.kind.startswith("llama-server"):
            return any(slot["is_processing"] for slot in json.loads(self.server.get("/slots")))
        if self.kind.startswith("vllm"):
            lines = [line for line in self.server.get("/metrics").splitlines() if "num_requests_running{" in line]
            return float(lines[0].split()[-1]) > 0
        process = psutil.Process(self.server.process.pid)
        before = sum(process.cpu_times()[:2])
        time.sleep(0.2)
        return sum(process.cpu_times()[:2]) - before > 0.1


@pytest.fixture(scope="module", params=kinds())
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("server")
    with real_server(request.param, folder / "log") as server, EngineClient(log=folder / "engine") as engine:
        events: list[Event] = list(engine.stream(engine.load(ModelSelection(f"{server.url}#{server.model}"))))
        loaded = events[-1]
        assert isinstance(loaded, Loaded), loaded
        yield Asked(request.param, server, engine, loaded.model)


def test_text_and_counts_are_the_servers_own(asked: Asked) -> None:
    certain = []
    for prompt in PROMPTS:
        (steps, ended), whole = asked.answer(prompt), asked.whole(prompt)
        assert "".join(step.text for step in steps) == whole["choices"][0]["message"]["content"]
        assert ended.served is not None
        certain.append(ended.served.certainty)
        if certain[-1] == "exact":
            assert sum(len(step.tokens) for step in steps) == ended.served.tokens == whole["usage"]["completion_tokens"]
        account = (whole.get("metrics") or {}).get("speculative_decoding") or {}
        counts = [count for count in account.get("per_step_accepted") or () if count]
        if counts and certain[-1] == "exact":  # what was accepted behind the end of an answer is not in it
            assert [step.accepted for step in steps if step.accepted][: len(counts) - 1] == counts[:-1], prompt
    print(f"{asked.kind} ({asked.info.server}): {certain.count('exact')} of {len(certain)} exact")
    if asked.kind.startswith(("llama-server", "vllm")):
        assert certain.count("exact") >= 0.9 * len(certain)


def test_a_cancel_stops_the_server(asked: Asked) -> None:
    id = asked.begin(LONG, 1200)
    for event in asked.engine.stream(id):
        assert not isinstance(event, Failed), event.sentence
        if isinstance(event, Steps):
            asked.engine.cancel(id)
            break
    while asked.busy():  # one that goes on meets the limit of every test
        time.sleep(0.01)
    ended = list(asked.engine.stream(id))[-1]
    assert isinstance(ended, Finished)
    assert ended.reason == "cancelled"
    assert asked.answer("Say hello.", 8)[0]
