"""Answers over a real connection: cut anywhere, stalled, garbled or broken off, nothing that came is lost and nothing hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from specchat.backends import Sampling, UserError
from specchat.backends.remote.address import find_server
from specchat.backends.remote.bodies import ServerRequest
from specchat.backends.remote.model import Patience, ServerModel, Taker, connect
from specchat.backends.remote.runs import Run

from ...fakes.model_servers import BREAK, FakeServer, Written, llama_server, of_words, serving, sglang, text_only, vllm
from ...fakes.wires import Heard

WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
STREAMS: dict[str, Callable[[Written], list[bytes]]] = {
    "llama-server": llama_server,
    "vLLM": vllm,
    "SGLang": sglang,
    "OpenAI-compatible": text_only,
}
EXACT = ("llama-server", "vLLM")
"""Engines that tell their passes."""
ASK = ServerRequest([{"role": "user", "content": "hi"}])


arrived = threading.Event()
"""Set once a run has come."""


def model_of(loop: asyncio.AbstractEventLoop, fake: FakeServer, patience: Patience | None = None, **table: Any) -> ServerModel:
    address = find_server("fake", {"fake": {"url": fake.url, **table}})
    assert address is not None
    return loop.run_until_complete(connect(address, patience))


def taker(heard: Heard) -> Taker:
    def take(run: Run) -> None:
        heard.runs.append(run)
        arrived.set()

    return Taker(take, lambda *_: None)


def ask(loop: asyncio.AbstractEventLoop, model: ServerModel, request: ServerRequest = ASK) -> Heard:
    heard = Heard()
    try:
        loop.run_until_complete(asyncio.wait_for(model.answer(request, taker(heard), heard.outcome), 20))
    except UserError as error:
        heard.failed = str(error)
    return heard


@pytest.mark.parametrize("engine", STREAMS)
@pytest.mark.parametrize("chunked", [True, False])
def test_each_engine_is_found_out_and_heard(loop: asyncio.AbstractEventLoop, engine: str, chunked: bool) -> None:
    with serving(engine, STREAMS[engine](WRITTEN), chunked=chunked) as fake:
        model = model_of(loop, fake)
        heard = ask(loop, model)
        loop.run_until_complete(model.close())
    assert (model.served.engine, heard.failed) == (engine, "")
    assert heard.text == WRITTEN.text
    assert heard.outcome.reason == "eos"
    assert heard.outcome.certainty == ("exact" if engine in EXACT else "unknown")
    if engine in EXACT:
        assert [len(run.tokens) for run in heard.runs if run.tokens] == WRITTEN.lengths
    if engine != "OpenAI-compatible":
        assert (heard.outcome.prompt_tokens, heard.outcome.tokens) == (13, sum(WRITTEN.lengths))


STALLS = [
    ([60.0], "has not begun to answer after 0 s"),
    ([*llama_server(WRITTEN)[:5], 60.0], "sent nothing for 2 s in the middle of the answer"),
    ([b": ping\n\n", 60.0], "has not begun to answer"),
    # What has not been read is lost when the connection is reset.
    ([*llama_server(WRITTEN)[:5], lambda: arrived.wait(60), BREAK], "broke off in the middle of the answer"),
    ([BREAK], "broke off before the answer began"),
]


@pytest.mark.parametrize(("stream", "said"), STALLS, ids=[said[:30] for _, said in STALLS])
def test_what_goes_wrong_in_a_stream_is_one_sentence_and_the_next_answer_comes(
    loop: asyncio.AbstractEventLoop, stream: list[Any], said: str
) -> None:
    arrived.clear()
    with serving("llama-server", stream) as fake:
        stalls = Patience(first=60 if len(stream) > 4 else 0.3, next=2)
        model = model_of(loop, fake, stalls if 60.0 in stream else None)
        heard = ask(loop, model)
        assert said in heard.failed
        assert "\n" not in heard.failed
        if len(stream) > 4:
            assert heard.text
            assert WRITTEN.text.startswith(heard.text)
        fake.stream, model.patience = llama_server(WRITTEN), Patience()
        heard = ask(loop, model)
        loop.run_until_complete(model.close())
    assert (heard.text, heard.failed) == (WRITTEN.text, "")


def test_cancelling_closes_the_stream_and_the_server_sees_it(loop: asyncio.AbstractEventLoop) -> None:
    async def cancelled(model: ServerModel, fake: FakeServer) -> None:
        heard = Heard()
        task = asyncio.ensure_future(model.answer(ASK, taker(heard), heard.outcome))
        while not heard.runs:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while fake.running:
            await asyncio.sleep(0.001)
        assert heard.text == "The"

    with serving("llama-server", [*llama_server(WRITTEN)[:2], 600.0]) as fake:
        model = model_of(loop, fake)
        loop.run_until_complete(asyncio.wait_for(cancelled(model, fake), 120))
        loop.run_until_complete(model.close())


def test_a_key_goes_to_its_server_alone_and_into_no_sentence(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KEY", "sk-marked-0123456789")
    says = {"error": {"message": "bad key sk-marked-0123456789"}}
    with serving("vLLM", (400, says, {})) as fake, serving("vLLM") as other:
        model = model_of(loop, fake, key_env="FAKE_KEY")
        assert "bad key [key]" in ask(loop, model).failed
        fake.stream = (307, "", {"Location": f"{other.url}/v1/chat/completions"})
        assert "Your key was not sent there." in ask(loop, model).failed
        fake.stream = (401, {}, {})
        assert ask(loop, model).failed == f"127.0.0.1:{fake.port} does not accept the key in $FAKE_KEY (401). Check the key."
        loop.run_until_complete(model.close())
    assert {headers.get("Authorization") for _, headers, _ in fake.asked} == {"Bearer sk-marked-0123456789"}
    assert other.asked == []


def test_a_model_is_chosen_by_name(loop: asyncio.AbstractEventLoop) -> None:
    with serving(stream=text_only(WRITTEN)) as fake:
        model = model_of(loop, fake, model="small")
        ask(loop, model, ServerRequest(None, "Once", Sampling(temperature=0.5, top_p=0.9, seed=3), 20, ["\n"]))
        assert fake.asked[-1][0] == "/v1/completions"
        body = {
            "model": "small",
            "prompt": "Once",
            "temperature": 0.5,
            "top_p": 0.9,
            "seed": 3,
            "max_tokens": 20,
            "stop": ["\n"],
        }
        assert body.items() <= fake.asked[-1][2].items()
        ask(loop, model, ServerRequest(ASK.messages, sampling=Sampling(top_k=4)))
        assert fake.asked[-1][2]["top_k"] == 4
        with pytest.raises(UserError, match="has no model smal: did you mean small"):
            model_of(loop, fake, model="smal")
        noted = model_of(loop, fake)
        assert "serves 2 models; this is big" in noted.info.notes[0]
        for each in (model, noted):
            loop.run_until_complete(each.close())


@pytest.mark.parametrize(
    ("engine", "speculates", "method"),
    [
        ("llama-server", True, "ngram-simple"),
        ("llama-server", False, "plain"),
        ("vLLM", True, "speculation K=10"),
        ("vLLM", False, "plain"),
        ("SGLang", True, "eagle3 K=4"),
        ("OpenAI-compatible", True, "server"),
    ],
)
def test_the_method_is_what_the_server_says(
    loop: asyncio.AbstractEventLoop, engine: str, speculates: bool, method: str
) -> None:
    with serving(engine, speculates=speculates) as fake:
        model = model_of(loop, fake)
        loop.run_until_complete(model.close())
    assert model.method == method


def test_a_model_of_a_router_is_known_by_its_command_line(loop: asyncio.AbstractEventLoop) -> None:
    """None is asked more than its settings: another question would load it."""
    status = {"value": "unloaded", "args": ["llama-server", "--spec-type", "ngram-simple,draft-simple", "--alias", "both"]}
    row = {"id": "both", "object": "model", "owned_by": "llamacpp", "status": status}
    props = {"default_generation_settings": {"n_ctx": 2048}, "build_info": "b1"}
    routes = {"/v1/models": (200, {"data": [row]}), "/props?model=both": (200, props)}
    with serving("llama-server", llama_server(WRITTEN), routes=routes) as fake:
        model = model_of(loop, fake)
        loop.run_until_complete(model.close())
        assert {path for path, *_ in fake.asked} == {"/v1/models", "/props?model=both"}
    assert (model.method, model.served.drafts, model.info.context) == ("ngram-simple+draft-simple", True, 2048)


def test_vllm_is_told_once_to_tell_its_passes(loop: asyncio.AbstractEventLoop) -> None:
    with serving("vLLM", vllm(WRITTEN, told=False)) as fake:
        model = model_of(loop, fake)
        answers = []
        for told in (False, False, True, True):
            fake.stream = vllm(WRITTEN, told=told)
            before, outcome = model.certainty, ask(loop, model).outcome
            answers.append((before, outcome.certainty, "detailed" in outcome.doubt))
        loop.run_until_complete(model.close())
    assert answers == [
        ("exact", "unknown", True),
        ("unknown", "unknown", False),
        ("unknown", "exact", False),
        ("exact", "exact", False),
    ]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()
