"""What the chat looks like: one picture for each screen, size and theme. `pytest --snapshot-update` takes them anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specchat.engine.messages import Loading, Steps, Switched

from ....fakes.pilots import settle

Make = Callable[..., Any]

both = pytest.mark.parametrize("theme", ["dark", "light"])
sizes = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")


async def load(pilot: Any, engine: Any) -> None:
    await pilot.pause()
    engine.loaded(recompute="This model keeps no cache.")
    pilot.app.take_events()
    await pilot.pause()


async def converse(pilot: Any, engine: Any, make_steps: Make, finish: bool = True) -> None:
    """A prompt, and an answer that changes its method on the way."""
    app = pilot.app
    await load(pilot, engine)
    app.chat_screen.input.put("How does prompt lookup work?\nIn a few words.")
    await pilot.press("enter")
    records = make_steps()
    half = len(records) // 2
    id = engine.begin(records[:half])
    engine.events += [
        Switched(id, "greedy", "identical"),
        Steps(id, make_steps(" The model reads the same text, one token at a time.", method="greedy", drafts=False)),
        Switched(id, "lookup", "identical"),
        Steps(id, records[half:]),
    ]
    if finish:
        engine.finish()
    app.take_events()
    await pilot.pause()


@both
@sizes
def test_empty_chat(snap_compare: Any, make_chat: Make, engine: Any, theme: str, size: tuple[int, int]) -> None:
    async def before(pilot: Any) -> None:
        await load(pilot, engine)

    assert snap_compare(make_chat(theme=theme), terminal_size=size, run_before=before)


@both
@sizes
def test_streaming(
    snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make, theme: str, size: tuple[int, int]
) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps, finish=False)

    assert snap_compare(make_chat(theme=theme), terminal_size=size, run_before=before)


@both
@sizes
def test_finished(snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make, theme: str, size: tuple[int, int]) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        pilot.app.dialogue.notice("The engine ended unexpectedly: it starts again with your next message.", "error")
        pilot.app.changed()
        await pilot.press(*"And")

    assert snap_compare(make_chat(theme=theme), terminal_size=size, run_before=before)


@both
@sizes
@pytest.mark.parametrize("key", ["f1", "f2", "f3"], ids=["help", "methods", "themes"])
def test_menus(
    snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make, theme: str, size: tuple[int, int], key: str
) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        await pilot.press(key)
        await pilot.pause()

    assert snap_compare(make_chat(theme=theme), terminal_size=size, run_before=before)


def test_smallest(snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)

    assert snap_compare(make_chat(), terminal_size=(60, 20), run_before=before)


def test_largest(snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)

    assert snap_compare(make_chat(), terminal_size=(300, 80), run_before=before)


def test_loading(snap_compare: Any, make_chat: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await pilot.pause()
        engine.events = [Loading(1, "weights", 40, 100)]
        pilot.app.take_events()
        await pilot.press("slash", "m")
        await pilot.pause()

    assert snap_compare(make_chat(), terminal_size=(80, 24), run_before=before)


def test_without_colours(
    snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps, finish=False)

    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_chat(), terminal_size=(80, 24), run_before=before)


async def test_the_tour_is_offered_until_one_has_begun(make_chat: Make, engine: Any) -> None:
    app = make_chat()
    app.tour = "offer"
    async with app.run_test(size=(80, 24)) as pilot:
        engine.loaded()
        await settle(app, pilot)
        assert app.chat_screen.query("#welcome-offer")
        await pilot.press(*"Hello", "enter")
        engine.begin()
        engine.finish()
        await settle(app, pilot)
        await pilot.press("ctrl+l")
        await pilot.pause()
        assert app.chat_screen.query_one("#welcome").display
        assert not app.chat_screen.query("#welcome-offer")
        await pilot.press("enter")  # nothing is offered any more
        assert not app.tours.leave()
