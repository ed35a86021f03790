"""The list, the search, titles, deleting, branches; and texts that are out for trouble."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.chat.transcript import Transcript
from specchat.app.history.chats import AFTER, BEFORE, Chats
from specchat.app.history.past import PastSync, draftable, forget_deleted, past_folder
from specchat.app.history.recorder import TITLE_CELLS, ChatTrack, Recorder, catch_up, snapshot, write
from specchat.app.history.store import NEXT_TURN, Store, stored
from specchat.decoders.past.index import Past
from specchat.engine.messages import Remember, StepRecord
from specchat.errors import UserError

from ...cases import cases
from ...fakes.hostile_text import TEXTS, calm
from ...fakes.thoughts import thinking_steps
from ..conftest import keep


def put(store: Store, dialogue: Dialogue, *texts: str, title: str = "", system: str | None = None) -> int:
    """Save a chat of prompts and answers in turn; its number."""
    transcript = Transcript(system=system, track=ChatTrack(title))
    for i, text in enumerate(texts):
        if i % 2:
            answer = Answer("lookup", "identical")
            answer.add(StepRecord("lookup", [1, 2], text))
            answer.finish("eos")
            transcript.entries.append(answer)
        else:
            transcript.entries.append(Prompt(text))
    with store.transaction() as db:
        chat = write(db, snapshot(transcript, dialogue.about()), store.identity).chat
    assert chat is not None
    return chat


def test_an_answer_that_was_cut_off_by_a_kill_is_found_and_leaves_the_index_with_its_chat(
    chats: Chats, recorder: Recorder, dialogue: Dialogue, say: Any
) -> None:
    say("How?", steps=thinking_steps("A lantern, perhaps.", "By lamp."))
    keep(recorder, dialogue)
    (row,) = chats.newest()
    assert not chats.search("lantern")
    assert titles(chats.search("lamp")) == ["How?"]
    opened = chats.open(row.id).transcript.answers()[0]
    assert (opened.thought, opened.text) == ("A lantern, perhaps.", "By lamp.")
    assert astuple(opened.totals.thought) == pytest.approx(astuple(dialogue.transcript.answers()[0].totals.thought))
    db = chats.store.db
    (answer,) = db.execute("SELECT id FROM entries WHERE key IS NOT NULL").fetchone()
    db.execute("DELETE FROM words WHERE rowid = ?", (answer,))
    db.execute("UPDATE entries SET text = NULL, key = NULL, json = json_remove(json, '$.thought') WHERE id = ?", (answer,))
    assert not chats.search("lamp")
    with chats.store.transaction():
        catch_up(db)
    assert titles(chats.search("lamp")) == ["How?"]
    assert chats.open(row.id).transcript.answers()[0].thought == "A lantern, perhaps."


def titles(hits: Any) -> list[str]:
    return [hit.chat.title for hit in hits]


def test_chats_are_listed_by_their_last_change(chats: Chats, dialogue: Dialogue) -> None:
    ids = [put(chats.store, dialogue, f"Chat {n}", "Yes.") for n in range(7)]
    assert [row.id for row in chats.newest(3)] == ids[:-4:-1]
    assert chats.count() == 7
    assert chats.find().id == ids[-1]
    chats.store.db.execute("UPDATE chats SET changed = changed + 1e9 WHERE id = ?", (ids[2],))  # by a clock that was ahead
    assert chats.find().id == ids[-1]


@pytest.mark.parametrize(
    "query", [f"SELECT {NEXT_TURN}", "SELECT title FROM chats WHERE deleted_at IS NULL ORDER BY turn DESC, id DESC LIMIT 9"]
)
def test_neither_the_list_nor_a_write_goes_through_every_chat(chats: Chats, query: str) -> None:
    plan = " ".join(step for *_, step in chats.store.db.execute(f"EXPLAIN QUERY PLAN {query}"))
    assert "chats_by_turn" in plan
    assert "SCAN chats USING COVERING" not in plan
    assert "B-TREE" not in plan


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("lighthouse", ["A"]),
        ("ghthou", ["A"]),
        ("keeper lamp", ["A"]),
        ('"keeper of"', ["A"]),
        ('"of keeper"', []),
        ("zip(draft", ["B"]),
        ("grüße", ["C"]),
        ("GRÜSSE", ["C"]),
        ("燈塔", ["C"]),
        ("is", ["C", "B", "A"]),
        ("塔看", ["C"]),
        ("ße", ["C"]),
        ("k s", ["A"]),
        ('say "', []),
        ("%", ["B"]),
        ("* OR NEAR(", []),
        ("100%", ["B"]),
        ("[a-z]", []),
        ("?", []),
        ('""', []),
    ],
)
def test_search(chats: Chats, dialogue: Dialogue, query: str, expected: list[str]) -> None:
    put(chats.store, dialogue, "A", "This is the keeper of the lighthouse and his lamp.")
    put(chats.store, dialogue, "B", "This is `zip(draft, choice)`, 100% right.")
    put(chats.store, dialogue, "C", "This is 燈塔看守人, viele Grüße.")
    assert titles(chats.search(query)) == expected


def test_a_search_finds_titles_and_leaves_out_what_was_deleted(chats: Chats, dialogue: Dialogue) -> None:
    first = put(chats.store, dialogue, "Lamp one", "Yes.", title="Harbour")
    second = put(chats.store, dialogue, "Lamp two", "Yes.")
    assert [hit.chat.id for hit in chats.search("harbour")] == [first]
    assert [hit.chat.id for hit in chats.search("lamp")] == [second, first]
    chats.delete(second)
    assert [hit.chat.id for hit in chats.search("lamp")] == [first]
    chats.undelete(second)
    assert [hit.chat.id for hit in chats.search("lamp", limit=1)] == [second]


def test_an_excerpt_shows_what_was_found_in_its_place(chats: Chats, dialogue: Dialogue) -> None:
    put(chats.store, dialogue, "x " * 500 + "the\nNEEDLE\n\there " + "y " * 500)
    before, hit, after = chats.search("needle")[0].excerpt
    assert before.startswith("…x ")
    assert before.endswith("the ")
    assert hit == "NEEDLE"
    assert after.startswith(" here y")
    assert len(before) <= BEFORE + 1
    assert len(hit + after) <= AFTER


def test_titles_are_one_line_and_fit(chats: Chats, dialogue: Dialogue) -> None:
    put(chats.store, dialogue, "How do\n\nlamps\twork? " + "very " * 100)
    (row,) = chats.newest()
    assert row.title.startswith("How do lamps work? very")
    assert row.title.endswith("…")
    assert len(row.title) == TITLE_CELLS
    chats.rename(row.id, "  \x1b[31mRed\nlamps ")
    assert chats.newest()[0].title == "␛[31mRed lamps"
    with pytest.raises(UserError, match="needs at least one character"):
        chats.rename(row.id, " \n ")
    with pytest.raises(UserError, match="no chat 99"):
        chats.rename(99, "x")


HOSTILE = TEXTS | st.text(st.characters(codec=None), max_size=60)
"""Hostile texts, lone surrogates among them."""


@cases(5000, suppress_health_check=list(HealthCheck))
@given(prompt=HOSTILE, runs=st.lists(HOSTILE, max_size=4), notice=HOSTILE, title=HOSTILE, query=HOSTILE, tail=HOSTILE)
def test_hostile_texts_come_back_but_for_half_characters_and_are_shown_as_text(
    chats: Chats, dialogue: Dialogue, prompt: str, runs: list[str], notice: str, title: str, query: str, tail: str
) -> None:
    answer = Answer("lookup", "identical")
    for run in runs:
        answer.add(StepRecord("lookup", [7], run))
    answer.finish("stop", tail)
    transcript = Transcript([Prompt(prompt), answer, Notice(notice)], system=prompt, track=ChatTrack(title))
    with chats.store.transaction() as db:
        id = write(db, snapshot(transcript, dialogue.about()), chats.store.identity).chat
    assert id is not None
    opened = chats.open(id)
    assert [entry.text for entry in opened.transcript.entries] == [stored(text) for text in (prompt, answer.text, notice)]
    assert [run.text for run in opened.transcript.answers()[0].runs] == [stored(run.text) for run in answer.runs]
    assert opened.transcript.system == (stored(prompt) or None)
    visible = [opened.title, *(part for hit in chats.search(query) for part in (*hit.excerpt, hit.chat.title))]
    for text in visible:
        assert calm(text)
    if query.strip() and prompt == query and '"' not in query and "\0" not in query and query.isascii():
        assert id in [hit.chat.id for hit in chats.search(query, limit=10**6)]


TEXT = "The keeper of the lighthouse wrote every evening how far the waves had come, and nobody read it for forty years."


def key_of(text: str) -> int:
    return int.from_bytes(text.encode()[:7])


def put_answers(store: Store, *texts: str) -> int:
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
        self.remembering.model_loaded()

    def settle(self, resting: bool = True) -> None:
        """Let it look until it has nothing more to say."""
        count = -1
        while count != len(self.sent):
            count = len(self.sent)
            self.remembering.set_indexed(sorted(self.keys))
            self.remembering._due = 0.0
            self.remembering.tick(resting)
            if self.remembering._thread is not None:
                self.remembering._thread.join()
            for command in self.sent[count:]:
                self.keys |= {int(key) for key, _ in command.answers}
                self.keys -= set(command.forget)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path))
    return Store()


def test_kept_answers_are_told_and_deleted_ones_forgotten(store: Store) -> None:
    chats, sync = Chats(store), Told()
    first, second = put_answers(store, "one", "two"), put_answers(store, "three")
    sync.settle()
    assert sync.sent[0] == Remember(1, str(past_folder()))
    assert [text for _, text in sync.sent[1].answers] == ["one", "two", "three"]  # the oldest first
    chats.delete(first)
    sync.settle(resting=False)  # in the middle of an answer too
    assert sync.keys == draftable(store.db).keys()
    assert len(sync.keys) == 1
    branch = put_answers(store, "three")  # once for both
    sync.settle()
    chats.delete(second)
    sync.settle()
    assert sync.keys == {key_of("three")}
    chats.delete(branch)
    chats.undelete(first)
    sync.settle()
    assert sync.keys == draftable(store.db).keys()
    assert len(sync.keys) == 2


def test_the_oldest_answers_go_when_there_are_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.history.past.CHARACTERS", 10)
    monkeypatch.setattr("specchat.app.history.past.SLACK", 4)
    sync = Told()
    put_answers(store, "12345678")
    sync.settle()
    put_answers(store, "abc")
    sync.settle()
    assert len(sync.keys) == 2  # together a little too many
    put_answers(store, "defg")
    sync.settle()
    assert [text for command in sync.sent for _, text in command.answers] == ["12345678", "abc", "defg"]
    assert sync.keys == draftable(store.db).keys()
    assert len(sync.keys) == 2


def test_a_deleted_chats_answers_leave_every_index(store: Store) -> None:
    chat, index = put_answers(store, "one"), past_folder() / "a tokenizer"
    put_answers(store, "two")
    Past(index).add([(key_of("one"), [1, 2]), (key_of("two"), [3])])
    forget_deleted()
    assert len(Past(index).keys) == 2
    Chats(store).delete(chat)
    forget_deleted()
    assert Past(index).keys == {key_of("two")}
