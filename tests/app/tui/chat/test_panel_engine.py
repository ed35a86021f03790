"""Pausing, stepping and watching with the real engine and the built-in model."""

from __future__ import annotations

from typing import Any

import pytest

from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.transcript.line_view import LineView
from specchat.engine.client import EngineClient

from ....fakes.pilots import command, until


def shown(app: SpecchatApp) -> str:
    view = app.chat_screen.panel.query_one(LineView)
    return "\n".join(view.render_line(y).text.rstrip() for y in range(view.size.height))


async def test_an_answer_looked_into_afterwards_and_one_step_by_step(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    prompt = "Repeat this text exactly: The lamp was lit. The lamp was lit. The lamp was lit."
    with EngineClient() as client:
        client.load("builtin", device="cpu")
        app = SpecchatApp(changed(Settings(), {"method": "lookup"}), client)
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

            await pilot.press("ctrl+l")
            await command(pilot, "/pace 1")
            await command(pilot, prompt)
            stepped = dialogue.answer
            assert stepped is not None
            await until(pilot, lambda: len(stepped.log) == 1)
            await pilot.press("f8")
            await pilot.press("f9")
            await until(pilot, lambda: len(stepped.log) == 2)
            assert "lookup pass 2" in shown(app)
            record = stepped.log.record(1)
            assert len(record.probs) == max(1, len(record.tree_tokens))
            assert "%" in shown(app)
            assert not stepped.done, "there is more to come"
            await pilot.press("ctrl+up")
            await until(pilot, lambda: dialogue.switching is None)
            assert dialogue.settings["lookup"]["nodes"] == 32
            await pilot.press("f10", "f8")
            await until(pilot, lambda: dialogue.phase == "ready")
            assert (stepped.reason, dialogue.paused) == ("eos", False)
            assert "The lamp was lit." in stepped.text
