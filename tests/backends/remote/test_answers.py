"""Answers of servers: cut into the runs that were really made, thoughts apart, nothing lost without a word, no hang."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specchat.backends import Sampling, UserError
from specchat.backends.remote.address import find_server
from specchat.backends.remote.bodies import UNKNOWN, Served, ServerRequest
from specchat.backends.remote.connection import is_context_full
from specchat.backends.remote.events import Counters, parse_chunk
from specchat.backends.remote.model import Patience, ServerModel, Taker, choose_cutter, connect
from specchat.backends.remote.runs import UNREPORTED, Certainty, Cutter, Outcome, RemoteRun
from specchat.backends.remote.thoughts import Parts

from ...cases import cases
from ...fakes.model_servers import (
    BREAK,
    DONE,
    FakeServer,
    Pass,
    Written,
    event,
    llama_server,
    of_words,
    serving,
    sglang,
    text_only,
    vllm,
)
from ...fakes.wires import ScriptedBody, ServerAnswer, always, hear

WORDS = st.sampled_from(["The", " fox", " saw", ",", "\n", " nine", ".", "ing"]).map(str.encode)
PIECES = st.sampled_from([b"a", b" b", *(bytes([byte]) for byte in "🦊é".encode())])


@st.composite
def answers(draw: st.DrawFn, words: st.SearchStrategy[bytes] = WORDS) -> Written:
    """An answer of some passes; the first is the prompt's and gives one token."""
    passes = [Pass((draw(words),))]
    for _ in range(draw(st.integers(1, 12))):
        tokens = tuple(draw(st.lists(words, min_size=1, max_size=9)))
        drafted = draw(st.integers(len(tokens) - 1, 10)) if len(tokens) > 1 or draw(st.booleans()) else 0
        passes.append(Pass(tokens, drafted))
    eos = draw(st.booleans())
    if eos:  # llama-server never accepts all that it drafted, and an end token with it
        passes[-1] = Pass(passes[-1].tokens, len(passes[-1].tokens) + 1 if passes[-1].drafted else 0)
    return Written(tuple(passes), eos)


def cut(
    stream: Iterable[bytes], drafts: bool | None = True, engine: str = "vLLM", certainty: Certainty = "exact"
) -> tuple[Outcome, list[RemoteRun]]:
    """Cut a stream into runs; each event comes 20 ms after the one before."""
    cutter: Cutter | None = None
    runs: list[RemoteRun] = []
    outcome, counters = Outcome(), Counters()
    for number, data in enumerate(stream):
        body = data.decode().removeprefix("data: ").strip()
        if body == "[DONE]":
            break
        sent = json.loads(body)
        chunk = parse_chunk(sent)
        if chunk.text or chunk.ids:
            cutter = cutter or choose_cutter(chunk, Served(engine, "/v1", "m", drafts=drafts), outcome, certainty)
            runs += cutter.push(chunk, number * 0.02)
        if "usage" in sent and not chunk.text:
            counters.update(sent, chunk)
    assert cutter is not None
    runs += cutter.finish(counters)
    return outcome, runs


def lengths(runs: Iterable[RemoteRun]) -> list[int]:
    return [len(run.tokens) for run in runs if run.tokens]


def joined(runs: Iterable[RemoteRun]) -> str:
    return "".join(run.text for run in runs)


@cases(2000)
@given(written=answers())
def test_llama_server_is_cut_exactly(written: Written) -> None:
    outcome, runs = cut(llama_server(written))
    assert outcome.certainty == "exact"
    assert lengths(runs) == written.lengths
    assert joined(runs) == written.text
    assert [run.drafted for run in runs][: len(written.passes)] == [one.drafted for one in written.passes]
    assert sum(run.accepted for run in runs) == written.accepted
    assert (outcome.tokens, outcome.accepted) == (sum(written.lengths), written.accepted)


@cases(2000)
@given(written=answers(PIECES))
def test_llama_server_hides_passes_inside_characters(written: Written) -> None:
    assume(has_whole_character(written))
    outcome, runs = cut(llama_server(written))
    assert joined(runs) in written.text
    if outcome.certainty == "exact":
        assert lengths(runs) == written.lengths
    else:
        assert outcome.doubt.startswith(("Some tokens came without text", "The server counts"))


def has_whole_character(written: Written) -> bool:
    return any(b'"content": "' in data for data in llama_server(written))


@cases(2000)
@given(written=answers())
def test_vllm_is_proved_by_its_own_account(written: Written) -> None:
    outcome, runs = cut(vllm(written))
    assert (outcome.certainty, outcome.doubt) == ("exact", "")
    assert lengths(runs) == written.lengths
    assert joined(runs) == written.text
    assert outcome.drafted == written.drafted
    assert sum(run.accepted for run in runs) == written.accepted


@cases(2000)
@given(written=answers(), data=st.data())
def test_merged_chunks_of_vllm_are_found_out(written: Written, data: st.DataObject) -> None:
    assume(len(written.passes) > 2)
    merged = data.draw(st.lists(st.integers(2, len(written.passes) - 1), min_size=1, unique=True))
    outcome, runs = cut(vllm(written, merged))
    assert joined(runs) == written.text
    assert sum(lengths(runs)) == sum(written.lengths)
    # A claim of exactness holds: where nothing was accepted, merged passes are told from drafts by their number alone.
    assert outcome.certainty == "unknown"
    assert outcome.doubt


def test_vllm_is_believed_as_far_as_its_account_goes() -> None:
    stream = vllm(of_words("The", " fox ran away", " ."), detailed=False)
    outcome, runs = cut(stream)
    assert (outcome.certainty, outcome.silent, outcome.doubt) == ("unknown", True, UNREPORTED)
    assert [run.tokens for run in runs] == [[100], [101, 102, 103], [104]]
    assert cut(stream, certainty="unknown")[0].doubt == "", "it is said once"
    for merged, certainty in (((), "exact"), ((3,), "unknown")):
        stream = vllm(of_words("The", " fox ran away", " .", " It slept"), merged)
        *most, last, done = stream
        chunk = json.loads(last.decode().removeprefix("data: "))
        account = chunk["metrics"]["speculative_decoding"]
        del account["per_step_accepted"], account["per_step_drafted"]
        assert cut([*most, f"data: {json.dumps(chunk)}\n\n".encode(), done])[0].certainty == certainty
    outcome, runs = cut(vllm(of_words("The", " fox", " ran", drafted=0), merged=[2], detailed=False), drafts=False)
    assert (outcome.certainty, lengths(runs), joined(runs)) == ("exact", [1, 1, 1], "The fox ran")


def test_counters_of_other_servers_are_believed_unless_they_contradict_each_other() -> None:
    written = of_words("The", " fox ran", " over the hill", " .")
    outcome, runs = cut(sglang(written), engine="SGLang")
    assert (outcome.certainty, joined(runs)) == ("unknown", written.text)
    assert (outcome.tokens, outcome.steps, outcome.drafted, outcome.accepted) == (7, 4, 40, 20)
    written = of_words("The", " fox ran over", " the hill")
    stream = [data.replace(b'"draft_n_accepted": 2', b'"draft_n_accepted": 99') for data in llama_server(written)]
    outcome, runs = cut(stream)
    assert (outcome.certainty, outcome.doubt) == ("unknown", "The server's counters contradict each other.")
    assert joined(runs) == written.text
    huge = [data.replace(b'"predicted_n": 4', b'"predicted_n": 2000000000') for data in llama_server(written)]
    assert sum(lengths(cut(huge)[1])) < 10_000
    first, second = (bytes([byte]) for byte in "é".encode())
    written = Written((Pass((b"The",)), Pass((b" fox", first), 4), Pass((second,)), Pass((b" ran", b" on"), 3)), eos=False)
    outcome, runs = cut(llama_server(written))
    assert (lengths(runs), joined(runs), outcome.certainty) == ([1, 2, 1, 2], written.text, "exact")


@cases(2000)
@given(written=answers(PIECES))
def test_text_alone_is_never_lost(written: Written) -> None:
    assume(has_whole_character(written))
    outcome, runs = cut(text_only(written), drafts=None)
    assert outcome.certainty == "unknown"
    assert joined(runs) in written.text


ASK = ServerRequest([{"role": "user", "content": "hi"}])


def choice(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    """An event with a part of the answer; what else stands in the choice."""
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]})


HI = choice({"content": "Hi"}) + choice({"content": " there"})
STOP = choice({}, "stop") + DONE


def whole_answer(body: bytes, status: int = 200) -> tuple[str, Outcome, str]:
    """Text, outcome, and the sentence that it ended with, of a server whose whole answer is this."""
    heard, _ = hear(lambda _: (status, ScriptedBody(body)), ASK)
    return heard.text, heard.outcome, heard.failed


SHAPES: list[tuple[bytes, str]] = [
    (choice({"role": "assistant", "content": None}) + HI + STOP, "Hi there"),
    (choice({"reasoning": "Hm", "reasoning_content": "Hm"}) + HI + STOP, "HmHi there"),
    (event({"choices": [{"text": "Hi there", "finish_reason": "stop"}]}), "Hi there"),
    ((HI + STOP).replace(b"\n", b"\r\n"), "Hi there"),
    (b": ping\n\n" + HI + b'data: {"type": "ping"}\n\ndata: {}\n\n' + STOP, "Hi there"),
    (choice({"content": "Hi"}) + STOP + choice({"content": " there"}), "Hi"),
    (HI + event({"choices": [], "usage": {"completion_tokens": 2}}) + STOP, "Hi there"),
    (choice({"content": "Hi \ud83e"}) + STOP, "Hi \ufffd"),
    (b'data: {"choices":[{"delta":{"content":"Hi there"}}],"usage":{"completion_tokens":Infinity}}\n\n' + STOP, "Hi there"),
    (event({"choices": [{"delta": {}}], "prompt_token_ids": [100_000] * 400_000}) + HI + STOP, "Hi there"),  # 3.2 MB
]


@pytest.mark.parametrize(("body", "text"), SHAPES, ids=range(len(SHAPES)))
def test_a_text_is_kept(body: bytes, text: str) -> None:
    heard, outcome, failed = whole_answer(body)
    assert (heard, outcome.reason, failed) == (text, "eos", "")


@pytest.mark.parametrize(("word", "reason", "sentence"), [
    ("stop", "eos", ""), ("tool_calls", "eos", ""), ("length", "length", ""), ("load", "load", ""),
    *((word, "", f"broke the answer off ({word}). What came is kept; send") for word in ("abort", "error", "content_filter")),
])  # fmt: skip
def test_an_answer_has_finished_where_the_server_says_so(word: str, reason: str, sentence: str) -> None:
    heard, outcome, failed = whole_answer(HI + choice({}, word) + DONE)
    assert (heard, outcome.reason) == ("Hi there", reason)
    assert sentence in failed
    assert bool(sentence) == bool(failed)


@pytest.mark.parametrize(
    ("body", "text", "sentence"),
    [
        (choice({"role": "assistant"}) + STOP, "", "ended the answer without any text. Send the message again"),
        (choice({}, "length") + DONE, "", "came to its limit of tokens before it sent any text. Raise max_tokens."),
        (choice({"content": [{"type": "text", "text": "Hi"}]}) + STOP, "", "without any text"),
        (HI + choice({}, "error") + event({"error": {"message": "gone"}}) + DONE, "Hi there", "failed (500: gone)"),
        (HI + event({"object": "error", "message": "gone", "code": 503}), "Hi there", "is not ready (503: gone)"),
        (event({"error": "gone"}), "", "failed (500: gone)"),
        (event({"error": {"message": "gone", "type": "server_error", "code": "down"}}), "", "failed (500: gone)"),
        (b"data: Hello\n\n", "", "sent an event that cannot be read (Expecting value"),
        (b"", "", "ended the stream before the answer was complete"),
        (HI, "Hi there", "ended the stream before the answer was complete. What came is kept; send"),
        (HI + b'data: {"choices": [{"del\n\n', "Hi there", "sent an event that cannot be read (Unterminated"),
        (HI + b"data: [1, 2]\n\n", "Hi there", "sent an event that cannot be read (it is not an object)"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_lost_or_wrong_is_said(body: bytes, text: str, sentence: str) -> None:
    heard, outcome, failed = whole_answer(body)
    assert heard == text
    assert sentence in failed + outcome.doubt
    assert "\n" not in failed


def test_what_is_no_stream_is_shown() -> None:
    for body, shown in (("<!doctype html>\n<title>Chat</title>", "<!doctype html>"), ({"error": {"message": "gone"}}, "gone")):
        heard, _ = hear(always(200, body, {"Content-Type": "text/html"}), ASK)
        assert heard.failed == f"fake:1 sent something that is no stream of an answer ({shown}). Check the address."


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
            assert [is_context_full(body) for body in bodies] == [full] * len(bodies), line
    for status in (400, 413, 422, 500):
        failed = whole_answer(b'{"error": "the request exceeds the available context size"}', status=status)[2]
        assert "no longer fits in the context of fake:1" in failed
    assert is_context_full({"error": {"message": "no", "code": "context_length_exceeded"}})


@pytest.mark.parametrize(("status", "body", "sentence"), [
    (402, {"error": {"message": "gone", "code": 402}}, "refused the request (402: gone)."),
    (405, {"detail": "gone"}, "does not have what was asked for (405: gone). Check the address"),
    (529, "gone\nand more", "failed (529: gone). Send the message again"),
    (422, {"detail": [{"loc": ["body", "messages", 0], "msg": "gone"}]}, "refused the request (422: gone)"),
    (204, "", "ended the stream before the answer was complete"), (503, {"message": "gone"}, "is not ready (503: gone)"),
])  # fmt: skip
def test_what_helps_depends_on_the_status(status: int, body: Any, sentence: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    assert sentence in whole_answer(raw, status=status)[2]


REAL = [json.loads(line) for line in Path(__file__).with_name("real_streams.jsonl").read_text(encoding="utf-8").splitlines()]


def said(*deltas: dict[str, Any], **more: Any) -> bytes:
    events = [event({"choices": [{"index": 0, "delta": delta}], **more}) for delta in deltas]
    return b"".join(events) + event({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


def parted(body: bytes | list[Any], engine: str = UNKNOWN) -> tuple[str, str, ServerAnswer, ServerModel]:
    """Thought and answer of a stream, or of its parts; what was heard, and the model that was asked."""
    parts = [body] if isinstance(body, bytes) else body
    heard, model = hear(lambda _: (200, ScriptedBody(*parts), {"Content-Type": "text/event-stream"}), ASK, engine)
    pieces = ["", ""]
    for run in heard.runs:
        at = 0
        for part, characters, _ in run.spans or [[0, len(run.text), len(run.tokens)]]:
            pieces[part] += run.text[at : at + characters]
            at += characters
        assert at == len(run.text)
        assert not run.spans or sum(tokens for _, _, tokens in run.spans) == len(run.tokens)
    assert heard.outcome.tokens in (None, sum(len(run.tokens) for run in heard.runs))
    return pieces[1], pieces[0], heard, model


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_fields_of_all_engines(field: str) -> None:
    thought, text, _, model = parted(said({field: "H"}, {field: "m"}, {"content": "Hi"}))
    assert (thought, text, model.thought_field) == ("Hm", "Hi", field)


TAGGED = {
    "<think>\nHm\n</think>\n\nHi": ("Hm", "Hi"), "\n[THINK]Hm[/THINK]Hi": ("Hm", "Hi"), "◁think▷Hm◁/think▷Hi": ("Hm", "Hi"),
    "A <think> tag": ("", "A <think> tag"), "<thin": ("", "<thin"), "<b>Hi</b>": ("", "<b>Hi</b>"), "<think>Hm": ("Hm", ""),
}  # fmt: skip
"""Content with tags at its start → thought and answer."""
FIELDS = {
    "\nHm,\n\nso.\n|\n\nHi\n\n!": ("Hm,\n\nso.", "Hi\n\n!"),  # vLLM
    "Hm.\n|Hi": ("Hm.", "Hi"),  # llama-server
    "Hm\n": ("Hm\n", ""),  # cut in the thought
    "\n|\n\n\nHi": ("", "\nHi"),
}
"""Reasoning and content in two fields → thought and answer. Line breaks next to marks are the template's."""


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_a_thought_is_parted_however_its_stream_is_cut(size: int) -> None:
    for sent, expected in (TAGGED | FIELDS).items():
        before, _, behind = sent.partition("|") if sent in FIELDS else ("", "", sent)
        deltas = [{"reasoning": before[i : i + size]} for i in range(0, len(before), size)]
        deltas += [{"content": behind[i : i + size]} for i in range(0, len(behind), size)]
        assert parted(said(*deltas))[:2] == expected, sent


@pytest.mark.parametrize("row", REAL, ids=[f"{row['engine']} {row['flags']}" for row in REAL])
@cases(100, 12)
@given(data=st.data())
def test_streams_of_real_servers(row: dict[str, Any], data: st.DataObject) -> None:
    """Streams captured from llama-server 0.5.0 (build 0c1e570) and vLLM 0.32.0, cut anywhere, give the answer without streaming
    and the server's own account; one that ends too early keeps what came whole."""
    body = b"".join(map(event, row["events"])) + b"data: [DONE]\n\n"
    if data.draw(st.booleans()):
        body = body.replace(b"\n", b"\r\n")
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=20)))]
    parts: list[Any] = [body[a:b] for a, b in zip(cuts, [*cuts[1:], len(body)], strict=True)]
    ended = data.draw(st.sampled_from(["well", "well", "early", "reset", "garbage"]))
    if ended == "well":
        thought, text, heard, _ = parted(parts, row["engine"])
        outcome = heard.outcome
        assert heard.failed == ""
        assert (thought, text) == (row["thought"], row["text"])
        assert (outcome.tokens, outcome.drafted, outcome.accepted) == (row["tokens"], row["drafted"], row["accepted"])
        hidden = outcome.doubt.startswith(
            "Some tokens came without text (parts of a character, marks of a thought, white space"
        )
        assert (outcome.certainty, hidden) == (("unknown", True) if row["flags"] == "a schema" else ("exact", False))
        return
    ends: dict[str, list[Any]] = {"reset": [httpx2.ReadError("")], "garbage": [b"\n\ndata: {]\n\n"], "early": []}
    parts = [*parts[:-1], *ends[ended]]
    heard = parted(parts, row["engine"])[2]
    assert "\n" not in heard.failed
    assert heard.failed or b'"finish_reason": "' in b"".join(part for part in parts if isinstance(part, bytes))
    whole = row["thought"] + row["text"]
    assert whole.startswith(heard.text[: len(row["thought"])])


def test_runs_without_thoughts_say_nothing_of_parts() -> None:
    parts = Parts()
    assert parts.push("", "Hi") == "Hi"
    assert parts.spans(2, 1) == []
    parts = Parts()
    assert parts.push("Hmm", "") + parts.push("", "Hi!") == "HmmHi!"
    assert parts.spans(6, 4) == [[1, 3, 2], [0, 3, 2]]
    assert parts.spans(0, 1) == [[0, 0, 1]]


WRITTEN = of_words("The", " lighthouse stood on", " the northern rock .", " Every", " evening Ana climbed it .")
STREAMS: dict[str, Callable[[Written], list[bytes]]] = {
    "llama-server": llama_server,
    "vLLM": vllm,
    "SGLang": sglang,
    "OpenAI-compatible": text_only,
}
EXACT = ("llama-server", "vLLM")
"""Engines that tell their passes."""


arrived = threading.Event()
"""Set once a run has come."""


def model_of(loop: asyncio.AbstractEventLoop, fake: FakeServer, patience: Patience | None = None, **table: Any) -> ServerModel:
    address = find_server("fake", {"fake": {"url": fake.url, **table}})
    assert address is not None
    return loop.run_until_complete(connect(address, patience))


def taker(heard: ServerAnswer) -> Taker:
    def take(run: RemoteRun) -> None:
        heard.runs.append(run)
        arrived.set()

    return Taker(take, lambda *_: None)


def ask(loop: asyncio.AbstractEventLoop, model: ServerModel, request: ServerRequest = ASK) -> ServerAnswer:
    heard = ServerAnswer()
    try:
        loop.run_until_complete(asyncio.wait_for(model.answer(request, taker(heard), heard.outcome), 20))
    except UserError as error:
        heard.failed = str(error)
    return heard


@pytest.mark.parametrize("engine", STREAMS)
def test_each_engine_is_found_out_and_heard(loop: asyncio.AbstractEventLoop, engine: str) -> None:
    with serving(engine, STREAMS[engine](WRITTEN)) as fake:
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
    ([60.0], "sent nothing for 0 s, so the stream was closed. Send"),
    ([*llama_server(WRITTEN)[:5], 60.0], "sent nothing for 1 s, so the stream was closed. What came is kept"),
    # What has not been read is lost when the connection is reset.
    ([*llama_server(WRITTEN)[:5], lambda: arrived.wait(60), BREAK], "broke the answer off"),
    ([BREAK], "broke the answer off"),
]


@pytest.mark.parametrize(("stream", "sentence"), STALLS, ids=[sentence[:30] for _, sentence in STALLS])
def test_what_goes_wrong_in_a_stream_is_one_sentence_and_the_next_answer_comes(
    loop: asyncio.AbstractEventLoop, stream: list[Any], sentence: str
) -> None:
    arrived.clear()
    with serving("llama-server", stream) as fake:
        stalls = Patience(first=60 if len(stream) > 4 else 0.3, next=1)
        model = model_of(loop, fake, stalls if 60.0 in stream else None)
        heard = ask(loop, model)
        assert sentence in heard.failed
        assert "\n" not in heard.failed
        if len(stream) > 4:
            assert heard.text
            assert WRITTEN.text.startswith(heard.text)
        fake.stream = llama_server(WRITTEN)
        model.patience = Patience()
        heard = ask(loop, model)
        loop.run_until_complete(model.close())
    assert (heard.text, heard.failed) == (WRITTEN.text, "")


def test_cancelling_closes_the_stream_and_the_server_sees_it(loop: asyncio.AbstractEventLoop) -> None:
    async def cancelled(model: ServerModel, fake: FakeServer) -> None:
        heard = ServerAnswer()
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
        assert "redirects to" in ask(loop, model).failed
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
            "model": "small", "prompt": "Once", "temperature": 0.5, "top_p": 0.9, "seed": 3, "max_tokens": 20, "stop": ["\n"],
        }  # fmt: skip
        assert body.items() <= fake.asked[-1][2].items()
        ask(loop, model, ServerRequest(ASK.messages, sampling=Sampling(top_k=4)))
        assert fake.asked[-1][2]["top_k"] == 4
        with pytest.raises(UserError, match="has no model smal: did you mean small"):
            model_of(loop, fake, model="smal")
        noted = model_of(loop, fake)
        assert "serves 2 models; this is big" in noted.info.notes[0]
        for opened in (model, noted):
            loop.run_until_complete(opened.close())


@pytest.mark.parametrize(("engine", "speculates", "method"), [
    ("llama-server", True, "ngram-simple"), ("llama-server", False, "plain"), ("vLLM", True, "speculation K=10"),
    ("vLLM", False, "plain"), ("SGLang", True, "eagle3 K=4"), ("OpenAI-compatible", True, "server"),
])  # fmt: skip
def test_the_method_is_what_the_server_says(
    loop: asyncio.AbstractEventLoop, engine: str, speculates: bool, method: str
) -> None:
    with serving(engine, speculates=speculates) as fake:
        model = model_of(loop, fake)
        loop.run_until_complete(model.close())
    assert model.method == method


def test_vllm_is_told_once_to_tell_its_passes(loop: asyncio.AbstractEventLoop) -> None:
    with serving("vLLM", vllm(WRITTEN, detailed=False)) as fake:
        model = model_of(loop, fake)
        answers = []
        for fresh in (False, False, True, True):
            fake.stream = vllm(WRITTEN, detailed=fresh)
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
    new = asyncio.new_event_loop()
    yield new
    new.close()
