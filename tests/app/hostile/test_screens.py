"""Hostile text on whole screens: header, transcript, toasts, menus, lists, models, in the app and on a real terminal."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from textual.strip import Strip

from specchat.app.chat.entries import Answer, Notice, Prompt
from specchat.app.tui.app import SpecchatApp
from specchat.engine.messages import Loaded, PieceTable, StepRecord

from ...cases import FULL
from ...fakes.hostile_text import CONTROLS, MARKUP, UNICODE, calm

ROUNDS = 200 if FULL else 6

ATOMS = (*MARKUP, *CONTROLS, *UNICODE, " a ", "word")


def texts(seed: int, count: int) -> list[str]:
    """Some hostile texts."""
    pick = random.Random(seed)
    return ["".join(pick.choices(ATOMS, k=pick.randrange(1, 12))) for _ in range(count)]


def check(app: SpecchatApp) -> None:
    """Every row of the screen is calm and as wide as the screen."""
    width, height = app.size
    rows: list[Strip] = app.screen._compositor.render_strips()
    assert len(rows) == height
    for strip in rows:
        text = "".join(segment.text for segment in strip)
        assert calm(text), repr(text)
        assert strip.cell_length == width
        for segment in strip:
            assert segment.style is None or segment.style.link is None


async def test_every_screen_shows_it_as_text(make_chat: Any, engine: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    chat = make_chat()
    async with chat.run_test(size=(60, 20)) as pilot:
        for number in range(ROUNDS):
            if number == ROUNDS // 2:
                await pilot.resize_terminal(120, 40)
            name, prompt, said, told, reason = texts(number, 5)
            info = {
                "name": name,
                "backend": reason,
                "device": name,
                "dtype": told,
                "parameters": 5,
                "context": 99,
                "notes": [told],
            }
            engine.events.append(Loaded(1, info, {"soft": reason}))
            engine.events.append(PieceTable(2, [name, said, told]))
            answer = Answer("lookup", "identical")
            answer.add(
                StepRecord("lookup", [0, 1], said, 2, 1, 3, tree_tokens=[1, 2], tree_parents=[-1, 0], path=[0], note="x")
            )
            answer.add(StepRecord("lookup", [2], prompt))
            answer.finish("eos", told)
            chat.dialogue.model = name
            chat.dialogue.transcript.entries[:] = [Prompt(prompt), answer, Notice(told), Notice(reason, "error")]
            chat.chat_screen.view.show(chat.dialogue.transcript)
            chat.tell(told, "warning")
            chat.changed()
            await pilot.pause()
            check(chat)
            for panel in ("tree", "numbers", "method"):
                chat.actions.do("panels", panel)
                await pilot.pause()
                check(chat)
            chat.actions.do("panels", "off")
            chat.actions.do("markdown")
            await pilot.pause()
            check(chat)
            chat.actions.do("markdown")
            chat.actions.do("method_menu")
            await pilot.pause()
            check(chat)
            await pilot.press("escape")
            chat.clear_notifications()
    assert chat.return_code in (0, None)
