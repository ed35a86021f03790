"""Layers on RPC servers. The real server takes part where the build has RPC: point LLAMA_CPP_LIB_PATH at one.

A build with the server beside the libraries, which is then the one that is tried, in llama.cpp's own folder:

    cmake -B build -DBUILD_SHARED_LIBS=ON -DGGML_RPC=ON && cmake --build build --target llama ggml-rpc-server   # build/bin
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.backends import LoadOptions, UserError
from specchat.backends.llama.library import library
from specchat.backends.llama.model import load_llama

from ...fakes.answers import answered
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, tiny_folder

pytestmark = needs_llama


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server() -> Iterator[str]:
    """A server with the CPU as its device, in a process of its own."""
    name = f"127.0.0.1:{free_port()}"
    program = Path(os.environ.get("LLAMA_CPP_LIB_PATH", "")) / "ggml-rpc-server"
    if not program.is_file():
        pytest.skip("LLAMA_CPP_LIB_PATH names no folder with ggml-rpc-server")
    command = [str(program), "--host", "127.0.0.1", "--port", name.rpartition(":")[2], "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(name.rpartition(":")[2]))).close()
                break
            except OSError:
                time.sleep(0.1)
        yield name
        process.kill()


def load(rpc: str, **options: object) -> None:
    load_llama(gguf_of(tiny_folder()), "tiny", LoadOptions(rpc=rpc, **options)).close()  # type: ignore[arg-type]


def test_a_build_without_it_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library(), "llama_supports_rpc", lambda: False)
    with pytest.raises(UserError, match=r'CMAKE_ARGS="-DGGML_RPC=on" .* -m pip install llama-cpp-python') as caught:
        load("127.0.0.1:50052")
    assert "\n" not in str(caught.value)


@pytest.fixture
def as_if(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the build had it: what is refused before a server is needed."""
    monkeypatch.setattr(library(), "llama_supports_rpc", lambda: True)


@pytest.mark.parametrize("name", ["somewhere", "host:", ":1", "host:port", "host:99999"])
def test_a_server_is_named_with_its_port(as_if: None, name: str) -> None:
    with pytest.raises(UserError, match="given as host:port"):
        load(name)


def test_a_server_that_is_not_there_is_told(as_if: None) -> None:
    port = free_port()
    with pytest.raises(UserError, match=rf"Cannot reach .*127\.0\.0\.1:{port} .*Start `rpc-server .*--port {port}`"):
        load(f"127.0.0.1:{port}")


def test_layers_on_a_server_give_the_same_tokens(server: str) -> None:
    here = load_llama(gguf_of(tiny_folder()), "tiny", FLOAT32)
    there = load_llama(gguf_of(tiny_folder()), "tiny", LoadOptions(device="cpu", dtype="float32", threads=1, rpc=server))
    assert there.info.device.startswith("RPC")
    assert server in there.info.device
    assert there.info.capabilities.tree
    ids = [(31 * i + 7) % 2000 + 8 for i in range(40)]
    answers = []
    # The draft model is here, the target there.
    for model, method in ((here, "greedy"), (there, "greedy"), (there, "lookup"), (there, "draft"), (there, "tree")):
        answers.append(answered(model, ids, method, draft=here, max_tokens=48)[0].answer)
    assert all(answer == answers[0] for answer in answers)
    with pytest.raises(UserError, match=r"auto .* or cpu"):
        load(server, device="cuda")
    with pytest.raises(UserError, match="at least one layer"):
        load(server, gpu_layers=0)
    there.close()
    # Without --rpc the same process computes here again.
    for options in (FLOAT32, LoadOptions(threads=1)):
        assert load_llama(gguf_of(tiny_folder()), "tiny", options).info.device == "cpu"
