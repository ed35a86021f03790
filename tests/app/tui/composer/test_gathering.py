"""PDF files and folders in a message are read beside the drawing: the draft stays, esc gives up, nothing is sent twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from specchat.app.attach import pdf as pdf_reader
from specchat.engine.messages import Generate
from specchat.errors import UserError

from ....fakes import pilots
from ....fakes.pdf import pdf
from ....fakes.pilots import chatting, command, settle, toasts, until

Make = Callable[..., Any]
SIZE = (90, 26)


def asked(engine: Any) -> bool:
    return any(isinstance(command, Generate) for command in engine.sent)


async def test_a_document_is_sent_as_text(make_chat: Make, engine: Any, here: Path) -> None:
    pdf(here / "report.pdf", ["The lamp was lit.", ""])
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        await command(pilot, "Sum up @report.pdf")
        await settle(app, pilot)
        content = engine.asked.messages[-1]["content"]
        assert content.startswith("Attached file: report.pdf (")
        assert content.endswith("\n```\n[Page 1]\nThe lamp was lit.\n```\n\nSum up @report.pdf")
        assert app.chat_screen.input.text == ""
        assert "1 of the 2 pages of report.pdf have no text" in toasts(app)


@pytest.fixture
def held(here: Path, monkeypatch: pytest.MonkeyPatch) -> Event:
    """A document whose reading waits for this event."""
    monkeypatch.setattr(pilots, "held", {"beside"})
    monkeypatch.setattr("specchat.app.tui.terminal_app.SLOW_SECONDS", 0.01)
    (here / "slow.pdf").write_bytes(b"%PDF-1.7")
    go = Event()

    def extract(path: Path, shown: str, most: int, given_up: Callable[[], bool]) -> pdf_reader.Extracted:
        while not go.wait(0.01):
            if given_up():
                raise UserError("You stopped reading slow.pdf.")
        return pdf_reader.Extracted("The lamp.\n")

    monkeypatch.setattr(pdf_reader, "extract", extract)
    return go


async def test_the_screen_goes_on_while_a_document_is_read(make_chat: Make, engine: Any, held: Event) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box = app.chat_screen.input
        box.put("Sum up @slow.pdf ")
        await pilot.press("enter")
        await pilot.press("x")
        assert box.text == "Sum up @slow.pdf x"
        await pilot.press("backspace", "enter")
        assert "The files of a message are being read. Wait for them, or press esc to stop." in toasts(app)
        assert not asked(engine)
        # There may be no room for it beside the other.
        await until(pilot, lambda: any("Reading the files … esc stops." in told.message for told in app.recent))
        held.set()
        await until(pilot, lambda: asked(engine))
        assert engine.asked.messages[-1]["content"].count("The lamp.") == 1
        assert box.text == ""


async def test_esc_gives_up(make_chat: Make, engine: Any, held: Event) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        app.chat_screen.input.put("Sum up @slow.pdf ")
        await pilot.press("enter", "escape")
        await until(pilot, lambda: "You stopped reading" in toasts(app))
        assert not asked(engine)
        assert app.chat_screen.input.text == "Sum up @slow.pdf "
        held.set()
        await pilot.press("enter")
        await until(pilot, lambda: asked(engine))
