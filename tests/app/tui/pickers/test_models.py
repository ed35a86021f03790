"""The list of models in the chat: its pictures, its keys, what they load, downloads from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.app.models.hub import Download
from specchat.app.models.memory import FreeMemory
from specchat.app.tui.pickers.models import ModelsScreen
from specchat.app.tui.pickers.pick_list import PickList
from specchat.engine.messages import Cancel, Failed, Load, Loading
from specchat.engine.options import ModelSelection

from ....fakes.models.hub_server import COMMIT, Hub, serving
from ....fakes.models.model_folders import make_home, write_folder, write_gguf
from ....fakes.pilots import Make, until

WEIGHTS = bytes(range(256)) * 2000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("specchat.app.tui.app.IDLE_SECONDS", 3600)
    monkeypatch.setattr("specchat.app.tui.actions.models.Models.room", lambda self: FreeMemory(8_000_000_000, "in memory"))
    return make_home(tmp_path / "home", monkeypatch)


@pytest.fixture
def hub(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(home / "hub", monkeypatch) as running:
        running.repositories["sea/Buoy"] = {
            "config.json": b'{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}',
            "tokenizer.json": b"{}",
            "model.safetensors": WEIGHTS,
        }
        running.repositories["sea/Buoy-GGUF"] = {
            "Buoy-Q8_0.gguf": WEIGHTS,
            "Buoy-Q4_K_M.gguf": WEIGHTS[:300_000],
            "Buoy-BF16-00001-of-00002.gguf": WEIGHTS,
            "Buoy-BF16-00002-of-00002.gguf": WEIGHTS,
        }
        running.info["sea/Buoy-GGUF"] = {"gguf": {"total": 512_000, "architecture": "llama", "context_length": 32_768}}
        running.info["sea/Buoy"] = {"safetensors": {"parameters": {"BF16": 256_000}, "total": 256_000}}
        yield running


def screen(pilot: Any) -> ModelsScreen:
    assert isinstance(pilot.app.screen, ModelsScreen)
    return pilot.app.screen


def list_shown(pilot: Any) -> bool:
    """Whether the list is on the screen."""
    return isinstance(pilot.app.screen, ModelsScreen) and bool(pilot.app.screen.query(PickList))


def all_judged(pilot: Any) -> bool:
    """Whether everything has been found and judged."""
    looking = screen(pilot).looking
    target = looking.scope.target
    judged = target is None or len(looking.pairings(target)) == len(looking.by_key)
    return bool(looking.by_key) and not looking.scanning and judged


async def browse(pilot: Any, engine: Any, *keys: str, query: str = "") -> ModelsScreen:
    """Open the list and press some keys, once everything has been found."""
    await pilot.pause()
    engine.loaded()
    pilot.app.take_events()
    pilot.app.models.browse(query)
    await until(pilot, lambda: list_shown(pilot) and all_judged(pilot))
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: not isinstance(pilot.app.screen, ModelsScreen) or all_judged(pilot))
    return screen(pilot)


async def goto(pilot: Any, title: str) -> None:
    """Put the cursor on a row."""
    listed = screen(pilot).listed
    listed.cursor = next(i for i, row in enumerate(listed.items) if row.title.startswith(title))
    await pilot.pause()


def titles(pilot: Any) -> list[str]:
    return [row.title for listed in screen(pilot).query(PickList) for row in listed.items if row.title]


def current(pilot: Any) -> str:
    """Title of the row under the cursor."""
    row = screen(pilot).listed.item
    return row.title if row is not None else ""


def details(pilot: Any) -> str:
    return str(screen(pilot).query_one("#detail").render())


def note(pilot: Any) -> str:
    return str(screen(pilot).query_one("#note").render())


def loads(engine: Any) -> list[Load]:
    return [command for command in engine.sent if isinstance(command, Load)]


def test_pictures(picture: Make, engine: Any, home: Path) -> None:
    async def before(pilot: Any) -> None:
        held = Download("sea/Buoy-GGUF:Q8_0", 4_280_000_000, 1_510_000_000, "running")
        broken = Download("sea/Buoy", 15_200_000_000, 9_000_000_000, "failed")
        broken.sentence = "The disk with ~/hub is full. Free about 6.2 GB and load sea/Buoy again; files that are whole stay."
        pilot.app.models.downloads.all.update({download.spec: download for download in (held, broken)})
        await browse(pilot, engine)
        await goto(pilot, "sea/Buoy")
        await pilot.press("down")

    assert picture(before)


async def test_the_list_opens_by_key_and_command_and_looks_again(make_chat: Make, engine: Any, home: Path) -> None:
    write_folder(home / "mine" / "Keeper")
    async with make_chat(model_folders=[str(home / "mine")]).run_test(size=(100, 40)) as pilot:
        await pilot.press("alt+m")
        assert screen(pilot).is_current
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, ModelsScreen)
        pilot.app.actions.command("/models gull")
        await until(pilot, lambda: list_shown(pilot) and all_judged(pilot))
        assert titles(pilot) == ["LM Studio", "harbour/Gull-GGUF/Gull-Q4_K_M"]
        await pilot.press("escape")
        await goto(pilot, "damaged")
        assert "This file" in details(pilot)
        await pilot.press("enter")
        assert "This file" in note(pilot), "it is not loaded"
        assert "Keeper" in titles(pilot)
        write_gguf(home / "here" / "fresh-Q4_K_M.gguf")
        (home / "here" / "damaged-Q8_0.gguf").unlink()
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "fresh-Q4_K_M" in titles(pilot) and "damaged-Q8_0" not in titles(pilot))
        engine.loaded()
        pilot.app.take_events()
        assert pilot.app.dialogue.submit("Hello")
        await goto(pilot, "builtin")
        await pilot.press("enter")
        assert "Press esc to stop it" in note(pilot), "an answer is being written"
        assert loads(engine) == []


LOADED = [
    ("builtin · transformers", "builtin", "transformers", None),
    ("lantern/Lighthouse-GGUF", "lantern/Lighthouse-GGUF:Q4_0", "auto", COMMIT),
    ("pilot", "ollama:pilot:3b", "auto", None),
]
"""Row of the list, and what its load asks for: model, runtime, commit."""


async def test_enter_loads(make_chat: Make, engine: Any, home: Path) -> None:
    async with make_chat(backend="transformers").run_test(size=(100, 30)) as pilot:
        for title, spec, backend, revision in LOADED:
            await browse(pilot, engine)
            await goto(pilot, title)
            await pilot.press("enter")
            assert not isinstance(pilot.app.screen, ModelsScreen)
            load = loads(engine)[-1]
            assert load.selection == ModelSelection(spec, backend=backend, revision=revision)
            assert pilot.app.dialogue.phase == "loading"
        engine.events = [Loading(load.id, "download", 10, 100)]
        pilot.app.take_events()
        await pilot.press("escape")
        assert engine.sent[-1] == Cancel(load.id)
        engine.events = [Failed(load.id, "cancelled", "Loading was cancelled.")]
        pilot.app.take_events()
        assert pilot.app.dialogue.phase == "ready", "the model before stays"


async def test_a_draft_model_is_loaded_with_its_target(make_chat: Make, engine: Any, home: Path) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await browse(pilot, engine)
        await goto(pilot, "lantern/Lighthouse-Instruct")
        await pilot.press("ctrl+d")
        await until(pilot, lambda: all_judged(pilot))
        listed = titles(pilot)
        assert listed.index("lantern/Lighthouse-Tiny") < listed.index("Cannot draft for it") < listed.index("pilot:3b")
        await goto(pilot, "pilot")
        assert "Its vocabulary is different (2,048 tokens against 2)" in details(pilot)
        await pilot.press("enter")
        assert "vocabulary is different" in note(pilot)
        assert loads(engine) == []
        await pilot.press("escape")
        assert current(pilot) == "lantern/Lighthouse-Instruct"
        await pilot.press("ctrl+d")
        await until(pilot, lambda: all_judged(pilot))
        await goto(pilot, "lantern/Lighthouse-Tiny")
        await pilot.press("enter")
        (load,) = loads(engine)
        assert load.selection.model == "lantern/Lighthouse-Instruct"
        assert load.selection.draft_model == ("lantern/Lighthouse-Tiny",)


async def test_a_name_is_looked_up_fetched_behind_the_chat_and_loaded(make_chat: Make, engine: Any, hub: Hub) -> None:
    notices: list[str] = []
    app = make_chat()

    def heard() -> bool:
        app.models.poll_downloads()
        return bool(notices)

    async with app.run_test(size=(100, 30)) as pilot:
        app.tell = lambda text, severity="information": notices.append(text)
        models_screen = await browse(pilot, engine, *"sea/Buoy-GGUF")
        assert titles(pilot)[0] == "Look up sea/Buoy-GGUF on the Hub"
        await pilot.press("ctrl+home", "enter")
        await until(pilot, lambda: models_screen.looking.repository is not None)
        assert titles(pilot)[1:] == ["Q4_K_M", "Q8_0", "BF16 · 2 files"]
        await pilot.press("down")
        assert "sea/Buoy-GGUF · Q8_0" in details(pilot)
        hub.refuse_files = (401, "GatedRepo")
        await pilot.press("enter", "escape", "escape", "escape")
        assert not isinstance(app.screen, ModelsScreen)
        await until(pilot, heard)
        assert "licence" in notices.pop()
        hub.refuse_files = None
        await browse(pilot, engine)
        await goto(pilot, "sea/Buoy-GGUF")
        assert "licence" in details(pilot)
        await pilot.press("enter")
        await until(pilot, heard)
        assert notices == ["sea/Buoy-GGUF:Q8_0 is downloaded (512 kB). Load it with /models."]
        assert "" in hub.bodies("Buoy-Q8_0.gguf")
        assert hub.bodies("Buoy-Q4_K_M.gguf") == []
        await pilot.press("escape")
        models_screen = await browse(pilot, engine, query="sea/Buoy-GGUF")
        await until(pilot, lambda: models_screen.looking.repository is not None)
        await goto(pilot, "Q8_0")
        await pilot.press("enter")
        (load,) = loads(engine)
        assert load.selection == ModelSelection("sea/Buoy-GGUF:Q8_0", revision=COMMIT)
