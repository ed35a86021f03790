"""The keys that matter at a moment, in the bar and in the help; the leader key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.models.memory import FreeMemory
from specchat.app.settings.actions import ACTIONS
from specchat.app.settings.keymap import ALL, CHAT, INPUT, LEADER
from specchat.app.tui.actions.help import HelpScreen
from specchat.app.tui.keys import KeyBar, LeaderScreen
from specchat.app.tui.pickers.chats import ChatsScreen
from specchat.app.tui.pickers.framed import FramedScreen
from specchat.app.tui.pickers.menu import Menu, picks
from specchat.app.tui.pickers.models import ModelsScreen
from specchat.app.tui.pickers.search_screen import SearchScreen
from specchat.app.tui.pickers.settings import SettingsScreen
from specchat.app.tui.pickers.text import TextScreen
from specchat.app.tui.race.setup import RaceSetup

from ....fakes.models.model_folders import make_home
from ....fakes.pilots import Make, ask, chatting, settle

SIZE = (100, 30)


def bar(app: Any) -> str:
    return str(app.screen.query_one(KeyBar).render()).strip()


async def answering(app: Any, pilot: Any, engine: Any, make_steps: Make) -> None:
    await ask(pilot, engine, "Hello", make_steps(), finish=False)


def plain(key: str) -> bool:
    """Whether a key arrives from every terminal: with alt it does not, and macOS keeps what scrolls its window."""
    return not re.fullmatch(r"(alt|shift)\+.*|(ctrl\+)?(home|end)|ctrl\+(up|down)|page(up|down)", key)


def test_nothing_needs_alt_or_an_f_key() -> None:
    letters = {key.id.removeprefix("leader_") for key in LEADER}
    for key in ALL:
        easy = [name for name in key.keys.split(",") if plain(name) and not re.fullmatch(r"f\d+", name)]
        # The first and the last run of a chat, of a list: what arrows and pages do, only farther.
        far = re.fullmatch("(inspect|list|menu)_(first|last|page_up|page_down)", key.id)
        assert easy or key.id in letters or far or key.id == "follow", key.id
    assert all(any(plain(name) for name in key.keys.split(",")) for key in LEADER)


def test_no_key_is_a_multiplexers_prefix_and_none_clashes() -> None:
    bound = {name for key in ALL for name in key.keys.split(",")}
    assert not bound & {"ctrl+a", "ctrl+b", "ctrl+h", "ctrl+i", "ctrl+m"}
    in_the_chat = {name for key in (*CHAT, *INPUT) for name in key.keys.split(",")}
    assert not in_the_chat & {"space", "ctrl+s", "ctrl+z"}, "these mean something else there"
    assert all(len(name) > 1 for name in in_the_chat), "bare characters always type"
    assert all(any(not name.startswith(("shift+", "ctrl+shift+", "super+")) for name in key.keys.split(",")) for key in ALL)

    assert all(key.short for key in ALL if key not in CHAT)
    assert all(len(key.short) <= 16 for key in ALL), "a name for the bar"


def test_alt_and_f_keys_keep_their_letter_after_the_leader() -> None:
    letters = {key.id.removeprefix("leader_"): key.keys.split(",") for key in LEADER}
    for row in ACTIONS:
        for key in (row.keys or "").split(","):
            if match := re.fullmatch(r"alt\+(.*)|f(\d)", key):
                letter = match[1] or match[2]
                occupied = any(letter in keys for id, keys in letters.items() if id != row.id)
                assert letter in letters[row.id] or occupied, row.id


async def test_the_bar_shows_what_fits_the_moment(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):

        async def check(keys: str, *parts: str) -> None:
            await pilot.press(*keys.split())
            assert all(part in bar(app) for part in parts), bar(app)

        await check("", "? help   ^n next method")
        await check("h", "enter send   ^j new line")
        await check("backspace slash", "tab take")
        await pilot.press("backspace")
        await answering(app, pilot, engine, make_steps)
        await check("", "esc stop   ^n next method")
        await check("f8", "F9 one pass   F8 continue   esc stop")
        await pilot.press("f8")
        engine.finish()
        await settle(app, pilot)
        await check("", "F7 inspect   F5 race")
        await check("f7", "←→↑↓ other passes")
        await check("escape alt+up", "^y copy")


async def test_the_leader_waits_for_a_letter(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(**{"keymap.leader_chats": "x"}), engine, size=SIZE) as (app, pilot):
        await pilot.click("#keys", offset=(str(bar(app)).index("methods") + 2, 0))
        assert isinstance(app.screen, Menu), "a click does what the key does"
        await pilot.press("escape", "ctrl+o")
        assert isinstance(app.screen, LeaderScreen)
        letters = str(app.screen._letters.render())
        assert re.search(r"x +chats", letters)
        assert re.search(r"m +models", letters)
        await pilot.press("escape", "ctrl+o", "2")
        assert isinstance(app.screen, Menu)
        await pilot.press("escape", "ctrl+o", "ctrl+o", "a")
        assert app.box.text == "a"
        for _ in range(2):
            await answering(app, pilot, engine, make_steps)
            engine.finish()
            await settle(app, pilot)
        await pilot.press("ctrl+o", "up", "up", "up")
        assert isinstance(app.screen, LeaderScreen), "these keys repeat"
        assert app.view.mark.entry is app.dialogue.transcript.entries[1]
        assert str(app.screen._letters.render()).split() == "↑ prev message ↓ next message esc done".split()
        await pilot.press("ctrl+y")  # goes to the chat
        assert app.screen is app.chat_screen
        assert app.clipboard == app.dialogue.transcript.entries[1].text


async def test_the_help_begins_with_what_is_here(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        for keys, title, first in (
            ("", "A new chat", ["next_method", "method_menu"]),
            ("answer", "An answer is being written", ["cancel", "next_method"]),
            ("finish f7", "Inspecting a pass", []),
            ("escape f2", "Decoding method", ["menu_choose"]),
            ("escape alt+o", "Settings", ["list_choose", "settings_default", "list_leave"]),
        ):
            if keys == "answer":
                await answering(app, pilot, engine, make_steps)
            elif keys.startswith("finish"):
                engine.finish()
                await settle(app, pilot)
            await pilot.press(*(key for key in keys.split() if key not in ("answer", "finish")), "f1")
            assert isinstance(app.screen, HelpScreen)
            items = app.screen.listed.items
            ids = [item.id for item in items[1 : next(i for i, item in enumerate(items) if not item.title)]]
            assert (items[0].title, ids[: len(first)]) == (title, first)
            assert 3 <= len(ids) <= 13
            await pilot.press("f1")


WAYS: dict[type[FramedScreen[Any]], list[str]] = {
    Menu: ["f2"],
    RaceSetup: ["h", "f5"],
    ModelsScreen: ["alt+m"],
    ChatsScreen: ["alt+h"],
    SettingsScreen: ["alt+o"],
    TextScreen: ["alt+i"],
    HelpScreen: ["f1"],
}
"""Keys that open each screen."""


def test_all_frames_are_here() -> None:
    def below(kind: type[Any]) -> Iterator[type[Any]]:
        for part in kind.__subclasses__():
            yield part
            yield from below(part)

    assert {kind for kind in below(FramedScreen) if kind.__module__.startswith("specchat")} - {SearchScreen} == set(WAYS)


async def test_the_edge_and_the_help_of_every_frame_have_the_same_keys(
    make_chat: Make, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("specchat.app.tui.actions.models.Models.room", lambda self: FreeMemory(8_000_000_000, "in memory"))
    make_home(tmp_path / "home", monkeypatch)
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        for kind, ways in WAYS.items():
            app.box.put("")
            await pilot.press(*ways)
            screen = app.screen
            assert type(screen) is kind
            await pilot.resize_terminal(60, 18)
            narrow = str(screen.frame.border_subtitle)  # says how to leave, and is not cut
            assert narrow.endswith(screen.ways_out()[-1].label)
            assert "esc " in narrow
            assert any(narrow in strip.text for strip in screen._compositor.render_strips())
            await pilot.resize_terminal(*SIZE)
            if kind is not HelpScreen:
                await check_help(app, pilot, screen)
            await pilot.press("escape")
        await pilot.press("alt+o", "a", "question_mark")  # asks for help in an empty box alone
        assert app.screen.box.value == "a?"
        assert "F1 help" in str(app.screen.frame.border_subtitle)
        await pilot.press("escape", *"max_tokens", "enter", "ctrl+u", "question_mark")
        assert isinstance(app.screen, TextScreen)
        assert app.screen.text == "?"


async def check_help(app: Any, pilot: Any, screen: Any) -> None:
    """The help begins with the keys of the frame, which are bound."""
    edge, key_context = str(screen.frame.border_subtitle).split(" · "), screen.key_context
    bound = {binding.binding.id for binding in screen.active_bindings.values()} | {"list_help", "list_choose"}  # the box's
    assert all(hint.keys or set(hint.ids) <= bound for hint in key_context.hints)
    assert 3 <= len(key_context.hints) <= 8
    await pilot.press("f1" if isinstance(screen, TextScreen) else "question_mark")
    items = list(app.screen.listed.items)
    rows = items[1 : next(i for i, item in enumerate(items) if not item.title)]
    assert items[0].title == key_context.name
    assert len(rows) == len(key_context.hints) - 1  # that for help itself
    keys = {row.keys.split("  ")[0] for row in rows} | {"?", "F1"}
    assert len(edge) >= 2
    assert all(any(part.startswith(f"{key} ") for key in keys) for part in edge), edge
    await pilot.press("escape")
    assert app.screen is screen


def test_keys_of_items() -> None:
    assert [picks(n) for n in (1, 2, 9, 10, 11, 12, 40)] == ["1", "1–2", "1–9", "0–9", "0–9 a", "0–9 a–b", "0–9 a–z"]
