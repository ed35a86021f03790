"""Renders the moving picture of the README from real runs of the built-in model: `make screenshots`, or this file.

The race is run in slow motion, a pass of every pane to a frame, then at full speed for its photo finish. Then an answer is
taken at a pace (as F10 sets it), one frame a pass, and the method is switched on the way.
"""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

from PIL import Image
from textual.pilot import Pilot

from specchat.app.race.entry import race_prompt
from specchat.app.race.race import Race
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import with_command_line
from specchat.app.tui.app import SpecchatApp
from specchat.engine.client import EngineClient
from specchat.engine.options import ModelSelection
from specchat.screenshots.make import COPY, png, say, until

HERE = Path(__file__).resolve().parent
SIZE = (114, 24)
ZOOM = 0.56
RACE_MS, STEP_MS, RUN_MS, HELD_MS = 100, 110, 450, 950
"""Milliseconds of a frame of the race, of a step of plain decoding, of one with several tokens, and of what is held."""
PACE = 2.0
"""Passes a second: a picture is taken between two."""
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


async def race(app: SpecchatApp, pilot: Pilot[Any], film: Film) -> None:
    """Three methods on a copy: from the start to the photo finish."""
    entries = [app.races.entry(name) for name in ("greedy", "lookup", "draft")]
    subject = race_prompt(app.dialogue, COPY)
    assert subject is not None
    race = Race(app.dialogue, *subject, entries, app.races.ids)
    race.pace = PACE
    screen = app.races.begin(race)
    passes = 1
    while race.running:
        await until(pilot, lambda: all(racer.done or len(racer.answer.log) >= passes for racer in race.racers))  # noqa: B023
        screen.refresh_race(now=True)
        film.shoot(RACE_MS)
        passes += 1
    race.pace = 0.0
    for _ in range(2):  # the first passes at full speed are slower
        await pilot.press("r")
        await until(pilot, lambda: not (race.running or race.settling) and screen._finish.has_class("-shown"))
    await pilot.pause(0.2)
    film.shoot(HELD_MS)
    await pilot.press("escape")
    await until(pilot, lambda: app.screen is app.chat_screen)


async def switch(app: SpecchatApp, pilot: Pilot[Any], film: Film) -> None:
    """Plain decoding, and a switch to prompt lookup in the middle of the answer."""
    dialogue = app.dialogue
    app.new_chat()
    dialogue.switch("greedy")
    dialogue.set_pace(PACE)
    await say(app, pilot, COPY, wait=False)
    answer = dialogue.transcript.answers()[-1]
    for step in range(1, 200):
        if step == PLAIN_STEPS:
            dialogue.switch("lookup")
            await until(pilot, lambda: dialogue.method == "lookup")
            await pilot.pause(0.1)
            film.shoot(HELD_MS)
        await until(pilot, lambda step=step: len(answer.log) >= step or answer.done)  # type: ignore[misc]
        await pilot.pause(0.1)
        film.shoot(STEP_MS if step < PLAIN_STEPS else RUN_MS)
        if answer.done:
            break
    await pilot.pause(0.3)
    film.shoot(HELD_MS)


async def main() -> None:
    """Play and save."""
    settings = with_command_line(Settings(), {"theme": "dark", "method": "greedy"})
    client = EngineClient()
    client.load(ModelSelection(settings.model, device="cpu", dtype="float32"))
    app = SpecchatApp(settings, client)
    try:
        film = Film(app)
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: app.dialogue.phase == "ready" and len(app.dialogue.pieces) > 0)
            await race(app, pilot, film)
            await switch(app, pilot, film)
    finally:
        client.close()
    film.save(HERE / "cast.webp")
    print(f"screenshots/cast.webp: {len(film.frames)} frames, {(HERE / 'cast.webp').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main())
