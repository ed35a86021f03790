"""The settings screen: found, changed, written, undone; in step with the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from specchat.app.settings.precedence import load_settings, with_given
from specchat.app.settings.rows import detail
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.settings import SettingsScreen, drawn

from ....fakes.pilots import chatting

Start = Callable[..., SpecchatApp]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


@pytest.fixture
def start(make_chat: Callable[..., Any], engine: Any, file: Path, dialogue: Any) -> Start:
    """A chat with what the file says, and with some options."""

    def begin(text: str = "", **given: Any) -> SpecchatApp:
        file.write_text(text)
        settings, notice = load_settings()
        return SpecchatApp(with_given(settings, given, {}), engine, notice, dialogue.methods)

    return begin


async def opened(pilot: Any, *keys: str) -> SettingsScreen:
    """The screen, once some keys were pressed."""
    await pilot.pause()
    pilot.app.dialogue.engine.loaded()
    pilot.app.take_events()
    await pilot.press("alt+o", *keys)
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, SettingsScreen)
    return screen


async def written(pilot: Any) -> None:
    """Wait for the file."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def note(screen: SettingsScreen) -> str:
    return str(screen.query_one("#note", Static).render())


def told(screen: SettingsScreen) -> str:
    return str(screen.query_one("#detail", Static).render())


async def test_a_number_is_found_changed_written_and_undone(start: Start, file: Path) -> None:
    async with chatting(start("# mine\n[sampling]\ntop_p = 0.9 # rather\n"), size=(100, 34)) as (app, pilot):
        screen = await opened(pilot, *"temperature")
        assert screen.listed.item is not None
        assert [row.title for row in screen.listed.items if row.entry] == ["sampling.temperature"]
        assert "default 0.0 · applies from the next answer" in told(screen)
        await pilot.press("enter")
        assert screen.box.region.x >= screen.frame.region.x + len("temperature: ")  # the whole name is seen before it
        await pilot.press("backspace", "backspace", "backspace", *"0.7", "enter")
        await written(pilot)
        assert app.dialogue.options.sampling.temperature == 0.7
        assert file.read_text() == "# mine\n[sampling]\ntop_p = 0.9 # rather\ntemperature = 0.7\n"
        assert "it applies from the next answer" in note(screen)
        assert screen.box.value == "temperature"
        assert "from " in told(screen)
        assert "settings.toml, line 4" in told(screen)
        await pilot.press("ctrl+z")
        await written(pilot)
        assert file.read_text() == "# mine\n[sampling]\ntop_p = 0.9 # rather\n"
        assert app.dialogue.options.sampling.temperature == 0.0
        await pilot.press("escape", "escape")
        assert not isinstance(app.screen, SettingsScreen)


async def test_what_a_model_has_of_its_own_goes_before_a_change(start: Start, file: Path) -> None:
    async with chatting(start("[models.builtin.sampling]\ntemperature = 0.9\n"), size=(100, 34)) as (app, pilot):
        screen = await opened(pilot, *"temperature")
        assert screen.listed.item is not None
        assert (screen.listed.item.text, screen.listed.item.mark) == ("0.9", "this model")
        await pilot.press("enter", "backspace", "backspace", "backspace", *"0.1", "enter")
        assert "builtin has its own value, which overrides this" in note(screen)
        await written(pilot)
        assert app.dialogue.options.sampling.temperature == 0.9


async def test_a_model_that_is_loaded_brings_its_own_method_and_sampling(start: Start, engine: Any) -> None:
    async with chatting(
        start('method = "greedy"\n[models."other/m-0.5"]\nmethod = "lookup"\nsystem = "Brief."\nsampling.temperature = 0.4\n'),
        engine,
        size=(80, 24),
    ) as (app, pilot):
        assert app.dialogue.method == "greedy"
        app.actions.command("/model other/m-0.5")
        await pilot.pause()
        assert (app.dialogue.method, app.dialogue.options.sampling.temperature) == ("lookup", 0.4)
        assert app.dialogue.transcript.system == "Brief."
        engine.loaded()
        app.take_events()
        app.actions.command("/model builtin")
        await pilot.pause()
        assert (app.dialogue.method, app.dialogue.options.sampling.temperature) == ("greedy", 0.0)
        assert app.dialogue.transcript.system is None


async def test_what_counts_is_shown_where_nothing_is_set(start: Start) -> None:
    async with chatting(start(""), size=(130, 40)) as (app, pilot):
        screen = await opened(pilot)
        found = {row.title: row for row in screen.listed.items if row.entry}
        assert not [row.title for row in found.values() if row.text in ("", "–", "None")]
        assert (found["device"].text, found["context"].text) == ("cpu (auto)", "4096")
        assert (found["method"].text, found["draft_model"].text) == (app.dialogue.method, "builtin-draft")
        assert found["max_tokens"].text == "until the context is full"
        (parts,) = drawn(found["max_tokens"], 110)
        assert "".join(text for text, _ in parts).split("  ")[0] == "Token limit"
        assert " max_tokens " in "".join(text for text, _ in parts)
        assert "default auto" in " ".join(text for text, _ in detail(found["device"]))


def test_pictures(picture: Callable[..., bool], start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.tui.pickers.settings.short_path", lambda path: "~/.config/specchat/settings.toml")
    monkeypatch.setattr("specchat.app.settings.precedence.short_path", lambda path: "~/.config/specchat/settings.toml")

    async def before(pilot: Any) -> None:
        await opened(pilot, *("down",) * 16)

    def make(theme: str) -> SpecchatApp:
        rest = 'stop = ["###", "END"]\n[sampling]\ntemperature = 0.7\n[models.builtin]\nmethod = "greedy"\n'
        return start(f'theme = "{theme}"\n{rest}', device="cpu")

    assert picture(before, make)
