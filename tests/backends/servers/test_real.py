"""Real servers of the built-in model: their text, their own counts, a cancel that they see, and what specchat costs.

Run with `SPECCHAT_SERVERS=1`; `tests/fakes/real_servers.py` says which servers there are.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from specchat.backends.servers.address import find_server
from specchat.backends.servers.bodies import Wish, request
from specchat.backends.servers.model import Outcome, ServerModel, Taker, connect
from specchat.backends.servers.runs import Run

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


@pytest.fixture(scope="module", params=kinds())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, RealServer]]:
    log: Path = tmp_path_factory.mktemp("server") / "log"
    with real_server(request.param, log) as found:
        yield request.param, found


def wish(prompt: str, limit: int = LIMIT) -> Wish:
    return Wish([{"role": "user", "content": prompt}], max_tokens=limit)


async def opened(server: RealServer) -> ServerModel:
    address = find_server(f"{server.url}#{server.model}", {})
    assert address is not None
    return await connect(address)


async def heard(model: ServerModel, asked: Wish) -> tuple[list[Run], Outcome]:
    runs, outcome = list[Run](), Outcome()
    await model.answer(asked, Taker(runs.append, lambda *_: None), outcome)
    return runs, outcome


def test_text_and_counts_are_the_servers_own(server: tuple[str, RealServer]) -> None:
    kind, found = server

    async def go() -> None:
        model = await opened(found)
        certain = []
        for prompt in PROMPTS:
            runs, outcome = await heard(model, wish(prompt))
            path, body = request(model.served, wish(prompt))
            body.pop("stream_options", None)
            whole = found.post(path, {**body, "stream": False})
            assert "".join(run.text for run in runs) == whole["choices"][0]["message"]["content"], prompt
            certain.append(outcome.certainty)
            if outcome.certainty == "exact":
                assert sum(len(run.tokens) for run in runs) == whole["usage"]["completion_tokens"]
                if outcome.drafted is not None and kind.startswith("llama-server"):
                    assert sum(run.drafted for run in runs) == outcome.drafted
        await model.close()
        print(f"\n{kind}: {model.served}; " + ", ".join(f"{name} {certain.count(name)}" for name in dict.fromkeys(certain)))
        if kind.startswith("llama-server") or kind == "vllm plain":
            assert set(certain) == {"exact"}
        elif kind.startswith("vllm"):
            assert certain.count("exact") >= 0.9 * len(certain)
        else:
            assert set(certain) <= {"estimated", "unknown"}

    asyncio.run(go())


def test_a_cancel_stops_the_server(server: tuple[str, RealServer]) -> None:
    kind, found = server

    def busy() -> float:
        """Whether it computes: what it says of itself, else the processor time that it takes."""
        if kind.startswith("llama-server"):
            return float(any(slot["is_processing"] for slot in json.loads(found.get("/slots"))))
        if kind.startswith("vllm"):
            lines = [line for line in found.get("/metrics").splitlines() if line.startswith("vllm:num_requests_running{")]
            return float(lines[0].split()[-1])
        import psutil

        each = psutil.Process(found.process.pid)
        before = sum(each.cpu_times()[:2])
        time.sleep(0.3)
        return float((sum(each.cpu_times()[:2]) - before) / 0.3 > 0.3)

    async def go() -> None:
        model = await opened(found)
        runs = list[Run]()
        task = asyncio.ensure_future(model.answer(wish(PROMPTS[0], 1500), Taker(runs.append, lambda *_: None), Outcome()))
        while not runs and not task.done():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.5)
        assert await asyncio.to_thread(busy) == 0
        assert (await heard(model, wish("Say hello.", 8)))[0]
        await model.close()

    asyncio.run(go())


def test_it_is_as_fast_as_a_bare_client(server: tuple[str, RealServer]) -> None:
    kind, found = server

    async def go() -> float:
        model = await opened(found)
        path, body = request(model.served, wish(TEXT, 200))
        ratios = []

        client = httpx2.AsyncClient(trust_env=False, verify=False, timeout=60)

        async def bare() -> float:
            begun = time.perf_counter()
            async with client.stream("POST", found.url + path, json=body) as response:
                async for _ in response.aiter_raw():
                    pass
            return time.perf_counter() - begun

        async def ours() -> float:
            begun = time.perf_counter()
            await heard(model, wish(TEXT, 200))
            return time.perf_counter() - begun

        await ours()
        await bare()
        for i in range(20):
            first, second = (bare, ours) if i % 2 else (ours, bare)
            one, two = await first(), await second()
            ratios.append(one / two if first is bare else two / one)
        await model.close()
        await client.aclose()
        return statistics.median(ratios)

    ratio = asyncio.run(go())
    print(f"\n{kind}: {ratio:.3f} times as fast as a bare client (median of 20 pairs)")
    assert ratio >= 0.9  # the figure for a quiet machine is 0.97
