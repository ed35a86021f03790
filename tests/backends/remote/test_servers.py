"""Servers that do odd things when they are asked what they are, or refuse a field: the answer comes all the same."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from specchat.backends import Sampling, UserError
from specchat.backends.remote import connection
from specchat.backends.remote.address import Address, find_server, quote_model
from specchat.backends.remote.bodies import Served, ServerRequest
from specchat.backends.remote.identify import identify
from specchat.backends.remote.runs import Outcome

from ...fakes.model_servers import MODELS, event, serving
from ...fakes.wires import ScriptedBody, always, fake_connection, hear

ANSWER = event({"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]})


def identified(serve: Any, model: str = "") -> Served | str:
    """Identify a server; a refusal is its sentence."""

    async def go() -> Served | str:
        wire = fake_connection(serve, model)
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
    "hangs up": lambda: broken(httpx2.RemoteProtocolError("Server disconnected")), "hangs": hang,
    "hangs within": lambda: (200, ScriptedBody(b"{", 60.0)), "has a page for all": lambda: (200, "<!doctype html>"),
    "has one JSON for all": lambda: (200, {"status": "ok"}), "wants a key": lambda: (401, {"detail": "no"}),
    "fails": lambda: (500, ""), "sends what is not text": lambda: (200, b"\xff\xfe\x00"),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["OpenAI-compatible", "llama-server", "vLLM", "SGLang"])
def test_what_a_server_does_on_paths_that_it_lacks_says_nothing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ASK_SECONDS", 0.05)
    for habit, reply in HABITS.items():
        served = identified(lambda request, reply=reply: (200, MODELS[engine]) if request.url.path == "/v1/models" else reply())
        assert isinstance(served, Served), habit
        assert (served.engine, served.model) == (engine, MODELS[engine]["data"][0]["id"])


def test_a_model_that_is_named_needs_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ASK_SECONDS", 0.05)
    for habit, reply in HABITS.items():
        assert isinstance(identified(lambda _, reply=reply: reply()), str), habit
        served = identified(lambda _, reply=reply: reply(), "my model")
        if habit not in ("redirects", "hangs up"):
            assert isinstance(served, Served), habit
            assert (served.model, served.api) == ("my model", "/v1")


def rows(*models: Any) -> dict[str, Any]:
    return {"data": [{"id": model} if isinstance(model, str) else model for model in models]}


@pytest.mark.parametrize(("body", "named", "model"), [
    (rows("a", "b"), "", "a"), ({"data": [{"name": "b"}, {"id": "a"}, {"id": 7}, "b"]}, "", "a"),
    (rows("text-embedding-3-small", "whisper-1", "tts-1", "bge-m3", "jina-reranker-v2", "dall-e-3", "a"), "", "a"),
    (rows("nomic-embed-text"), "nomic-embed-text", "nomic-embed-text"), (rows(), "", ""),
    (rows("qwen3:latest", "qwen3:4b"), "qwen3", "qwen3:latest"), (rows("my model 7B", "a#b"), "my model 7B", "my model 7B"),
    (rows({"id": "a", "aliases": ["b"]}), "b", "b"), (rows({"id": "a", "description": "y" * 9_000_000}), "", "a"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_the_model_is_the_one_that_is_meant(body: Any, named: str, model: str) -> None:
    served = identified(lambda request: (200, body) if request.url.path == "/v1/models" else (404, {}), named)
    assert isinstance(served, Served)
    assert served.model == model


@pytest.mark.parametrize(("response", "named", "sentence"), [
    ((200, rows("nomic-embed-text")), "", "lists no model that writes text. Name one behind the address: http://fake:1#NAME."),
    ((404, {}), "", "sends no list of models (404). Check the address"),
    ((503, {"error": {"message": "Loading model"}}), "a", "is not ready (503: Loading model)"),
    ((200, rows("small")), "smal", "has no model smal: did you mean small?"),
])  # fmt: skip
def test_what_only_the_user_can_know_is_asked(response: Any, named: str, sentence: str) -> None:
    assert sentence in str(identified(lambda _: response, named))


def requests_to(engine: str, refuse: Any, request: ServerRequest, times: int = 1) -> tuple[list[dict[str, Any]], Outcome, str]:
    """Every request that a server got, the last outcome, and the sentence about a failure; `refuse` gives a body's refusal."""
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
    ("OpenAI-compatible", CHAT, "temperature", 400, {"error": {"message": "Unsupported value", "param": "temperature"}}),
    ("OpenAI-compatible", CHAT, "stream_options", 422, {"detail": [EXTRA]}),
    ("OpenAI-compatible", HOT, "top_k", 422, {"detail": "Unexpected fields in the request: {'top_k'}"}),
    ("vLLM", CHAT, "return_token_ids", 400, {"object": "error", "message": "[{'loc': ('body', 'return_token_ids')}]"}),
    ("vLLM", HOT, "min_p", 200, event({"error": {"message": "The min_p parameter is not supported", "code": 400}})),
    ("OpenAI-compatible", ServerRequest(None, "a"), "max_tokens", 400, {"error": "max_tokens must be below 2000"}),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "sent", "field", "status", "sentence"), FIELDS)
def test_a_field_that_is_refused_is_left_out_and_told(
    engine: str, sent: ServerRequest, field: str, status: int, sentence: Any
) -> None:
    bodies, outcome, failed = requests_to(engine, lambda body: (status, sentence) if field in body else None, sent, times=2)
    # The next request is not refused again; what changes the text is told each time.
    assert (outcome.reason, failed, len(bodies)) == ("eos", "", 3)
    assert {*bodies[0]} - {*bodies[1]} >= {field}
    changes = field in ("temperature", "top_k", "min_p")
    assert outcome.doubt == (f"fake:1 does not take {field}: its own default counts." if changes else "")


def test_a_field_has_another_name_or_is_the_users_own() -> None:
    unsupported = {"error": {"message": "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}
    bodies, outcome, _ = requests_to(
        "OpenAI-compatible", lambda body: (400, unsupported) if "max_tokens" in body else None, HOT, times=2
    )
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
        bodies, _, failed = requests_to("vLLM", always(*refusal), HOT)
        assert len(bodies) == 1
        assert f"({refusal[0]}" in failed
    # A server that refuses everything is asked a few times, not for ever.
    bodies, _, failed = requests_to("vLLM", lambda body: (400, f"no {' '.join(body)}"), HOT)
    assert len(bodies) < 4
    assert "refused the request (400" in failed


def test_a_request_for_an_answer_is_sent_once() -> None:
    bodies, _, failed = requests_to("vLLM", lambda _: broken(httpx2.RemoteProtocolError("Server disconnected")), CHAT)
    assert len(bodies) == 1
    assert failed == "fake:1 broke the answer off (Server disconnected). Send the message again."


@pytest.mark.parametrize("status", [200, 402])
def test_a_packed_body_is_read(status: int) -> None:
    """Read a body that a proxy packed although nothing asked for it."""
    body = ANSWER if status == 200 else b'{"error": "gone"}'
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/event-stream"}
    heard, _ = hear(lambda _: (status, ScriptedBody(gzip.compress(body)), headers), CHAT)
    assert heard.text == "Hi" or "(402: gone)" in heard.failed


def test_what_stands_behind_the_end_is_dropped() -> None:
    end, error = b"data: [DONE]\n\n", event({"error": {"message": "gone", "code": 500}})
    for parts in (
        [ANSWER, end, ANSWER],
        [ANSWER + end + error],
        [ANSWER, end, b"data: {]\n\n"],
        [ANSWER, end, httpx2.ReadError("")],
    ):
        heard, _ = hear(always(200, ScriptedBody(*parts)), CHAT, "vLLM")
        assert (heard.text, heard.failed, heard.outcome.reason) == ("Hi", "", "eos")


def test_a_key_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-1/a+b<c>&d")
    wire = connection.Connection(Address("x", "http://h", key=("key_env", "OTHER_KEY")))
    assert wire.quote("no access for sk-1/a+b<c>&d!") == "no access for [key]!"


def test_https_to_a_port_of_http_says_so() -> None:
    async def go() -> str:
        wire = connection.Connection(Address("x", server.url.replace("http:", "https:")))
        try:
            await wire.ask("/v1/models")
        except UserError as error:
            return str(error)
        finally:
            await wire.close()
        return ""

    with serving() as server:
        assert re.search(
            r"Nothing answers at .* \(.*(WRONG_VERSION|RECORD|wrong version).*\). Check the address", asyncio.run(go())
        )


SERVERS = {
    "work": {"url": "https://llm.example/v1", "model": "big", "key_env": "WORK_KEY"},
    "here": {"url": "http://localhost:8080"},
    "bare": {"model": "big"},
}


@pytest.mark.parametrize(
    ("spec", "root", "model", "key"),
    [
        ("HTTP://localhost:8080/v1/", "http://localhost:8080", "", None),
        ("http://localhost:8080/v1#org/name", "http://localhost:8080", "org/name", None),
        ("https://host/api/v1#a%20b", "https://host/api", "a b", None),
        # Without a scheme, and with what is pasted along.
        ("localhost:8080", "http://localhost:8080", "", None),
        ("127.0.0.1:8000/v1#my model", "http://127.0.0.1:8000", "my model", None),
        ("[::1]:8080", "http://[::1]:8080", "", None),
        ("gpu1:11434", "http://gpu1:11434", "", None),
        ("LLM.example:443/v1", "https://llm.example", "big", ("key_env", "WORK_KEY")),
        ("https://host/api/v3/chat/completions", "https://host/api/v3", "", None),
        ("http://localhost:11434/api/chat", "http://localhost:11434", "", None),
        # A model's name as it is, and as it is printed.
        ("http://host#a#b", "http://host", "a#b", None),
        ("work#a%20b%23c", "https://llm.example", "a b#c", ("key_env", "WORK_KEY")),
        ("work", "https://llm.example", "big", ("key_env", "WORK_KEY")),
        # An address has the key of the server that it is the address of, and no other.
        ("https://llm.example#x", "https://llm.example", "x", ("key_env", "WORK_KEY")),
        ("http://llm.example", "http://llm.example", "", None),
        ("https://llm.example.evil", "https://llm.example.evil", "", None),
    ],
)
def test_what_names_a_server(spec: str, root: str, model: str, key: tuple[str, str] | None) -> None:
    assert find_server(spec, SERVERS) == Address(spec, root, model, key)


@pytest.mark.parametrize("name", ["my model 7B", "a#b", "q%20x", "hf.co/unsloth/Q:Q4_K_M", "日本", "a'b\"c", "x\u3000y"])
def test_a_models_name_is_printed_as_one_word_that_means_it(name: str) -> None:
    assert len(quote_model(name).split()) == 1
    for server in ("work", "http://host"):
        address = find_server(f"{server}#{quote_model(name)}", SERVERS)
        assert address is not None
        assert address.model == name


def test_names_of_other_models_are_no_addresses() -> None:
    for spec in "builtin owner/name ./work model.gguf ollama:x recorded:x Work qwen3:4b gemma3:27 a/b:8080 C:\\x".split():
        assert find_server(spec, SERVERS) is None, spec


@pytest.mark.parametrize(("spec", "sentence"), [
    ("http://", "is not a server's address"), ("http://host?key=1", "is not a server's address"),
    ("http://host:99999", "is not a server's address"), ("http://ho st", "is not a server's address"),
    ("http://host\n/evil", "is not a server's address"), ("http://[::1", "is not a server's address"),
    ("http://me:secret@host", "must not hold a name or password"), ("bare", r"\[servers.bare\] has no url"),
])  # fmt: skip
def test_what_is_no_address(spec: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        find_server(spec, SERVERS)
    assert "secret" not in str(caught.value)


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORK_KEY", " sk-1 ")
    assert Address("x", "http://h", key=("key_env", "WORK_KEY")).read_key() == "sk-1"
    file = tmp_path / "key"
    file.write_text("sk-2\n")
    assert Address("x", "http://h", key=("key_file", str(file))).read_key() == "sk-2"
    assert Address("x", "http://h").read_key() == ""
    for value in ("a b\r\nX: 1", "", "schlüssel"):
        file.write_text(value)
        with pytest.raises(UserError, match="is empty or has characters that no key has"):
            Address("x", "http://h", key=("key_file", str(file))).read_key()
    for key in (("key_env", "NOT_SET"), ("key_file", str(tmp_path / "none"))):
        with pytest.raises(UserError, match="The server's key should be in"):
            Address("x", "http://h", key=key).read_key()


def test_only_this_machine_is_reached_without_a_proxy() -> None:
    local = ("localhost:1", "127.0.0.9", "[::1]:8", "0.0.0.0:8080")
    assert [Address("x", f"http://{host}").local for host in (*local, "10.0.0.1", "host")] == [True] * 4 + [False] * 2
