"""A server of models on this machine, and streams in the shapes that engines send: what `docs/servers.md` says of each."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Pass:
    """The bytes of each token that one pass of a server gave."""

    tokens: tuple[bytes, ...]
    drafted: int = 0

    @property
    def accepted(self) -> int:
        return len(self.tokens) - 1


@dataclass(frozen=True)
class Written:
    """An answer: its passes (the first is the prompt's), and whether the last one ends in an end token, which shows nothing."""

    passes: tuple[Pass, ...]
    eos: bool = True

    @property
    def text(self) -> str:
        return b"".join(token for one in self.passes for token in one.tokens).decode("utf-8", "replace")

    @property
    def lengths(self) -> list[int]:
        """Tokens of each pass. An end token is in the last, if that had a draft, else it took another pass."""
        out = [len(one.tokens) for one in self.passes]
        if not self.eos:
            return out
        return [*out[:-1], out[-1] + 1] if self.passes[-1].drafted else [*out, 1]

    @property
    def drafted(self) -> int:
        return sum(one.drafted for one in self.passes)

    @property
    def accepted(self) -> int:
        """Accepted guesses; an end token makes guesses of all tokens before it in its pass."""
        return sum(one.accepted for one in self.passes) + self.eos * (self.passes[-1].drafted > 0)


def of_words(*passes: str, drafted: int = 8) -> Written:
    """An answer whose tokens are words: `of_words("The", " fox ran", " away .")`."""
    drafted_words = []
    for i, text in enumerate(passes):
        parts = text.split(" ")
        words = [parts[0], *(f" {part}" for part in parts[1:])] if parts[0] else [f" {part}" for part in parts[1:]]
        drafted_words.append(Pass(tuple(word.encode() for word in words), drafted if i and len(words) > 1 else 0))
    return Written(tuple(drafted_words), eos=False)


def event(body: Any) -> bytes:
    return f"data: {json.dumps(body)}\n\n".encode()


DONE = b"data: [DONE]\n\n"
LAST: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []}
"""The end of a stream, behind the answer."""


def _chat(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more.pop("choice", {})}
    return LAST | {"created": 1, "model": "m", "choices": [choice], **more}


def _texts(written: Written) -> Iterator[tuple[int, int, str | None]]:
    """Yield for each token the number of its pass, its own, and the text that it completes; None within a character."""
    held, number = b"", 0
    for at, one in enumerate(written.passes):
        for token in one.tokens:
            held, number = held + token, number + 1
            try:
                text = held.decode()
            except UnicodeDecodeError:
                yield at, number, None
                continue
            held = b""
            yield at, number, text


def _by_pass(written: Written) -> list[tuple[str, int]]:
    """Text and tokens of each pass, that of an end token among them."""
    texts = [""] * len(written.lengths)
    for at, _, text in _texts(written):
        texts[at] += text or ""
    return list(zip(texts, written.lengths, strict=True))


def llama_server(written: Written, finish: str = "stop") -> list[bytes]:
    """An event for each token; all of a pass have its time and its counts."""

    def timings(at: int, number: int) -> dict[str, Any]:
        passes = written.passes[: at + 1]
        drafted = sum(one.drafted for one in passes)
        accepted = sum(one.accepted for one in passes) if at < len(written.passes) - 1 else written.accepted
        counts = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
        prompt = {"cache_n": 2, "prompt_n": 11, "prompt_ms": 31.5}
        return {**prompt, "predicted_n": number, "predicted_ms": 0.001 + at * 1.25, **counts}

    tokens = list(_texts(written))
    out = [event(_chat({"role": "assistant", "content": None}))]
    out += [event(_chat({"content": text}, timings=timings(at, number))) for at, number, text in tokens if text is not None]
    alone = written.eos and not written.passes[-1].drafted  # the end token has a pass of its own
    last = timings(len(written.passes) - 1 + alone, len(tokens) + written.eos)
    usage = {"completion_tokens": last["predicted_n"], "prompt_tokens": 13, "prompt_tokens_details": {"cached_tokens": 2}}
    return [*out, event(_chat({}, finish)), event(LAST | {"usage": usage, "timings": last}), DONE]


def vllm(written: Written, merged: Sequence[int] = (), detailed: bool = True, ids: Sequence[int] = ()) -> list[bytes]:
    """An event for each pass with its tokens' ids; `merged` passes come together with the one before."""
    out = [event(_chat({"role": "assistant", "content": ""}, prompt_token_ids=list(range(13))))]
    chunks: list[tuple[str, int]] = []
    for at, (text, count) in enumerate(_by_pass(written)):
        before = chunks.pop() if at in merged and chunks else ("", 0)
        chunks.append((before[0] + text, before[1] + count))
    number = 0
    for i, (text, count) in enumerate(chunks, 1):
        own_ids = list((ids or range(100, 10_000))[number : number + count])
        number += count
        out.append(event(_chat({"content": text}, "stop" if i == len(chunks) else None, choice={"token_ids": own_ids})))
    drafts = [(count - 1, one.drafted) for count, one in zip(written.lengths, written.passes, strict=False) if one.drafted]
    accepted, drafted = [a for a, _ in drafts], [d for _, d in drafts]
    account: dict[str, Any] = {"num_spec_steps": len(drafts), "num_accepted_draft_tokens": sum(accepted)}
    account |= {"num_draft_tokens": sum(drafted)}
    if drafts:
        account |= {"per_step_accepted": accepted, "per_step_drafted": drafted}
    usage = {"prompt_tokens": 13, "total_tokens": 13 + number, "completion_tokens": number}
    metrics = {"metrics": {"speculative_decoding": account}} if detailed else {}
    return [*out, event(LAST | {"usage": usage} | metrics), DONE]


def sglang(written: Written) -> list[bytes]:
    """An event for each pass with the tokens so far, and at the end how many passes there were."""
    out, number = [event(_chat({"role": "assistant", "content": ""}))], 0
    for text, count in _by_pass(written):
        number += count
        out.append(event(_chat({"content": text}, usage={"prompt_tokens": 13, "completion_tokens": number})))
    account = {"spec_verify_ct": len(written.lengths) - 1, "spec_num_proposed_drafts": 40, "spec_num_correct_drafts": 20}
    more = {"usage": {"prompt_tokens": 13, "completion_tokens": number}, "sglext": {"spec_tokens_details": account}}
    return [*out, event(_chat({}, "stop", **more)), DONE]


def text_only(written: Written, finish: str | None = "stop") -> list[bytes]:
    """An event for each token, with its text alone."""
    texts = [event(_chat({"content": text})) for _, _, text in _texts(written) if text is not None]
    return [event(_chat({"role": "assistant"})), *texts, event(_chat({}, finish)), DONE]


MODELS: dict[str, Any] = {
    "llama-server": {"object": "list", "data": [{"id": "target.gguf", "object": "model", "owned_by": "llamacpp"}]},
    "vLLM": {"object": "list", "data": [{"id": "builtin", "owned_by": "vllm", "max_model_len": 2048}]},
    "SGLang": {"object": "list", "data": [{"id": "m", "owned_by": "sglang", "max_model_len": 4096}]},
    "OpenAI-compatible": {"object": "list", "data": [{"id": "big", "owned_by": "me"}, {"id": "small", "owned_by": "me"}]},
}
_POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="builtin",position="{}"}} 0.0'
METRICS = "\n".join(
    [
        "# HELP vllm:spec_decode_num_drafts_total Number of drafts.",
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="builtin"} 0.0',
        *map(_POSITION.format, range(10)),
    ]
)


def routes_of(engine: str, speculates: bool = True) -> dict[str, tuple[int, Any]]:
    """Routes by which an engine describes itself."""
    routes: dict[str, tuple[int, Any]] = {"/v1/models": (200, MODELS[engine])}
    match engine:
        case "llama-server":
            settings = {"n_ctx": 2048, "params": {"speculative.types": "none"}}
            routes["/props"] = (200, {"default_generation_settings": settings, "build_info": "b1-0c1e570"})
            routes["/slots"] = (200, [{"id": 0, "n_ctx": 2048, "speculative": speculates, "is_processing": False}])
        case "vLLM":
            routes["/version"] = (200, {"version": "0.32.0"})
            routes["/metrics"] = (200, METRICS if speculates else "vllm:num_requests_running 0.0")
        case "SGLang":
            kind = "EAGLE3" if speculates else None
            info = {"version": "0.5.23", "speculative_algorithm": kind, "speculative_num_draft_tokens": 4}
            routes["/server_info"] = (200, info)
    return routes


TOKEN = re.compile(r"<[^<>]*>|\s?[^\s<>]+|\s")
WORDS: list[str] = []
"""Tokens of the fake servers; all have the same."""


def tokens_of(text: str) -> list[int]:
    """Ids of a text's tokens: words with the space before them, and tags."""
    pieces = TOKEN.findall(text)
    WORDS.extend(word for word in dict.fromkeys(pieces) if word not in WORDS)
    return [1000 + WORDS.index(word) for word in pieces]


Part = bytes | float | Callable[[], None]
"""A part of a stream: bytes to send, seconds to wait, or something to do."""
BREAK = object()
"""The connection is reset."""


@dataclass
class FakeServer:
    """Answers what it is told to, and remembers what it was asked."""

    routes: dict[str, tuple[int, Any]] = field(default_factory=dict)
    stream: Any = ()
    """Parts of the answer to each completion, or a function that makes them of its body; a tuple (status, body, headers)
    refuses instead."""
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    """Path, headers and body of each request."""
    running: int = 0
    """Completions that are being written."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(engine: str = "OpenAI-compatible", stream: Any = (), **more: Any) -> Iterator[FakeServer]:
    speculates = more.pop("speculates", True)
    settings = {"speculative.types": "none,ngram-simple" if speculates else "none"}
    fake = FakeServer({**routes_of(engine, speculates), **more.pop("routes", {})}, stream, **more)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            fake.asked.append((self.path, dict(self.headers), None))
            status, body = fake.routes.get(self.path, (404, {"error": {"message": "File Not Found", "code": 404}}))
            self._send(status, body)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(data)
            fake.asked.append((self.path, dict(self.headers), body))
            if (engine, self.path) == ("llama-server", "/completion"):
                self._send(200, {"content": "a", "generation_settings": settings})
                return
            stream = fake.stream(body) if callable(fake.stream) else fake.stream
            if isinstance(stream, tuple) and stream and isinstance(stream[0], int):
                self._send(*stream)
                return
            fake.running += 1
            try:
                self._stream(stream)
            except OSError:
                pass
            finally:
                fake.running -= 1
                self.close_connection = True

        def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, parts: Iterable[Any]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in parts:
                if part is BREAK:
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.connection.close()
                    return
                if callable(part):
                    part()
                elif isinstance(part, float):
                    self._wait(part)
                else:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def _wait(self, seconds: float) -> None:
            """Wait while the client listens."""
            until = time.monotonic() + seconds
            self.connection.settimeout(0.01)
            while time.monotonic() < until:
                try:
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        raise BrokenPipeError
                except TimeoutError:
                    continue
            self.connection.settimeout(None)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        fake.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
