"""Thoughts of servers: apart in every run however an engine tells them, and sent back as it takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.remote.bodies import ServerRequest, body_of
from specchat.backends.remote.dialects import LLAMA_SERVER, OLLAMA, SGLANG, UNKNOWN, VLLM
from specchat.backends.remote.identify import Served
from specchat.backends.remote.model import ServerModel
from specchat.backends.remote.thoughts import Parts
from specchat.engine.messages import Generate
from specchat.engine.remote import make_server_request
from specchat.errors import UserError

from ...cases import cases
from ...fakes.model_servers import event
from ...fakes.wires import Fed, Heard, hear

REAL = [json.loads(line) for line in Path(__file__).with_name("real_streams.jsonl").read_text(encoding="utf-8").splitlines()]

ASK = ServerRequest([{"role": "user", "content": "hi"}])
BACK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Hi", "thought": "Hm"},
    {"role": "user", "content": "?"},
]


def said(*deltas: dict[str, Any], **more: Any) -> bytes:
    """A stream of these parts of an answer."""
    events = [event({"choices": [{"index": 0, "delta": delta}], **more}) for delta in deltas]
    return b"".join(events) + event({"choices": [{"delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


def request_of(engine: str, request: ServerRequest, under: str = "") -> dict[str, Any]:
    """The body that a server of this engine gets."""
    return body_of(Served(engine, "/v1", "m"), request, under)[1]


def parted(body: bytes | list[Any], engine: str = UNKNOWN) -> tuple[str, str, Heard, ServerModel]:
    """Thought and answer of a stream, or of its parts; what was heard, and the model that was asked."""
    parts = [body] if isinstance(body, bytes) else body
    heard, model = hear(lambda _: (200, Fed(*parts), {"Content-Type": "text/event-stream"}), ASK, engine)
    told = ["", ""]
    for run in heard.runs:
        at = 0
        for part, characters, _ in run.spans or [[0, len(run.text), len(run.tokens)]]:
            told[part] += run.text[at : at + characters]
            at += characters
        assert at == len(run.text)
        assert not run.spans or sum(tokens for _, _, tokens in run.spans) == len(run.tokens)
    assert heard.outcome.tokens in (None, sum(len(run.tokens) for run in heard.runs))
    return told[1], told[0], heard, model


STREAMS: dict[str, list[dict[str, Any]]] = {
    "reasoning_content": [{"reasoning_content": "H"}, {"reasoning_content": "m"}, {"content": "Hi"}],
    "reasoning": [{"reasoning": "Hm"}, {"content": "Hi"}],
}


@pytest.mark.parametrize("field", STREAMS)
def test_fields_of_all_engines(field: str) -> None:
    """And a thought goes back to an unknown server under the name that it came under."""
    thought, text, _, model = parted(said(*STREAMS[field]))
    assert (thought, text, model.thoughts_under) == ("Hm", "Hi", field)
    back = request_of(UNKNOWN, ServerRequest(BACK), model.thoughts_under)["messages"][1]
    assert back == {"role": "assistant", "content": "Hi", field: "Hm"}


@pytest.mark.parametrize("cut", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("content", "thought", "text"),
    [
        ("<think>\nHm\n</think>\n\nHi", "Hm", "Hi"),
        ("\n[THINK]Hm[/THINK]Hi", "Hm", "Hi"),
        ("◁think▷Hm◁/think▷Hi", "Hm", "Hi"),
        ("A <think> tag", "", "A <think> tag"),
        ("<thin", "", "<thin"),
        ("<b>Hi</b>", "", "<b>Hi</b>"),
        ("<think>Hm", "Hm", ""),
    ],
)
def test_tags_at_the_start_of_the_content(content: str, thought: str, text: str, cut: int) -> None:
    parts = [{"content": content[i : i + cut]} for i in range(0, len(content), cut)]
    assert parted(said(*parts))[:2] == (thought, text)


@pytest.mark.parametrize("row", REAL, ids=[f"{row['engine']} {row['flags']}" for row in REAL])
@cases(100, 12)
@given(data=st.data())
def test_streams_of_real_servers(row: dict[str, Any], data: st.DataObject) -> None:
    """As llama-server 0.5.0 (build 0c1e570) and vLLM 0.32.0 sent them, with speculation, cut anywhere: `text`, `thought` and
    `tokens` are those of the answer without streaming, `drafted` and `accepted` the server's own account. Of one that ends too
    early all that came whole is there, and one sentence says what is lacking."""
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


@pytest.mark.parametrize("cut", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("sent", "thought", "text"),
    [
        ("\nHm,\n\nso.\n|\n\nHi\n\n!", "Hm,\n\nso.", "Hi\n\n!"),  # vLLM
        ("Hm.\n|Hi", "Hm.", "Hi"),  # llama-server
        ("Hm\n", "Hm\n", ""),  # cut in the thought
        ("\n|\n\n\nHi", "", "\nHi"),
    ],
)
def test_line_breaks_next_to_marks_are_the_templates(sent: str, thought: str, text: str, cut: int) -> None:
    before, _, behind = sent.partition("|")
    parts = [{"reasoning": before[i : i + cut]} for i in range(0, len(before), cut)]
    parts += [{"content": behind[i : i + cut]} for i in range(0, len(behind), cut)]
    assert parted(said(*parts))[:2] == (thought, text)


def test_runs_without_thoughts_say_nothing_of_parts() -> None:
    parts = Parts()
    assert parts.push("", "Hi") == "Hi"
    assert parts.spans(2, 1) == []
    parts = Parts()
    assert parts.push("Hmm", "") + parts.push("", "Hi!") == "HmmHi!"
    assert parts.spans(6, 4) == [[1, 3, 2], [0, 3, 2]]
    assert parts.spans(0, 1) == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("engine", "field"),
    [
        (LLAMA_SERVER, "reasoning_content"),
        (VLLM, "reasoning"),
        (SGLANG, "reasoning_content"),
        (OLLAMA, "reasoning"),
        (UNKNOWN, ""),
    ],
)
def test_a_thought_goes_back_where_the_engine_takes_it(engine: str, field: str) -> None:
    back = request_of(engine, ServerRequest(BACK))["messages"][1]
    assert back == {"role": "assistant", "content": "Hi"} | ({field: "Hm"} if field else {})


@pytest.mark.parametrize(
    ("engine", "think", "sent"),
    [
        (LLAMA_SERVER, "off", {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
        (LLAMA_SERVER, "high", {"chat_template_kwargs": {"reasoning_effort": "high"}}),
        (VLLM, "on", {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}),
        (VLLM, "low", {"reasoning_effort": "low"}),
        (OLLAMA, "off", {"reasoning_effort": "none"}),
        (UNKNOWN, "high", {"reasoning_effort": "high"}),
        (UNKNOWN, "", {}),
    ],
)
def test_a_word_goes_out_as_the_engine_takes_it(engine: str, think: str, sent: dict[str, Any]) -> None:
    request = make_server_request(Generate(1, prompt="hi", think=think))
    body = request_of(engine, request)
    assert {name: body[name] for name in ("chat_template_kwargs", "reasoning_effort") if name in body} == sent


def test_budgets_and_variables() -> None:
    request = make_server_request(
        Generate(1, prompt="hi", think="on", think_budget=9, template_vars={"enable_thinking": "maybe", "x": 1})
    )
    body = request_of(LLAMA_SERVER, request)
    assert body["thinking_budget_tokens"] == 9
    assert body["chat_template_kwargs"] == {"enable_thinking": "maybe", "thinking": True, "x": 1}
    for wrong in ({"think_budget": 9}, {"template_vars": {"x": 1}}):
        with pytest.raises(UserError, match="Leave out"):
            request_of(UNKNOWN, make_server_request(Generate(1, prompt="hi", **wrong)))
