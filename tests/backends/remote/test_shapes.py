"""Answers and errors: nothing is lost without a word, nothing broken off passes for finished, and a prompt that does not fit is
told as that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specchat.backends.remote.bodies import ServerRequest
from specchat.backends.remote.refusals import is_full, status_of
from specchat.backends.remote.stream import Outcome, Reader

from ...fakes.model_servers import event
from ...fakes.wires import Fed, hear

ASK = ServerRequest([{"role": "user", "content": "hi"}])
DONE = b"data: [DONE]\n\n"


def choice(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    """An event with a part of the answer; what else stands in the choice."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


HI = choice({"content": "Hi"}) + choice({"content": " there"})
STOP = choice({}, "stop") + DONE


def answer(body: bytes, status: int = 200) -> tuple[str, Outcome, str]:
    """Text, outcome, and the sentence that it ended with, of a server whose whole answer is this."""
    heard, _ = hear(lambda _: (status, Fed(body)), ASK)
    return heard.text, heard.outcome, heard.failed


SHAPES: list[tuple[bytes, str]] = [
    (choice({"role": "assistant", "content": None}) + HI + STOP, "Hi there"),
    (choice({"reasoning": "Hm", "reasoning_content": "Hm"}) + HI + STOP, "HmHi there"),
    (event({"choices": [{"text": "Hi there", "finish_reason": "stop"}]}), "Hi there"),
    (choice({"content": "Hi"}) + choice({"content": " there"}, "stop"), "Hi there"),
    ((HI + STOP).replace(b"\n", b"\r"), "Hi there"),
    ((HI + STOP).replace(b"\n", b"\r\n"), "Hi there"),
    (HI.replace(b"data: ", b"event: message\nid: 7\ndata:") + STOP, "Hi there"),
    (b"event: ping\ndata: ping\n\n" + HI + b"data: \n\n: hm\n\n" + STOP, "Hi there"),
    (HI + b'data: {"type": "ping"}\n\ndata: {}\n\n' + STOP, "Hi there"),
    (choice({"content": "Hi"}) + STOP + choice({"content": " there"}), "Hi"),
    (HI + event({"choices": [], "usage": {"completion_tokens": 2}}) + STOP, "Hi there"),
    (choice({"content": "Hi \ud83e"}) + STOP, "Hi \ufffd"),
    (b'data: {"choices": [{"delta": {"content":\ndata:  "Hi there"}}]}\n\n' + STOP, "Hi there"),
    (b'data: {"choices":[{"delta":{"content":"Hi there"}}],"usage":{"completion_tokens":Infinity}}\n\n' + STOP, "Hi there"),
]


@pytest.mark.parametrize(("body", "text"), SHAPES, ids=range(len(SHAPES)))
def test_a_text_is_kept(body: bytes, text: str) -> None:
    heard, outcome, failed = answer(body)
    assert (heard, outcome.reason, failed) == (text, "eos", "")


@pytest.mark.parametrize(
    ("word", "reason", "said"),
    [
        ("stop", "eos", ""),
        ("tool_calls", "eos", ""),
        ("length", "length", ""),
        *(
            (word, "", f"broke the answer off ({word}). What came is kept; send")
            for word in ("abort", "error", "content_filter")
        ),
        ("load", "load", "a reason for the end that specchat does not know: load."),
        ("x" * 500 + "\n", "x" * 40, "does not know: " + "x" * 40),
    ],
)
def test_an_answer_has_finished_where_the_server_says_so(word: str, reason: str, said: str) -> None:
    heard, outcome, failed = answer(HI + choice({}, word) + DONE)
    assert (heard, outcome.reason) == ("Hi there", reason)
    assert said in failed + outcome.doubt
    assert bool(said) == bool(failed + outcome.doubt)


@pytest.mark.parametrize(
    ("body", "text", "said"),
    [
        (choice({"role": "assistant"}) + STOP, "", "ended the answer without any text. Send the message again"),
        (DONE, "", "ended the answer without any text"),
        (choice({}, "length") + DONE, "", "came to its limit of tokens before it sent any text. Raise max_tokens."),
        (choice({}, "abort") + DONE, "", "broke the answer off (abort). Send the message again."),
        (choice({"content": [{"type": "text", "text": "Hi"}]}) + STOP, "", "without any text"),
        (choice({"content": " \n"}) + STOP, " \n", "without any text"),
        (HI + STOP + event({"error": {"message": "no usage", "code": 500}}), "Hi there", "After the answer, fake:1 told an e"),
        (HI + choice({}, "error") + event({"error": {"message": "gone"}}) + DONE, "Hi there", "failed (500: gone)"),
        (HI + event({"object": "error", "message": "gone", "code": 503}), "Hi there", "is not ready (503: gone)"),
        (HI + event({"detail": "gone"}), "Hi there", "failed (500: gone)"),
        (HI + event({"detail": [{"loc": ["body", "stop"], "msg": "gone"}]}), "Hi there", "(500: stop: gone)"),
        (HI + b"upstream connect error\n", "Hi there", "before the answer was complete (upstream connect error). What came is"),
        (event({"error": "gone"}), "", "failed (500: gone)"),
        (event({"error": {"message": "gone", "code": 429}}), "", "takes no more requests now (429: gone)"),
        (event({"error": {"message": "gone", "type": "server_error", "code": "down"}}), "", "failed (500: gone)"),
        (b'{"error": {"message": "gone"}}', "", 'no stream of an answer ({"error": {"message": "gone"}}). Check'),
        (b"<!doctype html>\n<title>Chat</title>", "", "is no stream of an answer (<!doctype html>). Check the address."),
        (b"upstream request timeout", "", "is no stream of an answer (upstream request timeout)"),
        (b"data: Hello\n\n", "", "is no stream of an answer (Hello). Check the address."),
        (b"", "", "ended the stream before the answer was complete"),
        (HI, "Hi there", "ended the stream before the answer was complete. What came is kept; check"),
        (HI + b'data: {"choices": [{"del\n\n', "Hi there", "cannot be read"),
        (HI + b"data: [1, 2]\n\n", "Hi there", "that cannot be read (not an object)"),
        (HI + b"data: " + b"[" * 100_000 + b"\n\n", "Hi there", "cannot be read"),
        (HI + b'data: {"choices": [{"del', "Hi there", "before the answer was complete"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_lost_or_wrong_is_said(body: bytes, text: str, said: str) -> None:
    heard, outcome, failed = answer(body)
    assert heard == text
    assert said in failed + outcome.doubt
    assert "\n" not in failed


OVERFLOWS = """\
This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens
max_tokens must be at least 1, got 0.
the request exceeds the available context size. try increasing the context size or enable context shift
The input (5000 tokens) is longer than the model's context length (4096 tokens)."""
OTHERS = """\
max_tokens=5000 cannot be greater than max_model_len=2048.
max_tokens is too large: 5000. This model supports at most 4096 completion tokens
Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000. Request too large
Invalid 'stop': array too long. Expected an array with maximum length 4
Conversation roles must alternate user/assistant/user/assistant/...
CUDA out of memory. Tried to allocate 2 GiB
Incorrect API key provided. The key is too long."""


def test_a_prompt_that_does_not_fit_is_told_as_that() -> None:
    shapes = ({"error": {"message": "{}"}}, {"error": "{}"}, {"object": "error", "message": "{}"}, {"detail": [{"msg": "{}"}]})
    for words, full in ((OVERFLOWS, True), (OTHERS, False)):
        for line in words.splitlines():
            bodies = [json.loads(json.dumps(shape).replace('"{}"', json.dumps(line))) for shape in shapes]
            assert [is_full(body) for body in bodies] == [full] * len(bodies), line
    for status in (400, 413, 422, 500):
        failed = answer(b'{"error": "the request exceeds the available context size"}', status=status)[2]
        assert "no longer fits in the context of fake:1" in failed
    assert is_full({"error": {"message": "no", "code": "context_length_exceeded"}})
    codes = (429, "429", True, 4290, None, "x")
    assert [status_of({"error": {"code": code}}) for code in codes] == [429] + [500] * 5


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (402, {"error": {"message": "gone", "code": 402}}, "has no credit left for this key (402: gone). Check the account"),
        (413, "<html>413 Request Entity Too Large</html>", "no longer fits in the context of fake:1"),
        (405, {"detail": "gone"}, "does not have what was asked for (405: gone). Check the address"),
        (408, "gone\nand more", "failed (408: gone). Send the message again"),
        (529, {"error": {"message": "gone"}}, "failed (529: gone)"),
        (400, {"error": {"message": {"detail": "gone"}}}, "refused the request (400: gone)"),
        (422, {"detail": [{"loc": ["body", "messages", 0], "msg": "gone"}]}, "(422: messages.0: gone)"),
        (204, "", "ended the stream before the answer was complete"),
        (503, {"message": "gone"}, "is not ready (503: gone)"),
    ],
)
def test_what_helps_depends_on_the_status(status: int, body: Any, said: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    assert said in answer(raw, status=status)[2]


@pytest.mark.parametrize("cut", [1, 3, 7, 100])
def test_events_are_whole_however_large_they_are_and_however_they_come(cut: int) -> None:
    whole = ': hm\r\nevent: x\r\ndata: {"a":\rdata: "🦊\u2028"}\n\r\ndata:[DONE]\n\n'.encode()
    reader = Reader()
    found = [each for at in range(0, len(whole), cut) for each in reader.take(whole[at : at + cut])]
    assert [*found, *reader.end()] == [{"a": "🦊\u2028"}, "[DONE]"]
    ids = {"prompt_token_ids": [100_000] * 400_000}  # 3.2 MB
    assert answer(event({"choices": [{"delta": {}}]} | ids) + HI + STOP)[0] == "Hi there"
    with pytest.raises(ValueError, match="an event of more than 10 bytes"):
        list(Reader(10).take(b"data: 12345"))
