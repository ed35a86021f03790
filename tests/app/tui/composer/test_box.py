"""What is pasted, recalled or edited is seen in the input box, controls too."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.history.typed import Typed
from specchat.app.terminal.editor import editor_command
from specchat.app.text.cells import enterable
from specchat.app.tui.driver import TerminalParser
from specchat.engine.messages import Generate, Loading
from specchat.errors import UserError

from ....fakes.pilots import Make, ask, chatting, until

EVIL = "a\x1b]0;owned\x07 \x1b[31mred\x9b2J \u202eb\u2066 [bold]x[/bold]\r\ntwo\u2028three"


def drawn(box: Any) -> str:
    return "\n".join(box.render_line(y).text for y in range(box.size.height))


@given(st.text())
@example(EVIL)
def test_what_may_be_entered_has_no_controls_and_one_kind_of_line_break(text: str) -> None:
    entered = enterable(text)
    assert entered.splitlines() == entered.removesuffix("\n").split("\n") or not entered
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", entered)
    entered.encode()
    assert enterable(entered) == entered


async def test_nothing_that_gets_into_the_box_acts(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        box = app.chat_screen.input

        def brought_back() -> None:
            box.sent = [EVIL]
            box.bring(EVIL)

        ways: list[Callable[[], object]] = [
            lambda: app.post_message(Paste(EVIL)),
            lambda: box.put(EVIL),
            brought_back,
            lambda: box.rewrite(EVIL),
            lambda: box.insert(EVIL),
            lambda: box.recall([Typed(enterable(EVIL))]),  # taken from the history
        ]
        for way in ways:
            box.put("")
            way()
            if way is ways[-1]:
                await pilot.press("up")
            await pilot.pause()
            assert "red" in drawn(box)
            assert "[bold]x[/bold]" in drawn(box)
            assert "␛[31m" in drawn(box)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", drawn(box))
            assert box.text == enterable(EVIL)
            assert "\u202eb" in box.text, "a mark of direction is sent as it was written"
            assert box.document.line_count == 3
        await pilot.press("x", "up", "up", "backspace")
        assert box.text != enterable(EVIL)


def typed_at_once(box: Any, keys: str) -> None:
    """Keys that arrive together, as over ssh, or from a terminal's own paste."""
    for key in keys:
        box.post_message(Key("enter", "\r") if key == "\r" else Key(key, key))


async def test_what_is_typed_behind_an_enter_does_not_get_in_before_it(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        engine.loaded()
        await until(pilot, lambda: app.dialogue.phase == "ready")
        typed_at_once(app.chat_screen.input, "/method greedy\rWhat is a tree?\rAnd a")
        await pilot.pause()
        assert app.dialogue.method == "greedy"
        asked = [command.messages for command in engine.sent if isinstance(command, Generate)]
        assert asked == [[{"role": "user", "content": "What is a tree?"}]]
        assert app.chat_screen.input.text == "And a"


TYPED = [
    "東京\u3000大阪", "10\u00a0km", "10\u202fkm", "می\u200cخواهم", "👩\u200d🚀", "abc\u200f!", "a\u00adb",
    "❤\ufe0f", "e\u0301",
    "\ue0b0x",     "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001fae9", "\U0002ebf0",
]  # fmt: skip
"""What keyboards and input methods send, of which Python prints some as escapes."""


async def test_all_that_is_text_can_be_typed(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        box = app.chat_screen.input
        for text in TYPED:
            box.put("")
            for message in TerminalParser().feed(text):
                app.post_message(message)
            await pilot.pause()
            assert box.text == text


async def test_keys_take_what_a_reader_sees(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        box = app.chat_screen.input
        for text in ("🇩🇪", "👍🏽", "👩\u200d🚀", "e\u0301", "ü", "漢"):
            box.put(f"a{text}")
            await pilot.press("left", "x", "right", "backspace")
            assert box.text == "ax"
        box.put("one two three")
        app.post_message(Key("alt+q", "q"))  # bound to nothing, so it types nothing
        await pilot.press("home", "alt+d")
        assert box.text == " two three"
        await pilot.click(box, offset=(2, 0), times=2)
        assert box.selected_text == "two"
        await pilot.press("end", "alt+backspace")
        assert box.text == " two "


async def test_keys_that_come_with_one_that_moves_the_focus_go_where_it_went(make_chat: Make) -> None:
    """Keys arrive apart, as over a slow link or from a script."""
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        for key, character in (("ctrl+o", None), ("2", "2"), ("x", "x")):
            app.post_message(Key(key, character))
        await pilot.pause()
        assert app.box.text == ""
        assert type(app.screen).__name__ == "MethodMenu"


async def test_the_terminals_cursor_is_the_caret(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        box = app.chat_screen.input
        await pilot.pause()
        assert app.cursor_position == box.cursor_screen_offset != (0, 0)
        await pilot.resize_terminal(70, 20)
        await pilot.pause()
        assert app.cursor_position == box.cursor_screen_offset
        await pilot.press("f1")
        await pilot.pause()
        assert app.cursor_position == app.focused.cursor_screen_offset
        await pilot.press("escape")
        await pilot.pause()
        assert app.cursor_position == box.cursor_screen_offset


async def test_nothing_typed_is_lost_with_the_chat(make_kept: Make, engine: Any, make_steps: Make) -> None:
    """The message that waits for a load, and the draft behind an edit, come back as well."""

    def kept() -> Any:
        app = make_kept()
        app.chat_history.keep = True
        return app

    async with chatting(kept(), size=(90, 26)) as (app, pilot):
        app.box.put("Early")
        await pilot.press("enter")
        assert app.dialogue.queued == "Early"
        engine.events = [Loading(1, "draft check", 40, 100)]
        app.take_events()
        assert "● your message waits for the model" in str(app.screen.query_one("#status").render()), "at any width"
        app.box.put("Later")
        app.chat_screen.recall.leave()
    async with chatting(kept(), size=(90, 26)) as (app, pilot):
        await until(pilot, lambda: app.box.text == "Later")
        await pilot.press("up")
        assert app.box.text == "Early"
        await pilot.press("down")
        app.box.put("")
        await ask(pilot, engine, "Hello", make_steps())
        app.box.put("Set aside")
        app.message_edit.edit()
        app.box.put("Hello there")
        app.chat_screen.recall.leave()
    async with chatting(kept(), size=(90, 26)) as (app, pilot):
        await until(pilot, lambda: app.box.text == "Hello there")
        await pilot.press("up")
        assert app.box.text == "Set aside"


# Which editor is opened, and what is said where there is none. tests/e2e has it open one


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with some editors on it."""
    for name in ("nano", "vi", "code", "my editor"):
        file = tmp_path / name
        file.write_text("#!/bin/sh\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("setting", "visual", "editor", "command"),
    [
        ("vi -R", "nano", "nano", ["vi", "-R"]),
        (None, "'my editor' -x", "nano", ["my editor", "-x"]),
        (" ", "", "vi", ["vi"]),
        (None, "", "", ["nano"]),
        ("code", "", "", ["code", "--wait"]),  # its window would open, and the draft be read at once
        ("code -n -w", "", "", ["code", "-n", "-w"]),
    ],
)
def test_the_settings_go_before_visual_and_that_before_editor(
    programs: str, setting: str | None, visual: str, editor: str, command: list[str]
) -> None:
    assert editor_command(setting, {"PATH": programs, "VISUAL": visual, "EDITOR": editor}) == command


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"VISUAL": "none-such"}, r"no program none-such, the editor in \$VISUAL"),
        ({"EDITOR": "'nano"}, r"quote is not closed in \$EDITOR"),
        ({}, "Set EDITOR=nano"),
    ],
)
def test_what_is_in_the_way_is_a_sentence(tmp_path: Path, environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        editor_command(None, {"PATH": str(tmp_path), **environment})
