"""Sent messages and text being typed: kept, found again, this user's alone; whatever ended the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specchat.app.history.store import Store
from specchat.app.history.typed import NEW, Drafts, Typed, keep_sent, sent_before

from ...fakes.pilots import Make

SIZE = (90, 26)


def texts(typed: list[Typed]) -> list[str]:
    return [draft.text for draft in typed]


def test_messages_come_back_oldest_first_none_twice_in_a_row_with_what_was_pasted(file: Path) -> None:
    keep_sent(Typed("Grüße\nzwei 👩‍👩‍👧"), file)
    keep_sent(Typed("Grüße\nzwei 👩‍👩‍👧"), file)
    keep_sent(Typed("Sum up [pasted 212 lines]", {"[pasted 212 lines]": "line\n" * 212, "[other]": "not in it"}), file)
    keep_sent(Typed("a \ud800", {"a": "\udc80 b"}), file)
    first, second, third = sent_before(file)
    assert first == Typed("Grüße\nzwei 👩‍👩‍👧")
    assert second.pastes == {"[pasted 212 lines]": "line\n" * 212}
    assert third == Typed("a ?", {"a": "? b"})


def test_the_oldest_go_when_there_are_too_many(file: Path) -> None:
    with Store(file) as store, store.transaction() as db:
        db.executemany("INSERT INTO sent (json) VALUES (?)", [(f'{{"text": "message {number}"}}',) for number in range(1500)])
    keep_sent(Typed("short"), file)
    assert texts(sent_before(file)) == [*(f"message {number}" for number in range(501, 1500)), "short"]
    keep_sent(Typed("x" * 200_000), file)
    assert len(sent_before(file)) == 1000


def typing(file: Path, chat: int, **by_chat: str) -> Drafts:
    drafts = Drafts(file)
    drafts.by_chat = {int(name[1:]): [Typed(text)] for name, text in by_chat.items()}
    drafts.write(drafts.typing(chat))
    return drafts


def test_the_next_specchat_takes_what_was_on_the_screen_and_knows_the_others(file: Path) -> None:
    typing(file, 5, c5="Being typed", c7="In another chat")
    after = Drafts(file)
    assert texts(after.take_over()) == ["Being typed"]
    assert {chat: texts(draft) for chat, draft in after.by_chat.items()} == {NEW: ["Being typed"], 7: ["In another chat"]}
    assert texts(Drafts(file).take_over()) == ["Being typed"]


KILLED = """
import os, signal, sys
from pathlib import Path
from specchat.app.history.typed import Drafts, Typed
drafts = Drafts(Path(sys.argv[1]))
drafts.by_chat = {0: [Typed(sys.argv[2] * 200_000)]}
drafts.write(drafts.typing(0))
print("typed", flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_running_one_keeps_its_own_which_comes_back_at_any_length_when_it_was_killed(file: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(file), "漢字"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()
        assert Drafts(file).take_over() == []
    assert running.returncode == -9
    assert texts(Drafts(file).take_over()) == ["漢字" * 200_000]


def test_what_a_thread_writes_late_is_older_and_changes_nothing(file: Path) -> None:
    drafts = typing(file, NEW, c0="Half")
    late, drafts.by_chat[NEW] = drafts.typing(NEW), [Typed("Half a thought")]
    drafts.write(drafts.typing(NEW), last=True)
    drafts.write(late)
    drafts.write((NEW, {}))
    assert texts(Drafts(file).take_over()) == ["Half a thought"]


def keeping(make_chat: Make) -> Any:
    """A chat that keeps what is typed, and nothing else."""
    app = make_chat()
    app.chat_history.keep = True
    app.chat_history._start_recorder = lambda: None
    return app


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("writable", [True, False])
async def test_an_early_end_keeps_the_draft(make_chat: Make, data: None, tmp_path: Path, writable: bool) -> None:
    if not writable:
        (tmp_path / "data").write_text("a file where the folder should be")
    first = keeping(make_chat)
    async with first.run_test(size=SIZE) as pilot:
        await pilot.pause()
        first.chat_screen.recall._drafts = None  # it has not read yet what others left
        first.chat_screen.input.put("half a thought")
        first.exit()
    if writable:
        assert "half a thought" in texts(Drafts().take_over())
    else:
        assert first.last_words == "What you were typing could not be saved:\nhalf a thought"
