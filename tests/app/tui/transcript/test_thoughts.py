"""Thoughts on the screen: while they are written, folded, opened; in a race; and what keys and commands do with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specchat.app.render.blocks import TAIL
from specchat.engine.messages import Finished, Loaded, Steps

from ....cases import FULL
from ....fakes.pilots import Make, command, settle, toasts
from ....fakes.races import begin, finish, request_of
from ....fakes.thoughts import THINKING, THOUGHT, thinking_steps
from ...conftest import INFO, TEXT

ANSWER = TEXT.partition("\n\n")[0] + "\n\nIt pays where an answer repeats the prompt, as in edits and summaries."

SIZES = {"80x24-dark": ("dark", (80, 24)), "80x24-light": ("light", (80, 24))}


@pytest.fixture(params=SIZES if FULL else [*SIZES][:1])
def small(request: pytest.FixtureRequest, snap_compare: Any, make_chat: Make) -> Callable[..., bool]:
    """Whether the chat looks as in its picture once `before` was done, at 80 × 24 dark and light."""
    theme, size = SIZES[request.param]

    def same(before: Make, **settings: Any) -> bool:
        return bool(snap_compare(make_chat(theme=theme, **settings), terminal_size=size, run_before=before))

    return same


async def load(pilot: Any, engine: Any) -> None:
    await pilot.pause()
    engine.events.append(Loaded(1, replace(INFO, thinking=THINKING), {}))
    await settle(pilot.app, pilot)


async def ask(pilot: Any, engine: Any, *, to: str = "end") -> None:
    """A prompt, and an answer with a thought, up to the middle of the thought (`thought`), of the answer (`answer`), or its
    end."""
    await load(pilot, engine)
    await command(pilot, "How does prompt lookup work?\nIn a few words.")
    steps = thinking_steps(THOUGHT, ANSWER)
    thought = sum(step.spans[-1][0] for step in steps)
    count = {"thought": thought - 3, "answer": thought + 4, "end": len(steps)}[to]
    id = engine.begin()
    # In the bits in which an engine sends them.
    for i in range(0, count, 7):
        engine.events.append(Steps(id, steps[i : min(count, i + 7)]))
        await settle(pilot.app, pilot)
    if to == "end":
        engine.events.append(Finished(id, "eos", "", 0.12, 0.12 + 0.031 * len(steps), plain_seconds=0.028))
        await settle(pilot.app, pilot)


def seen(pilot: Any) -> list[str]:
    """The rows of the transcript that are in view."""
    view = pilot.app.view
    return [view.painted(y).text.rstrip() for y in range(view.size.height)]


def thought_rows(pilot: Any) -> list[str]:
    return [row for row in seen(pilot) if row.lstrip().startswith("│")]


STATES: dict[str, tuple[str, str, int | None]] = {
    "written": ("thought", "", TAIL),
    "folded": ("end", "", 0),
    "opened": ("end", "alt+v", None),
    "numbers": ("end", "/panel numbers", None),
}
"""End of the answer, key or command then, and rows of thought."""


@pytest.mark.parametrize("state", STATES)
def test_pictures(small: Make, engine: Any, state: str) -> None:
    to, then, rows = STATES[state]

    async def before(pilot: Any) -> None:
        await ask(pilot, engine, to=to)
        assert rows is None or len(thought_rows(pilot)) == rows
        if then:
            await (command(pilot, then) if then.startswith("/") else pilot.press(then))
        await settle(pilot.app, pilot)

    assert small(before)


def test_in_a_race(small: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await load(pilot, engine)
        await command(pilot, "/race greedy lookup : How does prompt lookup work?")
        await settle(pilot.app, pilot)
        for lane, size in enumerate((1, 6)):
            id = begin(engine, lane)
            steps = thinking_steps(THOUGHT, ANSWER, size=size, method=("greedy", "lookup")[lane])
            engine.events.append(Steps(id, steps if size > 1 else steps[: len(steps) // 2]))
        finish(engine, 1, 2.0)
        await settle(pilot.app, pilot)
        assert request_of(engine, 0).messages

    assert small(before)


async def test_a_key_and_a_click_open_and_fold(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(80, 24)) as pilot:
        view = pilot.app.view
        await load(pilot, engine)
        await pilot.press("alt+v")
        assert toasts(pilot.app) == "There is no thought in this chat yet."
        await ask(pilot, engine)
        assert view.following
        folded = seen(pilot)
        title = next(y for y, row in enumerate(folded) if row.lstrip().startswith("▸ Thought for"))
        await pilot.press("alt+v")
        assert thought_rows(pilot)
        # What was opened is read from its beginning, though the end was followed.
        assert any("Okay, the user" in row for row in seen(pilot))
        assert not view.following
        await pilot.press("alt+v")
        assert seen(pilot) == folded
        assert view.following
        await pilot.click(type(view), offset=(10, title))
        assert thought_rows(pilot)
        opened = next(y for y, row in enumerate(seen(pilot)) if row.lstrip().startswith("▾ Thought for"))
        await pilot.click(type(view), offset=(10, opened))
        assert seen(pilot) == folded


async def test_it_folds_as_the_answer_begins_unless_the_reader_opened_it(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(80, 40)) as pilot:
        await ask(pilot, engine, to="answer")
        assert not thought_rows(pilot)
        engine.finish()
        await settle(pilot.app, pilot)
        await command(pilot, "Again")
        steps = thinking_steps(f"{THOUGHT}\n\n{THOUGHT}", ANSWER)
        half = len(steps) // 2
        id = engine.begin(steps[:half])
        await settle(pilot.app, pilot)
        await pilot.press("alt+v")
        assert len(thought_rows(pilot)) > TAIL
        engine.events.append(Steps(id, steps[half:]))
        engine.finish()
        await settle(pilot.app, pilot)
        assert pilot.app.view.blocks[-1].opened
