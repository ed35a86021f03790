"""What is pasted, recalled or edited is seen in the input box, controls too."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.history.prompts import Typed
from specchat.app.text.cells import enterable
from specchat.engine.messages import Generate

from ....fakes.pilots import until

Make = Callable[..., Any]

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
    app = make_chat()
    async with app.run_test(size=(90, 26)) as pilot:
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
    app = make_chat()
    async with app.run_test(size=(90, 26)) as pilot:
        engine.loaded()
        await until(pilot, lambda: app.dialogue.phase == "ready")
        typed_at_once(app.chat_screen.input, "/method greedy\rWhat is a tree?\rAnd a")
        await pilot.pause()
        assert app.dialogue.method == "greedy"
        asked = [command.messages for command in engine.sent if isinstance(command, Generate)]
        assert asked == [[{"role": "user", "content": "What is a tree?"}]]
        assert app.chat_screen.input.text == "And a"


async def test_an_arrow_an_enter_and_a_letter_typed_at_once_keep_their_order(make_chat: Make) -> None:
    app = make_chat()
    async with app.run_test(size=(90, 26)) as pilot:
        box = app.chat_screen.input
        await pilot.press(*"/the")
        await pilot.pause()
        assert app.chat_screen.suggestions.names.names == ["/theme"]
        for key in (Key("down", None), Key("enter", "\r"), Key("x", "x")):
            box.post_message(key)
        await pilot.pause()
        assert box.text == "/theme x"
