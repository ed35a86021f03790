"""The drawing process: what it imports, and what a frame costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from specchat.engine.messages import Steps, Switched

from ...fakes.pilots import chatting, command, settle

Make = Callable[..., Any]

HEADLESS = """
import asyncio, sys
from specchat.app.tui.app import SpecchatApp
from specchat.app.settings.fields import Settings

class Engine:
    def drain(self): return []
    def send(self, command): pass
    def next_id(self): return 1
    def load(self, model, **options): return 1

async def main():
    app = SpecchatApp(Settings(), Engine())
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "f1", "escape", "f2", "escape", "f3", "escape", "ctrl+p", "escape", "f4", "f4", "f4")

asyncio.run(main())
print(sorted({"torch", "transformers", "numpy", "llama_cpp", "tokenizers", "accelerate"} & set(sys.modules)))
"""


def test_the_drawing_process_imports_no_runtime() -> None:
    done = subprocess.run([sys.executable, "-c", HEADLESS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"


async def test_a_frame_costs_the_same_however_long_the_chat_is(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Counted, not timed: lines wrapped and rows drawn for one more step."""
    async with chatting(make_chat(), engine, size=(100, 30)) as (app, pilot):
        await command(pilot, "Go")
        id = engine.begin()
        view = app.chat_screen.view
        costs = []
        for _ in range(3):
            engine.events.append(Steps(id, make_steps(drafts=False) * 20))
            await settle(app, pilot)
            flow = view.blocks[-1].flow
            before, drawn = flow.settled, view.draws
            for _ in range(10):
                engine.events.append(Steps(id, make_steps("word", drafts=False)))
                await settle(app, pilot)
            costs.append((len(flow.lines) - before, view.draws - drawn))
        assert max(rows for rows, _ in costs) <= 12
        assert max(draws for _, draws in costs) <= 10 * 10
        assert abs(costs[0][1] - costs[-1][1]) <= 30


async def test_selected_text_is_the_models_own(make_chat: Make, engine: Any, make_steps: Make) -> None:
    """Dragging over wrapped lines gives the text without margins, marks and the breaks of wrapping."""
    async with chatting(make_chat(), engine, size=(60, 24)) as (app, pilot):
        await command(pilot, "Go")
        id = engine.begin(make_steps("one two three four five six seven eight nine ten eleven twelve thirteen"))
        engine.events += [Switched(id, "greedy", "identical"), Steps(id, make_steps(" fourteen\n\nend", method="greedy"))]
        await settle(app, pilot)
        view = app.chat_screen.view
        await pilot.mouse_down(view, offset=(7, 3))
        await pilot.hover(view, offset=(6, 6))
        await pilot.mouse_up(view, offset=(6, 6))
        await pilot.pause()
        await pilot.press("ctrl+c")
        expected = "two three four five six seven eight nine ten eleven twelve thirteen fourteen\n\nend"
        assert app.clipboard == expected
