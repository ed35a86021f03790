"""Every key of the chat, pressed, with the input box focused unless said otherwise."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from specchat.app.settings.keymap import ALL
from specchat.app.tui.actions.help import HelpScreen
from specchat.app.tui.chat.widgets import Welcome
from specchat.app.tui.keys import KEYS
from specchat.engine.messages import Cancel, Failed, Loading, Steps, Switched

from ...fakes.pilots import Make, ask, chatting, command, rows, settle, toasts

SIZE = (90, 26)


async def test_a_waiting_message_comes_back_when_the_load_fails(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        app.chat_screen.input.put("early")
        await pilot.press("enter", "d")
        engine.events = [Failed(1, "user", "There is no model here.")]
        await settle(app, pilot)
        assert app.chat_screen.input.text == "early\nd"
        assert "no model is loaded" in app.chat_screen.query_one("#status").render().plain


async def test_help_finds_every_key_and_command(make_chat: Make) -> None:
    async with chatting(make_chat(**{"keymap.next_method": "f9"}), size=(100, 40)) as (app, pilot):
        await pilot.press("f1")
        screen = app.screen
        assert isinstance(screen, HelpScreen)
        ids = {id for entry in screen.listed.items for id in (entry.id, *entry.id.split())}
        helps = {"help", "ask_help", "race_help"}
        assert {key.id for key in ALL if not key.id.startswith("leader_")} - ids <= helps
        text = " ".join(entry.text for entry in screen.listed.items).lower()
        for word in ("/method name", "same distribution"):
            assert word in text
        screen.box.value = KEYS["next_method"].what
        await pilot.pause()
        assert [entry.keys for entry in screen.listed.items] == ["F9  ^o n"]
        await pilot.press("escape", "escape")
        assert app.screen is app.chat_screen


async def test_a_new_chat_and_the_last_one(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await ask(pilot, engine, "Hello", make_steps(), finish=False)
        engine.finish()
        await settle(app, pilot)
        await pilot.press("ctrl+l")
        assert app.dialogue.transcript.entries == []
        assert app.chat_screen.query_one(Welcome).display
        assert "New chat" in toasts(app)
        await pilot.press("ctrl+l")
        assert app.dialogue.transcript.entries == []
        await pilot.press(*"/open", "enter")
        assert len(app.dialogue.transcript.answers()) == 1
        assert not app.chat_screen.query_one(Welcome).display
        app._idle()
        assert "New chat" not in toasts(app)


async def test_scrolling_and_following(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        id = await ask(pilot, engine, "Hello", make_steps("one two three\n" * 60), finish=False)
        view, hint = app.chat_screen.view, app.chat_screen.query_one("#below")
        await pilot.pause()
        end = view.scroll_offset.y
        assert end == view.max_scroll_y > 0
        await pilot.press("pageup")
        assert view.scroll_offset.y < end
        up = view.scroll_offset.y
        await pilot.resize_terminal(60, SIZE[1])
        await pilot.resize_terminal(*SIZE)
        assert view.scroll_offset.y == up
        assert "new text" not in str(hint.render())  # it is only wrapped anew
        engine.events = [Steps(id, make_steps("more\n" * 20))]
        await settle(app, pilot)
        assert view.scroll_offset.y == up
        assert hint.display
        assert "new text" in str(hint.render())
        await pilot.press("pagedown")
        assert up < view.scroll_offset.y < view.max_scroll_y
        await pilot.press("ctrl+end")
        assert view.scroll_offset.y == view.max_scroll_y
        await pilot.pause()
        assert not hint.display
        await pilot.press("ctrl+home")
        assert view.scroll_offset.y == 0
        await pilot.press("end")  # the box is empty
        assert view.scroll_offset.y == view.max_scroll_y
        engine.events = [Steps(id, make_steps("more\n" * 20))]
        await settle(app, pilot)
        assert view.scroll_offset.y == view.max_scroll_y


async def test_ctrl_c(make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # A second press is one however late a busy machine brings it.
    monkeypatch.setattr("specchat.app.tui.chat.screen.ChatScreen._disarm", lambda screen: None)
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        id = await ask(pilot, engine, "Hello", make_steps()[:3], finish=False)
        app.chat_screen.input.put("word")
        app.chat_screen.input.select_all()
        await pilot.press("ctrl+c")
        assert app.clipboard == "word"
        app.chat_screen.input.put("draft")
        await pilot.press("ctrl+c")
        assert engine.sent[-1] == Cancel(id)
        engine.finish("cancelled")
        await settle(app, pilot)
        await pilot.press("ctrl+c")
        assert app.is_running
        assert "again to quit" in toasts(app)
        assert app.chat_screen.input.text == "draft"
        await pilot.press("ctrl+c")
        assert not app.is_running


async def test_ctrl_c_quits_beside_a_slow_load(make_chat: Make, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.tui.chat.screen.ChatScreen._disarm", lambda screen: None)
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        engine.events = [Loading(1, "weights", 40, 100)]
        await settle(app, pilot)
        await pilot.press("ctrl+c")
        assert engine.sent[-1] == Cancel(1)
        engine.events = [Loading(1, "weights", 41, 100)]
        await settle(app, pilot)
        await pilot.press("ctrl+c", "ctrl+c")
        assert not app.is_running


async def test_resizes_keep_the_place_in_the_text(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Each begins at the word that was at the top when the first one came, not at the row that this made of it."""
    async with chatting(make_chat(), engine, size=(90, 20)) as (app, pilot):
        await ask(pilot, engine, "Hello", make_steps(" ".join(f"word{n}" for n in range(600))))
        view = app.chat_screen.view
        view.scroll_to(y=20, animate=False, immediate=True, force=True)
        await pilot.pause()
        top = rows(view)[0]
        for width in (61, 44, 87, 52, 73, 39, 66, 81, 57, 48, 70, 42, 63, 78, 90):
            await pilot.resize_terminal(width, 20)
            assert set(top.split()) & set(rows(view)[0].split())
        assert rows(view)[0] == top


HEADLESS = """
import asyncio, sys
from specchat.app.tui.app import SpecchatApp
from specchat.app.settings.fields import Settings

class Engine:
    def drain(self): return []
    def send(self, command): pass
    def next_id(self): return 1
    def load(self, model, **options): return 1

async def main():
    app = SpecchatApp(Settings(), Engine())
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "f1", "escape", "f2", "escape", "f3", "escape", "ctrl+p", "escape", "f4", "f4", "f4")

asyncio.run(main())
print(sorted({"torch", "transformers", "numpy", "llama_cpp", "tokenizers", "accelerate"} & set(sys.modules)))
"""


def test_the_drawing_process_imports_no_runtime() -> None:
    done = subprocess.run([sys.executable, "-c", HEADLESS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"


async def test_a_frame_costs_the_same_however_long_the_chat_is(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Counted, not timed: lines wrapped and rows drawn for one more step."""
    async with chatting(make_chat(), engine, size=(100, 30)) as (app, pilot):
        await command(pilot, "Go")
        id = engine.begin()
        view = app.chat_screen.view
        costs = []
        for _ in range(3):
            engine.events.append(Steps(id, make_steps(drafts=False) * 20))
            await settle(app, pilot)
            flow = view.blocks[-1].flow
            before, drawn = flow.settled, view.draws
            for _ in range(10):
                engine.events.append(Steps(id, make_steps("word", drafts=False)))
                await settle(app, pilot)
            costs.append((len(flow.lines) - before, view.draws - drawn))
        assert max(rows for rows, _ in costs) <= 12
        assert max(draws for _, draws in costs) <= 10 * 10
        assert abs(costs[0][1] - costs[-1][1]) <= 30


async def test_selected_text_is_the_models_own(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Dragging over wrapped lines gives the text without margins, marks and the breaks of wrapping."""
    async with chatting(make_chat(), engine, size=(60, 24)) as (app, pilot):
        await command(pilot, "Go")
        id = engine.begin(make_steps("one two three four five six seven eight nine ten eleven twelve thirteen"))
        engine.events += [Switched(id, "greedy", "identical"), Steps(id, make_steps(" fourteen\n\nend", method="greedy"))]
        await settle(app, pilot)
        view = app.chat_screen.view
        await pilot.mouse_down(view, offset=(7, 3))
        await pilot.hover(view, offset=(6, 6))
        await pilot.mouse_up(view, offset=(6, 6))
        await pilot.press("ctrl+c")
        expected = "two three four five six seven eight nine ten eleven twelve thirteen fourteen\n\nend"
        assert app.clipboard == expected
