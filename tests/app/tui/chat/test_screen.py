"""What the chat looks like: each screen small and dark, or large and light; `make test-all` takes both. `SPECCHAT_FULL=1 pytest
--snapshot-update` takes them anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specchat.engine.messages import Loading, Steps, Switched

from ....fakes.pilots import chatting, command, loaded, settle

Make = Callable[..., Any]


async def load(pilot: Any, engine: Any) -> None:
    await loaded(pilot, engine, recompute="This model keeps no cache.")


async def converse(pilot: Any, engine: Any, make_steps: Make, finish: bool = True) -> None:
    """A prompt, and an answer that changes its method on the way."""
    app = pilot.app
    await load(pilot, engine)
    await command(pilot, "How does prompt lookup work?\nIn a few words.")
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
    await settle(app, pilot)


def test_empty_chat(picture: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await load(pilot, engine)

    assert picture(before)


def test_streaming(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps, finish=False)

    assert picture(before)


def test_finished(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        pilot.app.dialogue.notice("The engine ended unexpectedly: it starts again with your next message.", "error")
        pilot.app.changed()
        await pilot.press(*"And")

    assert picture(before)


@pytest.mark.parametrize("key", ["f1", "f3"], ids=["help", "themes"])
def test_menus(picture: Make, engine: Any, make_steps: Make, key: str) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps)
        await pilot.press(key)
        await pilot.pause()

    assert picture(before)


def test_loading(snap_compare: Any, make_chat: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await pilot.pause()
        engine.events = [Loading(1, "weights", 40, 100)]
        pilot.app.take_events()
        await pilot.press("slash", "m")
        await pilot.pause()

    assert snap_compare(make_chat(), terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("given", ["1", ""], ids=["set", "empty"])
async def test_no_color_leaves_attributes_alone(
    make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("NO_COLOR", given)
    async with chatting(make_chat(), size=(80, 24)) as (app, pilot):
        await converse(pilot, engine, make_steps)
        await pilot.press("f3")
        drawn = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
        painted = {segment.text for segment in drawn if segment.style and (segment.style.color or segment.style.bgcolor)}
        assert bool(painted) == (not given)  # an empty one asks for nothing
        if given:
            chosen = "".join(segment.text for segment in drawn if segment.style and segment.style.reverse)
            assert "dark" in chosen
            assert "light" not in chosen


def test_without_colours(
    snap_compare: Any, make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(pilot: Any) -> None:
        await converse(pilot, engine, make_steps, finish=False)

    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(make_chat(), terminal_size=(80, 24), run_before=before)
