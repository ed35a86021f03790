"""Presets and system prompts: files that people write, and what the chat does with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static, TextArea

from specchat.app.settings.precedence import read_settings, with_given
from specchat.app.settings.presets import (
    delete_preset,
    folder,
    last_deleted,
    names,
    presets,
    read_preset,
    rename_preset,
    restore_preset,
    save_preset,
)
from specchat.app.tui.app import SpecchatApp
from specchat.app.tui.pickers.presets import PresetsScreen
from specchat.app.tui.pickers.text import TextScreen
from specchat.errors import UserError

from ....fakes.pilots import loaded, worked

HAIKU = """# for the evening
about = "Short poems"
system = "Answer with a haiku."
method = "greedy"
max_tokens = 60
stop = ["END"]

[sampling]
temperature = 0.9  # wild

[methods.lookup]
max_ngram = 4
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    folder().mkdir()
    return folder()


def test_a_preset_holds_what_its_file_says(place: Path) -> None:
    (place / "haiku.toml").write_text(HAIKU)
    found = read_preset("haiku")
    assert found.problems == ()
    assert found.about == found.summary == "Short poems"
    assert found.values == {
        "system": "Answer with a haiku.",
        "method": "greedy",
        "max_tokens": 60,
        "stop": ("END",),
        "sampling.temperature": 0.9,
        "methods.lookup.max_ngram": 4,
    }


def test_what_is_wrong_is_named_with_its_line_and_the_rest_counts(place: Path) -> None:
    (place / "mixed.toml").write_text('systm = "x"\nmax_tokens = 0\ntheme = "dark"\n[sampling]\ntop_k = 4\ntemp = 1\n')
    (place / "broken.toml").write_text("a = 1\n[sampling\n")
    (place / "binary.toml").write_bytes(b"\xff\xfe")
    mixed = read_preset("mixed")
    assert mixed.values == {"sampling.top_k": 4}
    for part, problem in zip(("line 1", "line 2", "line 3", "line 6"), mixed.problems, strict=True):
        assert part in problem
    assert "did you mean system? Correct or delete" in mixed.problems[0]
    assert "max_tokens must be at least 1, not 0" in mixed.problems[1]
    assert "a preset has no theme" in mixed.problems[2]
    assert "did you mean sampling.temperature?" in mixed.problems[3]
    with pytest.raises(UserError, match=r"broken\.toml, line 2, is not TOML"):
        read_preset("broken")
    every = {preset.name: preset for preset in presets()}
    assert set(every) == {"mixed", "broken", "binary"}
    assert "not UTF-8" in every["binary"].problems[0]


def test_saving_anew_keeps_comments_and_takes_out_what_is_no_longer_set(place: Path) -> None:
    (place / "haiku.toml").write_text(HAIKU)
    save_preset("haiku", {"system": "Two\nlines.", "max_tokens": 60, "sampling.temperature": 0.5})
    text = (place / "haiku.toml").read_text()
    assert text.startswith('# for the evening\nabout = "Short poems"\n')
    assert "temperature = 0.5  # wild" in text
    assert "methods" not in text
    assert "greedy" not in text
    assert read_preset("haiku").values == {"system": "Two\nlines.", "max_tokens": 60, "sampling.temperature": 0.5}


def test_a_deleted_one_comes_back_unless_its_name_is_taken(place: Path) -> None:
    (place / "haiku.toml").write_text(HAIKU)
    assert delete_preset("haiku") == "haiku"
    assert (names(), last_deleted()) == ([], "haiku")
    save_preset("haiku", {"max_tokens": 3})
    with pytest.raises(UserError, match="There is a new preset haiku"):
        restore_preset("haiku")
    assert rename_preset("haiku", "other") == "other"
    assert restore_preset("haiku") == "haiku"
    assert (place / "haiku.toml").read_text() == HAIKU
    with pytest.raises(UserError, match="There is already a preset other"):
        rename_preset("haiku", "other")
    with pytest.raises(UserError, match=r"no preset haikus: did you mean haiku\?"):
        delete_preset("haikus")


@pytest.mark.parametrize("name", ["", "  ", "../x", "a/b", ".hidden", "con\x1b[31m", "a" * 41, "x.", "[b]", "\u202ex"])
def test_a_name_is_one_that_every_disk_can_have(name: str) -> None:
    with pytest.raises(UserError, match="A preset's name"):
        save_preset(name, {})
    assert names() == []


def test_the_command_line_goes_before_a_preset_and_that_before_the_file(place: Path) -> None:
    (place / "haiku.toml").write_text(HAIKU)
    (place.parent / "settings.toml").write_text('method = "lookup"\nmax_tokens = 5\n[sampling]\ntop_k = 3\n')
    settings = with_given(read_settings(), {"max_tokens": 7}, {}, "haiku")
    assert (settings.method, settings.max_tokens, settings.sampling.top_k) == ("greedy", 7, 3)
    assert settings.layers.origin("method").said == "preset haiku"
    assert settings.layers.origin("max_tokens").kind == "command line"


@pytest.fixture
def app(make_chat: Callable[..., Any], place: Path) -> SpecchatApp:
    (place / "haiku.toml").write_text(HAIKU)
    made: SpecchatApp = make_chat()
    return made


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


async def test_a_chat_becomes_a_preset(app: SpecchatApp, place: Path) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        app.actions.command('/system You\'re brief; "really".')
        app.actions.command("/set temperature=0.3 max_tokens=9")
        app.actions.command("/method lookup max_ngram=2")
        app.actions.command("/preset save my own")
        assert read_preset("my own").values == {
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
        assert read_preset("my own").values["max_tokens"] == 10
        app.actions.command("/preset delete my own")
        assert "my own" not in names()
        app.actions.command("/preset undo")
        assert "my own" in names()


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


async def test_the_list_saves_renames_edits_deletes_and_brings_back(app: SpecchatApp, place: Path) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("alt+p")
        await worked(pilot)
        screen = app.screen
        assert isinstance(screen, PresetsScreen)
        await pilot.press("ctrl+s", *"haiku", "enter")
        note = screen.query_one("#note", Static)
        assert "There is already a preset haiku. Press enter again" in str(note.render())
        await pilot.press("backspace", "backspace", "enter")
        await worked(pilot)
        assert names() == ["hai", "haiku"]
        await pilot.press(*"hai", "ctrl+r", "2", "enter")
        await worked(pilot)
        assert names() == ["hai2", "haiku"]
        assert app.settings.layers.preset_name == "hai2"
        await pilot.press("ctrl+d")
        assert "Press ^d again" in str(note.render())
        await pilot.press("ctrl+d")
        await worked(pilot)
        assert names() == ["haiku"]
        assert "ctrl" not in str(note.render())
        assert "^z undoes this" in str(note.render())
        await pilot.press("ctrl+z")
        await worked(pilot)
        assert names() == ["hai2", "haiku"]
        screen.query_one(Input).value = "haiku"
        await pilot.pause()
        await pilot.press("ctrl+e")
        assert isinstance(app.screen, TextScreen)
        app.screen.query_one(TextArea).text = "max_tokens = -1\n"
        await pilot.press("ctrl+s")
        assert "haiku.toml, line 1: max_tokens must be at least 1" in str(app.screen.query_one("#text-about", Static).render())
        app.screen.query_one(TextArea).text = "max_tokens = 11"
        await pilot.press("ctrl+s")
        assert (place / "haiku.toml").read_text() == "max_tokens = 11\n"
        await worked(pilot)
        await pilot.press("enter")
        assert app.dialogue.options.max_tokens == 11


@pytest.mark.parametrize("key", ["alt+p", "alt+i"], ids=["presets", "system"])
def test_pictures(picture: Callable[..., bool], place: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.app.settings.presets.short_path", lambda path: f"~/.config/specchat/presets/{path.name}")
    (place / "haiku.toml").write_text(HAIKU)
    (place / "translator.toml").write_text(
        'system = """You translate what you are given into plain English.\nKeep names.\nAnswer with the translation alone."""\n'
        "[sampling]\ntemperature = 0.2\n"
    )
    (place / "wrong.toml").write_text('systm = "x"\n[sampling]\ntop_k = 3\n')

    async def before(pilot: Any) -> None:
        await ready(pilot)
        pilot.app.live.preset("translator")
        await pilot.press(key)
        await worked(pilot)

    assert picture(before)
