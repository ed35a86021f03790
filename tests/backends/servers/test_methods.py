"""Servers that can be told with each request how to decode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from specchat.backends.base import Sampling
from specchat.backends.servers.address import find_server
from specchat.backends.servers.bodies import ServerRequest
from specchat.backends.servers.remote import RemoteModel, connect_all
from specchat.backends.servers.runs import Run
from specchat.backends.servers.stream import Outcome, Taker

from ...fakes.model_servers import FakeServer, llama_server, of_words, serving, text_only

WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
ASKED = [{"role": "user", "content": "hi"}]
OPENAPI = {"info": {"title": "FastAPI"}, "paths": {"/load_model": {}, "/reset": {}, "/v1/chat/completions": {}}}


def child(name: str, *args: str) -> dict[str, Any]:
    """A model of a router, as it tells of it."""
    status = {"value": "unloaded", "args": ["llama-server", "--port", "0", *args, "--alias", name]}
    return {"id": name, "object": "model", "owned_by": "llamacpp", "status": status}


CHILDREN = [
    child("ngram", "--spec-type", "ngram-simple", "--model", "/m/target.gguf"),
    child("both", "--spec-type", "ngram-simple,draft-simple", "--model", "/m/target.gguf"),
    child("base", "--model", "/m/target.gguf"),
    child("twin", "--model", "/m/target.gguf"),
    child("other", "--model", "/m/other.gguf"),
]


@contextmanager
def connected(loop: asyncio.AbstractEventLoop, fake: FakeServer, model: str) -> Iterator[RemoteModel]:
    address = find_server(f"{fake.url}#{model}", {})
    assert address is not None
    remote = loop.run_until_complete(connect_all(address))
    yield remote
    loop.run_until_complete(remote.close())


def answered(loop: asyncio.AbstractEventLoop, remote: RemoteModel, method: str, request: ServerRequest) -> str:
    runs = list[Run]()
    model = remote.methods[remote.named(method)]
    loop.run_until_complete(model.answer(request, Taker(runs.append, lambda *_: None), Outcome()))
    return "".join(run.text for run in runs)


@pytest.mark.parametrize(
    ("model", "methods", "usual"),
    [
        ("base", ["ngram-simple", "ngram-simple+draft-simple", "plain", "plain (twin)"], "plain"),
        ("ngram", ["ngram-simple", "ngram-simple+draft-simple", "plain", "plain (twin)"], "ngram-simple"),
        ("other", ["plain"], "plain"),
    ],
)
def test_a_router_has_a_method_for_each_model_of_the_same_file(
    loop: asyncio.AbstractEventLoop, model: str, methods: list[str], usual: str
) -> None:
    props = {"default_generation_settings": {"n_ctx": 2048}, "build_info": "b1"}
    routes = {"/v1/models": (200, {"data": CHILDREN}), f"/props?model={model}": (200, props)}
    stream = llama_server(WRITTEN)
    with serving("llama-server", stream, routes=routes) as fake, connected(loop, fake, model) as remote:
        assert (list(remote.methods), remote.method, remote.info.context) == (methods, usual, 2048)
        assert remote.info.device == f"llama-server at {fake.url.removeprefix('http://')}"
        assert not remote.info.notes
        # The others are known by their command lines: none is asked anything, which would load it.
        assert {path for path, *_ in fake.asked} == {"/v1/models", f"/props?model={model}"}
        for method in methods:
            assert answered(loop, remote, method, ServerRequest(ASKED)) == WRITTEN.text
        asked = [body["model"] for path, _, body in fake.asked if path == "/v1/chat/completions"]
        assert asked == (["ngram", "both", "base", "twin"] if len(methods) > 1 else ["other"])


def test_transformers_serve_guesses_from_the_text_where_it_is_asked_to(loop: asyncio.AbstractEventLoop) -> None:
    routes = {"/v1/models": (200, {"data": []}), "/openapi.json": (200, OPENAPI)}
    with serving(stream=text_only(WRITTEN), routes=routes) as fake, connected(loop, fake, "/m/folder") as remote:
        assert (list(remote.methods), remote.method) == (["plain", "prompt-lookup K=10"], "plain")
        assert answered(loop, remote, "greedy", ServerRequest(ASKED, max_tokens=20)) == WRITTEN.text
        assert "generation_config" not in fake.asked[-1][2]
        for request, config in (
            (ServerRequest(ASKED, max_tokens=20), {"do_sample": False, "max_new_tokens": 20}),
            (ServerRequest(ASKED, sampling=Sampling(temperature=0.7)), {"do_sample": True, "max_new_tokens": 1024}),
        ):
            assert answered(loop, remote, "prompt-lookup K=10", request) == WRITTEN.text
            body = fake.asked[-1][2]
            assert json.loads(body["generation_config"]) == {"prompt_lookup_num_tokens": 10, **config}
            assert body["model"] == "/m/folder"
