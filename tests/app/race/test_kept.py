"""Races out of files are opened again as they ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specchat.app.saved.race_json import race_json
from specchat.app.tui.race.screen import RaceScreen
from specchat.engine.messages import Generate

from ...fakes.pilots import Make, chatting, toasts, until
from ...fakes.races import run

LANES = [(range(24), 1, 2.0), (range(24), 3, 0.9), ([*range(20), 90, 91, 92, 93], 4, 0.7)]


async def test_a_race_out_of_a_file_opens_and_can_be_run_again(make_kept: Make, engine: Any, tmp_path: Path) -> None:
    async with chatting(make_kept(), size=(110, 34)) as (app, pilot):
        await pilot.pause()
        engine.loaded()
        app.take_events()
        app.actions.command("/race greedy lookup soft : Say it.")
        await pilot.pause()
        race = app.races.screen.race
        run(engine, race, LANES)
        app.take_events()
        await pilot.press("escape")
        await pilot.pause()
        assert not app.dialogue.transcript.entries, "a race leaves the chat as it is"
        file = tmp_path / "race.json"
        file.write_text("".join(race_json(race.record())))
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
        assert not app.dialogue.transcript.entries
        file.write_text(file.read_text().replace('"lanes": [', '"lanes": [], "others": ['))
        app.actions.command(f"/open {file}")
        await until(pilot, lambda: "race.json cannot be opened: it has 0 lanes" in toasts(app))
