"""The input box shows what is pasted, recalled or edited, controls too; files and pastes go with a message."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.attach.names import format_mention, names_in, offers, open_mention, query_folder
from specchat.app.history.typed import Typed
from specchat.app.text.cells import FOLDED, enterable
from specchat.app.tui.actions.editor import editor_command
from specchat.app.tui.composer.completion import Completion
from specchat.app.tui.driver import TerminalParser
from specchat.engine.client import EngineClient
from specchat.engine.messages import Count, Counted, Generate, Loading
from specchat.engine.options import ModelSelection
from specchat.errors import UserError

from ....fakes.pilots import Make, ask, chatting, command, loaded, settle, shown, until
from ....fakes.records import recorded_model
from ...conftest import steps

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

        entries: list[Callable[[], object]] = [
            lambda: app.post_message(Paste(EVIL)),
            lambda: box.bring(EVIL),
            lambda: box.rewrite(EVIL),
            lambda: box.recall([Typed(enterable(EVIL))]),  # taken from the history
        ]
        for enter in entries:
            box.put("")
            enter()
            if enter is entries[-1]:
                await pilot.press("up")
            await pilot.pause()
            assert "␛[31mred" in drawn(box)
            assert "[bold]x[/bold]" in drawn(box)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", drawn(box))
            assert box.text == enterable(EVIL)
            assert "\u202eb" in box.text, "a mark of direction is sent as it was written"
            assert box.document.line_count == 3
        await pilot.press("x", "up", "up", "backspace")
        assert box.text != enterable(EVIL)


async def test_what_is_typed_behind_an_enter_does_not_get_in_before_it(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        await loaded(pilot, engine)
        for key in "/method greedy\rWhat is a tree?\rAnd a":  # at once, as over ssh, or from a terminal's own paste
            app.box.post_message(Key("enter", "\r") if key == "\r" else Key(key, key))
        await pilot.pause()
        assert app.dialogue.method == "greedy"
        requests = [command.messages for command in engine.sent if isinstance(command, Generate)]
        assert requests == [[{"role": "user", "content": "What is a tree?"}]]
        assert app.chat_screen.input.text == "And a"


TYPED = [
    "東京\u3000大阪", "10\u00a0km", "10\u202fkm", "می\u200cخواهم", "👩\u200d🚀", "abc\u200f!", "a\u00adb",
    "❤\ufe0f", "e\u0301",
    "\ue0b0x",     "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001fae9", "\U0002ebf0",
]  # fmt: skip
"""Texts that keyboards and input methods send, of which Python prints some as escapes."""


async def test_keys_take_what_a_reader_sees(make_chat: Make) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        box = app.chat_screen.input
        for text in TYPED:
            box.put("")
            for message in TerminalParser().feed(text):
                app.post_message(message)
            await pilot.pause()
            assert box.text == text
        for text in ("🇩🇪", "👍🏽", "👩\u200d🚀", "e\u0301", "ü", "漢"):
            box.put(f"a{text}")
            await pilot.press("left", "x", "right", "backspace")
            assert box.text == "ax"
        box.put("one two three")
        app.post_message(Key("alt+q", "q"))  # bound to nothing, so it types nothing
        await pilot.press("home", "alt+d")
        assert box.text == " two three"
        await pilot.press("end", "alt+backspace")
        assert box.text == " two "
        # The terminal's cursor is the caret.
        assert app.cursor_position == box.cursor_screen_offset != (0, 0)
        await pilot.resize_terminal(70, 20)
        assert app.cursor_position == box.cursor_screen_offset
        await pilot.press("f1")
        assert app.cursor_position == app.focused.cursor_screen_offset
        await pilot.press("escape")
        assert app.cursor_position == box.cursor_screen_offset
        # Keys that come with one that moves the focus go where it went, as over a slow link.
        box.put("")
        for key, character in (("ctrl+o", None), ("2", "2"), ("x", "x")):
            app.post_message(Key(key, character))
        await pilot.pause()
        assert (box.text, type(app.screen).__name__) == ("", "Menu")


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


EDITORS = [
    ("'my editor' -x", "nano", ["my editor", "-x"]),
    (" ", "vi", ["vi"]),
    ("", "", ["nano"]),
    ("code", "", ["code", "--wait"]),  # its window would open, and the draft be read at once
]
"""$VISUAL, $EDITOR, and the command."""


def test_which_editor(tmp_path: Path) -> None:
    for name in ("nano", "vi", "code", "my editor"):
        file = tmp_path / name
        file.write_text("#!/bin/sh\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    for visual, editor, words in EDITORS:
        assert editor_command({"PATH": str(tmp_path), "VISUAL": visual, "EDITOR": editor}) == words
    with pytest.raises(UserError, match=r"no program none-such, the editor in \$VISUAL"):
        editor_command({"PATH": str(tmp_path), "VISUAL": "none-such"})
    with pytest.raises(UserError, match="Set EDITOR=nano"):
        editor_command({"PATH": ""})


SIZE = (90, 26)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "docs").mkdir(parents=True)
    for name in ("notes.txt", "docs/my notes.md", "docs/other.md", ".hidden"):
        (folder / name).write_text("The lamp.\n")
    monkeypatch.chdir(folder)
    return folder


async def type_text(pilot: Any, text: str) -> None:
    await pilot.press(*({" ": "space", "@": "at", "/": "slash", ".": "full_stop"}.get(c, c) for c in text))


async def test_a_file_is_offered_taken_and_sent_whole(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await command(pilot, "Read @notes.txt")
        assert app.box.text == "", "it waits for the model"
        await pilot.press("escape")
        assert app.box.text == "Read @notes.txt", "as it was typed"
        app.box.put("")
        await loaded(pilot, engine)
        await type_text(pilot, "Read @not")
        await settle(app, pilot)
        offered = app.chat_screen.query_one(Completion)
        assert offered.display
        assert [offer.name for offer in offered.offers] == ["notes.txt", "docs/my notes.md"]
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
        assert app.box.sent[-1] == 'Read @"docs/my notes.md" '


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


async def test_what_stands_for_a_paste_is_one_character_for_every_key(make_chat: Make, engine: Any) -> None:
    """It goes or stays whole, wherever the cursor was put and whatever is pressed."""
    random = Random(1)
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        for _ in range(40):
            box.put("")
            box.post_message(Paste(LONG))
            await pilot.pause()
            box.put(f"one {CHIP} two")
            box.move_cursor((0, random.randrange(len(box.text) + 1)))
            await pilot.press(*random.choices(EDITS, k=4))
            assert box.text.count(FOLDED) == box.text.count(CHIP), "it was cut in two"
            assert "line 0" in box.text or "pasted" not in box.text.replace(CHIP, ""), "a part of it was left"


def test_names_and_their_spelling(folder: Path) -> None:
    typed = [open_mention(text) for text in ("see @do", 'see @"my no', "@", "me@home", "@done ")]
    assert typed == [(4, "do"), (4, "my no"), (0, ""), None, None]
    assert [query_folder(query) for query in ("no", ".", "../here/no")] == [None, "", "../here/"]
    assert offers(".", names_in("")) == [".hidden"]
    spelled = [format_mention(name) for name in ("a.md", "a b.md", "docs/", 'a "b')]
    assert spelled == ["@a.md ", '@"a b.md" ', "@docs/", "@'a \"b' "]


LONG_MESSAGE = "long " * 1000
"""5,000 bytes: more than the 4,096 tokens of the tests' model, if each were a token."""


async def test_a_message_that_may_not_fit_is_counted_and_sent_if_it_does(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        await ask(pilot, engine, "One", steps())
        for tokens in (9000, 1240):
            await command(pilot, LONG_MESSAGE)
            request = engine.sent[-1]
            assert isinstance(request, Count)
            assert [message["content"] for message in request.messages][::2] == ["One", LONG_MESSAGE]
            engine.events.append(Counted(request.id, tokens, 4096))
            await settle(app, pilot)
            assert isinstance(engine.sent[-1], Generate) == (tokens == 1240)
            assert app.box.text == ("" if tokens == 1240 else LONG_MESSAGE)
        assert any("9,000 tokens, and the context holds 4,096" in notice.message for notice in app.recent)


def test_the_engine_counts(tmp_path: Path) -> None:
    with EngineClient() as client:
        client.load(ModelSelection(recorded_model(tmp_path, {"one two three": "four"})))
        for id, text in ((77, "one"), (78, "one two three")):
            client.send(Count(id, [{"role": "user", "content": text}]))
        counts: list[Counted] = []
        while len(counts) < 2:
            if isinstance(event := client.wait(120), Counted):
                counts.append(event)
        assert [count.id for count in counts] == [77, 78]
        assert 0 < counts[0].tokens < counts[1].tokens < counts[1].context
