"""Real servers of the built-in model, for `SPECCHAT_SERVERS=1`: transformers serve comes with its package;
`SPECCHAT_LLAMA_SERVER` names a llama-server binary, `SPECCHAT_VLLM` a Python that has vLLM."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specchat.backends.loading import builtin_gguf, builtin_path

START_SECONDS = 300.0


@dataclass(frozen=True)
class RealServer:
    """One that answers."""

    url: str
    model: str
    process: subprocess.Popen[bytes]
    log: Path

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send a request past everything that is tested."""
        data = json.dumps({"model": self.model, **body}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with _opener().open(request, timeout=120) as response:
            return json.load(response)

    def get(self, path: str) -> str:
        with _opener().open(self.url + path, timeout=30) as response:
            return str(response.read().decode())


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def commands(kind: str, port: int) -> tuple[list[str], str]:
    """The command of a server, and the model that requests name."""
    address = ["--host", "127.0.0.1", "--port", str(port)]
    match kind.split():
        case ["transformers"]:
            model = str(builtin_path())
            script = Path(sys.executable).with_name("transformers")
            return [str(script), "serve", model, "--device", "cpu", "--dtype", "float32", *address], model
        case ["llama-server", *rest]:
            options = ["-m", str(builtin_gguf()), "--alias", "builtin", "-t", "1", "-c", "2048", "-np", "1", "--no-repack"]
            return [os.environ["SPECCHAT_LLAMA_SERVER"], *address, *options, *SPECULATION[rest[0]]], "builtin"
        case ["vllm", *rest]:
            module = [
                "-m", "vllm.entrypoints.openai.api_server", "--model", str(builtin_path()), "--served-model-name", "builtin",
            ]  # fmt: skip
            options = ["--dtype", "float32", "--max-model-len", "2048", "--enforce-eager", "--max-num-seqs", "4"]
            return [os.environ["SPECCHAT_VLLM"], *module, *address, *options, *SPECULATION[f"vllm-{rest[0]}"]], "builtin"
    raise ValueError(kind)


def _vllm(**config: Any) -> list[str]:
    return ["--speculative-config", json.dumps(config), "--per-request-spec-decode-metrics", "detailed"]


_DRAFT = ["-md", str(builtin_gguf("builtin-draft")), "--spec-type", "draft-simple", "--spec-draft-n-max", "6"]
SPECULATION = {
    "plain": [],
    "draft-simple": _DRAFT,
    "draft-eagle3": ["-md", str(builtin_gguf("builtin-eagle")), "--spec-type", "draft-eagle3", "--spec-draft-n-max", "4"],
    "ngram-simple": ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "8"],
    "ngram-mod": [
        "--spec-type",
        "ngram-mod",
        *"--spec-ngram-mod-n-match 3 --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 8".split(),
    ],
    "vllm-plain": [],
    "vllm-ngram": _vllm(method="ngram", num_speculative_tokens=10, prompt_lookup_max=3, prompt_lookup_min=2),
    "vllm-draft_model": _vllm(method="draft_model", model=str(builtin_path("builtin-draft")), num_speculative_tokens=4),
    "vllm-eagle3": _vllm(method="eagle3", model=str(builtin_path("builtin-eagle")), num_speculative_tokens=4),
}


def kinds() -> list[str]:
    names = ["transformers"]
    if os.environ.get("SPECCHAT_LLAMA_SERVER"):
        names += [f"llama-server {name}" for name in SPECULATION if not name.startswith("vllm")]
    if os.environ.get("SPECCHAT_VLLM"):
        names += [f"vllm {name.removeprefix('vllm-')}" for name in SPECULATION if name.startswith("vllm")]
    return names


@contextmanager
def real_server(kind: str, log: Path) -> Iterator[RealServer]:
    """A server of the built-in model, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command, model = commands(kind, port)
    more = {
        "LLAMA_TRACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "DO_NOT_TRACK": "1",
    }  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not (kind.startswith("vllm") and name == "PYTHONPATH")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment | more, process_group=0)
    server = RealServer(f"http://127.0.0.1:{port}", model, process, log)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < until, f"{kind} does not start: {log.read_text(errors='replace')[-2000:]}"
            try:
                server.get("/health")
                break
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.2)
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
