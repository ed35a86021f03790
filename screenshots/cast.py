"""Renders the short animated cast of the README from a real run of the built-in model: `make screenshots`, or this file.

The answer is taken step by step (as F8 and F9 do), one frame a step, so that an eye can follow what takes milliseconds.
"""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

from PIL import Image
from textual.pilot import Pilot

from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.composer.box import PromptInput
from specchat.engine.client import EngineClient
from specchat.screenshots.make import COPY, png, until

HERE = Path(__file__).resolve().parent
SIZE = (96, 24)
ZOOM = 0.62
STEP_MS, SWITCH_MS, LAST_MS = 110, 900, 2600
PLAIN_STEPS = 14
"""Steps of plain decoding before the switch."""


class Film:
    """Frames of the app's screen."""

    def __init__(self, app: SpecchatApp) -> None:
        self.app = app
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        """Keep what is on the screen."""
        svg = self.app.export_screenshot(title="specchat")
        picture = Image.open(io.BytesIO(png(svg))).convert("RGB")
        size = (round(picture.width * ZOOM), round(picture.height * ZOOM))
        self.frames.append(picture.resize(size, Image.Resampling.LANCZOS))
        self.durations.append(milliseconds)

    def save(self, path: Path) -> None:
        """Write the film, looping."""
        first, *rest = self.frames
        first.save(path, save_all=True, append_images=rest, duration=self.durations, loop=0, quality=80, method=6)


async def play(app: SpecchatApp, pilot: Pilot[Any]) -> Film:
    """Plain decoding, a switch to prompt lookup in mid-answer, and the race of both."""
    film = Film(app)
    dialogue = app.dialogue
    await until(pilot, lambda: dialogue.phase == "ready" and len(dialogue.pieces) > 0)
    dialogue.switch("greedy")
    await pilot.press("f8")
    app.chat_screen.query_one(PromptInput).insert(COPY)
    await pilot.press("enter")
    await until(pilot, lambda: dialogue.answer is not None)
    answer = dialogue.transcript.answers()[-1]
    for step in range(1, 200):
        if step == PLAIN_STEPS:
            dialogue.switch("lookup")
            await until(pilot, lambda: dialogue.method == "lookup")
            await pilot.pause(0.1)
            film.shoot(SWITCH_MS)
        await pilot.press("f9")
        await until(pilot, lambda step=step: len(answer.log) >= step or answer.done)  # type: ignore[misc]
        await pilot.pause(0.1)
        film.shoot(STEP_MS if step < PLAIN_STEPS else 4 * STEP_MS)
        if answer.done:
            break
    await pilot.pause(0.3)
    film.shoot(LAST_MS)
    app.actions.command("/race greedy lookup draft")
    await until(pilot, lambda: app.screen is not app.chat_screen)
    await pilot.pause(4)
    film.shoot(2 * LAST_MS)
    return film


async def main() -> None:
    """Play and save."""
    settings = changed(Settings(), {"theme": "dark", "method": "greedy"})
    client = EngineClient()
    client.load(settings.model, device="cpu", dtype="float32")
    app = SpecchatApp(settings, client)
    try:
        async with app.run_test(size=SIZE) as pilot:
            film = await play(app, pilot)
    finally:
        client.close()
    film.save(HERE / "cast.webp")
    print(f"screenshots/cast.webp: {len(film.frames)} frames, {(HERE / 'cast.webp').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main())
