"""Renders the screenshots from real runs of the built-in model: `make screenshots`, or this file with the names of some scenes.

Each scene opens the chat with its real engine process in Textual's headless driver, types, and saves what is on the screen as
SVG and PNG.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import resvg_py
from textual.pilot import Pilot

from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import with_command_line
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.composer.box import PromptInput
from specchat.app.tui.composer.starters import OPENINGS
from specchat.backends.loading import builtin_path
from specchat.backends.options import BUILTIN_DRAFT, BUILTIN_EAGLE
from specchat.engine.client import EngineClient
from specchat.engine.options import ModelSelection

# Pictures are of a terminal that has every colour, wherever they are made.
os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
os.environ.pop("NO_COLOR", None)

HERE = Path(__file__).resolve().parent
FONT = "DejaVu Sans Mono"
SIZE = (104, 30)
COPY = (
    "Repeat this text exactly: The lighthouse stood on the northern rock. Every evening Ana climbed the stairs, lit the lamp "
    "and wrote the weather into a book. Every morning she put out the lamp and rowed to the village for bread."
)

TEXT = {"type": "string", "maxLength": 24}
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": TEXT, "age": {"type": "integer"}, "city": TEXT},
        "required": ["name", "age", "city"],
    }
)

QUESTION = "How does prompt lookup work, in a few words?"
RECORDED = (
    "<think>\nThe user asks how prompt lookup works, in a few words. Prompt lookup looks for the last few tokens "
    "earlier in the text and drafts what followed them there. So the model checks all drafted tokens in one forward "
    "pass.\n\nShould I show an example? They said a few words, so one sentence is enough. The model checks all "
    "drafted tokens in one forward pass, and keeps those that it would have written itself.\n</think>\n\nPrompt "
    "lookup looks for the last few tokens earlier in the text and drafts what followed them there. The model checks "
    "all drafted tokens in one forward pass, and keeps those that it would have written itself."
)
"""What a model that thinks said; the built-in model does not think."""

Scene = Callable[[SpecchatApp, Pilot[Any]], Awaitable[None]]


def png(svg: str) -> bytes:
    """A picture of the terminal as PNG.

    Raises:
        SystemExit: the font is not installed; the text would be left out without a word.
    """
    letter = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text y="9" font-family="monospace">{}</text></svg>'
    if _rendered(letter.format("x")) == _rendered(letter.format(" ")):
        raise SystemExit(f"{FONT} is not installed: on Debian, apt install fonts-dejavu-core.")
    return _rendered(svg)


def _rendered(svg: str) -> bytes:
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=1, monospace_family=FONT))


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = 90) -> None:
    """Wait for something to come about."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the scene did not come about")
        await pilot.pause(0.01)


async def say(app: SpecchatApp, pilot: Pilot[Any], text: str, *, wait: bool = True) -> None:
    """Type a prompt, send it, and (unless told otherwise) wait for the whole answer."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    before = len(app.dialogue.transcript.entries)
    app.chat_screen.query_one(PromptInput).insert(text)
    await pilot.press("enter")
    await until(pilot, lambda: len(app.dialogue.transcript.entries) > before)
    if wait:
        await until(pilot, lambda: app.dialogue.phase == "ready")
        await pilot.pause(0.2)


async def pass_by_pass(app: SpecchatApp, pilot: Pilot[Any], text: str, passes: int) -> None:
    """Ask something, and hold the answer after so many passes."""
    app.dialogue.set_pace(1)
    await say(app, pilot, text, wait=False)
    answer = app.dialogue.transcript.answers()[-1]
    await until(pilot, lambda: len(answer.log) == 1)
    await pilot.press("f8", *["f9"] * (passes - 1))
    await until(pilot, lambda: len(answer.log) == passes)


async def chat(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """A question, then a copy with the method switched in the middle of the answer."""
    await say(app, pilot, "How does prompt lookup work?")
    app.dialogue.switch("greedy")
    await say(app, pilot, COPY, wait=False)
    await until(pilot, lambda: app.dialogue.answer is not None and app.dialogue.answer.figures.tokens >= 12)
    app.dialogue.switch("lookup")
    await until(pilot, lambda: app.dialogue.phase == "ready")
    await pilot.pause(0.3)


async def empty(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """The empty chat."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    await pilot.pause(0.3)


async def methods(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """The method menu over a chat."""
    await say(app, pilot, COPY)
    await pilot.press("f2")
    await pilot.pause(0.3)


async def help_screen(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """The help."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    await pilot.press("f1")
    await pilot.pause(0.3)


async def tree(app: SpecchatApp, pilot: Pilot[Any], steps: int = 5) -> None:
    """A story step by step, with the token tree of the last step."""
    await until(pilot, lambda: app.dialogue.phase == "ready" and len(app.dialogue.pieces) > 0)
    app.dialogue.switch("tree")
    app.chat_screen.action_panel("tree")
    await pass_by_pass(app, pilot, "Tell me a story about a fox.", steps)
    await pilot.pause(0.3)


async def numbers(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """The figures of an answer that was drafted by a draft model."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    app.dialogue.switch("draft")
    app.chat_screen.action_panel("numbers")
    await say(app, pilot, "Tell me a story about a fox.")
    await pilot.pause(0.3)


async def raced(app: SpecchatApp, pilot: Pilot[Any], command: str) -> None:
    """A race at the photo finish, run twice: the first passes of a process are slower."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    app.actions.command(command)
    for again in (True, False):
        screen = app.races.screen
        assert screen is not None
        await until(pilot, lambda: not screen.race.running and screen._finish.has_class("-shown"))  # noqa: B023
        if again:
            await pilot.press("r")
    await pilot.pause(0.3)


async def trained(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """Plain decoding, an EAGLE head, a draft model and fusion on a story, at the photo finish."""
    await raced(app, pilot, "/race greedy eagle draft fusion : Tell me a story about a fox.")


async def inspect(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """Why a run of a story ended where it did, with the probabilities that the tree page records."""
    await until(pilot, lambda: app.dialogue.phase == "ready" and len(app.dialogue.pieces) > 0)
    app.dialogue.switch("tree")
    app.chat_screen.action_panel("tree")
    await say(app, pilot, "Tell me a story about a fox.")
    await pilot.press("f7", "left", "left")
    await pilot.pause(0.3)


async def structured(app: SpecchatApp, pilot: Pilot[Any], panel: str = "") -> None:
    """An answer that a JSON schema holds to its form, and the tree of one of its passes."""
    await until(pilot, lambda: app.dialogue.phase == "ready" and len(app.dialogue.pieces) > 0)
    app.actions.command(f"/schema {SCHEMA}")
    if panel:
        app.chat_screen.action_panel(panel)
    await say(app, pilot, "Anna Miller is 31 and lives in Vienna. Who is it?")
    await say(app, pilot, "Turn this into JSON: Bruno, 45, Lisbon")
    if panel:
        await pilot.press("f7", "left", "left")
    await pilot.pause(0.3)


async def why(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """Why an answer was not faster, and what would help most."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    app.dialogue.switch("lookup")
    await say(app, pilot, "Tell me a story about a fox.")
    app.actions.command("/why")
    await pilot.pause(0.5)


async def thinking(app: SpecchatApp, pilot: Pilot[Any], passes: int = 0) -> None:
    """A thought while it is written, after so many passes; or folded, with the answer to it."""
    await until(pilot, lambda: app.dialogue.phase == "ready")
    if passes:
        await pass_by_pass(app, pilot, QUESTION, passes)
    else:
        await say(app, pilot, QUESTION)
    await pilot.pause(0.3)


async def base(app: SpecchatApp, pilot: Pilot[Any]) -> None:
    """A base model goes on from a beginning, and then once more."""
    await say(app, pilot, OPENINGS[0].prompt)
    await pilot.press("alt+g")
    await until(pilot, lambda: app.dialogue.phase == "ready")
    await pilot.pause(0.3)


SCENES: dict[str, tuple[str, Scene]] = {
    "chat-dark": ("dark", chat),
    "chat-light": ("light", chat),
    "start-dark": ("dark", empty),
    "methods-dark": ("dark", methods),
    "help-light": ("light", help_screen),
    "tree-dark": ("dark", tree),
    "tree-two-dark": ("dark", partial(tree, steps=6)),  # each of the two guesses what the other does not
    "numbers-light": ("light", numbers),
    "race-four-dark": ("dark", trained),
    "inspect-dark": ("dark", inspect),
    "json-dark": ("dark", structured),
    "json-tree-light": ("light", partial(structured, panel="tree")),
    "why-dark": ("dark", why),
    "base-dark": ("dark", base),
    "thought-dark": ("dark", partial(thinking, passes=34)),
    "thought-light": ("light", thinking),
}
"""Name of the files → theme, and what to do."""


SIZES = {
    "tree-dark": (112, 30),
    "tree-two-dark": (120, 30),
    "numbers-light": (120, 54),
    "race-four-dark": (148, 36),
    "inspect-dark": (120, 36),
    "json-dark": (104, 24),
    "json-tree-light": (120, 32),
    "why-dark": (120, 34),
    "base-dark": (104, 28),
    "thought-dark": (100, 24),
    "thought-light": (100, 24),
}
"""Columns and rows of the scenes that are not of SIZE."""


DRAFT_MODELS = {
    "tree-two-dark": (BUILTIN_DRAFT, str(builtin_path().parent / "draft-Q4_0.gguf")),
    "race-four-dark": (BUILTIN_DRAFT, BUILTIN_EAGLE),
}
"""What drafts in a scene, where it is not what the built-in model brings along."""


async def take(name: str, theme: str, scene: Scene) -> None:
    """Play one scene and save it."""
    drafts = DRAFT_MODELS.get(name, ())
    settings = with_command_line(Settings(), {"theme": theme, "method": "lookup", "draft_model": drafts})
    if scene is thinking or getattr(scene, "func", None) is thinking:
        file = Path(tempfile.mkdtemp()) / "small-thinker.jsonl"
        file.write_text(json.dumps({"prompt": QUESTION, "response": RECORDED}))
        os.environ["SPECCHAT_RUNTIME"] = "specchat.tests.fakes.recorded:load_recorded"
        settings = with_command_line(settings, {"model": f"recorded:{file}?pace=0.02"})
    if scene is base:  # the built-in model without its template
        folder = Path(tempfile.mkdtemp()) / "small-base"
        shutil.copytree(builtin_path(), folder, ignore=shutil.ignore_patterns("chat_template.jinja"))
        settings = with_command_line(settings, {"model": str(folder), "max_tokens": 40})
    client = EngineClient()
    client.load(ModelSelection(settings.model, device="cpu", dtype="float32", draft_model=drafts))
    app = SpecchatApp(settings, client)
    try:
        async with app.run_test(size=SIZES.get(name, SIZE)) as pilot:
            await scene(app, pilot)
            svg = app.export_screenshot(title="specchat")
    finally:
        client.close()
    (HERE / f"{name}.svg").write_text(svg)
    (HERE / f"{name}.png").write_bytes(png(svg))
    print(f"screenshots/{name}.svg and .png")


def main() -> None:
    """All scenes, or those named."""
    for name in sys.argv[1:] or SCENES:
        asyncio.run(take(name, *SCENES[name]))


if __name__ == "__main__":
    main()
