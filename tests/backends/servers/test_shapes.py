"""Answers and errors in the shapes of every engine and gateway: nothing is lost without a word, nothing broken off passes for
finished, and a prompt that does not fit is told as that."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from specchat.backends import UserError
from specchat.backends.servers.bodies import ServerRequest
from specchat.backends.servers.events import Event, Reader
from specchat.backends.servers.identify import Served
from specchat.backends.servers.model import ServerModel
from specchat.backends.servers.refusals import is_full, status_of
from specchat.backends.servers.stream import Outcome, Taker

from ...fakes.model_servers import event
from ...fakes.wires import Fed, wired

ASK = ServerRequest([{"role": "user", "content": "hi"}])
DONE = b"data: [DONE]\n\n"


def choice(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    """An event with a part of the answer; what else stands in the choice."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


HI = choice({"content": "Hi"}) + choice({"content": " there"})
STOP = choice({}, "stop") + DONE


def answer(
    body: bytes | list[Any], engine: str = "OpenAI-compatible", request: ServerRequest = ASK, context: int = 0, **more: Any
) -> tuple[str, Outcome, str]:
    """Text, outcome, and the sentence that it ended with, of a server whose whole answer is this."""
    texts, outcome = list[str](), Outcome()
    headers = {"Content-Type": more.pop("kind", "text/event-stream"), **more.pop("headers", {})}

    async def go() -> str:
        parts = Fed(*(body if isinstance(body, list) else [body]))
        wire = wired(lambda _: (more.get("status", 200), parts, headers))
        model = ServerModel(wire, Served(engine, "/v1", "m", context=context), more.get("patience"))
        try:
            await model.answer(request, Taker(lambda run: texts.append(run.text), lambda *_: None), outcome)
        except UserError as error:
            return str(error)
        finally:
            await model.close()
        return ""

    failed = asyncio.run(go())
    return "".join(texts), outcome, failed


def part(*parts: Any) -> bytes:
    return choice({"content": list(parts)})


TEXT = {"type": "text", "text": "Hi there"}
WHOLE = {"object": "chat.completion", "choices": [{"message": {"content": "Hi there"}, "finish_reason": "stop"}]}
THOUGHT = "HmHi there"
"""Which of it is which: test_thoughts.py."""
SHAPES: list[tuple[bytes, str]] = [
    (part(TEXT) + STOP, "Hi there"),
    (part("Hi", " there") + STOP, "Hi there"),
    (choice({"content": TEXT}) + STOP, "Hi there"),
    (choice({"content": {"parts": [{"text": "Hi"}, {"text": " there"}]}}) + STOP, "Hi there"),
    (part({"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}) + HI + STOP, THOUGHT),
    (part({"type": "thinking", "thinking": "Hm"}, TEXT) + STOP, THOUGHT),
    (choice({"reasoning": "Hm", "reasoning_content": "Hm"}) + HI + STOP, THOUGHT),
    (choice({"reasoning_details": [{"type": "reasoning.summary", "summary": "Hm"}]}) + HI + STOP, THOUGHT),
    (choice({"thinking": "Hm"}) + HI + STOP, THOUGHT),
    (choice({"refusal": "Hi"}) + choice({"content": None, "refusal": " there"}) + STOP, "Hi there"),
    (choice({"audio": {"transcript": "Hi there"}}) + STOP, "Hi there"),
    (choice("Hi there") + STOP, "Hi there"),
    (event({"choices": [{"text": "Hi there", "finish_reason": "stop"}]}), "Hi there"),
    (event(WHOLE) + DONE, "Hi there"),
    (HI + event(WHOLE) + DONE, "Hi there"),
    (choice({"content": "Hi"}) + event(WHOLE) + DONE, "Hi there"),
    (
        event({"choices": [{"message": {"content": "Hi"}}]}) + event({"choices": [{"message": {"content": " there"}}]}) + STOP,
        "Hi there",
    ),
    (
        event({"choices": [{"index": 1, "delta": {"content": "No"}}, {"index": 0, "delta": {"content": "Hi"}}]})
        + event({"choices": [{"index": 1, "delta": {"content": "No"}, "finish_reason": "length"}]})
        + choice({"content": " there"})
        + STOP,
        "Hi there",
    ),
    (event({"message": {"role": "assistant", "content": "Hi there"}, "done": True, "done_reason": "stop"}), "Hi there"),
    (event({"response": "Hi there", "done": False}) + event({"response": "", "done": True}), "Hi there"),
    (event({"content": "Hi there", "stop": False}) + event({"content": "", "stop": True, "stop_type": "eos"}), "Hi there"),
    (json.dumps(WHOLE).encode(), "Hi there"),
    (json.dumps(WHOLE, indent=2).encode(), "Hi there"),
    (b"\xef\xbb\xbf\n\n\n" + json.dumps(WHOLE, indent=2).encode() + b"\n", "Hi there"),
    (b"\n".join(line.removeprefix(b"data: ") for line in (HI + STOP).splitlines()), "Hi there"),
    ((HI + STOP).replace(b"\n\n", b"\n"), "Hi there"),
    ((HI + STOP).replace(b"\n", b"\r"), "Hi there"),
    (HI.replace(b"data: ", b"event: message\nid: 7\ndata:") + STOP, "Hi there"),
    (b"event: ping\ndata: ping\n\n" + HI + b"data: null\n\ndata: \n\n: hm\n\n" + STOP, "Hi there"),
    (HI + b'data: {"type": "ping"}\n\ndata: {}\n\n' + STOP, "Hi there"),
    (json.dumps([json.loads(line[6:]) for line in (HI + choice({}, "stop")).splitlines() if line]).encode(), "Hi there"),
    (choice({"content": "Hi"}) + STOP + choice({"content": " there"}), "Hi there"),
    (choice({"content": "Hi"}) + STOP.replace(b"[DONE]", b'"[DONE]" ') + choice({"content": " there"}), "Hi there"),
    (b"".join(choice({"content": word}, "null") for word in ("Hi", " there")) + STOP, "Hi there"),
    (choice({"content": "Hi"}, "stop") + choice({"content": " there"}, "stop") + DONE, "Hi there"),
    (choice({"content": "Hi \ud83e"}) + choice({"content": "\udd8a"}) + STOP, "Hi 🦊"),
    (choice({"content": "Hi \ud83e"}) + STOP, "Hi \ufffd"),
    (choice({"content": "Hi\udd8a there"}) + STOP, "Hi\ufffd there"),
    (choice({"content": "7"}) + choice({"content": 7}) + STOP, "77"),
    ((HI + STOP).replace(b"data:", b"DATA :"), "Hi there"),
    ((HI + STOP).replace(b"data:", b" data: data:"), "Hi there"),
    ((HI + choice({}, "stop")).replace(b"}\n\n", b"}").replace(b"}data: ", b"}"), "Hi there"),
    (HI.replace(b"Hi", b"Hi\t").replace(b" there", b"there") + STOP, "Hi\tthere"),
    (b"data: ok\n\n" + HI + choice({}, "stop") + b"event: done\ndata: done\n\n", "Hi there"),
    (HI + choice({}, "stop") + b"event: complete\ndata: fine\n\n", "Hi there"),
    (
        event({"choices": [{"index": 1, "delta": {"content": "Hi"}}]})
        + event({"choices": [{"delta": {"content": " there"}}]})
        + STOP,
        "Hi there",
    ),
    (b'data: {"choices": [{"delta": {"content":\ndata:  "Hi there"}}]}\n\n' + STOP, "Hi there"),
    (b'data: {"choices":[{"delta":{"content":"Hi there"}}],"usage":{"completion_tokens":Infinity}}\n\n' + STOP, "Hi there"),
]


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize(("body", "text"), SHAPES, ids=range(len(SHAPES)))
def test_a_text_is_kept_in_whatever_shape_it_comes(body: bytes, text: str, kind: str) -> None:
    heard, outcome, failed = answer(body, kind=kind)
    assert (heard, outcome.reason, failed) == (text, "eos", "")


FINISHED = "stop eos eos_token STOP end_turn COMPLETE eosFound FINISH_REASON_STOP tool_calls"
LIMITS = "length max_tokens MAX_TOKENS model_length max_output_tokens maxPredictedTokensReached"
BROKEN = "abort time_limit error cancelled insufficient_system_resource USER_CANCEL ERROR_LIMIT network_error modelUnloaded"
FILTERED = "content_filter SAFETY RECITATION guardrail_intervened ERROR_TOXIC sensitive refusal"


@pytest.mark.parametrize(
    ("word", "reason", "said"),
    [
        *((word, "eos", "") for word in FINISHED.split()),
        *((word, "length", "") for word in LIMITS.split()),
        *((word, "stop", "") for word in ("stop_sequence", "STOP_SEQUENCE")),
        *((word, "context", "") for word in ("model_context_window_exceeded", "contextLengthReached")),
        *((word, "", f"broke the answer off ({word}). What came is kept; send the") for word in BROKEN.split()),
        *((word, "", f"stopped the answer ({word}). What came is kept; ask in other words.") for word in FILTERED.split()),
        ("load", "load", "a reason for the end that specchat does not know: load."),
        ({"type": "stop"}, "eos", ""),
        (["stop"], "eos", ""),
        ("FinishReason.STOP", "eos", ""),
        (7, "7", "a reason for the end that specchat does not know: 7."),
        ("x" * 500 + "\n", "x" * 40, "does not know: " + "x" * 40),
    ],
)
def test_an_answer_has_finished_where_the_server_says_so(word: Any, reason: str, said: str) -> None:
    heard, outcome, failed = answer(HI + choice({}, word) + DONE, engine="vLLM")
    assert (heard, outcome.reason) == ("Hi there", reason)
    assert said in failed + outcome.doubt
    assert bool(said) == bool(failed + outcome.doubt)


@pytest.mark.parametrize(
    ("body", "text", "said"),
    [
        (choice({"role": "assistant"}) + STOP, "", "ended the answer without any text. Send the message again"),
        (DONE, "", "ended the answer without any text"),
        (choice({}, "length") + DONE, "", "came to its limit of tokens before it sent any text. Raise max_tokens."),
        (choice({}, "content_filter") + DONE, "", "stopped the answer (content_filter). Ask in other words."),
        (choice({}, "abort") + DONE, "", "broke the answer off (abort). Send the message again."),
        (choice({"content": [{"type": "image_url", "image_url": {}}]}) + STOP, "", "without any text"),
        (choice({"tool_calls": [{"function": {"name": "look", "arguments": ""}}]})
         + choice({"tool_calls": [{"function": {"arguments": '{"at": "x"}'}}]}, "tool_calls") + DONE,
         'look {"at": "x"}', "calls a tool, look, and specchat has none."),
        (choice({"function_call": {"name": "look", "arguments": {"at": "x"}}}) + STOP, 'look {"at": "x"}', "calls a tool"),
        (HI + STOP + event({"error": {"message": "no usage", "code": 500}}), "Hi there", "After the answer, fake:1 told an e"),
        (HI + choice({}, "error", error={"message": "gone", "code": 502}) + DONE, "Hi there", "failed (502: gone)"),
        (HI + choice({}, "error") + event({"error": {"message": "gone"}}) + DONE, "Hi there", "failed (500: gone)"),
        (HI + choice({"error": {"message": "gone"}}) + DONE, "Hi there", "failed (500: gone)"),
        (choice({"content": " \n"}) + STOP, " \n", "without any text"),
        (choice({"tool_calls": [{"function": {"name": "a", "arguments": "{}"}}, {"function": {"name": "b"}}]}) + STOP,
         "a {}\nb ", "calls a tool, a, b, and"),
        (HI + event({"object": "error", "message": "gone", "code": 503}), "Hi there", "is not ready (503: gone)"),
        (HI + event({"detail": "gone"}), "Hi there", "failed (500: gone)"),
        (HI + event({"detail": [{"loc": ["body", "stop"], "msg": "gone"}]}), "Hi there", "(500: stop: gone)"),
        (HI + b'event: error\ndata: {"message": "gone"}\n\n', "Hi there", "failed (500: gone)"),
        (HI + b"event: error\ndata: gone\n\n", "Hi there", "failed (500: gone)"),
        (HI + b'error: {"message": "gone", "code": 500}\n\n', "Hi there", "failed (500: gone)"),
        (HI + b'{"error": {"message": "gone"}}\n', "Hi there", "failed (500: gone)"),
        (HI + b"upstream connect error\n", "Hi there", "before the answer was complete (upstream connect error). What came is"),
        (event({"choices": None, "base_resp": {"status_code": 1004, "status_msg": "gone"}}), "", "failed (500: gone)"),
        (event({"error": "gone"}), "", "failed (500: gone)"),
        (event({"error": True, "message": "gone"}), "", "failed (500: gone)"),
        (event({"errors": [{"message": "gone"}, {"message": "too"}]}), "", "failed (500: gone; too)"),
        (event({"error": {"message": '{"error": {"message": "gone", "code": 404}}'}}), "", "(500: gone)"),
        (event({"error": {"message": "no", "code": 429, "metadata": {"raw": "gone"}}}), "", "requests now (429: no: gone)"),
        (event({"error": {"message": "gone", "code": "429"}}), "", "takes no more requests now (429: gone)"),
        (event({"error": {"message": "gone", "type": "rate_limit_error"}}), "", "takes no more requests now (429: gone)"),
        (event({"error": {"message": "gone", "code": "invalid_api_key"}}), "", "wants a key (401)"),
        (event({"type": "error", "error": {"type": "overloaded_error", "message": "gone"}}), "", "is not ready (503: gone)"),
        (b'{"error": {"message": "gone"}}', "", "failed (500: gone)"),
        (b'[{"error": {"message": "gone", "code": 400}}]', "", "refused the request (400: gone)"),
        (b"<!doctype html>\n<title>Chat</title>", "", "is no stream of an answer (a web page). Check the address."),
        (b"upstream request timeout", "", "is no stream of an answer (upstream request timeout)"),
        (b"data: Hello\n\n", "", "is no stream of an answer (Hello). Check the address."),
        (b"", "", "ended the stream before the answer was complete"),
        (HI, "Hi there", "ended the stream before the answer was complete. What came is kept; check"),
        (HI + b'data: {"choices": [{"del\n\n', "Hi there", "cannot be read"),
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
The decoder prompt (length 5000) is longer than the maximum model length of 2048. Make sure that `max_model_len` is no smaller
max_tokens must be at least 1, got 0.
the request exceeds the available context size. try increasing the context size or enable context shift
Requested tokens (5000) exceed context window of 2048
Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096
Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100
Input validation error: `inputs` must have less than 4095 tokens. Given: 5000
prompt is too long: 210000 tokens > 200000 maximum
The input (5000 tokens) is longer than the model's context length (4096 tokens).
Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens).
The input token count (200000) exceeds the maximum number of tokens allowed (131072).
too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000.
Input is too long for requested model.
Please reduce the length of the messages or completion.
This model's maximum prompt length is 131072 but the request contains 140000 tokens.
Invalid request: Your request exceeded model token limit: 8192
Prompt exceeds max length
Prompt length 5000 is greater than max_seq_len 4096
Prompt contains 33000 tokens, too large for model with 32768 maximum context length
input length too long: InputLengthExceeded"""
OTHERS = """\
max_tokens=5000 cannot be greater than max_model_len=2048.
max_tokens is too large: 5000. This model supports at most 4096 completion tokens
Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000. Request too large
Invalid 'stop': array too long. Expected an array with maximum length 4
Conversation roles must alternate user/assistant/user/assistant/...
CUDA out of memory. Tried to allocate 2 GiB
Incorrect API key provided. The key is too long."""


def test_a_prompt_that_does_not_fit_is_told_as_that_in_the_words_of_any_engine() -> None:
    shapes = ({"error": {"message": "{}"}}, {"error": "{}"}, {"object": "error", "message": "{}"}, {"detail": [{"msg": "{}"}]})
    for words, full in ((OVERFLOWS, True), (OTHERS, False)):
        for line in words.splitlines():
            bodies = [json.loads(json.dumps(shape).replace('"{}"', json.dumps(line))) for shape in shapes]
            assert [is_full(body) for body in bodies] == [full] * len(bodies), line
    for status in (400, 413, 422, 500):
        failed = answer(b'{"error": "Requested tokens (5000) exceed context window of 2048"}', status=status)[2]
        assert "no longer fits in the context of fake:1" in failed
    assert is_full({"error": {"message": "no", "code": "context_length_exceeded"}})
    codes = (429, "429", 429.0, "429 Too Many Requests", True, 4290, None, "x")
    assert [status_of({"error": {"code": code}}) for code in codes] == [429] * 4 + [500] * 4


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (402, {"error": {"message": "gone", "code": 402}}, "has no credit left for this key (402: gone). Check the account"),
        (429, {"error": {"message": "gone", "code": "insufficient_quota"}}, "has no credit left for this key (429: gone)."),
        (413, "<html>413 Request Entity Too Large</html>", "no longer fits in the context of fake:1. Start a new chat"),
        (413, {"error": {"message": "Request too large on tokens per minute"}}, "takes no more requests now (429: Request"),
        (405, {"detail": "gone"}, "does not have what was asked for (405: gone). Check the address"),
        (408, "gone", "failed (408: gone). Send the message again"),
        (529, {"error": {"message": "gone"}}, "failed (529: gone)"),
        (400, [{"error": {"message": "gone"}}], "refused the request (400: gone)"),
        (400, {"errors": [{"message": "gone"}], "success": False}, "refused the request (400: gone)"),
        (400, {"error": {"message": {"detail": "gone"}}}, "refused the request (400: gone)"),
        (422, {"detail": [{"loc": ["body", "messages", 0], "msg": "gone"}]}, "(422: messages.0: gone)"),
        (204, "", "ended the stream before the answer was complete"),
        (503, {"message": "gone"}, "is not ready (503: gone)"),
    ],
)
def test_what_helps_depends_on_the_status(status: int, body: Any, said: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    assert said in answer(raw, status=status)[2]
    assert answer(HI + STOP, status=206)[0] == "Hi there"


@pytest.mark.parametrize("cut", [1, 3, 7, 100])
def test_events_are_whole_however_large_they_are_and_however_they_come(cut: int) -> None:
    whole = '\ufeff: hm\r\nevent: x\r\ndata: {"a":\rdata: "🦊\u2028"}\n\r\ndata:[DONE]\n\r\r{\n "b": 1\n}'.encode()
    reader = Reader()
    found = [each for at in range(0, len(whole), cut) for each in reader.take(whole[at : at + cut])]
    assert [*found, *reader.end()] == [Event({"a": "🦊\u2028"}, "x"), Event("[DONE]"), Event({"b": 1})]
    ids = {"prompt_token_ids": [100_000] * 400_000}  # 3.2 MB
    assert answer(event({"choices": [{"delta": {}}]} | ids) + HI + STOP)[0] == "Hi there"
    with pytest.raises(ValueError, match="an event of more than 10 bytes"):
        list(Reader(10).take(b"data: 12345"))
