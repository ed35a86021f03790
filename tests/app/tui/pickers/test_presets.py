"""Presets and system prompts: what the settings file says of them, and what the chat does with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static, TextArea

from specchat.app.settings.file import read
from specchat.app.settings.precedence import Layers, load_settings, read_settings, with_given
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.menu import Menu
from specchat.app.tui.pickers.text import TextScreen
from specchat.errors import UserError

from ....fakes.pilots import loaded, worked

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


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    (tmp_path / "settings.toml").write_text(HAIKU)
    return tmp_path / "settings.toml"


def held(name: str) -> Any:
    """The values of a preset, as the file has them."""
    return Layers(read()).presets.get(name)


def test_a_preset_holds_what_its_table_says() -> None:
    assert held("haiku") == {
        "system": "Answer with a haiku.",
        "method": "greedy",
        "max_tokens": 60,
        "stop": ("END",),
        "sampling.temperature": 0.9,
        "methods.lookup.max_ngram": 4,
    }


def test_what_is_wrong_is_named_with_its_line_and_the_rest_counts(file: Path) -> None:
    file.write_text('[presets.mixed]\nsystm = "x"\nmax_tokens = 0\ntheme = "dark"\nsampling.top_k = 4\n')
    found = read()
    assert Layers(found).presets == {"mixed": {"sampling.top_k": 4}}
    for part, problem in zip(("line 2", "line 3", "line 4"), found.problems, strict=True):
        assert part in problem
    assert "a preset has no setting presets.mixed.systm: did you mean system?" in found.problems[0]
    assert "max_tokens must be at least 1, not 0" in found.problems[1]


def test_the_command_line_goes_before_a_preset_and_that_before_the_file(file: Path) -> None:
    file.write_text(f'method = "lookup"\nmax_tokens = 5\nsampling.top_k = 3\n{HAIKU}')
    settings = with_given(read_settings(), {"max_tokens": 7}, {}, "haiku")
    assert (settings.method, settings.max_tokens, settings.sampling.top_k) == ("greedy", 7, 3)
    assert settings.layers.origin("method").said == "preset haiku"
    assert settings.layers.origin("max_tokens").kind == "command line"


@pytest.fixture
def app(engine: Any, dialogue: Any, make_chat: Callable[..., Any]) -> SpecchatApp:
    return SpecchatApp(load_settings()[0], engine, None, dialogue.methods)


async def ready(pilot: Any) -> None:
    await loaded(pilot, pilot.app.dialogue.engine)


async def test_a_preset_is_used_and_left(app: SpecchatApp, engine: Any) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
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


async def test_a_chat_becomes_a_preset(app: SpecchatApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        app.actions.command('/system You\'re brief; "really".')
        app.actions.command("/set temperature=0.3 max_tokens=9")
        app.actions.command("/method lookup max_ngram=2")
        app.actions.command("/preset save my own")
        await worked(pilot)
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
        await worked(pilot)
        assert held("my own")["max_tokens"] == 10
        assert HAIKU.splitlines()[0] == read().path.read_text().splitlines()[0], "comments stay"


async def test_the_system_prompt_is_shown_set_and_emptied(app: SpecchatApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        app.actions.command("/system Be kind.")
        assert app.dialogue.transcript.system == "Be kind."
        await pilot.press("alt+i")
        assert isinstance(app.screen, TextScreen)
        area = app.screen.query_one(TextArea)
        assert area.text == "Be kind."
        await pilot.press("enter", *"And brief.")
        await pilot.press("escape")
        assert isinstance(app.screen, TextScreen), "what was written is not thrown away at once"
        assert "Not saved yet" in str(app.screen.query_one("#text-about", Static).render())
        await pilot.press("ctrl+s")
        assert app.dialogue.transcript.system == "Be kind.\nAnd brief."
        assert app.settings.layers.origin("system").said == "this chat"
        app.actions.command('/system ""')
        assert not app.dialogue.transcript.system
        await pilot.press("alt+i", "escape")
        assert len(app.screen_stack) == 1


async def test_the_list_is_chosen_from(app: SpecchatApp) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("alt+p")
        assert isinstance(app.screen, Menu)
        await pilot.press("enter")
        assert (app.settings.layers.preset_name, app.dialogue.options.max_tokens) == ("haiku", 60)


@pytest.mark.parametrize("key", ["alt+p", "alt+i"], ids=["presets", "system"])
def test_pictures(
    picture: Callable[..., bool], file: Path, engine: Any, dialogue: Any, make_chat: Callable[..., Any], key: str
) -> None:
    file.write_text(
        f"{HAIKU}[presets.translator]\nsampling.temperature = 0.2\n"
        'system = """You translate what you are given into plain English.\nKeep names.\nAnswer with the translation alone."""\n'
    )

    async def before(pilot: Any) -> None:
        await ready(pilot)
        pilot.app.live.preset("translator")
        await pilot.press(key)
        await worked(pilot)

    def make(theme: str) -> SpecchatApp:
        file.write_text(f'theme = "{theme}"\n{file.read_text()}')
        return SpecchatApp(load_settings()[0], engine, None, dialogue.methods)

    assert picture(before, make)
