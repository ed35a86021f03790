"""What copying, jumping, searching and completing look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]


CODE = "Two ways.\n\n```python\ndef one():\n    return 1\n\ndef two():\n    return 2\n```\n\nOr:\n\n```sh\nmake two\n```\n"
SENT = ["What is prompt lookup?", "Write a story\nabout a fox\nand a lamp\nat night", "/theme light", "How does a lamp work?"]


async def converse(pilot: Any, engine: Any, make_steps: Make) -> None:
    """Two answers."""
    app = pilot.app
    await pilot.pause()
    engine.loaded()
    app.take_events()
    for prompt, text in (("How?", "By looking it up.\n" * 6), ("In code?", CODE)):
        app.chat_screen.input.put(prompt)
        await pilot.press("enter")
        engine.begin(make_steps(text))
        engine.finish()
        app.take_events()
        await pilot.pause()


def test_choosing_a_block_of_code(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        await pilot.press("alt+y")
        await pilot.pause()

    assert picture(before)


def test_a_marked_message(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        await pilot.press("alt+up", "alt+up", "alt+up")
        await pilot.pause()

    assert picture(before)


def test_searching_what_was_sent(picture: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await pilot.pause()
        pilot.app.chat_screen.input.sent = SENT * 3
        await pilot.press("ctrl+f", *"lamp", "down")
        await pilot.pause()

    assert picture(before)
