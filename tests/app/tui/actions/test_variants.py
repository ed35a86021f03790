"""Messages written anew, answers asked for once more, what was taken back: all of it stays reachable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specchat.app.chat.compare import comparison
from specchat.app.chat.entries import Notice
from specchat.errors import UserError

from ....fakes.pilots import Make, ask, chatting, command, settle, shown, status, toasts

SIZE = (100, 30)


async def answer(app: Any, pilot: Any, engine: Any, make_steps: Make, text: str | None = None, **more: Any) -> None:
    """Let the engine answer what was asked."""
    engine.begin(make_steps(**more) if text is None else make_steps(text, **more))
    engine.finish()
    await settle(app, pilot)


async def say(app: Any, pilot: Any, engine: Any, make_steps: Make, prompt: str, *text: str) -> None:
    await ask(pilot, engine, prompt, make_steps(*text))


def talk(app: Any) -> list[str]:
    return [entry.text for entry in app.dialogue.transcript.entries if not isinstance(entry, Notice)]


def composer(app: Any) -> str:
    return str(app.chat_screen.query_one("#composer").border_title)


async def test_an_edited_message_begins_a_variant_and_the_draft_outlives_it(
    make_chat: Make, engine: Any, make_steps: Make
) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        box = app.box
        await say(app, pilot, engine, make_steps, "First", "One.")
        await say(app, pilot, engine, make_steps, "Second", "Two.")
        await say(app, pilot, engine, make_steps, "Third", "Three.")
        await pilot.press(*"half a th", "alt+up", "alt+up", "alt+up", "alt+w")
        assert (box.text, composer(app)) == ("Second", "editing message 2 of 3")
        await pilot.press(*"!", "escape")
        assert (box.text, composer(app)) == ("half a th", "")
        await pilot.press("alt+w", "up")  # the mark is still there
        assert box.text == "Second!", "what was written anew is not lost either"
        await pilot.press("enter")
        assert [message["content"] for message in engine.asked.messages] == ["First", "One.", "Second!"]
        assert (box.text, composer(app)) == ("half a th", "")
        await answer(app, pilot, engine, make_steps, "Other.")
        assert talk(app) == ["First", "One.", "Second!", "Other."]
        assert "‹ 2/2 ›" in shown(app)
        await pilot.press("alt+left")
        assert talk(app) == ["First", "One.", "Second", "Two.", "Third", "Three."]
        assert "message 1 of 2" in status(app)
        assert "‹ 1/2 ›" in shown(app)
        await pilot.press("alt+right")
        assert talk(app)[-1] == "Other."
        assert "Three." not in shown(app)
        await pilot.press("alt+right")
        assert talk(app)[-1] == "Three."
        await pilot.press("alt+w", "ctrl+l")
        assert (box.text, composer(app)) == ("half a th", ""), "an edit ends with its chat"


async def test_an_edit_that_must_wait_changes_nothing_yet(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE, notifications=True) as (app, pilot):
        await say(app, pilot, engine, make_steps, "First", "One.")
        await command(pilot, "Second")
        engine.begin(make_steps())
        await settle(app, pilot)
        await pilot.press("alt+w", *"x", "enter")
        assert "Press esc to stop the answer" in toasts(app)
        assert app.chat_screen.input.text == "Secondx"
        assert talk(app)[:3] == ["First", "One.", "Second"]
        for keys in ("alt+r", "alt+u", "alt+left"):
            await pilot.press(keys)
        assert len(talk(app)) == 4
        await pilot.press("escape")  # stops the answer; the edit goes on
        engine.finish("cancelled")
        await settle(app, pilot)
        await pilot.press("enter")
        assert talk(app)[:3] == ["First", "One.", "Secondx"]


async def test_a_retry_stands_beside_the_first_answer(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await say(app, pilot, engine, make_steps, "First", "One two three four.")
        await command(pilot, "/compare greedy")
        assert engine.asked.method == "greedy"
        assert engine.asked.fresh
        assert [message["content"] for message in engine.asked.messages] == ["First"]
        await answer(app, pilot, engine, make_steps, "One two three four.", method="greedy", drafts=False)
        assert app.dialogue.method == "lookup"  # the chat's own method stays
        assert "‹ 2/2 ›" in shown(app)
        (line,) = [line for line in shown(app).splitlines() if "≡" in line]
        assert line.split()[:4] == ["‹", "2/2", "›", "greedy"]
        assert line.endswith("≡ identical")
        await pilot.press("alt+left")
        assert "answer 1 of 2   lookup" in status(app)
        assert "· reference" in shown(app)
        first, second = app.dialogue.transcript.variant_answers(1)
        assert "×" in str(comparison([first, second], second, 90))
        second.figures.contended = True
        assert "×" not in str(comparison([first, second], second, 90)), "another program took the processor"
        await pilot.press("alt+q")
        await answer(app, pilot, engine, make_steps, "One two five.", method="soft", seed=3)
        assert "≠ from character 9: three four. / five." in shown(app)


async def test_a_retry_asks_with_the_method_of_the_answer_and_a_new_seed(
    make_chat: Make, engine: Any, make_steps: Make
) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await say(app, pilot, engine, make_steps, "First", "One.")
        await pilot.press("alt+r")
        assert (engine.asked.method, engine.asked.sampling["seed"]) == ("lookup", 0)
        await answer(app, pilot, engine, make_steps, "One.")
        app.actions.command("/set temperature=0.8 seed=7 max_tokens=5")
        app.dialogue.switch("greedy")
        app.dialogue.past = "past answers"  # this one is among them
        app.actions.command("/retry")
        request = engine.asked
        assert (request.past, request.fresh) == ("", True)
        assert (request.method, request.max_tokens) == ("lookup", None)
        assert request.sampling["temperature"] == 0.8
        assert request.sampling["seed"] not in (0, 7), "a new one"
        with pytest.raises(UserError, match="being written"):
            app.actions.command("/retry")
        await answer(app, pilot, engine, make_steps, "Two.")
        assert app.dialogue.method == "greedy"
        assert f"seed {request.sampling['seed']}" in shown(app)


async def test_the_last_exchange_is_taken_back_and_brought_back(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await say(app, pilot, engine, make_steps, "First", "One.")
        await say(app, pilot, engine, make_steps, "Second", "Two.")
        await pilot.press("alt+u")
        assert talk(app) == ["First", "One."]
        assert "Two." not in shown(app)
        await pilot.press("alt+u")
        assert talk(app) == []
        assert app.chat_screen.query_one("#welcome").display
        await pilot.press("alt+left", "alt+left")
        assert talk(app) == ["First", "One.", "Second", "Two."]
        await pilot.press("alt+u")
        await say(app, pilot, engine, make_steps, "Other", "Else.")
        assert talk(app) == ["First", "One.", "Other", "Else."]
        assert "‹ 2/2 ›" in shown(app)
        await pilot.press("alt+left")
        assert talk(app) == ["First", "One.", "Second", "Two."]


def test_pictures(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        """Edit a message and have it answered three times."""
        app = pilot.app
        await pilot.pause()
        await say(app, pilot, engine, make_steps, "How does it work?")
        await pilot.press("alt+w", *" In a few words.", "enter")
        await answer(app, pilot, engine, make_steps)
        await pilot.press("alt+q")
        await answer(app, pilot, engine, make_steps, method="soft", seed=2)
        app.actions.command("/compare greedy")
        records = make_steps(method="greedy", drafts=False)
        engine.begin([replace(record, text=record.text.replace("model", "reader")) for record in records])
        engine.finish()
        await settle(app, pilot)
        await pilot.press("alt+left", *"a draft", "alt+w")

    assert picture(before)
