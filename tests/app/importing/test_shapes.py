"""JSON of all kinds: what it is, is seen from its content."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.history.chats import Chats
from specchat.app.importing.run import Report
from specchat.app.saved.capture import capture
from specchat.app.saved.chat_json import chat_json
from specchat.engine.messages import Steps

from .conftest import said

Bring = Callable[..., Report]
Write = Callable[..., Path]

ASKED = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Which lamp?"}]
TALK = [*ASKED, {"role": "assistant", "content": "The first."}]
SAID = [("prompt", "Which lamp?"), ("answer", "The first.")]
SHARED = [
    {"from": "system", "value": "Be kind."},
    {"from": "human", "value": "Which lamp?"},
    {"from": "gpt", "value": "The first."},
]
COMPLETION = {
    "id": "chatcmpl-1",
    "created": 1_700_000_000,
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "The first."}, "finish_reason": "stop"}],
}


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({"messages": TALK}, id="fine-tuning"),
        pytest.param({"messages": ASKED, "response": "The first."}, id="messages and a response"),
        pytest.param({"messages": ASKED, "choices": COMPLETION["choices"]}, id="messages and choices"),
        pytest.param({"request": {"messages": ASKED}, "response": COMPLETION}, id="request and response"),
        pytest.param({"request": {"body": {"messages": ASKED}}, "response": {"body": COMPLETION}}, id="with bodies"),
        pytest.param({"request": json.dumps({"messages": ASKED}), "response": json.dumps(COMPLETION)}, id="bodies as text"),
        pytest.param({"custom_id": "1", "body": {"messages": ASKED}, "response": {"body": COMPLETION}}, id="batch, joined"),
        pytest.param({"prompt": "Which lamp?", "completion": "The first.", "system": "Be kind."}, id="prompt and completion"),
        pytest.param({"instruction": "Which lamp?", "input": "", "output": "The first.", "system": "Be kind."}, id="alpaca"),
        pytest.param({"conversations": SHARED}, id="ShareGPT"),
        pytest.param({"id": "x_0", "conversations": SHARED}, id="ShareGPT with an id"),
        pytest.param({"data": [{"messages": TALK}]}, id="wrapped"),
        pytest.param(TALK, id="a list of messages"),
        pytest.param(
            {
                "messages": [
                    {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
                    {"role": "user", "content": [{"type": "text", "text": "Which lamp?"}]},
                    {"role": "assistant", "content": [{"type": "output_text", "text": {"value": "The first."}}]},
                ]
            },
            id="parts",
        ),
        pytest.param(
            {
                "request": {"model": "gpt-5", "instructions": "Be kind.", "input": "Which lamp?"},
                "response": {
                    "output": [
                        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "The first."}]}
                    ]
                },
            },
            id="responses",
        ),
        pytest.param(
            {
                "uuid": "u",
                "name": "Lamps",
                "chat_messages": [
                    {"sender": "system", "text": "Be kind."},
                    {"sender": "human", "text": "Which lamp?", "content": []},
                    {"sender": "assistant", "content": [{"type": "text", "text": "The first."}]},
                ],
            },
            id="Claude",
        ),
    ],
)
def test_a_conversation_is_known_by_what_is_in_it(record: Any, bring: Bring, chats: Chats, write: Write) -> None:
    for name in ("whatever.txt", "lines"):
        path = write(name, record, *([] if name == "whatever.txt" else [record]))
        report = bring(path)
        assert report.problems() == []
    assert chats.count() == 1  # the same one each time
    chat = chats.open(1)
    assert said(chat) == SAID
    assert chat.transcript.system == "Be kind."


def test_a_batch_is_joined_whichever_file_comes_first(bring: Bring, chats: Chats, write: Write) -> None:
    asked = write(
        "in.jsonl", *({"custom_id": str(n), "method": "POST", "url": "/", "body": {"messages": ASKED}} for n in range(3))
    )
    answers = [{"id": f"b{n}", "custom_id": str(n), "response": {"status_code": 200, "body": COMPLETION}} for n in range(2)]
    failed = {"id": "b2", "custom_id": "2", "response": None, "error": {"message": "too many"}}
    report = bring(write("out.jsonl", *answers, failed), asked)
    assert chats.count() == 2
    assert [(bad.place, bad.why) for bad in report.bad] == [
        ("in.jsonl, line 3", 'has no answer: the request failed ({"message": "too many"})')
    ]
    assert chats.newest()[0].model == "gpt-4o"


def test_half_a_batch_says_what_is_missing(bring: Bring, write: Write) -> None:
    report = bring(write("out.jsonl", {"id": "b", "custom_id": "1", "response": {"body": COMPLETION}}))
    assert "out.jsonl, line 1 is one half of a batch: import the batch's input file together with it." in report.problems()


def test_several_choices_are_variants(bring: Bring, chats: Chats, write: Write) -> None:
    choices = [{"message": {"role": "assistant", "content": text}, "finish_reason": "length"} for text in ("One", "Two")]
    assert bring(write("x", {"request": {"messages": ASKED}, "response": {"choices": choices}})).tally.branches == 1
    transcript = chats.open(1).transcript
    assert [answer.text for answer in transcript.variants.answers(transcript.entries, 2)] == ["One", "Two"]
    assert transcript.answers()[0].reason == "imported, cut off at its limit"


def test_sides_that_speak_twice_are_put_together(bring: Bring, chats: Chats, write: Write) -> None:
    talk = [
        *({"role": "user", "content": text} for text in ("Hello", "Anybody?")),
        {"role": "assistant", "content": "One moment", "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "name": "look", "content": "nothing"},
        {"role": "assistant", "content": "No."},
    ]
    bring(write("x", {"messages": talk}))
    chat = chats.open(1)
    assert chat.transcript.messages() == [
        {"role": "user", "content": "Hello\n\nAnybody?"},
        {"role": "assistant", "content": "One moment\n\nNo."},
    ]
    assert ("notice", "look: nothing") in said(chat)


def test_our_own_file_keeps_its_runs(
    bring: Bring, chats: Chats, tmp_path: Path, dialogue: Any, engine: Any, tree_steps: Callable[[], list[Any]]
) -> None:
    dialogue.submit("Which lamp?")
    engine.begin()
    engine.events.append(Steps(engine.asked.id, tree_steps()))
    engine.tell_pieces()
    engine.finish()
    dialogue.drain()
    path = tmp_path / "saved"
    path.write_text("".join(chat_json(capture(dialogue))), encoding="utf-8")
    assert bring(path).tally.chats == 1
    assert bring(path).tally.known == 1
    answer = chats.open(1).transcript.answers()[0]
    before = dialogue.transcript.answers()[0]
    assert [(run.text, run.shade, run.method) for run in answer.runs] == [
        (run.text, run.shade, run.method) for run in before.runs
    ]
    assert answer.log.record(1).tree_tokens == before.log.record(1).tree_tokens
    assert answer.pieces.raw(14) == " evening"


def test_times_are_those_of_the_file_where_none_are_told(bring: Bring, chats: Chats, write: Write) -> None:
    import os

    path = write("x", {"messages": TALK})
    os.utime(path, (1_600_000_000, 1_600_000_000))
    bring(path)
    assert chats.newest()[0].changed == 1_600_000_000


@pytest.mark.parametrize("when", [1e300, -5, "yesterday", float("nan"), 10**400, True, "9999-01-01", None, [1]])
def test_times_that_cannot_be_are_passed_over(when: Any, bring: Bring, chats: Chats, write: Write) -> None:
    import time

    bring(write("x", {"messages": TALK, "created": when}))
    assert 0 < chats.newest()[0].changed <= time.time()


def test_what_can_be_searched_can_be_found(bring: Bring, chats: Chats, write: Write) -> None:
    bring(
        write(
            "x",
            {"messages": TALK},
            {"messages": [{"role": "user", "content": "Sphinx"}, {"role": "assistant", "content": "Quartz"}]},
        )
    )
    assert [found.chat.title for found in chats.search("quart")] == ["Sphinx"]
