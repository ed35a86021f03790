"""`specchat chats`, --continue, --resume and --no-history."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.entries import Prompt
from specchat.app.cli import start as launch
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import VERSION, Store, history_file
from specchat.app.saved.chat_json import read_chat
from specchat.app.settings.fields import Settings
from specchat.app.tui import app as chat_module
from specchat.errors import UserError

from ...fakes.terminal import Tty
from .conftest import Call


@pytest.fixture
def call(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return call


@pytest.fixture
def saved_chats(call: Call, dialogue: Any, say: Any) -> None:
    """Two chats: about lamps (with one answer) and about ships (two)."""
    recorder = Recorder()
    say("About lamps", "The keeper lit it.")
    recorder.note(dialogue)
    dialogue.clear()
    say("About \x1b[31mships", "They passed.")
    say("And more?", "No.")
    recorder.close(dialogue)


def test_the_list(call: Call, saved_chats: None) -> None:
    code, out, _ = call("chats", "list")
    assert code == 0
    second, first = out.splitlines()
    assert second.split()[0] == "2"
    assert second.endswith("  2  About ␛[31mships")
    assert first.endswith("  1  About lamps")
    _, out, _ = call("chats", "list", "--limit", "1")
    assert "… and 1 more: --limit 2 lists all." in out
    _, out, _ = call("chats", "list", "--json")
    body = json.loads(out)
    assert body["count"] == 2
    assert [(chat["id"], chat["answers"], chat["model"]) for chat in body["chats"]] == [(2, 2, "builtin"), (1, 1, "builtin")]


def test_an_empty_history(call: Call) -> None:
    assert call("chats", "list") == (0, "There are no chats yet. Start one with `specchat`.\n", "")
    assert call("chats", "search", "lamp")[::2] == (1, "No chat contains that.\n")


def test_a_search(call: Call, saved_chats: None) -> None:
    code, out, _ = call("chats", "search", "KEEPER lit")
    assert code == 0
    assert out.splitlines()[0].endswith("About lamps")
    assert out.splitlines()[1].strip() == "The keeper lit it."
    assert json.loads(call("chats", "search", "passed", "--json")[1])["chats"][0]["id"] == 2


def test_showing_a_chat(call: Call, saved_chats: None, tmp_path: Path) -> None:
    _, out, _ = call("chats", "show", "lamps")
    assert "> About lamps" in out
    assert "The keeper lit it." in out
    assert "\x1b" not in call("chats", "show", "2")[1]
    (tmp_path / "chat.json").write_text(call("chats", "show", "2", "--json")[1])
    entries = read_chat(tmp_path / "chat.json").transcript.entries
    assert [entry.text for entry in entries if isinstance(entry, Prompt)] == ["About \x1b[31mships", "And more?"]
    code, _, err = call("chats", "show", "about")
    assert code == 2
    assert "2 chats have 'about' in their title. Give the number of one of them (2, 1)." in err


def test_deleting_and_bringing_back(call: Call, saved_chats: None) -> None:
    code, out, _ = call("chats", "delete", "lamps")
    assert code == 0
    assert "`specchat chats delete --undo 1` undoes this (kept 30 days)" in out
    assert len(call("chats", "list")[1].splitlines()) == 1
    assert "About lamps" in call("chats", "list", "--deleted")[1]
    assert call("chats", "search", "keeper")[0] == 1
    assert call("chats", "delete", "--undo", "lamps")[1] == "Restored: 1  About lamps\n"
    assert len(call("chats", "list")[1].splitlines()) == 2


def test_exporting(call: Call, saved_chats: None, tmp_path: Path) -> None:
    code, out, _ = call("chats", "export", "1", "lamps.html")
    assert (code, out.strip().endswith("lamps.html.")) == (0, True)
    assert "About lamps" in (tmp_path / "lamps.html").read_text()
    assert "lamps.html already exists" in call("chats", "export", "1", "lamps.html")[1]
    assert "already" not in call("chats", "export", "1", "lamps.html", "--force")[1]
    assert "lamps.md." in call("chats", "export", "1", "lamps.md")[1]
    code, _, err = call("chats", "export", "1", "lamps.exe")
    assert code == 2
    assert ".exe" in err


Start = Callable[..., tuple[list[str], dict[str, Any]]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, engine: Any, saved_chats: None) -> Start:
    """Open the chat without a screen; return its texts, and the options of the screen."""
    opened: list[dict[str, Any]] = []
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(engine, "close", lambda: None, raising=False)
    monkeypatch.setattr(launch, "EngineClient", lambda: engine)
    monkeypatch.setattr(chat_module, "run_chat", lambda settings, client, **options: opened.append(options))

    def start(**options: Any) -> tuple[list[str], dict[str, Any]]:
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdin", Tty())
            patch.setattr("sys.stdout", Tty())
            launch.open_chat(Settings(), None, **options)
        transcript = opened[-1]["transcript"]
        return [entry.text for entry in transcript.entries] if transcript else [], opened[-1]

    return start


def test_a_history_of_a_newer_specchat_is_refused(call: Call, start: Start) -> None:
    sqlite3.connect(history_file()).execute(f"PRAGMA user_version = {VERSION + 1}").close()
    for command in (("chats", "list"), ("chats", "show", "1"), ("run", "--continue", "Hello")):
        code, _, err = call(*command)
        assert code == 2
        assert "was written by a newer specchat. Update this one" in err
    with pytest.raises(UserError, match="was written by a newer specchat"):
        start(last=True)


def test_the_chat_that_is_meant_is_continued_or_all_are_listed(start: Start, call: Call, tmp_path: Path) -> None:
    assert start(last=True)[0] == ["About \x1b[31mships", "They passed.", "And more?", "No."]
    with Store() as store:  # nothing was said, so nothing has changed
        assert [row.id for row in Chats(store).newest()] == [2, 1]
    assert start(resume="lamp")[0] == ["About lamps", "The keeper lit it."]
    assert start(resume="2")[0][0] == "About \x1b[31mships"
    assert start(resume="")[1]["browse"] == ""
    for text, sentence in (("zebra", "No chat is called 'zebra'"), ("about", "2 chats have 'about' in their title")):
        with pytest.raises(UserError, match=sentence):
            start(resume=text)
    (tmp_path / "chat.json").write_text(call("chats", "show", "1", "--json")[1])
    assert start(file=tmp_path / "chat.json")[0] == ["About lamps", "The keeper lit it."]
    with pytest.raises(UserError, match=r"Cannot read nothing\.json"):
        start(file=Path("nothing.json"))


CHOICES: dict[str, tuple[bool, bool, str | None, bool]] = {
    "": (True, False, None, False),
    "--continue": (True, True, None, False),
    "--resume": (True, False, "", False),
    "--resume --no-history": (False, False, "", False),
    "--resume 'the lamp'": (True, False, "the lamp", False),
    "--resume=lamp": (True, False, "lamp", False),
    "tour": (True, False, None, True),
}
"""Whether the chat is saved, is the last one, the chat that is meant, and whether the tour begins."""


def test_the_options(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[Any, ...]] = []

    def open_chat(settings: Settings, *_: Any, last: bool = False, resume: str | None = None, **more: Any) -> int:
        opened.append((settings.history, last, resume, more.get("tour", False)))
        return 0

    monkeypatch.setattr(launch, "open_chat", open_chat)
    for line, choice in CHOICES.items():
        call(*shlex.split(line))
        assert (line, opened[-1]) == (line, choice)
    for line in ("--continue --resume", "--continue --open x.json", "--resume x methods", "--open x.json methods"):
        assert call(*line.split())[0] == 2


def test_why_the_last_answer_was_no_faster(call: Call, saved_chats: None) -> None:
    code, out, _ = call("why")
    assert code == 0
    assert "Too short to judge: the answer took only 1 pass." in out
    assert json.loads(call("why", "lamps", "--json")[1])["causes"][0]["name"] == "short"
