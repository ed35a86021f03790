"""Waiting for the interface, in one place: for what is true, never for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any

from textual._context import active_app

PATIENCE, PROCESSOR = 60.0, 10.0
"""Seconds, by the clock and of its own processor time, before a test gives up: beside much else a process gets little."""

SOON = 0.012
"""A timer due within SOON seconds belongs to what is being done: a resize, the next slice of a long chat."""

MOST_SOON = 200
"""Rounds that wait for timers alone: one that comes again before its last turn is done, on a slow machine, is no work."""

Make = Callable[..., Any]
"""A fixture that makes something: the app, an answer's steps."""

held: set[str] = set()
"""Groups of workers that a test holds up, for which nobody can wait."""


async def idle(least: float = 0, most: float = 0) -> None:
    """Wait until the app has nothing left to do: no callback is due, no worker runs and nothing is left to paint.

    Stands in for Textual's, which sleeps and takes a process that got no time on the processor for one that has nothing to do.
    """
    app, patient, quiet, timers = active_app.get(None), _patience(), 0, 0
    loop: Any = asyncio.get_running_loop()
    while quiet < 3:
        await asyncio.sleep(0)
        workers = app.workers if app is not None and app._running else ()
        at_work = [worker for worker in workers if worker.is_running and worker.group not in held]
        soon = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=inf) < loop.time() + SOON
        # What was due before this task has run by now; what is due after it is still in the loop's queue.
        if loop._ready:
            quiet = 0
        elif at_work or (soon and timers < MOST_SOON):
            assert patient(), f"still at work: {at_work}"
            await asyncio.sleep(0.001)
            quiet, timers = 0, 0 if at_work else timers + 1
        else:
            if app is not None and app.screen_stack:
                app.screen._on_timer_update()
            quiet += 1


async def settle(app: Any, pilot: Any) -> None:
    """Let the app take in what the engine said."""
    app.take_events()
    await pilot.pause()


async def until(pilot: Any, condition: Callable[[], bool]) -> None:
    """Wait for something that a thread or another process brings about.

    Raises:
        AssertionError: it did not come about.
    """
    patient = _patience()
    while not condition():
        assert patient(), "it did not come about"
        await asyncio.sleep(0.005)
        await pilot.pause()
    await pilot.pause()


async def workers_done(pilot: Any) -> None:
    """Wait for what works beside the interface, and for what comes of it."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def loaded(pilot: Any, engine: Any, **unavailable: str) -> None:
    """Let the model be loaded; methods that cannot run on it have their reason."""
    await pilot.pause()
    engine.loaded(**unavailable)
    await settle(pilot.app, pilot)


@asynccontextmanager
async def chatting(app: Any, engine: Any = None, **more: Any) -> AsyncIterator[tuple[Any, Any]]:
    """The chat on a screen, and its pilot; its model is loaded where an engine is given."""
    async with app.run_test(**more) as pilot:
        if engine is not None:
            await loaded(pilot, engine)
        yield app, pilot


async def ask(pilot: Any, engine: Any, prompt: str, records: Any = (), *, finish: bool = True, tail: str = "") -> int:
    """Ask something, and let the engine answer; the answer's id."""
    app = pilot.app
    if app.dialogue.phase == "loading":
        await loaded(pilot, engine)
    app.box.put(prompt)
    await pilot.press("enter")
    id: int = engine.begin(records)
    if finish:
        engine.finish(tail=tail)
    await settle(app, pilot)
    return id


async def command(pilot: Any, text: str) -> str:
    """Type a command and press enter; what stays in the box."""
    pilot.app.box.put(text)
    await pilot.press("enter")
    await pilot.pause()
    return str(pilot.app.box.text)


def rows(widget: Any) -> list[str]:
    """The rows that a widget draws."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def shown(app: Any) -> str:
    """Read all that is to be seen of the chat."""
    return "\n".join(rows(app.chat_screen.view))


def status(app: Any) -> str:
    """The line above the input box."""
    return str(app.chat_screen.query_one("#status").render())


def toasts(app: Any) -> str:
    """The notices that stand beside the chat."""
    return " ".join(notification.message for notification in app._notifications)


def _patience() -> Callable[[], bool]:
    """Tells whether to wait on, from now."""
    clock, processor = time.monotonic() + PATIENCE, time.process_time() + PROCESSOR
    return lambda: time.monotonic() < clock or time.process_time() < processor
