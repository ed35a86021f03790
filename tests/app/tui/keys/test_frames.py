"""Every list, menu and text over the chat: its edge and the help have the same keys, and they are bound there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.models.memory import FreeMemory
from specchat.app.tui.keys.help import HelpScreen
from specchat.app.tui.pickers.chats import ChatsScreen
from specchat.app.tui.pickers.framed import FramedScreen
from specchat.app.tui.pickers.menu import Menu, picks
from specchat.app.tui.pickers.method_menu import MethodMenu
from specchat.app.tui.pickers.models import ModelsScreen
from specchat.app.tui.pickers.prompts import PromptSearch
from specchat.app.tui.pickers.search_screen import SearchScreen
from specchat.app.tui.pickers.settings import SettingsScreen
from specchat.app.tui.pickers.text import TextScreen
from specchat.app.tui.race.model import RaceModel
from specchat.app.tui.race.setup import RaceSetup

from ....fakes.models.model_folders import make_home
from ....fakes.pilots import Make, chatting, settle

Pilot = Any

WAYS: dict[type[FramedScreen[Any]], list[str]] = {
    MethodMenu: ["f2"],
    Menu: ["f3"],
    RaceSetup: ["h", "f5"],
    RaceModel: ["h", "f5", "m"],
    ModelsScreen: ["alt+m"],
    ChatsScreen: ["alt+h"],
    PromptSearch: ["ctrl+f"],
    SettingsScreen: ["alt+o"],
    TextScreen: ["alt+i"],
    HelpScreen: ["f1"],
}
"""How each is opened."""


@pytest.fixture
def open_screen(
    make_chat: Make, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Pilot, type], Awaitable[Any]]:
    """Opens one of them over a chat that has an answer."""
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("specchat.app.tui.actions.models.Models.room", lambda self: FreeMemory(8_000_000_000, "in memory"))
    make_home(tmp_path / "home", monkeypatch)

    async def open_screen(pilot: Pilot, kind: type) -> Any:
        engine.loaded()
        await settle(pilot.app, pilot)
        pilot.app.box.sent = ["One lamp", "Two lamps"]
        await pilot.press(*WAYS[kind])
        await pilot.pause()
        assert type(pilot.app.screen) is kind
        return pilot.app.screen

    return open_screen


def test_all_frames_are_here() -> None:
    def below(kind: type[Any]) -> Iterator[type[Any]]:
        for part in kind.__subclasses__():
            yield part
            yield from below(part)

    assert {kind for kind in below(FramedScreen) if kind.__module__.startswith("specchat")} - {SearchScreen} == set(WAYS)


@pytest.mark.parametrize("kind", WAYS)
async def test_the_edge_and_the_help_have_the_same_keys(make_chat: Make, open_screen: Any, kind: type) -> None:
    async with chatting(make_chat(), size=(60, 18)) as (app, pilot):
        screen = await open_screen(pilot, kind)
        for width in (60, 80):  # a narrow edge says how to leave
            await pilot.resize_terminal(width, 18)
            await pilot.pause()
            narrow = str(screen.frame.border_subtitle)
            last = " · ".join(f"{hint.label}" for hint in screen.ways_out())
            assert narrow.endswith(last.rpartition(" · ")[2])
            assert "esc " in narrow
            drawn = [strip.text for strip in screen._compositor.render_strips()]
            assert any(narrow in row for row in drawn)  # not cut
        if kind is HelpScreen:
            return
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        edge = str(screen.frame.border_subtitle).split(" · ")
        key_context = screen.key_context
        bound = {binding.binding.id for binding in screen.active_bindings.values()} | {
            "list_help",
            "list_choose",
        }  # the box has these
        for hint in key_context.hints:
            assert hint.keys or set(hint.ids) <= bound, hint
        # Rows of several keys, arrows say, count as that many.
        assert 8 <= sum(len(hint.ids) or 1 for hint in key_context.hints) <= 14
        assert len(key_context.hints) <= 13
        await pilot.press("f1" if kind is TextScreen else "question_mark")
        shown = app.screen
        assert isinstance(shown, HelpScreen)
        items = list(shown.listed.items)
        rows = items[1 : next(i for i, item in enumerate(items) if not item.title)]
        assert items[0].title == key_context.name
        assert len(rows) == len(key_context.hints) - 1  # that for help itself
        keys = {row.keys.split("  ")[0] for row in rows} | {"?", "F1"}
        assert len(edge) >= 3
        for part in edge:
            assert any(part.startswith(f"{key} ") for key in keys), part
        await pilot.press("escape")
        assert app.screen is screen


async def test_a_question_is_asked_with_its_sign(make_chat: Make, open_screen: Any) -> None:
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        screen = await open_screen(pilot, SettingsScreen)
        await pilot.press("a", "question_mark")
        assert app.screen is screen
        assert screen.box.value == "a?"
        assert "F1 help" in str(screen.frame.border_subtitle)
        await pilot.press("escape", *"max_tokens", "enter")
        assert screen.asking
        screen.box.value = ""
        await pilot.press("question_mark")  # it is an answer
        assert screen.box.value == "?"


def test_keys_of_items() -> None:
    assert [picks(n) for n in (1, 2, 9, 10, 11, 12, 40)] == ["1", "1–2", "1–9", "0–9", "0–9 a", "0–9 a–b", "0–9 a–z"]
