"""A chat is saved while it is written, and comes back as it was."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.chat.transcript import Transcript
from specchat.app.history import recorder as recorder_module
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.typed import NEW, Drafts, Typed
from specchat.app.history.writing import ChatSnapshot, snapshot
from specchat.engine.messages import PieceTable, Steps

from ..conftest import keep

Say = Callable[..., None]


def same(one: Transcript, other: Transcript) -> None:
    """Assert that two chats look alike, down to the colours, figures and trees."""
    assert [type(entry) for entry in one.entries] == [type(entry) for entry in other.entries]
    assert one.system == other.system
    for left, right in zip(one.entries, other.entries, strict=True):
        assert left.text == right.text
        if isinstance(left, Notice):
            assert isinstance(right, Notice)
            assert left.severity == right.severity
        if isinstance(left, Answer):
            assert isinstance(right, Answer)
            assert left.runs == right.runs
            assert list(left.log) == list(right.log)
            assert (left.method, left.label, left.reason, left.methods) == (
                right.method,
                right.label,
                right.reason,
                right.methods,
            )
            assert left.figures.tokens_per_second == right.figures.tokens_per_second
            assert left.figures.acceptance == right.figures.acceptance
            assert left.figures.prefill_seconds == right.figures.prefill_seconds
            assert [left.pieces.text(t) for t in left.log.tokens] == [right.pieces.text(t) for t in right.log.tokens]
            assert left.totals.runs == right.totals.runs


def test_a_chat_comes_back_with_its_colours_figures_and_trees(
    recorder: Recorder, chats: Chats, dialogue: Dialogue, engine: Any, say: Say, tree_steps: Any, vocabulary: list[str]
) -> None:
    dialogue.handle(PieceTable(2, vocabulary))
    dialogue.transcript.system = "Be brief."
    dialogue.notice("The draft model is missing.", "warning")
    say("How does it work?\nIn a few words.")
    recorder.note(dialogue)
    assert dialogue.submit("And the tree?")
    engine.begin(tree_steps())
    engine.finish("length", tail=" …")
    dialogue.drain()
    keep(recorder, dialogue)
    (row,) = chats.newest()
    assert (row.title, row.model, row.answers) == ("How does it work? In a few words.", "builtin", 2)
    opened = chats.open(row.id)
    same(opened.transcript, dialogue.transcript)
    assert opened.settings["method"] == "lookup"
    assert opened.model["context"] == 4096
    assert not opened.damaged


def test_an_answer_is_there_as_far_as_it_is_while_it_is_written(
    recorder: Recorder, chats: Chats, dialogue: Dialogue, engine: Any, make_steps: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    dialogue.submit("Go")
    engine.begin()
    texts = []
    for _ in range(3):
        engine.events.append(Steps(engine.asked.id, make_steps("One more, and more. ")))
        dialogue.drain()
        keep(recorder, dialogue)
        (answer,) = chats.open(chats.latest().id).transcript.answers()
        assert answer.reason == "unfinished"
        texts.append(answer.text)
    assert texts[2] == dialogue.transcript.answers()[0].text
    assert len(texts[0]) < len(texts[1]) < len(texts[2])
    engine.finish(tail="!")
    dialogue.drain()
    keep(recorder, dialogue)
    same(chats.open(chats.latest().id).transcript, dialogue.transcript)
    assert [found.chat.id for found in chats.search('"one and"')] == []
    assert [found.chat.id for found in chats.search('"MORE. one"')] == [chats.latest().id]


def test_looks_are_spaced_and_those_that_bring_nothing_new_write_nothing(
    recorder: Recorder, dialogue: Dialogue, engine: Any, make_steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(recorder_module, "monotonic", lambda: now)
    moments: list[str | None] = []

    def noted(transcript: Transcript, about: Any) -> ChatSnapshot:  # to count them
        moments.append(transcript.answers()[-1].reason)
        return snapshot(transcript, about)

    monkeypatch.setattr(recorder_module, "snapshot", noted)
    dialogue.notice("Only a notice.")
    recorder.note(dialogue)
    dialogue.submit("Go")
    engine.begin()
    for wait in (*[0.0] * 50, recorder_module.FLUSH_SECONDS):
        now += wait
        engine.events.append(Steps(engine.asked.id, make_steps("word")))
        dialogue.drain()
        recorder.note(dialogue)
    engine.finish()
    dialogue.drain()
    for _ in range(5):
        recorder.note(dialogue)
    assert moments == [None, None, "eos"]


def test_a_chat_that_is_left_is_saved_to_its_last_word(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say) -> None:
    say("First", finish=False)
    recorder.note(dialogue)
    answer = dialogue.answer
    assert answer is not None
    answer.runs.append(answer.runs[-1])
    answer.log.append(answer.log.record(0))
    answer.finish("cancelled")
    dialogue.clear()
    keep(recorder, dialogue)
    assert chats.open(chats.latest().id).transcript.answers()[0].text == answer.text
    assert chats.open(chats.latest().id).transcript.answers()[0].reason == "cancelled"


def test_going_on_with_an_opened_chat_is_saved_in_its_place(
    recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say
) -> None:
    say("First question")
    keep(recorder, dialogue)
    first = chats.latest().id
    dialogue.transcript = chats.open(first).transcript
    keep(recorder, dialogue)
    before = chats.latest().changed
    say("Second question")
    keep(recorder, dialogue)
    assert chats.count() == 1
    assert chats.latest().changed > before
    assert chats.latest().answers == 2
    same(chats.open(first).transcript, dialogue.transcript)
    (entries,) = chats.store.db.execute("SELECT count(*) FROM entries").fetchone()
    assert entries == 4


def test_entries_taken_back_stay_in_the_chat_as_it_was(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say) -> None:
    say("Shared")
    say("Old end", "An old answer.")
    keep(recorder, dialogue)
    del dialogue.transcript.entries[2:]
    say("New end", "A new answer.")
    keep(recorder, dialogue)
    new, old = chats.newest()
    assert new.parent == old.id
    assert [e.text for e in chats.open(old.id).transcript.entries[2:]] == ["Old end", "An old answer."]
    same(chats.open(new.id).transcript, dialogue.transcript)
    assert {found.chat.id for found in chats.search("Shared")} == {old.id, new.id}


def test_a_branch_has_copies_of_its_beginning(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say) -> None:
    say("Shared")
    before = dialogue.transcript
    dialogue.transcript = recorder.branch(dialogue, "The other way")
    keep(recorder, dialogue)
    assert [row.title for row in chats.newest()] == ["The other way", "Shared"]
    say("On")
    recorder.note(dialogue)
    dialogue.transcript = before
    say("Elsewhere")
    keep(recorder, dialogue)
    titles = {row.title: row.id for row in chats.newest()}
    assert [e.text for e in chats.open(titles["The other way"]).transcript.entries if isinstance(e, Prompt)] == ["Shared", "On"]
    assert [e.text for e in chats.open(titles["Shared"]).transcript.entries if isinstance(e, Prompt)] == ["Shared", "Elsewhere"]
    assert chats.store.db.execute("SELECT chat, count(*) FROM entries GROUP BY chat").fetchall() == [(1, 4), (2, 4)]
    assert {found.chat.id for found in chats.search("Shared")} == {1, 2}


def test_others_on_the_machine_cannot_read_it(recorder: Recorder, file: Path, dialogue: Dialogue, say: Say) -> None:
    say("A secret")
    keep(recorder, dialogue)
    drafts = Drafts(file)
    drafts.write((NEW, {NEW: [Typed("Another")]}))
    for name in ("history.db", "history.db-wal", "typing.lock"):
        assert stat.S_IMODE((file.parent / name).stat().st_mode) == 0o600
    assert sqlite3.connect(file).execute("PRAGMA journal_mode").fetchone() == ("wal",)
