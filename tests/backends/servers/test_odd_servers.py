"""Servers that do odd things when they are asked what they are, or refuse a field: the answer comes all the same. Patience is a
constant, made short."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from specchat.backends import UserError
from specchat.backends.base import Sampling
from specchat.backends.servers import connection
from specchat.backends.servers.bodies import ServerRequest
from specchat.backends.servers.identify import Served, identify
from specchat.backends.servers.stream import Outcome

from ...fakes.model_servers import MODELS, event
from ...fakes.wires import Fed, hear, wired

ANSWER = event({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})


def found(serve: Any, model: str = "") -> Served | str:
    """What a server is taken for, or the sentence about it."""

    async def go() -> Served | str:
        wire = wired(serve, model)
        try:
            return await identify(wire)
        except UserError as error:
            return str(error)
        finally:
            await wire.close()

    return asyncio.run(go())


async def hang() -> Any:
    await asyncio.sleep(60)


def broken(error: Exception) -> Any:
    raise error


HABITS: dict[str, Any] = {
    "redirects": lambda: (301, "", {"Location": "https://frontend.example/"}),
    "asks to log in": lambda: (302, "", {"Location": "/login"}),
    "hangs up": lambda: broken(httpx2.RemoteProtocolError("Server disconnected")),
    "resets": lambda: broken(httpx2.ReadError("")),
    "hangs": hang,
    "hangs within": lambda: (200, Fed(b"{", 60.0)),
    "breaks off": lambda: (200, Fed(b"{", httpx2.ReadError(""))),
    "has a page for all": lambda: (200, "<!doctype html><title>Chat</title>"),
    "has one JSON for all": lambda: (200, {"status": "ok"}),
    "wants a key": lambda: (401, {"detail": "no"}),
    "forbids": lambda: (403, "no"),
    "fails": lambda: (500, ""),
    "is no HTTP": lambda: broken(httpx2.DecodingError("")),
    "sends what is not text": lambda: (200, b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize("engine", ["OpenAI-compatible", "llama-server", "vLLM", "SGLang"])
def test_what_a_server_does_on_paths_that_it_lacks_says_nothing(
    habit: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ASK_SECONDS", 0.05)
    served = found(lambda request: (200, MODELS[engine]) if request.url.path == "/v1/models" else HABITS[habit]())
    assert isinstance(served, Served)
    assert (served.engine, served.model) == (engine, MODELS[engine]["data"][0]["id"])


@pytest.mark.parametrize("habit", HABITS)
def test_a_model_that_is_named_needs_no_list(habit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ASK_SECONDS", 0.05)
    served = found(lambda _: HABITS[habit](), "my model")
    assert isinstance(served, Served)
    assert (served.model, served.api) == ("my model", "/v1")
    assert isinstance(found(lambda _: HABITS[habit]()), str)


def rows(*found: Any) -> dict[str, Any]:
    return {"data": [{"id": each} if isinstance(each, str) else each for each in found]}


@pytest.mark.parametrize(
    ("body", "named", "model"),
    [
        (rows("a", "b"), "", "a"),
        ({"data": [{"name": "b"}, {"id": "a"}, {"id": 7}, "b"]}, "", "a"),
        (b"\xef\xbb\xbf" + json.dumps(rows("a")).encode(), "", "a"),
        (rows("nomic-embed-text:latest", "a"), "", "a"),
        (rows("text-embedding-3-small", "whisper-1", "tts-1", "bge-m3", "jina-reranker-v2", "dall-e-3", "a"), "", "a"),
        (rows("nomic-embed-text"), "nomic-embed-text", "nomic-embed-text"),
        (rows("qwen3:latest", "qwen3:4b"), "qwen3", "qwen3:latest"),
        (rows("Qwen/Qwen3-8B"), "qwen/qwen3-8b", "Qwen/Qwen3-8B"),
        (rows("my model 7B", "a#b"), "my model 7B", "my model 7B"),
        (rows({"id": "a", "aliases": ["b"]}), "b", "b"),
        (rows({"id": "a", "description": "y" * 9_000_000}), "", "a"),
        (rows(), "", ""),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_model_is_the_one_that_is_meant(body: Any, named: str, model: str) -> None:
    served = found(lambda request: (200, body) if request.url.path == "/v1/models" else (404, {}), named)
    assert isinstance(served, Served)
    assert served.model == model


@pytest.mark.parametrize(
    ("response", "named", "said"),
    [
        (
            (200, rows("nomic-embed-text")),
            "",
            "lists no model that writes text. Name one behind the address: http://fake:1#NAME.",
        ),
        ((404, {}), "", "sends no list of models (404). Check the address"),
        ((503, {"error": {"message": "Loading model"}}), "a", "is not ready (503: Loading model)"),
        ((200, rows("small")), "smal", "has no model smal: did you mean small?"),
    ],
)
def test_what_only_the_user_can_know_is_asked(response: Any, named: str, said: str) -> None:
    assert said in str(found(lambda _: response, named))


def asked(engine: str, refuse: Any, request: ServerRequest, times: int = 1) -> tuple[list[dict[str, Any]], Outcome, str]:
    """Every request that a server got, the last outcome, and the sentence about a failure.

    Args:
        refuse: gives the refusal of a body; None to answer it.
    """
    bodies = list[dict[str, Any]]()

    def serve(request: httpx2.Request) -> Any:
        bodies.append(json.loads(request.content))
        return refuse(bodies[-1]) or (200, ANSWER)

    heard, _ = hear(serve, request, engine, times)
    return bodies, heard.outcome, heard.failed


CHAT = ServerRequest([{"role": "user", "content": "hi"}])
HOT = ServerRequest(CHAT.messages, sampling=Sampling(temperature=0.7, top_k=5), max_tokens=20)
EXTRA = {"type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"], "msg": "Extra inputs are not permitted"}
FIELDS: list[tuple[str, ServerRequest, str, int, Any]] = [
    ("OpenAI-compatible", CHAT, "temperature", 422, {"error": "`temperature` must be > 0", "error_type": "validation"}),
    ("OpenAI-compatible", CHAT, "temperature", 400, {"error": {"message": "Unsupported value", "param": "temperature"}}),
    ("OpenAI-compatible", CHAT, "stream_options", 422, {"object": "error", "message": {"detail": [EXTRA]}}),
    ("OpenAI-compatible", CHAT, "stream_options", 422, {"detail": [EXTRA]}),
    ("OpenAI-compatible", CHAT, "stream_options", 500, "create() got an unexpected keyword argument 'stream_options'"),
    ("OpenAI-compatible", HOT, "top_k", 400, {"error": {"message": "Unrecognized request argument supplied: top_k"}}),
    ("OpenAI-compatible", HOT, "seed", 400, {"message": "Seed is not supported"}),
    ("OpenAI-compatible", HOT, "top_k", 422, {"detail": "Unexpected fields in the request: {'top_k'}"}),
    ("vLLM", CHAT, "return_token_ids", 400, {"object": "error", "message": "[{'loc': ('body', 'return_token_ids')}]"}),
    ("vLLM", CHAT, "top_k", 400, {"error": {"message": "topK must be positive"}}),
    ("vLLM", HOT, "min_p", 200, event({"error": {"message": "The min_p parameter is not supported", "code": 400}})),
    ("llama-server", CHAT, "timings_per_token", 400, {"error": {"message": "unknown field timings_per_token"}}),
    ("OpenAI-compatible", ServerRequest(None, "a"), "max_tokens", 400, {"error": "max_tokens must be below 2000"}),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "sent", "field", "status", "said"), FIELDS)
def test_a_field_that_is_refused_is_left_out_and_told(
    engine: str, sent: ServerRequest, field: str, status: int, said: Any
) -> None:
    bodies, outcome, failed = asked(engine, lambda body: (status, said) if field in body else None, sent)
    assert (outcome.reason, failed, len(bodies)) == ("eos", "", 2)
    assert {*bodies[0]} - {*bodies[1]} >= {field}
    assert f"fake:1 refused {field}" in outcome.doubt
    # The next request is not refused again; what changes the text is told again.
    bodies, outcome, _ = asked(engine, lambda body: (status, said) if field in body else None, sent, times=2)
    assert len(bodies) == 3
    changes = field in ("temperature", "top_k", "min_p", "seed")
    assert outcome.doubt == (f"fake:1 does not take {field}: its own default counts." if changes else "")


def test_a_field_has_another_name_or_is_the_users_own() -> None:
    said = {"error": {"message": "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}
    bodies, outcome, _ = asked("OpenAI-compatible", lambda body: (400, said) if "max_tokens" in body else None, HOT, times=2)
    assert [body.get("max_completion_tokens") for body in bodies] == [None, 20, 20]
    assert outcome.doubt == ""
    for refusal in (
        (400, {"error": "max_tokens must be below 10"}),
        (400, {"error": {"message": "Conversation roles must alternate user/assistant/user/assistant/..."}}),
        (400, {"error": "Invalid 'stop': array too long."}),
        (500, {"error": "out of memory"}),
        (429, {"error": "slow down, temperature"}),
        (404, {"error": "no such model"}),
    ):
        bodies, _, failed = asked("vLLM", lambda _, refusal=refusal: refusal, HOT)
        assert len(bodies) == 1
        assert f"({refusal[0]}" in failed
    # A server that refuses everything is asked a few times, not for ever.
    bodies, _, failed = asked("vLLM", lambda body: (400, f"no {' '.join(body)}"), HOT)
    assert len(bodies) < 4
    assert "refused the request (400" in failed
    assert "It was sent again without temperature and " in failed
    # What was left out in vain is sent again.
    refusals = iter([(400, "no stream_options"), (400, "bad request")])
    bodies, _, failed = asked("vLLM", lambda _: next(refusals, None), CHAT, times=2)
    assert ["stream_options" in body for body in bodies] == [True, False, True]
    assert failed.endswith("It was sent again without stream_options.")


def test_a_request_for_an_answer_is_sent_once() -> None:
    bodies, _, failed = asked("vLLM", lambda _: broken(httpx2.RemoteProtocolError("Server disconnected")), CHAT)
    assert len(bodies) == 1
    assert "broke off before the answer began" in failed
