"""Which answers are drafted from: what is kept and not deleted, told to the engine whenever the history changes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from specchat.app.history import past
from specchat.app.history.chats import Chats
from specchat.app.history.past import PastSync, forget_deleted, past_folder, wanted
from specchat.app.history.store import Store
from specchat.decoders.past.index import Past
from specchat.engine.messages import Remember
from specchat.errors import UserError

TEXT = "The keeper of the lighthouse wrote every evening how far the waves had come, and nobody read it for forty years."


def key_of(text: str) -> int:
    return int.from_bytes(text.encode()[:7])


def put(store: Store, *texts: str) -> int:
    """A chat with these answers."""
    with store.transaction() as db:
        chat = db.execute(
            "INSERT INTO chats (title, created, changed, model, about) VALUES ('a chat', 1, 1, 'm', '{}')"
        ).lastrowid
        for text in texts:
            db.execute("INSERT INTO entries (chat, text, key, json) VALUES (?, ?, ?, '')", (chat, text, key_of(text)))
    assert chat is not None
    return chat


class Told:
    """A Remembering, and what it told the engine, which does as it is told."""

    def __init__(self) -> None:
        self.sent: list[Remember] = []
        self.remembering = PastSync(self.sent.append, lambda: 1)
        self.keys: set[int] = set()
        self.remembering.opened()

    def settle(self, resting: bool = True) -> None:
        """Let it look until it has nothing more to say."""
        said = -1
        while said != len(self.sent):
            said = len(self.sent)
            self.remembering.told(sorted(self.keys))
            self.remembering._due = 0.0
            self.remembering.idle(resting)
            if self.remembering._thread is not None:
                self.remembering._thread.join()
            for command in self.sent[said:]:
                self.keys |= {int(key) for key, _ in command.answers}
                self.keys -= set(command.forget)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path))
    return Store()


def test_kept_answers_are_told_and_deleted_ones_forgotten(store: Store) -> None:
    chats, told = Chats(store), Told()
    first, second = put(store, "one", "two"), put(store, "three")
    told.settle()
    assert told.sent[0] == Remember(1, str(past_folder()))
    assert [text for _, text in told.sent[1].answers] == ["one", "two", "three"]  # the oldest first
    chats.delete(first)
    told.settle(resting=False)  # in the middle of an answer too
    assert told.keys == wanted(store.db)[0].keys()
    assert len(told.keys) == 1
    branch = put(store, "three")  # once for both
    told.settle()
    chats.delete(second)
    told.settle()
    assert told.keys == {key_of("three")}
    chats.delete(branch)
    chats.undelete(first)
    told.settle()
    assert told.keys == wanted(store.db)[0].keys()
    assert len(told.keys) == 2


def test_the_oldest_answers_go_when_there_are_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.history.past.CHARACTERS", 10)
    monkeypatch.setattr("specchat.app.history.past.SLACK", 4)
    told = Told()
    put(store, "12345678")
    told.settle()
    put(store, "abc")
    told.settle()
    assert len(told.keys) == 2  # together a little too many
    put(store, "defg")
    told.settle()
    assert [text for command in told.sent for _, text in command.answers] == ["12345678", "abc", "defg"]
    assert told.keys == wanted(store.db)[0].keys()
    assert len(told.keys) == 2


def test_an_answer_that_is_being_written_lets_nobody_look_through_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    real = past.wanted

    def wanted(db: sqlite3.Connection) -> tuple[dict[int, int], set[int]]:
        looks.append(db)  # it takes a tenth of a second in a history of 10,000 chats
        return real(db)

    monkeypatch.setattr(past, "wanted", wanted)
    told = Told()
    put(store, "one", "two")
    told.settle()
    count = len(looks)
    with store.transaction() as db:
        db.execute("INSERT INTO entries (chat, json) VALUES (1, '')")
    told.settle()
    assert len(looks) == count
    put(store, "three")
    told.settle()
    assert len(told.keys) == 3


def test_an_index_that_cannot_be_rewritten_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, index = put(store, "one"), past_folder() / "a tokenizer"
    put(store, "two")
    one, two = key_of("one"), key_of("two")
    Past(index).add([(one, [1, 2]), (two, [3])])
    forget_deleted()
    assert Past(index).keys == {one, two}
    Chats(store).delete(chat)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Past, "forget", full)
    forget_deleted()
    assert not Past(index).keys
    monkeypatch.setattr(Path, "glob", full)
    with pytest.raises(UserError, match="No space left on device"):
        forget_deleted()
