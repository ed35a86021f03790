"""Races of a chat are kept with it, and opened again as they ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.entries import Notice
from specchat.app.history.chats import Chats
from specchat.app.history.store import Store
from specchat.app.saved.race_json import race_json, unpack
from specchat.app.tui.pickers.menu import Menu
from specchat.app.tui.race.screen import RaceScreen
from specchat.engine.messages import Generate
from specchat.errors import UserError

from ...fakes.pilots import chatting, toasts, until
from ...fakes.races import run

Make = Callable[..., Any]
LANES = [(range(24), 1, 2.0), (range(24), 3, 0.9), ([*range(20), 90, 91, 92, 93], 4, 0.7)]


async def race(app: Any, pilot: Any, engine: Any, prompt: str = "Say it.") -> None:
    """A race from its start to the chat after it."""
    if app.dialogue.phase == "loading":
        await pilot.pause()
        engine.loaded()
        app.take_events()
    app.actions.command(f"/race greedy lookup soft : {prompt}")
    await pilot.pause()
    run(engine, app.races.screen.race, LANES)
    app.take_events()
    await pilot.press("escape")
    await pilot.pause()


def lines(app: Any) -> list[str]:
    return [entry.text for entry in app.dialogue.transcript.entries if isinstance(entry, Notice) and entry.race]


async def test_a_race_becomes_a_line_of_the_chat_and_opens_again(make_kept: Make, engine: Any) -> None:
    async with chatting(make_kept(), size=(110, 34)) as (app, pilot):
        await race(app, pilot, engine)
        (line,) = lines(app)
        assert line.startswith("Race on “Say it.”: greedy 1.00×, lookup")
        assert line.endswith("≠. /races opens it again.")
        app.chat_history.note()
        assert app.chat_history.recorder.settle()
        with Store() as store:
            opened = Chats(store).open(1)
        app.show_chat(opened.transcript)
        app.actions.command("/races")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, RaceScreen)
        assert not screen.race.running
        assert [(pane.foot.state.name, pane.foot.state.mark) for pane in screen.panes] == [
            ("greedy", "reference for the others"),
            ("lookup", "identical"),
            ("soft", "lossy from token 21"),
        ]
        assert screen.panes[2].foot.state.speedup > screen.panes[1].foot.state.speedup > 1
        assert screen.race.racers[0].answer.text.startswith("0 1 2 ")
        assert len(lines(app)) == 1
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat_screen
        assert len(lines(app)) == 1  # looking at it makes no new one


async def test_a_race_out_of_a_file_opens_and_can_be_run_again(make_kept: Make, engine: Any, tmp_path: Path) -> None:
    async with chatting(make_kept(), size=(110, 34)) as (app, pilot):
        await race(app, pilot, engine)
        record, _, _ = unpack(app.races.kept.of(app.dialogue.transcript)[0].race)
        file = tmp_path / "race.json"
        file.write_text("".join(race_json(record)))
        app.new_chat()
        app.actions.command(f"/open {file}")
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))
        assert [(pane.foot.state.name, pane.foot.state.mark) for pane in app.screen.panes] == [
            ("greedy", "reference for the others"),
            ("lookup", "identical"),
            ("soft", "lossy from token 21"),
        ]
        assert "".join(race_json(app.screen.race.record())) == file.read_text()
        await pilot.press("r")
        again = [command for command in engine.sent if isinstance(command, Generate)][-3:]
        assert [command.method for command in again] == ["greedy", "lookup", "soft"]
        assert again[0].messages == [{"role": "user", "content": "Say it."}]
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is app.chat_screen)
        assert not app.dialogue.transcript.entries, "it is no race of this chat"
        file.write_text(file.read_text().replace('"lanes": [', '"lanes": [], "others": ['))
        app.actions.command(f"/open {file}")
        await until(pilot, lambda: "race.json cannot be opened: it has 0 lanes" in toasts(app))


async def test_several_races_are_asked_for(make_kept: Make, engine: Any) -> None:
    async with chatting(make_kept(), size=(110, 34)) as (app, pilot):
        with pytest.raises(UserError, match="There are no races"):
            app.actions.command("/races")
        await race(app, pilot, engine, "One [bold]thing")
        await race(app, pilot, engine, "Another")
        app.actions.command("/races")
        await pilot.pause()
        assert isinstance(app.screen, Menu)
        await pilot.press("1")
        await pilot.pause()
        assert isinstance(app.screen, RaceScreen)
        assert app.screen.race.prompt == "One [bold]thing"
        await pilot.press("escape")
        await pilot.pause()
        with pytest.raises(UserError, match="from 1 to 2"):
            app.actions.command("/races 3")


@pytest.mark.parametrize("data", [b"", b"x", b"x\x9c\xabV\x02\x00\x00\xf9\x00\x80"], ids=["empty", "garbage", "nothing in it"])
def test_a_damaged_race_is_a_sentence(data: bytes) -> None:
    with pytest.raises(UserError, match="damaged in the history"):
        unpack(data)
