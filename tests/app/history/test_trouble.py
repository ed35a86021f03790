"""Whatever is wrong with the database, the chat goes on, and a sentence says what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.history import recorder as recorder_module
from specchat.app.history import take_notices
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.schema import VERSION
from specchat.app.history.store import Store, purge
from specchat.app.history.writing import snapshot

from ..conftest import keep

Say = Callable[..., None]


def told(recorder: Recorder) -> str:
    return " ".join(sentence for sentence, _ in recorder.take_sentences())


def names(file: Path, part: str) -> list[str]:
    return sorted(name for name in os.listdir(file.parent) if part in name)


def test_a_database_of_a_newer_specchat_is_left_as_it_is(file: Path, dialogue: Dialogue, say: Say) -> None:
    Store(file).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = file.read_bytes()
    recorder = Recorder(file)
    say("Hello")
    recorder.note(dialogue)
    recorder.close(dialogue)
    said = told(recorder)
    assert re.search(r"not (being )?saved[.] .*written by a newer specchat[.] Update this one", said)
    assert said.count("newer specchat") == 1  # once for all of it, where nobody has heard it yet
    assert file.read_bytes() == before


def test_a_database_of_an_older_specchat_is_put_aside(file: Path) -> None:
    Store(file).close()
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {VERSION - 1}")
    before = file.read_bytes()
    with Store(file) as store:
        assert Chats(store).newest() == []
    (aside,) = names(file, "aside")
    assert re.search(
        f"older specchat wrote it[.] It was moved to .*{aside}, and an empty one was started", " ".join(take_notices())
    )
    assert (file.parent / aside).read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"This is no database, and never was one. " * 200, b"SQLite format 3\0" + bytes(5000)], ids=["text", "zeros"]
)
def test_a_damaged_database_is_put_aside(file: Path, dialogue: Dialogue, say: Say, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    recorder = Recorder(file)
    say("Hello")
    keep(recorder, dialogue)
    sentence = told(recorder)
    assert re.search(
        r"damaged, or .*[.] It was moved to .*history-aside-\d{4}-\d\d-\d\d-\d{6}\.db, and an empty one was started", sentence
    )
    (aside,) = names(file, "aside")
    assert (file.parent / aside).read_bytes() == content
    recorder.close()
    with Store(file) as store:
        assert Chats(store).latest().title == "Hello"


def test_a_full_disk_is_told_once_and_made_up_for(
    file: Path, dialogue: Dialogue, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "RETRY_SECONDS", 0.01)
    full = True
    tries = 0
    from specchat.app.history.writing import write as real

    def write(*given: Any) -> Any:
        nonlocal tries
        tries += 1
        if full:
            real(*given)
            raise sqlite3.OperationalError("database or disk is full")
        return real(*given)

    monkeypatch.setattr(recorder_module, "write", write)
    recorder = Recorder(file)
    say("First")
    recorder.note(dialogue)
    assert not recorder.settle(0.3)
    say("Second")
    recorder.note(dialogue)
    deadline = time.monotonic() + 60
    while tries <= 3 and time.monotonic() < deadline:
        assert not recorder.settle(0.1)
    assert tries > 3
    sentences = recorder.take_sentences()
    assert len(sentences) == 1
    assert re.search("not being saved[.] The disk with .* is full[.] Free some space", sentences[0][0])
    full = False
    assert recorder.settle()
    assert "saved in the history again" in told(recorder)
    recorder.close()
    with Store(file) as store:
        (row,) = Chats(store).newest()
        assert row.answers == 2


@pytest.mark.parametrize("there", [False, True], ids=["new", "with a history"])
def test_a_disk_without_locks_is_named(file: Path, dialogue: Dialogue, say: Say, monkeypatch: Any, there: bool) -> None:
    """There is no such disk here: the lock that is tried fails as one on it would, and SQLite finds its file locked."""
    monkeypatch.setattr("specchat.app.history.store.BUSY_SECONDS", 0.05)
    file.parent.mkdir()
    if there:
        Store(file).close()
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        for locks in (True, False):
            with monkeypatch.context() as patch:
                if not locks:
                    patch.setattr(fcntl, "lockf", no_locks)
                recorder = Recorder(file)
                say("Hello")
                recorder.note(dialogue)
                recorder.close(dialogue)
            sentence = told(recorder)
            assert ("Another program has been using" in sentence) == locks
            assert ("has no file locks" in sentence) == (not locks)


def no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_disk_that_does_not_answer_in_time_is_told(file: Path, dialogue: Dialogue, say: Say) -> None:
    recorder = Recorder(file)
    assert recorder.settle()
    with Store(file) as other, other.transaction():
        say("Hello")
        recorder.note(dialogue)
        recorder.close(dialogue, 0.05)
    assert "could not be written for 0 s" in told(recorder)


def test_a_folder_that_cannot_be(tmp_path: Path, dialogue: Dialogue, say: Say) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    recorder = Recorder(tmp_path / "data" / "history.db")
    say("Hello")
    recorder.note(dialogue)
    recorder.close(dialogue)
    assert re.search("not (being )?saved.*cannot be used", told(recorder))


def test_a_bug_in_the_history_is_told_and_costs_nothing_else(
    file: Path, dialogue: Dialogue, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: Any) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(recorder_module, "write", write)
    recorder = Recorder(file)
    say("Hello")
    keep(recorder, dialogue)
    assert "The history failed (ValueError: odd)" in told(recorder)
    recorder.close(dialogue)


def test_steps_that_are_damaged_leave_the_text(
    recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say, capsys: pytest.CaptureFixture[str]
) -> None:
    say("Hello")
    keep(recorder, dialogue)
    text = dialogue.transcript.answers()[0].text
    for data in (b"", b"\0\1", zlib.compress(b'{"runs": 7}'), zlib.compress(b"[" * 100_000)):
        chats.store.db.execute("UPDATE parts SET json = ?", (data,))
        opened = chats.open(1)
        assert opened.damaged == 1
        assert opened.transcript.answers()[0].text == text


def test_what_was_deleted_long_ago_goes_for_good_but_what_a_branch_has(
    recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say
) -> None:
    say("The lighthouse")
    before = dialogue.transcript
    dialogue.transcript = recorder.branch(dialogue, "")
    keep(recorder, dialogue)
    branch = chats.latest().id
    dialogue.transcript = before
    say("The harbour")
    keep(recorder, dialogue)
    chats.delete(1)
    deleted = chats.store.db.execute("SELECT deleted_at FROM chats WHERE id = 1").fetchone()[0]
    with chats.store.transaction() as db:
        day = 24 * 3600
        assert purge(db, deleted + 29 * day) == 0
        assert purge(db, deleted + 60 * day) == 0  # a clock that is ahead: nothing was done in that time
        db.execute("UPDATE chats SET changed = ? WHERE id = ?", (deleted + 40 * day, branch))
        assert purge(db, deleted + 40.5 * day) == 0
        assert purge(db, deleted + 41.5 * day) == 1
    assert [row.id for row in chats.newest()] == [branch]
    assert chats.open(branch).transcript.entries[0].text == "The lighthouse"
    assert [found.chat.id for found in chats.search("lighthouse")] == [branch]
    assert chats.search("harbour") == []
    for table, count in (("entries", 2), ("parts", 1), ("words", 2), ("chats", 1)):
        assert chats.store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
    say("After all")  # the chat on the screen is the one that went
    keep(recorder, dialogue)
    assert chats.latest().answers == 3
    assert snapshot(dialogue.transcript, dialogue.about()).track.chat == chats.latest().id
