"""Real servers of the built-in model, through the engine: text, passes against the server's own log, a cancel, and the cost.

Run with `SPECCHAT_SERVERS=1`; `tests/fakes/real_servers.py` says which servers there are.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import psutil
import pytest

from specchat.backends import LoadOptions, load_model
from specchat.backends.servers.address import find_server
from specchat.backends.servers.bodies import ServerRequest, body_of
from specchat.backends.servers.model import ServerModel, connect
from specchat.decoders import Conversation, Generation
from specchat.engine.client import EngineClient
from specchat.engine.messages import Event, Failed, Finished, Loaded, StepRecord, Steps

from ...decoders.constrained.cases import CONSTRAINTS, prompts, valid
from ...fakes.real_servers import RealServer, kinds, real_server

pytestmark = pytest.mark.skipif(not os.environ.get("SPECCHAT_SERVERS"), reason="SPECCHAT_SERVERS=1 starts real servers")

TEXT = (
    "The lighthouse stood on the northern rock. Every evening Ana climbed the stairs, lit the lamp and wrote the weather down."
)
PROMPTS = [
    *(f"Tell me a short story about {what}." for what in ("a fox", "the sea", "a clock", "two friends", "a lost key")),
    *(f"What is {what}?" for what in ("speculative decoding", "a KV cache", "a token", "an n-gram", "a draft model")),
    *(
        f"Repeat this text exactly: {text}"
        for text in (TEXT, TEXT[:44], "one two three one two three", "x = 1; y = 2; z = x + y")
    ),
    *(f"Replace Ana by {name}: {TEXT}" for name in ("Ben", "Carla", "Dora")),
    *("Count from one to ten.", "List three colours.", "Say hello."),
]
LIMIT = 96
LONG = "Repeat this text exactly: " + " ".join(map(str, range(100, 250)))
"""Its answer goes on for as long as it may."""

FLOAT32 = ("vllm", "transformers")


def request_for(prompt: str, limit: int = LIMIT) -> ServerRequest:
    return ServerRequest([{"role": "user", "content": prompt}], max_tokens=limit)


async def opened(server: RealServer) -> ServerModel:
    address = find_server(f"{server.url}#{server.model}", {})
    assert address is not None
    return await connect(address)


PASS = re.compile(rb"accepted +(\d+)/ *(\d+) draft tokens")
"""A line of llama-server's log: a pass with a draft."""


@dataclass
class Asked:
    """A server, and an engine that has loaded it."""

    kind: str
    server: RealServer
    engine: EngineClient
    info: dict[str, Any]

    def answer(self, prompt: str, limit: int = LIMIT) -> tuple[list[StepRecord], Finished]:
        """The passes of an answer, and its end."""
        steps = list[StepRecord]()
        id = self.begin(prompt, limit)
        for event in self.engine.stream(id):
            assert not isinstance(event, Failed), event.sentence
            if isinstance(event, Steps):
                steps += event.steps
        assert isinstance(event, Finished)
        return steps, event

    def begin(self, prompt: str, limit: int, **options: Any) -> int:
        """The id of a new answer."""
        chat, method = [{"role": "user", "content": prompt}], self.info["server"]["method"]
        return self.engine.generate(messages=chat, method=method, max_tokens=limit, **options)

    def whole(self, prompt: str) -> Any:
        """The server's answer to another client, without streaming."""
        path, body = asyncio.run(self.body(prompt, LIMIT))
        body.pop("stream_options", None)
        return self.server.post(path, {**body, "stream": False})

    def logged(self, position: int, drafted: int) -> list[tuple[int, int]]:
        """Accepted and drafted tokens of each pass with a draft that llama-server's log has behind a position, as many as it
        says that it drafted. The log may come later than the answer."""
        while True:
            with self.server.log.open("rb") as log:
                log.seek(position)
                found = [(int(accepted), int(length)) for accepted, length in PASS.findall(log.read())]
            if sum(length for _, length in found) >= drafted:
                return found
            assert self.server.process.poll() is None
            time.sleep(0.01)

    async def body(self, prompt: str, limit: int) -> tuple[str, dict[str, Any]]:
        """The path and the body of specchat's own request."""
        model = await opened(self.server)
        await model.close()
        return body_of(model.served, request_for(prompt, limit))

    def counters(self) -> dict[str, float]:
        """Tokens that the server has written, drafted and accepted, as it counts them; empty if it does not."""
        engine = self.kind.split()[0]
        if engine not in METRICS:
            return {}
        which = f"?model={self.server.model}" if self.kind.endswith("router") else ""
        found = dict.fromkeys(METRICS[engine].values(), 0.0)
        for line in self.server.get(f"/metrics{which}").splitlines():
            name, _, value = line.rpartition(" ")
            if (counter := METRICS[engine].get(name.partition("{")[0])) is not None:
                found[counter] += float(value)
        return found

    def busy(self) -> bool:
        """Whether it computes: what it says of itself, else the processor time that it takes."""
        if self.kind.startswith("llama-server"):
            which = f"?model={self.server.model}" if self.kind.endswith("router") else ""
            return any(slot["is_processing"] for slot in json.loads(self.server.get(f"/slots{which}")))
        if self.kind.startswith("vllm"):
            lines = [line for line in self.server.get("/metrics").splitlines() if "num_requests_running{" in line]
            return float(lines[0].split()[-1]) > 0
        each = psutil.Process(self.server.process.pid)
        before = sum(each.cpu_times()[:2])
        time.sleep(0.2)
        return sum(each.cpu_times()[:2]) - before > 0.1


METRICS = {
    "llama-server": {
        "llamacpp:tokens_predicted_total": "tokens",
        "llamacpp:spec_decode_num_draft_tokens_total": "drafted",
        "llamacpp:spec_decode_num_accepted_tokens_total": "accepted",
    },
    "vllm": {
        "vllm:generation_tokens_total": "tokens",
        "vllm:spec_decode_num_draft_tokens_total": "drafted",
        "vllm:spec_decode_num_accepted_tokens_total": "accepted",
    },
}


@pytest.fixture(scope="module", params=kinds())
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("server")
    with real_server(request.param, folder / "log") as server, EngineClient(log=folder / "engine") as engine:
        events: list[Event] = list(engine.stream(engine.load(f"{server.url}#{server.model}")))
        loaded = events[-1]
        assert isinstance(loaded, Loaded), loaded
        yield Asked(request.param, server, engine, loaded.info)


@cache
def ours() -> list[str]:
    """What the built-in model writes greedily on this machine."""
    model = load_model("builtin", LoadOptions(device="cpu", dtype="float32", backend="transformers", threads=1))
    talk, out = Conversation(model), []
    for prompt in PROMPTS:
        generation = Generation(talk, model.encode_chat([{"role": "user", "content": prompt}]), max_tokens=LIMIT)
        out.append("".join(step.text for step in generation) + generation.flush())
    return out


def test_text_passes_and_counts_are_the_servers_own(asked: Asked) -> None:
    kind, certain, texts, passes, right = asked.kind, list[str](), list[str](), 0, 0
    told = {"tokens": 0, "drafted": 0, "accepted": 0}
    for number, prompt in enumerate(PROMPTS):
        before, position = asked.counters(), asked.server.log.stat().st_size
        steps, ended = asked.answer(prompt)
        after = asked.counters()
        texts.append("".join(step.text for step in steps))
        if kind.startswith(FLOAT32):
            assert texts[-1] == ours()[number], prompt
        certainty = ended.served["certainty"]
        certain.append(certainty)
        if certainty == "exact":
            assert sum(len(step.tokens) for step in steps) == ended.served["tokens"], prompt
        for name, count in after.items():
            if name in ended.served:
                assert count - before[name] == ended.served[name], (prompt, name)
                told[name] += ended.served[name]
        drafted = [(step.accepted, step.drafted) for step in steps if step.drafted]
        if kind.startswith("llama-server"):
            truth = asked.logged(position, ended.served.get("drafted", 0))
        else:
            account = (asked.whole(prompt).get("metrics") or {}).get("speculative_decoding") or {}
            # vLLM's chunks do not tell which passes had a draft that was wholly wrong.
            drafted = [(step.accepted, 0) for step in steps if step.accepted]
            truth = [(a, 0) for a in account.get("per_step_accepted") or () if a]
        if truth and certainty == "exact":
            passes += len(truth)
            # What was accepted behind the end of an answer is not in it.
            *most, (last, _) = truth
            same = [one == other for one, other in zip(drafted, most, strict=False)]
            same += [len(drafted) <= len(truth) and (drafted[len(most)][0] <= last if len(drafted) == len(truth) else True)]
            right += sum(same)
            assert all(same), (prompt, drafted, truth)
            assert len(same) == len(truth), (prompt, drafted, truth)
    counts = ", ".join(f"{name} {certain.count(name)}" for name in dict.fromkeys(certain))
    print(f"\n{kind} ({asked.info['server']}): {counts}; {right} of {passes} passes with drafts as the server says; {told}")
    assert texts == [asked.whole(prompt)["choices"][0]["message"]["content"] for prompt in PROMPTS]
    if kind.startswith("llama-server") or kind == "vllm plain":
        assert set(certain) == {"exact"}
        assert right == passes
    elif kind.startswith("vllm"):
        assert certain.count("exact") >= 0.9 * len(certain)
        assert right >= 0.95 * passes
    else:
        assert set(certain) == {"unknown"}


def test_constraints_hold(asked: Asked) -> None:
    kind = asked.kind.split()[0]
    if kind not in ("llama-server", "vllm"):
        pytest.skip("its models are asked for schemas alone")
    cut = count = 0
    for name, constraint in CONSTRAINTS.items():
        if (kind, constraint.kind) == ("llama-server", "regex"):  # it takes none
            continue
        for prompt in prompts(2):
            events = list(asked.engine.stream(asked.begin(prompt, 120, constraint=asdict(constraint))))
            text = "".join(step.text for event in events if isinstance(event, Steps) for step in event.steps).strip()
            assert isinstance(events[-1], Finished)
            count, cut = count + 1, cut + (not events[-1].valid)
            assert events[-1].valid == valid(name, text)
            assert events[-1].valid or events[-1].reason == "length"
    print(f"\n{asked.kind}: {count - cut} of {count} matched, the others were cut at the limit")


def test_a_cancel_stops_the_server(asked: Asked) -> None:
    id, begun = asked.begin(LONG, 1200), 0.0
    for event in asked.engine.stream(id):
        if isinstance(event, Steps):
            assert asked.kind.startswith(("transformers", "llama_cpp")) or asked.busy()
            begun = time.perf_counter()
            asked.engine.cancel(id)
            break
    while asked.busy():  # one that goes on meets the limit of every test
        time.sleep(0.01)
    print(f"\n{asked.kind}: nothing runs {time.perf_counter() - begun:.3f} s after the cancel")
    rest = list(asked.engine.stream(id))
    assert isinstance(rest[-1], Finished)
    assert rest[-1].reason == "cancelled"
    assert asked.answer("Say hello.", 8)[0]
