"""A chat that no longer fits the model's context: counted before it is sent, nothing dropped without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.entries import Answer, ChatEntry, Prompt
from specchat.app.chat.transcript import Transcript, cuts, messages_from
from specchat.app.tui.pickers.menu import Menu
from specchat.engine.client import EngineClient
from specchat.engine.messages import Count, Counted, Generate, Loaded

from ....fakes.pilots import Make, ask, chatting, command, settle
from ....fakes.records import recorded_model
from ...conftest import steps

LONG = "long " * 1000
"""5,000 bytes: more than the 4,096 tokens of the tests' model, if each were a token."""


async def said(pilot: Any, engine: Any, *prompts: str) -> None:
    for prompt in prompts:
        await ask(pilot, engine, prompt, steps())


async def ask_long(app: Any, pilot: Any, engine: Any, *tokens: int) -> Count:
    """Send a long message; the engine counts these tokens."""
    await command(pilot, LONG)
    request = engine.sent[-1]
    assert isinstance(request, Count)
    engine.events.append(Counted(request.id, list(tokens), 4096))
    await settle(app, pilot)
    await pilot.pause()
    return request


async def test_a_message_that_may_not_fit_is_counted_and_sent_if_it_does(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        await said(pilot, engine, "One")
        await ask_long(app, pilot, engine, 1240, 1001)
        assert isinstance(engine.sent[-1], Generate)
        assert [message["content"] for message in engine.asked.messages][::2] == ["One", LONG]
        assert app.chat_screen.input.text == ""
        assert "1,240 of 4,096 tokens" in app.chat_screen.query_one("#status").render_line(0).text


async def test_the_oldest_exchanges_can_be_left_out(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(90, 26)) as (app, pilot):
        await said(pilot, engine, "One", "Two", "Three")
        request = await ask_long(app, pilot, engine, 4200, 4100, 2500, 1001)
        assert [chat[0]["content"] for chat in request.chats] == ["One", "Two", "Three", LONG]
        assert isinstance(app.screen, Menu)
        assert app.chat_screen.input.text == LONG
        trim, fresh, keep = app.screen._items
        assert trim.detail == "The model no longer sees the 2 oldest exchanges, “One” to “Two”: 2,500 tokens."
        assert (fresh.reason, keep.reason) == ("", "")
        await pilot.press("1")
        await pilot.pause()
        assert [message["content"] for message in engine.asked.messages][::2] == ["Three", LONG]
        assert "no longer sees the 2 oldest exchanges" in app.dialogue.transcript.entries[6].text
        assert app.chat_screen.input.text == ""


@pytest.mark.parametrize("key", ["escape", "3"])
async def test_nothing_need_be_sent(make_chat: Make, engine: Any, key: str) -> None:
    async with chatting(make_chat(), size=(60, 20)) as (app, pilot):
        await said(pilot, engine, "One")
        await ask_long(app, pilot, engine, 9000, 8000)
        assert isinstance(app.screen, Menu)
        await pilot.press("1", "2")  # neither would help: the message alone is too long
        assert isinstance(app.screen, Menu)
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(engine.sent[-1], Count)
        assert app.chat_screen.input.text == LONG


def test_where_a_chat_can_be_cut() -> None:
    entries: list[ChatEntry] = [entry for n in range(40) for entry in (Prompt(f"{n}"), Answer("greedy", "identical"))]
    places = cuts(Transcript(entries, start=2))
    assert places[0] == 2
    assert places[-1] == len(entries)
    assert len(places) <= 15
    assert all(isinstance(entries[place], Prompt) for place in places[:-1])
    assert messages_from(Transcript(entries, "Be brief."), 80, "Hi") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


def test_the_engine_counts(tmp_path: Path) -> None:
    with EngineClient() as client:
        client.send(Count(77, [[{"role": "user", "content": "one"}]]))
        client.load(recorded_model(tmp_path, {"one two three": "four"}))
        events: list[Any] = []
        while not any(isinstance(event, Loaded) for event in events):
            if (event := client.wait(120)) is not None:
                events.append(event)
        assert Counted(77, [], 0) in events
        chats = [[{"role": "user", "content": text}] for text in ("one", "one two three")]
        client.send(Count(78, chats))
        counted = client.wait(120)
        while not isinstance(counted, Counted):
            counted = client.wait(120)
        short, long = counted.tokens
        assert (counted.id, counted.context > 0) == (78, True)
        assert 0 < short < long
