"""`specchat run` with the history: an answer goes on with a chat, and is kept with it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.app.chat.entries import Answer, Prompt
from specchat.app.history.chats import Chats, reading

from ....fakes.engines import COUNTING
from ....fakes.records import recorded_model
from ..conftest import Call


@pytest.fixture
def model(tmp_path: Path) -> str:
    answers = {"hello": "one two three one two three one two three", "and more": "four five four five four five"}
    return recorded_model(tmp_path, {**answers, "count": COUNTING})


@pytest.fixture
def call(call: Call) -> Call:
    """Runs `specchat run`."""
    return lambda *args: call("run", *args)


def said(chats: Chats, number: int) -> list[str]:
    return [entry.text for entry in chats.open(number).transcript.entries if isinstance(entry, Prompt | Answer)]


def test_a_plain_answer_is_not_kept(call: Call, model: str, tmp_path: Path) -> None:
    assert call("hello", "--model", model)[0] == 0
    assert not (tmp_path / "data").exists()


def test_an_exchange_is_kept_and_goes_on(call: Call, model: str) -> None:
    first = json.loads(call("hello", "--keep", "--json", "--model", model)[1])
    with reading() as chats:
        (row,) = chats.newest()
        assert (row.id, row.title, row.answers) == (first["chat"], "hello", 1)
        opened = chats.open(row.id)
    answer = opened.transcript.answers()[0]
    # All that a chat keeps: runs, steps, figures, token texts, what it was asked with.
    assert answer.text == first["text"]
    assert [run.tokens for run in answer.runs if run.tokens] == first["runs"]
    assert [token for i in range(len(answer.log)) for token in answer.log.record(i).tokens] == first["token_ids"]
    assert (answer.reason, answer.figures.prompt_tokens) == ("eos", first["prompt_tokens"])
    assert answer.pieces.raw(first["token_ids"][0])
    assert opened.model["asked"] == model

    second = json.loads(call("and more", "--continue", "--json", "--model", model)[1])
    assert second["chat"] == first["chat"]
    # The model was told of the exchange before.
    assert second["prompt_tokens"] > first["prompt_tokens"] + first["tokens"]
    third = json.loads(call("hello", "--resume", "hel", "--json", "--model", model)[1])
    assert third["prompt_tokens"] > second["prompt_tokens"] + second["tokens"]
    with reading() as chats:
        assert len(chats.newest()) == 1
        assert said(chats, first["chat"]) == ["hello", first["text"], "and more", second["text"], "hello", third["text"]]


def test_a_chat_may_go_on_without_being_kept(call: Call, model: str, tmp_path: Path) -> None:
    first = json.loads(call("hello", "--keep", "--json", "--model", model)[1])
    second = json.loads(call("and more", "--continue", "--no-history", "--json", "--model", model)[1])
    assert second["chat"] is None
    assert second["prompt_tokens"] > first["prompt_tokens"] + first["tokens"]
    (tmp_path / "settings.toml").write_text("history = false\n")
    assert json.loads(call("and more", "--resume", str(first["chat"]), "--json", "--model", model)[1])["chat"] is None
    with reading() as chats:
        assert said(chats, first["chat"]) == ["hello", first["text"]]


def test_the_system_prompt_is_the_chats_unless_one_is_given(call: Call, model: str) -> None:
    call("hello", "--keep", "--system", "Be brief.", "--model", model)
    plain = json.loads(call("and more", "--continue", "--no-history", "--json", "--model", model)[1])
    call("and more", "--continue", "--model", model)
    with reading() as chats:
        assert chats.open(chats.latest().id).transcript.system == "Be brief."
    overridden = json.loads(
        call("and more", "--continue", "--no-history", "--system", "Be brief. " * 9, "--json", "--model", model)[1]
    )
    assert overridden["prompt_tokens"] > plain["prompt_tokens"] + 20


def test_a_chat_goes_on_with_its_own_model_and_settings(call: Call, model: str, tmp_path: Path) -> None:
    call("hello", "--keep", "--json", "--model", model, "--method", "greedy", "--max-tokens", "4")
    answer = json.loads(call("and more", "--continue", "--no-history", "--json")[1])
    assert (answer["model"], answer["method"], answer["tokens"]) == (model, "greedy", 4)
    overridden = json.loads(
        call("and more", "--continue", "--no-history", "--json", "--method", "lookup", "--max-tokens", "2")[1]
    )
    assert (overridden["model"], overridden["method"], overridden["tokens"]) == (model, "lookup", 2)
    (tmp_path / "answers.jsonl").unlink()
    code, out, err = call("and more", "--continue")
    assert (code, out) == (2, "")
    assert err.endswith("specchat: The chat was with that model. Choose another one with --model.\n")


def test_a_cancelled_answer_is_kept_as_far_as_it_was(call: Call, model: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "specchat", "run", "count", "--keep", "--method", "greedy", "--model", f"{model}?pace=0.2"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read().decode()
    assert process.returncode == 143
    with reading() as chats:
        answer = chats.open(chats.latest().id).transcript.answers()[0]
    assert answer.reason == "cancelled"
    assert answer.text == f"0{rest.rstrip()}"


def test_a_history_that_cannot_be_written_costs_no_answer(call: Call, model: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    code, out, err = call("hello", "--keep", "--model", model)
    assert (code, out) == (0, "one two three one two three one two three\n")
    assert err.startswith("specchat: ")
    assert re.search(r"The (end of the )?chat (is not being|was not) saved", err)
