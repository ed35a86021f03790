"""What was typed in earlier chats: kept, found again, this user's alone."""

from __future__ import annotations

import errno
import gc
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.history import prompts as prompt_history
from specchat.app.history.drafts import Drafts
from specchat.app.history.prompts import PromptHistory, Typed, found, step_back
from specchat.app.tui.pickers.prompts import PromptSearch

from ...fakes.pilots import Make, chatting, command, settle

SIZE = (90, 26)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "prompts.jsonl"


def texts(file: Path) -> list[str]:
    return [typed.text for typed in PromptHistory(file).read()]


def test_messages_come_back_oldest_first_with_what_was_pasted(file: Path) -> None:
    history = PromptHistory()
    history.add(Typed("Grüße\nzwei 👩‍👩‍👧"))
    history.add(Typed("Sum up [pasted 212 lines]", {"[pasted 212 lines]": "line\n" * 212, "[other]": "not in it"}))
    assert history.path == file
    first, second = history.read()
    assert first == Typed("Grüße\nzwei 👩‍👩‍👧")
    assert second.pastes == {"[pasted 212 lines]": "line\n" * 212}


def test_nobody_else_can_read_it(file: Path) -> None:
    before = os.umask(0)
    try:
        PromptHistory(file).add(Typed("secret"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_damaged_lines_cost_themselves_alone(file: Path) -> None:
    PromptHistory(file).add(Typed("one"))
    with file.open("ab") as out:
        out.write(b'\xff\x00{]\n"text"\n[1]\n{"text": 5}\n{"text": "  "}\n{"text": "x", "pastes": [1]}\n' + b"[" * 9000 + b"\n")
        out.write(b'{"text": "two", "pa')  # killed in the middle of writing
    PromptHistory(file).add(Typed("three"))
    assert texts(file) == ["one", "three"]


def test_the_same_twice_in_a_row_is_one(file: Path) -> None:
    for text in ("a", "a", "b", "a"):
        PromptHistory(file).add(Typed(text))
    assert texts(file) == ["a", "b", "a"]


def test_the_oldest_go_when_it_grows_too_large(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "MOST_BYTES", 4000)
    history = PromptHistory(file)
    for number in range(300):
        history.add(Typed(f"message {number} {'x' * 80}"))
        assert file.stat().st_size <= 8200
    kept = texts(file)
    assert kept[-1].startswith("message 299 ")
    assert [int(text.split()[1]) for text in kept] == list(range(300 - len(kept), 300)), "no gap"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_disk_that_is_full_while_the_file_is_shortened_costs_one_message_at_most(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_history, "MOST_BYTES", 2000)
    history, sent = PromptHistory(file), list[str]()
    newest = history._newest

    def some() -> Iterator[bytes]:
        yield from newest()[:7]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(history, "_newest", some)
    while len(sent) < 100:
        sent.append(f"message {len(sent)} " + "x" * 80)
        try:
            history.add(Typed(sent[-1]))
        except OSError:
            break
    kept = texts(file)
    assert len(sent) > 30
    assert sum(text not in kept for text in sent[-20:-1]) <= 1


def test_nobody_writes_while_another_chat_does(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PromptHistory(file).add(Typed("one"))

    def kept(descriptor: int, how: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr("fcntl.flock", kept)  # in the place of a wait
    with pytest.raises(BlockingIOError):
        PromptHistory(file).add(Typed("two"))
    assert texts(file) == ["one"]


WRITER = """
import sys
from pathlib import Path
from specchat.app.history import prompts
file, name, count, prompts.MOST_BYTES = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    prompts.PromptHistory(file).add(prompts.Typed(f"{name} {number} {'x' * 60}"))
"""


def write_at_once(file: Path, names: str, count: int, most_bytes: int) -> None:
    """Several processes add messages to one file."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(file), name, str(count), str(most_bytes)]) for name in names]
    assert [writer.wait(120) for writer in writers] == [0] * len(names)


def test_chats_at_once_lose_nothing_new_while_the_file_is_shortened(file: Path) -> None:
    write_at_once(file, "ab", 150, 6000)
    kept = texts(file)
    assert kept[-1].split()[1] == "149"
    for name in "ab":
        own = [int(text.split()[1]) for text in kept if text.startswith(name)]
        assert own == list(range(150 - len(own), 150)), "no gap within what is left"


@given(st.lists(st.text(max_size=6), max_size=8), st.text(max_size=2), st.integers(0, 8))
def test_a_walk_visits_what_begins_so_in_order(history: list[str], prefix: str, start: int) -> None:
    at = min(start, len(history))
    seen = []
    while (to := step_back(history, at, prefix, -1)) is not None:
        seen.append(to)
        at = to
    assert seen == [index for index in reversed(range(min(start, len(history)))) if history[index].startswith(prefix)]


def test_a_search_finds_all_words_newest_first_each_once() -> None:
    history = ["A Lamp in May", "a lamp", "the night", "a lamp", "a LAMP of night"]
    assert found(history, "lamp a") == ["a LAMP of night", "a lamp", "A Lamp in May"]
    assert found(history, "") == ["a LAMP of night", "a lamp", "the night", "A Lamp in May"]


def keeping(make_chat: Make) -> Any:
    """A chat that keeps what is typed, and nothing else: no database is needed here."""
    app = make_chat()
    app.chat_history.keep = True
    app.chat_history._begin = lambda: None
    return app


async def send(app: Any, pilot: Any, engine: Any, *sent: str) -> None:
    for text in sent:
        await command(pilot, text)
        if not text.startswith("/"):
            engine.begin()
            engine.finish()
        await settle(app, pilot)


@pytest.mark.filterwarnings("error")
async def test_a_command_that_ran_is_no_draft(make_chat: Make, file: Path) -> None:
    first = keeping(make_chat)
    async with first.run_test(size=SIZE) as pilot:
        await pilot.pause()
        first.chat_screen.input.put("/quit")
        await pilot.press("enter")
    gc.collect()  # a coroutine that nobody has waited for is told here
    assert first.last_words == ""
    assert Drafts().take_over() == []


async def test_a_chat_that_ends_before_it_has_read_what_others_left_keeps_its_draft(make_chat: Make, file: Path) -> None:
    first = keeping(make_chat)
    async with first.run_test(size=SIZE) as pilot:
        await pilot.pause()
        first.chat_screen.recall._drafts = None
        first.chat_screen.input.put("half a thought")
        first.exit()
    assert "half a thought" in [typed.text for typed in Drafts().take_over()]


async def test_the_search_narrows_as_one_types_and_the_draft_is_one_down(make_chat: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        box.sent = ["What is a lamp?", "Write a story\nabout a lamp", "The KV cache"]
        await pilot.press("d", "ctrl+f")
        assert isinstance(app.screen, PromptSearch)
        await pilot.press(*"lamp")  # in place of the draft, which is looked for at first
        assert app.screen.listed.items == ["Write a story\nabout a lamp", "What is a lamp?"]
        await pilot.press("down", "enter")
        assert box.text == "What is a lamp?"
        await pilot.press("down", "down", "down")
        assert box.text == "d"
        await pilot.press("ctrl+f", "escape")
        assert box.text == "d"
        await pilot.press("ctrl+f", *"nothing", "enter")
        assert isinstance(app.screen, PromptSearch), "there is nothing to take"
