"""A chat is saved while it is written, and comes back as it was."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Notice
from specchat.app.chat.transcript import Transcript
from specchat.app.history import recorder as recorder_module
from specchat.app.history.chats import Chats, chat_settings, resume_settings
from specchat.app.history.recorder import Recorder
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import with_command_line
from specchat.app.tui.actions.history import go_on
from specchat.backends.base import Sampling
from specchat.engine.messages import Failed, Load, PieceTable, Steps
from specchat.engine.options import AnswerOptions, ModelSelection

from ...fakes.pilots import Make, chatting, settle
from ..conftest import facts, keep

Say = Callable[..., None]


def test_a_chat_comes_back(
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
    assert facts(opened.transcript) == facts(dialogue.transcript)
    assert opened.settings["method"] == "lookup"
    assert opened.model["context"] == 4096


def test_a_running_answer_is_saved(
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
        (answer,) = chats.open(chats.find().id).transcript.answers()
        assert answer.reason == "unfinished"
        texts.append(answer.text)
    assert texts[2] == dialogue.transcript.answers()[0].text
    assert len(texts[0]) < len(texts[1]) < len(texts[2])
    engine.finish(tail="!")
    dialogue.drain()
    keep(recorder, dialogue)
    assert facts(chats.open(chats.find().id).transcript) == facts(dialogue.transcript)
    assert [hit.chat.id for hit in chats.search('"one and"')] == []
    assert [hit.chat.id for hit in chats.search('"MORE. one"')] == [chats.find().id]


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
    assert chats.open(chats.find().id).transcript.answers()[0].text == answer.text
    assert chats.open(chats.find().id).transcript.answers()[0].reason == "cancelled"


def test_others_on_the_machine_cannot_read_it(recorder: Recorder, file: Path, dialogue: Dialogue, say: Say) -> None:
    say("A secret")
    keep(recorder, dialogue)
    for name in ("history.db", "history.db-wal"):
        assert stat.S_IMODE((file.parent / name).stat().st_mode) == 0o600
    assert sqlite3.connect(file).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def begin(dialogue: Dialogue, index: int) -> None:
    dialogue.transcript.begin_variant(index)


def turn(dialogue: Dialogue, place: int, to: int) -> None:
    dialogue.transcript.turn_variant(place, to)


def texts(transcript: Transcript) -> list[str]:
    return [entry.text for entry in transcript.entries]


def every_way(transcript: Transcript) -> list[list[str]]:
    """The texts of every way that a chat went on, by turning every fork."""
    endings: list[list[str]] = []

    def walk(index: int) -> None:
        for place in range(index, len(transcript.entries) + 1):
            fork = transcript.fork_before(place)
            if fork is not None and len(fork.ends) > 1:
                for number in range(len(fork.ends)):
                    transcript.turn_variant(place, number)
                    walk(place + 1)
                return
        endings.append(texts(transcript))

    walk(0)
    return endings


@pytest.fixture
def forked(dialogue: Dialogue, say: Say) -> Dialogue:
    """Chat with two answers to First, the second followed by more, and an edited First."""
    say("First", "One.")
    begin(dialogue, 1)
    dialogue.ask_again({**dialogue.request(), "method": "greedy"})
    return dialogue


def finish(dialogue: Dialogue, engine: Any, make_steps: Any, text: str) -> None:
    engine.begin()
    engine.events.append(Steps(engine.asked.id, make_steps(text)))
    engine.finish()
    dialogue.drain()


WAYS = [["First", "One."], ["First", "Once more.", "Second", "Two."], ["First!", "Anew."]]


@pytest.fixture
def many(forked: Dialogue, engine: Any, make_steps: Any, say: Say, recorder: Recorder) -> Dialogue:
    keep(recorder, forked)
    finish(forked, engine, make_steps, "Once more.")
    keep(recorder, forked)
    say("Second", "Two.")
    keep(recorder, forked)
    begin(forked, 0)
    say("First!", "Anew.")
    keep(recorder, forked)
    return forked


def test_every_way_comes_back(chats: Chats, many: Dialogue) -> None:
    assert chats.count() == 1
    opened = chats.open(1).transcript
    assert texts(opened) == ["First!", "Anew."]
    assert every_way(opened) == WAYS
    assert every_way(many.transcript) == WAYS
    answers = [entry for fork in opened.forks.values() for end in fork.ends for entry in end if isinstance(entry, Answer)]
    assert {(answer.asked["method"], answer.asked["sampling"]["seed"]) for answer in answers} == {("lookup", 0), ("greedy", 0)}
    assert chats.newest()[0].answers == 1  # on the screen
    assert [hit.chat.id for text in ("Once", "Two.", "Anew") for hit in chats.search(text)] == [
        1,
        1,
        1,
    ]  # what lies aside too


def test_an_opened_chat_goes_on_in_its_place(chats: Chats, recorder: Recorder, many: Dialogue, say: Say) -> None:
    many.transcript = chats.open(1).transcript
    turn(many, 0, 0)
    keep(recorder, many)
    begin(many, 2)
    say("Third", "Three.")
    keep(recorder, many)
    assert chats.count() == 1
    assert every_way(chats.open(1).transcript) == [
        *WAYS[:2],
        ["First", "Once more.", "Third", "Three."],
        WAYS[2],
    ]


def test_two_windows_on_one_chat_lose_nothing(file: Path, chats: Chats, recorder: Recorder, many: Dialogue, say: Say) -> None:
    mine = many.transcript
    other = Recorder(file)
    many.transcript = chats.open(1).transcript
    turn(many, 0, 0)
    keep(other, many)
    many.transcript = mine
    say("Meanwhile", "Something else.")
    keep(recorder, many)
    other.close()
    assert every_way(chats.open(1).transcript) == WAYS
    branch = next(row for row in chats.newest() if row.id != 1)
    assert every_way(chats.open(branch.id).transcript) == [*WAYS[:2], ["First!", "Anew.", "Meanwhile", "Something else."]]


@pytest.fixture
def opened(recorder: Recorder, chats: Chats, dialogue: Dialogue, say: Say, monkeypatch: Any, tmp_path: Path) -> Any:
    """Chat with other settings and another model than the default."""
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "config"))
    dialogue.settings = {"lookup": {"max_ngram": 4}}
    dialogue.options = AnswerOptions(sampling=Sampling(temperature=0.8, seed=7), max_tokens=50, stop=("END",))
    dialogue.selection = ModelSelection("/models/own", draft_model=("/models/small", "/models/tiny"), device="cuda:3")
    say("Hello")
    keep(recorder, dialogue)
    return chats.open(chats.find().id)


def test_the_settings_of_a_chat_come_back(opened: Any) -> None:
    settings = resume_settings(Settings(), opened)
    assert (settings.model, settings.draft_model) == ("/models/own", ("/models/small", "/models/tiny"))
    assert settings.device == Settings().device
    assert (settings.method, settings.methods) == ("lookup", {"lookup": {"max_ngram": 4}})
    assert (settings.sampling.temperature, settings.sampling.seed) == (0.8, 7)
    assert (settings.max_tokens, settings.stop) == (50, ("END",))


def test_what_the_command_line_asks_for_goes_before_them(opened: Any) -> None:
    changes = {"model": "builtin", "sampling.seed": 3}
    settings = resume_settings(with_command_line(Settings(), changes), opened, changes)
    assert (settings.model, settings.draft_model) == ("builtin", ())
    assert (settings.sampling.temperature, settings.sampling.seed) == (0.8, 3)


def test_what_another_version_wrote_is_left_out(opened: Any) -> None:
    opened.settings = {
        "method": "telepathy",
        "methods": {"lookup": {"max_ngram": "many", "depth": 2}},
        "sampling": {"temperature": -1, "seed": 5, "mood": "good"},
        "accept": ["exact"],
        "stop": [""],
        "max_tokens": 9,
    }
    assert chat_settings(opened) == {"sampling.seed": 5, "max_tokens": 9}


async def test_a_chat_from_the_list_brings_its_model(opened: Any, make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(model="builtin"), engine) as (app, pilot):
        app.show_chat(opened.transcript)
        go_on(app, opened)
        load = next(command for command in reversed(engine.sent) if isinstance(command, Load))
        assert load.selection == ModelSelection("/models/own", draft_model=("/models/small", "/models/tiny"))
        assert (app.dialogue.model, app.dialogue.phase) == ("/models/own", "loading")
        assert app.dialogue.options.sampling.seed == 7
        assert app.dialogue.settings == {"lookup": {"max_ngram": 4}}
        engine.events.append(Failed(load.id, "user", "There is no model /models/own: name another."))
        await settle(app, pilot)
        assert (app.dialogue.model, app.dialogue.phase) == ("builtin", "ready")
        notices = [entry.text for entry in app.dialogue.transcript.entries if isinstance(entry, Notice)]
        assert notices == ["There is no model /models/own: name another."]
        assert app.dialogue.transcript.answers()[0].text  # the chat is there to read
        assert app.dialogue.submit("And now?")
