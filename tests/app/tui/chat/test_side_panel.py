"""The side panel: its key, its pages, where it stands, and how often it draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specchat.app.chat.methods import known_methods
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import with_command_line
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.chat import side_panel
from specchat.app.tui.chat.side_panel import PAGES
from specchat.app.tui.transcript.rows import LineView
from specchat.engine.client import EngineClient
from specchat.engine.messages import Paused, StepRecord, Steps
from specchat.engine.options import ModelSelection

from ....fakes import pilots
from ....fakes.pilots import Make, chatting, command, settle, status, toasts, until

SIZE = (120, 40)


def shown(app: Any) -> str:
    """Text of the panel's page."""
    view = app.chat_screen.panel.query_one(LineView)
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


async def loaded(app: Any, pilot: Any, engine: Any) -> None:
    await pilots.loaded(pilot, engine, recompute="This model keeps no cache.")
    engine.tell_pieces()
    await settle(app, pilot)


async def ask(app: Any, pilot: Any, engine: Any, records: list[StepRecord]) -> int:
    await loaded(app, pilot, engine)
    return await pilots.ask(pilot, engine, "Repeat this text exactly", records, finish=False)


async def test_the_key_goes_round_and_the_input_box_keeps_the_focus(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await loaded(app, pilot, engine)
        panel = app.chat_screen.panel
        assert not panel.display
        for page in (*PAGES, "", *PAGES):
            await pilot.press("f4", "x")
            assert panel.page == page
            assert panel.display == bool(page)
        assert app.chat_screen.input.text == "x" * (2 * len(PAGES) + 1)
        assert app.chat_screen.focused is app.chat_screen.input
        await pilot.click("PanelBar", offset=(13, 0))
        assert panel.page == "tree"


async def test_it_stands_beside_the_transcript_or_below_it(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(app, pilot, engine, make_steps())
        await pilot.press("f4")
        for size in ((60, 20), (99, 30), (100, 30)):
            await pilot.resize_terminal(*size)
            panel, stage = app.chat_screen.panel.region, app.chat_screen.query_one("#stage").region
            box, keys = app.chat_screen.query_one("#dock").region, app.chat_screen.query_one("#keys").region
            assert keys.bottom == size[1]
            assert box.bottom == keys.y
            assert stage.height >= 5
            if size[0] >= 100:
                assert (panel.right, panel.y, panel.bottom) == (size[0], 1, keys.y)
                assert stage.right == panel.x
                assert box.right == panel.x
                assert panel.width == pytest.approx(min(64, max(40, 0.4 * size[0])), abs=1)
            else:
                assert (panel.x, panel.width) == (0, size[0])
                assert (stage.bottom, panel.bottom) == (panel.y, box.y)
                assert panel.height > stage.height
            assert "tokens a pass" in shown(app)


async def test_it_draws_a_few_times_a_second(
    make_chat: Make, engine: Any, monkeypatch: pytest.MonkeyPatch, tree_steps: Make
) -> None:
    monkeypatch.setattr(side_panel, "UPDATE_SECONDS", 3600)
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        id = await ask(app, pilot, engine, tree_steps()[:1])
        await pilot.press("f4", "f4")
        engine.events = [Steps(id, tree_steps()[1:2])]
        await settle(app, pilot)
        assert "pass 1\n" in shown(app)  # not yet
        engine.events = [Paused(id, True)]  # what a person waits for comes at once
        await settle(app, pilot)
        assert "fusion  pass 2 " in shown(app)
        monkeypatch.setattr(side_panel, "UPDATE_SECONDS", 0)
        engine.events = [Paused(id, False), Steps(id, tree_steps()[2:3])]
        await settle(app, pilot)
        assert "fusion  pass 3" in shown(app)


async def test_the_method_page_follows_the_method_and_its_settings(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(app, pilot, engine, make_steps())
        engine.finish()
        await settle(app, pilot)
        await pilot.press("f4", "f4", "f4")
        page = " ".join(shown(app).split())
        assert known_methods()["lookup"].explains[:40] in page
        assert "tokens a pass" in page
        assert "max_ngram = 3" in page
        assert "Saxena 2023" in page
        await command(pilot, "/method lookup max_ngram=5")
        await until(pilot, lambda: "max_ngram = 5" in shown(app))
        assert "max_ngram = 5 (default 3)" in " ".join(shown(app).split())
        await command(pilot, "/method soft")
        await until(pilot, lambda: "soft" in shown(app).splitlines()[0])
        assert "lossy" in shown(app)


async def test_the_change_that_is_proposed_is_a_key_away(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await ask(app, pilot, engine, [replace(step, accepted=0, tokens=[1]) for step in make_steps()])
        await pilot.press("alt+a")
        assert "When an answer is complete" in " ".join(shown(app).split())
        engine.finish()
        await settle(app, pilot)
        page = " ".join(shown(app).split())
        assert "Slower than plain" in page
        assert "What would help most Decode plainly (greedy). expected 1.0× plain ^o a does it" in page
        await pilot.press("alt+a")
        assert app.chat_screen.dialogue.method == "greedy"
        assert status(app) == "Now decoding with greedy."
        assert "expected 1.0× plain in force from now on" in " ".join(shown(app).split())
        await pilot.press("alt+a")
        assert toasts(app) == "The change is in force already."


@pytest.mark.parametrize("page", PAGES)
def test_pages(picture: Make, engine: Any, make_steps: Make, page: str, tree_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        app = pilot.app
        id = await ask(app, pilot, engine, tree_steps()[:2] if page == "tree" else make_steps())
        app.chat_screen.panel.open(page)
        if page == "tree":
            await pilot.press("f8")
            engine.events = [Paused(id, True)]
        else:
            engine.finish()
        await settle(app, pilot)

    assert picture(before)


async def test_an_answer_looked_into_afterwards(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    prompt = "Repeat this text exactly: The lamp was lit. The lamp was lit. The lamp was lit."
    with EngineClient() as client:
        client.load(ModelSelection("builtin", device="cpu"))
        app = SpecchatApp(with_command_line(Settings(), {"method": "lookup"}), client)
        dialogue = app.dialogue
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: dialogue.phase == "ready" and len(dialogue.pieces) > 0)
            await command(pilot, prompt)
            answer = dialogue.answer
            assert answer is not None
            await until(pilot, lambda: dialogue.phase == "ready")
            last = len(answer.log) - 1
            assert not answer.log.record(last).probs
            await pilot.press("f4", "f4")
            await until(pilot, lambda: "%" in shown(app) and "… %" not in shown(app))
            assert len(answer.log.record(last).probs) == max(1, len(answer.log.record(last).tree_tokens))
            app.chat_screen.panel.select(answer, 0)
            await until(pilot, lambda: len(answer.log.record(0).probs) > 0)
            assert not answer.log.record(1).probs, "only what is looked at"
