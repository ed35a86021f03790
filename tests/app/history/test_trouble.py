"""Whatever is wrong with the database, the chat goes on, and a sentence says what to do."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.transcript import Transcript
from specchat.app.history import recorder as recorder_module
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder, snapshot
from specchat.app.history.store import KEPT_SECONDS, VERSION, Store, purge

from ..conftest import keep

Say = Callable[..., None]


def told(recorder: Recorder) -> str:
    return " ".join(sentence for sentence, _ in recorder.take_sentences())


@pytest.fixture
def report(file: Path, dialogue: Dialogue, say: Say) -> Callable[..., str]:
    """Saves a chat with a new recorder and returns its sentences."""

    def report(*seconds: float) -> str:
        recorder = Recorder(file)
        say("Hello")
        recorder.note(dialogue)
        recorder.close(dialogue, *seconds)
        return told(recorder)

    return report


def set_version(file: Path, version: int) -> bytes:
    """Make a database of another version; its bytes."""
    Store(file).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    return file.read_bytes()


def test_a_database_of_a_newer_specchat_is_left_as_it_is(file: Path, report: Callable[..., str]) -> None:
    before = set_version(file, VERSION + 1)
    sentence = report()
    assert re.search(r"not (being )?saved[.] .*written by a newer specchat[.] Update this one", sentence)
    assert sentence.count("newer specchat") == 1  # for all that could not be done
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"This is no database, and never was one. " * 200, "damaged, or"),
        (b"SQLite format 3\0" + bytes(5000), "damaged, or"),
        (None, "older specchat wrote it"),
    ],
    ids=["text", "zeros", "an older version"],
)
def test_a_database_that_cannot_be_used_is_put_aside(
    file: Path, report: Callable[..., str], content: bytes | None, reason: str
) -> None:
    file.parent.mkdir()
    if content is None:
        content = set_version(file, VERSION - 1)
    else:
        file.write_bytes(content)
    sentence = report()
    (aside,) = file.parent.glob("*aside*")
    assert re.search(rf"{reason}.*[.] It was moved to .*{aside.name}, and an empty one was started", sentence)
    assert re.fullmatch(r"history-aside-\d{4}-\d\d-\d\d-\d{6}\.db", aside.name)
    assert aside.read_bytes() == content
    with Store(file) as store:
        assert Chats(store).find().title == "Hello"


def test_a_full_disk_is_told_once(file: Path, dialogue: Dialogue, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full as SQLite tells it: patched, as no test can fill one."""
    monkeypatch.setattr(recorder_module, "RETRY_SECONDS", 0.01)
    real, full = recorder_module.write, True
    tries: list[Any] = []

    def write(*arguments: Any) -> Any:
        tries.append(arguments)
        written = real(*arguments)
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        return written

    monkeypatch.setattr(recorder_module, "write", write)
    recorder = Recorder(file)
    for text in ("First", "Second"):
        say(text)
        recorder.note(dialogue)
        assert not recorder.settle(0.3)
    assert len(tries) > 3
    ((sentence, _),) = recorder.take_sentences()
    assert re.search("not being saved[.] The disk with .* is full[.] Free some space", sentence)
    full = False
    assert recorder.settle()
    assert "saved in the history again" in told(recorder)
    recorder.close()
    with Store(file) as store:
        (row,) = Chats(store).newest()
        assert row.answers == 2


def test_a_disk_that_does_not_answer_in_time_is_told(file: Path, report: Callable[..., str]) -> None:
    with Store(file) as other, other.transaction():
        assert "could not be written for 0 s" in report(0.05)


def test_a_bug_in_the_history_is_told(report: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(recorder_module, "write", write)
    assert "The history failed (ValueError: odd)" in report()


def test_damaged_steps_leave_the_text(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say) -> None:
    say("Hello")
    keep(recorder, dialogue)
    text = dialogue.transcript.answers()[0].text
    for data in (b"", zlib.compress(b'{"runs": 7}'), zlib.compress(b"[" * 100_000)):
        chats.store.db.execute("UPDATE parts SET json = ?", (data,))
        (answer,) = chats.open(1).transcript.answers()
        assert (answer.text, answer.reason) == (text, "damaged")


def test_deleted_chats_are_purged(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say) -> None:
    say("The lighthouse")
    before = dialogue.transcript
    keep(recorder, dialogue)
    dialogue.transcript = Transcript(list(before.entries))  # another chat that begins so
    keep(recorder, dialogue)
    branch = chats.find().id
    dialogue.transcript = before
    say("The harbour")
    keep(recorder, dialogue)
    chats.delete(1)
    with chats.store.transaction() as db:
        purge(db)
        assert [row.id for row in chats.deleted()] == [1]
        db.execute("UPDATE chats SET deleted_at = deleted_at - ?", (KEPT_SECONDS + 1,))
        purge(db)
    assert [row.id for row in chats.newest()] == [branch]
    assert chats.open(branch).transcript.entries[0].text == "The lighthouse"
    assert [hit.chat.id for hit in chats.search("lighthouse")] == [branch]
    assert chats.search("harbour") == []
    for table, count in (("entries", 2), ("parts", 1), ("words", 2), ("chats", 1)):
        assert chats.store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
    say("After all")  # the chat on the screen is the one that went
    keep(recorder, dialogue)
    assert chats.find().answers == 3
    assert snapshot(dialogue.transcript, dialogue.about()).track.chat == chats.find().id
