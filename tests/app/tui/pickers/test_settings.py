"""The settings screen: found, changed, written, undone; in step with the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static, TextArea

from specchat.app.settings.precedence import Layers, load_settings, read, with_command_line
from specchat.app.settings.rows import detail
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.settings import SettingsScreen, drawn
from specchat.app.tui.pickers.text import TextScreen
from specchat.engine.messages import Loaded
from specchat.engine.options import Sampling
from specchat.errors import UserError

from ....fakes.pilots import chatting, loaded, settle, workers_done
from ...conftest import INFO

Start = Callable[..., SpecchatApp]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


@pytest.fixture
def start(make_chat: Callable[..., Any], engine: Any, file: Path, dialogue: Any) -> Start:
    """A chat with what the file says, and with some options."""

    def begin(text: str = "", **options: Any) -> SpecchatApp:
        file.write_text(text)
        settings, notice = load_settings()
        return SpecchatApp(with_command_line(settings, options, {}), engine, notice, dialogue.methods)

    return begin


async def open_settings(pilot: Any, *keys: str) -> SettingsScreen:
    """Open the settings and press some keys; return the screen."""
    await pilot.pause()
    pilot.app.dialogue.engine.loaded()
    pilot.app.take_events()
    await pilot.press("alt+o", *keys)
    screen = pilot.app.screen
    assert isinstance(screen, SettingsScreen)
    return screen


def note_of(screen: SettingsScreen) -> str:
    return str(screen.query_one("#note", Static).render())


def detail_of(screen: SettingsScreen) -> str:
    return str(screen.query_one("#detail", Static).render())


OWN = "[models.builtin.sampling]\ntop_k = 5\n# mine\n[sampling]\ntop_p = 0.9 # rather\n"


async def test_a_number_is_found_changed_written_and_removed(start: Start, file: Path) -> None:
    async with chatting(start(OWN), size=(100, 34)) as (app, pilot):
        screen = await open_settings(pilot, *"temperature")
        assert [row.key_or_heading for row in screen.listed.items if row.option] == ["sampling.temperature"]
        assert "default 0.0 · applies from the next answer" in detail_of(screen)
        await pilot.press("enter", "backspace", "backspace", "backspace", *"x", "enter")
        assert "temperature takes a number" in str(app.screen.query_one("#text-about", Static).render())
        await pilot.press("backspace", *"0.7", "enter")
        await workers_done(pilot)
        assert app.dialogue.options.sampling.temperature == 0.7
        assert file.read_text() == f"{OWN}temperature = 0.7\n"
        assert "it applies from the next answer" in note_of(screen)
        assert screen.box.value == "temperature"
        assert "settings.toml" in detail_of(screen)
        await pilot.press("ctrl+d")
        await workers_done(pilot)
        assert file.read_text() == OWN
        assert app.dialogue.options.sampling.temperature == 0.0
        await pilot.press("escape", *"top_k")
        assert screen.listed.item is not None
        assert (screen.listed.item.text, screen.listed.item.mark) == ("5", "this model")
        await pilot.press("enter", "backspace", "9", "enter")
        await workers_done(pilot)
        assert "builtin has its own value, which overrides this" in note_of(screen)
        assert app.dialogue.options.sampling.top_k == 5
        await pilot.press("escape", "escape")
        assert not isinstance(app.screen, SettingsScreen)


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
        screen = await open_settings(pilot)
        rows = {row.key_or_heading: row for row in screen.listed.items if row.option}
        assert not [row.key_or_heading for row in rows.values() if row.text in ("", "–", "None")]
        assert (rows["device"].text, rows["context"].text) == ("cpu (auto)", "4096")
        assert (rows["method"].text, rows["draft_model"].text) == (app.dialogue.method, "builtin-draft")
        assert rows["max_tokens"].text == "until the context is full"
        (parts,) = drawn(rows["max_tokens"], 110)
        assert "".join(text for text, _ in parts).split("  ")[0] == "Token limit"
        assert "default auto" in " ".join(text for text, _ in detail(rows["device"]))


def test_pictures(picture: Callable[..., bool], start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.tui.pickers.settings.short_path", lambda path: "~/.config/specchat/settings.toml")
    monkeypatch.setattr("specchat.app.settings.precedence.short_path", lambda path: "~/.config/specchat/settings.toml")

    async def before(pilot: Any) -> None:
        await open_settings(pilot, *("down",) * 16)

    def make(theme: str) -> SpecchatApp:
        rest = 'stop = ["###", "END"]\n[sampling]\ntemperature = 0.7\n[models.builtin]\nmethod = "greedy"\n'
        return start(f'theme = "{theme}"\n{rest}', device="cpu")

    assert picture(before, make)


HAIKU = """# for the evening
[presets.haiku]
system = "Answer with a haiku."
method = "greedy"
max_tokens = 60
stop = ["END"]
sampling.temperature = 0.9  # wild

[presets.haiku.methods.lookup]
max_ngram = 4
"""


def held(name: str) -> Any:
    """The values of a preset, as the file has them."""
    return Layers(read()).presets.get(name)


async def test_a_preset_is_used_and_left(start: Start, engine: Any) -> None:
    async with chatting(start(HAIKU), engine, size=(80, 24)) as (app, pilot):
        app.actions.command("/set temperature=0.1 top_k=7")
        app.actions.command("/preset haiku")
        dialogue = app.dialogue
        assert (dialogue.method, dialogue.options.max_tokens, dialogue.options.stop) == ("greedy", 60, ("END",))
        assert (dialogue.options.sampling.temperature, dialogue.options.sampling.top_k) == (0.9, 7)
        assert dialogue.settings["lookup"] == {"max_ngram": 4}
        assert dialogue.transcript.system == "Answer with a haiku."
        await pilot.press(*"Hi", "enter")
        assert engine.asked.messages[0] == {"role": "system", "content": "Answer with a haiku."}
        assert engine.asked.sampling["temperature"] == 0.9
        app.actions.command("/set temperature=0.3")
        assert dialogue.options.sampling.temperature == 0.3
        app.actions.command("/preset none")
        assert (dialogue.options.max_tokens, dialogue.options.sampling.temperature) == (None, 0.0)
        assert not dialogue.transcript.system
        assert dialogue.settings["lookup"] == {}
        with pytest.raises(UserError, match=r"did you mean haiku\?"):
            app.actions.command("/preset haikuu")


async def test_a_chat_becomes_a_preset(start: Start, engine: Any) -> None:
    async with chatting(start(HAIKU), engine, size=(80, 24)) as (app, pilot):
        app.actions.command("/system Be kind.")
        await pilot.press("alt+i")
        assert isinstance(app.screen, TextScreen)
        assert app.screen.query_one(TextArea).text == "Be kind."
        await pilot.press("enter", *"And brief.", "escape")
        assert isinstance(app.screen, TextScreen), "what was written is not thrown away at once"
        assert "Not saved yet" in str(app.screen.query_one("#text-about", Static).render())
        await pilot.press("ctrl+s")
        assert app.dialogue.transcript.system == "Be kind.\nAnd brief."
        assert app.live.layers.origin("system").place == "this chat"
        app.actions.command('/system ""')
        assert not app.dialogue.transcript.system
        app.actions.command('/system You\'re brief; "really".')
        app.actions.command("/set temperature=0.3 max_tokens=9")
        app.actions.command("/method lookup max_ngram=2")
        app.actions.command("/preset save my own")
        await workers_done(pilot)
        assert held("my own") == {
            "system": 'You\'re brief; "really".',
            "method": "lookup",
            "max_tokens": 9,
            "sampling.temperature": 0.3,
            "methods.lookup.max_ngram": 2,
        }
        with pytest.raises(UserError, match="There is already a preset haiku"):
            app.actions.command("/preset save haiku")
        app.actions.command("/set max_tokens=10")
        app.actions.command("/preset save")
        await workers_done(pilot)
        assert held("my own")["max_tokens"] == 10
        assert HAIKU.splitlines()[0] == read().path.read_text().splitlines()[0], "comments stay"


TRANSLATOR = """[presets.translator]
sampling.temperature = 0.2
system = \"\"\"You translate what you are given into plain English.
Keep names.
Answer with the translation alone.\"\"\"
"""


def test_preset_picture(picture: Callable[..., bool], start: Start, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await loaded(pilot, engine)
        pilot.app.live.preset("translator")
        await pilot.press("alt+i")
        await workers_done(pilot)

    assert picture(before, lambda theme: start(f'theme = "{theme}"\n{TRANSLATOR}'))


async def test_recommended_sampling(make_chat: Callable[..., Any], engine: Any) -> None:
    async with chatting(make_chat(), size=(140, 30), notifications=True) as (app, pilot):
        app.dialogue.submit("Hello")  # waits for the model
        engine.events.append(Loaded(1, replace(INFO, sampling={"temperature": 0.6, "top_k": 20}), {}))
        await settle(app, pilot)
        assert (engine.asked.sampling["temperature"], engine.asked.sampling["top_k"]) == (0.6, 20)
        assert app.live.layers.origin("sampling.temperature").place == "recommended for this model"
        assert "temperature 0.6, recommended for it" in str(app.chat_screen.query_one("ChatHeader").render())
        assert app.dialogue.race_sampling.greedy
        engine.begin()
        engine.finish()
        await settle(app, pilot)
        app.actions.command("/set temperature=0.9")
        await pilot.resize_terminal(70, 30)
        assert "temperature 0.9" in str(app.chat_screen.query_one("ChatHeader").render()), "before what never changes"
        assert app.dialogue.race_sampling.temperature == 0.9
        app.live.unset("sampling.temperature")
        app.dialogue.load_model("other")
        engine.events.append(Loaded(9, replace(INFO, name="other"), {}))
        await settle(app, pilot)
        assert app.dialogue.options.sampling == Sampling()
        assert "sampling.temperature" not in app.live.preset_values()
