"""Databases that llm wrote: of the versions 0.13 (one row a response), 0.27 (with fragments, attachments, tools) and 0.36 (a
tree of messages), and one that was begun with the first and gone on with in the last."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from specchat.app.history.chats import Chats
from specchat.app.importing.run import Report

from .conftest import said

Bring = Callable[..., Report]
Logs = Callable[[str], Path]

LAMP = "Which \x1b[31mlamp\x1b[0m is lit?"


def test_chats_of_an_old_llm_keep_their_title_times_model_and_system_prompt(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    report = bring(llm_logs("0.13"))
    assert (report.tally.chats, report.tally.messages, report.problems()) == (2, 6, [])
    row = next(row for row in chats.newest() if row.answers == 2)
    chat = chats.open(row.id)
    assert said(chat) == [
        ("prompt", LAMP),
        ("answer", f"You said: {LAMP}"),
        ("prompt", "And <b>now</b>?"),
        ("answer", "You said: And <b>now</b>?"),
    ]
    assert row.model == "echo-1"
    assert row.title == "Which ␛[31mlamp␛[0m is lit?"
    assert chat.transcript.system == "Be brief."
    assert round(row.created) == 1795264248  # 2026-11-21T12:30:47.787189, which is UTC
    assert row.changed > row.created


def test_answers_from_elsewhere_have_no_runs_and_say_so(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    bring(llm_logs("0.13"))
    transcript = chats.open(1).transcript
    assert "no run colours" in transcript.entries[0].text
    answer = transcript.answers()[0]
    assert len(answer.log) == 0
    assert [run.shade for run in answer.runs] == [-1]
    assert answer.method == "echo-1"


def test_fragments_attachments_and_tools_are_told(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    report = bring(llm_logs("0.27"))
    chat = chats.open(1)
    assert chat.transcript.system == "Rules of the house.\n\nBe brief."
    assert said(chat)[0] == ("prompt", "Fragment one.\nFragment two.\nRead this\n[image, not imported]")
    assert said(chat)[2:] == [
        ("prompt", "What is 1+2?"),
        ("notice", 'Called add({"a": 1, "b": 2})'),
        ("notice", "add: 3"),
        ("answer", "You said:  ['3']"),
    ]
    assert report.tally.missing == 1


def test_a_thread_that_forked_is_one_chat_with_both_ends(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    report = bring(llm_logs("0.36"))
    assert (report.tally.chats, report.tally.branches) == (2, 1)
    chat = next(chats.open(row.id) for row in chats.newest() if row.answers == 2)
    assert said(chat)[2:] == [("prompt", "And another way?"), ("answer", "You said: And another way?")]
    (fork,) = chat.transcript.variants
    other = next(end for number, end in enumerate(fork.ends) if number != fork.at)
    assert other[0].text == "A long fragment about lighthouses.\nAnd <b>now</b>?\n[image, not imported]"


def test_a_chat_that_a_newer_llm_went_on_with_goes_on_here(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    bring(llm_logs("0.13"))
    report = bring(llm_logs("0.13-then-0.36"))
    assert (report.tally.chats, report.tally.continued, report.tally.known, report.tally.messages) == (0, 1, 1, 2)
    assert chats.count() == 2
    chat = next(chats.open(row.id) for row in chats.newest() if row.answers == 3)
    assert said(chat)[-1] == ("answer", "You said: Gone on with a newer llm")


def test_a_response_without_a_conversation_is_a_chat(bring: Bring, chats: Chats, llm_logs: Logs) -> None:
    path = llm_logs("0.13")
    db = sqlite3.connect(path)
    db.execute("UPDATE responses SET conversation_id = NULL")
    db.commit()
    db.close()
    assert bring(path).tally.chats == 3


def test_a_tree_that_goes_round_in_circles_ends(bring: Bring, llm_logs: Logs) -> None:
    path = llm_logs("0.36")
    db = sqlite3.connect(path)
    db.execute("UPDATE messages SET parent_hash = hash WHERE parent_hash IS NULL")
    db.commit()
    db.close()
    assert bring(path).tally.chats == 2


def test_other_databases_are_named(bring: Bring, chats: Chats, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE things (a)")
    db.commit()
    db.close()
    assert "is a database, but not logs.db of llm" in bring(path).failed[0]
    assert "a history of specchat's own" in bring(chats.store.path).failed[0]
    broken = tmp_path / "broken.db"
    broken.write_bytes(path.read_bytes()[:700] + b"\xff" * 9000)
    assert len(bring(broken).failed) == 1
