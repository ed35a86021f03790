"""Pictures of the chat, small and dark or large and light; `make test-all` takes both. `SPECCHAT_FULL=1 pytest
--snapshot-update` updates them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from specchat.app.tui.composer.starters import OPENINGS, STARTERS
from specchat.engine.messages import Loaded, Loading, Steps, Switched

from ....fakes.pilots import Make, ask, chatting, command, loaded, rows, settle, shown, toasts
from ...conftest import INFO


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


def test_loading(snap_compare: Any, make_chat: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await pilot.pause()
        engine.events = [Loading(1, "weights", 40, 100)]
        pilot.app.take_events()
        await pilot.press("slash", "m")

    assert snap_compare(make_chat(), terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("value", ["1", ""], ids=["set", "empty"])
async def test_no_color(make_chat: Make, engine: Any, make_steps: Make, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    async with chatting(make_chat(), size=(80, 24)) as (app, pilot):
        await converse(pilot, engine, make_steps)
        await pilot.press("f3")
        drawn = [segment for strip in app.screen._compositor.render_strips() for segment in strip]
        painted = {segment.text for segment in drawn if segment.style and (segment.style.color or segment.style.bgcolor)}
        assert bool(painted) == (not value)  # an empty one asks for nothing
        if value:
            chosen = "".join(segment.text for segment in drawn if segment.style and segment.style.reverse)
            assert "dark" in chosen
            assert "light" not in chosen


SIZE = (110, 32)


@pytest.fixture
def base(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine whose model has no template."""
    info = replace(INFO, name="base.gguf", has_template=False)
    monkeypatch.setattr(engine, "loaded", lambda **unavailable: engine.events.append(Loaded(1, info, unavailable)))
    return engine


def welcome(app: Any) -> str:
    """Text of the empty chat."""
    return "\n".join(row for child in app.chat_screen.query_one("#welcome").children for row in rows(child))


def header(app: Any) -> str:
    return str(app.chat_screen.query_one("#header").render())


async def test_it_says_what_it_is_and_offers_beginnings(make_chat: Make, base: Any) -> None:
    async with chatting(make_chat(), base, size=SIZE) as (app, pilot):
        assert "base model" in header(app)
        await pilot.resize_terminal(80, 24)
        assert "goes on from a text" in welcome(app)
        assert "^o g" in welcome(app), "as the bar shows it"
        assert "…" not in welcome(app)
        assert OPENINGS[2].title in welcome(app)
        assert STARTERS[1].title not in welcome(app)
        assert app.box.placeholder.startswith("Begin a text")
        await pilot.press("2", "enter")
        assert base.asked.messages == [{"role": "user", "content": OPENINGS[0].prompt}]
        base.begin([])
        base.finish("cancelled")
        await settle(app, pilot)
        await pilot.press("ctrl+l")
        await settle(app, pilot)
        assert app.chat_screen.query_one("#welcome").scroll_offset.y == 0, "the title is in view again"


async def test_others_say_nothing_of_it(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        assert "base model" not in header(app)
        assert STARTERS[1].title in welcome(app)
        assert "Try one: type its number, then enter" in welcome(app)
        app.dialogue.selection = replace(app.dialogue.selection, model="own.gguf")
        app.changed()
        await pilot.pause()
        assert not re.search("draft model|builtin", welcome(app).replace("how the model decodes", ""))
        assert app.box.placeholder.startswith("Ask")
        await ask(pilot, engine, "Hello")
        await pilot.press("alt+g")
        assert "Send one that asks it to go on" in toasts(app)
        assert len(app.dialogue.transcript.answers()) == 1


async def test_a_key_goes_on_from_where_the_text_ends(make_chat: Make, base: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), base, size=SIZE) as (app, pilot):
        await pilot.press("alt+g")
        assert "no text to go on from" in toasts(app)
        await ask(pilot, base, "Once", make_steps(" upon a time"))
        app.box.put("half a thought")
        await pilot.press("alt+g")
        assert app.box.text == "half a thought"
        assert base.asked.messages == [{"role": "user", "content": "Once"}, {"role": "assistant", "content": " upon a time"}]
        base.begin(make_steps(", a fox"))
        await settle(app, pilot)
        await pilot.press("alt+g")
        assert len(app.dialogue.transcript.entries) == 4, "not while it writes"
        base.finish()
        await settle(app, pilot)
        await command(pilot, "/more")
        message = {"role": "assistant", "content": " upon a time, a fox"}
        assert base.asked.messages == [{"role": "user", "content": "Once"}, message]


async def test_a_notice_leaves_the_starters_there(make_chat: Make, engine: Any) -> None:
    """Notices about the model stand above the starters until the chat begins."""
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        app.dialogue.notice("Runs in bfloat16.", "warning")
        app.changed()
        await pilot.pause()
        assert "Runs in bfloat16." in welcome(app)
        assert STARTERS[1].title in welcome(app)
        await pilot.click("#starters", offset=(4, 1))
        assert STARTERS[0].prompt in [entry.text for entry in app.dialogue.transcript.entries]
        assert not app.chat_screen.query_one("#welcome").display
        assert "Runs in bfloat16." in shown(app)
