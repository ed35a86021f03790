"""Files and long pastes in the chat: offered, taken, folded, sent whole."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from textual.events import Paste

from specchat.app.attach.names import folder_of, names_below, names_in, offers, spelled, typed
from specchat.app.text.cells import FOLDED
from specchat.app.tui.composer.completion import Completion

from ....fakes.pilots import Make, chatting, command, settle, shown, toasts

SIZE = (90, 26)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    (here / "docs").mkdir(parents=True)
    for name in ("notes.txt", "docs/my notes.md", "docs/other.md", ".hidden"):
        (here / name).write_text("The lamp.\n")
    monkeypatch.chdir(here)
    return here


async def type_text(pilot: Any, text: str) -> None:
    await pilot.press(*({" ": "space", "@": "at", "/": "slash", ".": "full_stop"}.get(c, c) for c in text))


async def test_a_file_is_offered_taken_and_sent_whole(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        await type_text(pilot, "Read @not")
        await settle(app, pilot)
        offered = app.chat_screen.query_one(Completion)
        assert offered.display
        assert offered.names == ["notes.txt", "docs/my notes.md"]
        await pilot.press("down", "enter")
        await settle(app, pilot)
        assert app.chat_screen.input.text == 'Read @"docs/my notes.md" '
        assert not offered.display
        await pilot.press("enter")
        await settle(app, pilot)
        content = engine.asked.messages[-1]["content"]
        assert content.startswith("Attached file: docs/my notes.md (10 B)\n```\nThe lamp.\n```\n\nRead")
        assert "[docs/my notes.md · 10 B]" in shown(app)
        assert "The lamp" not in shown(app)
        assert app.chat_screen.input.sent == ['Read @"docs/my notes.md" ']


async def test_several_files_go_with_one_message_and_folders_lead_to_what_is_in_them(
    make_chat: Make, engine: Any, folder: Path
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "old papers" / "deep").mkdir(parents=True)
    for name in ("old papers/one.md", "old papers/deep/two.md", "old papers/three.log"):
        (folder / name).write_text(f"{name}\n")
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        await type_text(pilot, "Compare @not")
        await settle(app, pilot)
        await pilot.press("tab")
        await type_text(pilot, "and @old")
        await settle(app, pilot)
        offered = app.chat_screen.query_one(Completion)
        assert offered.names[0] == "old papers/"
        assert not any(name.endswith(".log") for name in offered.names)
        await pilot.press("tab")
        assert app.chat_screen.input.text == 'Compare @notes.txt and @"old papers/'
        assert "old papers/deep/" in offered.names, "a folder stays open for what is in it"
        await pilot.press("enter")
        await settle(app, pilot)
        assert "old papers/ is a folder" in toasts(app)
        await type_text(pilot, "one")
        await settle(app, pilot)
        await pilot.press("tab", "enter")
        await settle(app, pilot)
        content = engine.asked.messages[-1]["content"]
        attached = [line.split(" (")[0] for line in content.splitlines() if line.startswith("Attached")]
        assert attached == ["Attached file: notes.txt", "Attached file: old papers/one.md"]


async def test_a_message_that_waits_for_the_model_comes_back_as_it_was_typed(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await command(pilot, "Read @notes.txt")
        assert app.chat_screen.input.text == ""
        await pilot.press("escape")
        assert app.chat_screen.input.text == "Read @notes.txt"
        await pilot.press("enter")
        engine.loaded()
        await settle(app, pilot)
        assert "The lamp." in engine.asked.messages[-1]["content"]


LONG = "\n".join(f"line {i}" for i in range(212))


CHIP = f"{FOLDED}pasted 212 lines]"


async def test_a_long_paste_folds_unfolds_and_is_sent_whole(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        app.post_message(Paste(LONG))
        await pilot.pause()
        assert box.text == CHIP
        app.post_message(Paste(LONG.upper()))
        await pilot.pause()
        assert box.text == f"{CHIP}{FOLDED}pasted 212 lines, no. 2]"
        await pilot.press("backspace")
        assert box.text == CHIP
        await pilot.press("tab")
        assert box.text == LONG
        box.put(f"Sum up {CHIP} and [pasted 212 lines] too, {CHIP}")
        await pilot.press("enter")
        await settle(app, pilot)
        sent = engine.asked.messages[-1]["content"]
        assert sent.endswith(f"{LONG}\n```\n\nSum up [pasted 212 lines] and [pasted 212 lines] too,")
        assert sent.count(LONG) == 1
        assert "[pasted 212 lines · 1.8 kB]" in shown(app)
        await pilot.press("up")
        assert box.text == f"Sum up {CHIP} and [pasted 212 lines] too, {CHIP}"


EDITS = (
    "left right ctrl+left ctrl+right home end up shift+left shift+right backspace delete ctrl+w alt+backspace alt+d ctrl+k "
    "ctrl+u ctrl+z ctrl+x x ] tab"
).split()


@pytest.mark.parametrize("seed", range(4))
async def test_what_stands_for_a_paste_is_one_character_for_every_key(make_chat: Make, engine: Any, seed: int) -> None:
    """It goes or stays whole, wherever the cursor was put and whatever is pressed."""
    random = Random(seed)
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        for _ in range(25):
            box.put("")
            box.post_message(Paste(LONG))
            await pilot.pause()
            box.put(f"one {CHIP} two")
            box.move_cursor((0, random.randrange(len(box.text) + 1)))
            await pilot.press(*random.choices(EDITS, k=4))
            assert box.text.count(FOLDED) == box.text.count(CHIP), "it was cut in two"
            assert "line 0" in box.text or "pasted" not in box.text.replace(CHIP, ""), "a part of it was left"


def test_what_is_being_typed() -> None:
    assert typed("see @do") == (4, "do")
    assert typed('see @"my no') == (4, "my no")
    assert typed("@") == (0, "")
    assert typed("me@home") is None
    assert typed("@done ") is None


def test_names_and_their_spelling(folder: Path) -> None:
    assert names_below(Path()) == ["docs/", "notes.txt", "docs/my notes.md", "docs/other.md"]
    assert folder_of("no") is None
    assert folder_of(".") == ""
    assert offers(".", names_in("")) == [".hidden"]
    assert folder_of("../here/no") == "../here/"
    assert offers("../here/no", names_in("../here/")) == ["../here/notes.txt"]
    assert names_in("no/such/") == []
    assert [spelled(name) for name in ("a.md", "a b.md", "docs/", 'a "b')] == ["@a.md ", '@"a b.md" ', "@docs/", "@'a \"b' "]
