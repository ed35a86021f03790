"""Slash commands: their names, what may follow them, and the help that has them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.widgets import OptionList

from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.settings.actions import ACTIONS
from specchat.app.settings.keymap import ALL, GROUPS, display, spell
from specchat.app.tui.actions.complete import parse_command, quoted
from specchat.app.tui.actions.dispatch import COMMANDS, parse
from specchat.app.tui.chat.widgets import ChatHeader
from specchat.app.tui.composer.completion import Completion
from specchat.app.tui.race.screen import RaceScreen
from specchat.backends.info import ModelInfo, ServerInfo
from specchat.engine.messages import Finished, Loaded, StepRecord

from ....fakes.pilots import Make, ask, chatting, command, loaded, settle, shown, workers_done

SIZE = (90, 26)

OFFERED = {
    "/": [f"/{command.command}" for command in COMMANDS],
    "/the": ["/theme"],
    "/method ": ["greedy", "lookup", "soft"],  # what this model cannot run is left out
    "/method lo": ["lookup"],
    "/method lookup ": ["max_ngram="],
    "/method lookup max_ngram=8 ": [],
    "/theme dark-2": ["dark-256"],
    "/theme dark ": [],
    "/race greedy ": ["lookup", "soft"],
    "/race greedy : prompt ": [],
    "/race greedy@builtin-e": ["greedy@builtin-eagle"],
    "/set temper": ["temperature="],
    "/panel eth": ["method"],
    "/export ": ["html", "json", "md"],
    "/open my": ["old/my chat.json"],
    "/open 'old/m": ["old/my chat.json"],
    "/schema ": ["any.json", "chat.json", "grammar", "json", "off", "old/", "old/my chat.json", "regex"],
    "/model builtin-e": ["builtin-eagle"],
    "/compare lookup m": ["max_ngram="],
    "/preset save ": ["poet"],
    "/preset none ": [],
    "a message": [],
    "/etc/passwd": [],
}
"""Beginning of a message → all names that may follow, sorted."""


async def test_what_may_follow(make_chat: Make, engine: Any, folder: Path) -> None:
    (folder / "any.json").write_text("{}")
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await loaded(pilot, engine, recompute="No cache.")
        assert app.actions.methods.keys() == {row.id for row in ACTIONS}, "every action has its function"
        app.actions.command("/preset save poet")
        for before, names in OFFERED.items():
            app.box.put(before)
            await settle(app, pilot)
            await workers_done(pilot)
            assert sorted(offer.name for offer in app.chat_screen.query_one(Completion).offers) == sorted(names), before


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12))
@example('it\'s a "name".json')
def test_a_name_is_quoted_so_that_the_command_gets_it(name: str) -> None:
    if not name.endswith("/"):
        assert parse(f"/open {quoted(name)}")[1] == [name]
        typed = parse_command(f"/open {quoted(name + '/')}x")
        if typed is not None and "\x85" not in name:
            assert typed.word == f"{name}/x"


async def type_text(pilot: Any, text: str) -> None:
    await pilot.press(*({" ": "space", "/": "slash", ".": "full_stop", "=": "equals_sign"}.get(c, c) for c in text))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "old").mkdir(parents=True)
    for name in ("chat.json", "old/my chat.json", "notes.txt"):
        (folder / name).write_text("{}")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    return folder


async def test_tab_takes_a_name_enter_what_is_typed_and_esc_closes(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box, completion = app.box, app.chat_screen.query_one(Completion)
        await type_text(pilot, "/me")
        await pilot.press("tab")
        assert box.text == "/method "
        await pilot.press("down", "down", "enter")  # the arrows have chosen
        assert box.text == "/method lookup "
        await pilot.press("tab")
        assert box.text == "/method lookup max_ngram="
        await type_text(pilot, "4")
        assert not completion.display
        await pilot.press("enter")
        assert (app.dialogue.method, app.dialogue.settings["lookup"]) == ("lookup", {"max_ngram": "4"})
        await type_text(pilot, "/theme light")
        await pilot.press("enter", "up")
        assert (app.theme, box.text) == ("light", "/theme light")
        assert not completion.display, "up goes on to the message before"
        box.put("")
        await type_text(pilot, "/")
        assert completion.size.height == completion.rows < len(COMMANDS)
        await pilot.press("up")
        assert completion.chosen == f"/{COMMANDS[-1].command}"
        assert completion.chosen in completion.render().plain
        await pilot.press("escape", "enter")
        assert not completion.display
        assert box.text == "/", "that is no command yet"


def test_ids_are_unique_and_every_group_is_told() -> None:
    assert len({key.id for key in ALL}) == len(ALL) == sum(len(keys) for keys in GROUPS.values())


SPELLED = {
    "f3,ctrl+t": ("F3 · ctrl+t", "F3"),
    "ctrl+down,alt+minus": ("ctrl+down · alt+-", "ctrl+down"),
    "plus,a,equals_sign": ("+ · a · =", "+"),
    "ctrl+n": ("ctrl+n", "^n"),
    "escape": ("esc", "esc"),
    "up": ("↑", "↑"),
    "shift+f3": ("shift+F3", "shift+F3"),
}
"""Keys → all of them in the help, and the first in the bar."""


def test_keys_are_spelled_as_people_write_them() -> None:
    assert {keys: (spell(keys), display(keys)) for keys in SPELLED} == SPELLED


SCHEMA = {"title": "Person", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def test_a_schema_is_asked_with_shown_and_taken_back(make_chat: Callable[..., Any], engine: Any, tmp_path: Path) -> None:
    file = tmp_path / "person.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    async with chatting(make_chat(), engine, size=(110, 26)) as (app, pilot):
        app.actions.command(f"/schema {file}")
        await settle(app, pilot)
        header = app.chat_screen.query_one(ChatHeader)
        header.update()
        assert "{} Person" in header.render().plain
        steps = [
            StepRecord("lookup", [1, 2, 3], '{"name": "', nodes=0, grammar=3),
            StepRecord("lookup", [4, 5], 'Anna"}', nodes=4),
        ]
        await ask(pilot, engine, "Who?", steps, finish=False)
        request = engine.asked
        assert request.constraint == {"kind": "json_schema", "text": json.dumps(SCHEMA)}
        engine.events.append(Finished(request.id, "eos", "", 0.1, 1.0, valid=True))
        await settle(app, pilot)
        assert "✓" in shown(app)
        assert "the grammar wrote 3 of 5 tokens" in " ".join(shown(app).split())
        app.actions.command("/schema")
        assert app.recent[-1].message == "Answers match Person. /schema off ends it."
        app.actions.command("/schema regex [a-c]+ x")
        assert app.dialogue.options.constraint == {"kind": "regex", "text": "[a-c]+ x"}
        app.actions.command("/schema json")
        assert app.dialogue.options.constraint == {"kind": "json_object", "text": ""}
        app.actions.command("/schema off")
        header.update()
        assert "Person" not in header.render().plain
        assert app.dialogue.options.constraint is None


HERE, THERE = "http://a:1", "http://b:2"


async def served(pilot: Any, engine: Any, method: str) -> None:
    """The chat's model is on a server that decodes with this."""
    await pilot.pause()
    dialogue = pilot.app.dialogue
    dialogue.selection = replace(dialogue.selection, model=HERE)
    dialogue.methods = known_methods()
    reasons = dict.fromkeys(known_methods(), "a:1 decodes, and it decides how.")
    engine.events.append(Loaded(1, ModelInfo("m", "server", "vLLM at a:1", server=ServerInfo("vLLM", method)), reasons))
    await settle(pilot.app, pilot)


RACES = {
    f"/race greedy greedy@{THERE} : Hi": [RaceEntry("x K=1"), RaceEntry("greedy", model=THERE)],
    f"/race lookup@{HERE} greedy@{HERE} : Hi": [RaceEntry("x K=1"), RaceEntry("x K=1")],
    f"/race greedy@{THERE} : Hi": [RaceEntry("x K=1"), RaceEntry("greedy", model=THERE)],
}


async def test_a_server_has_one_method_of_its_own(make_chat: Make, engine: Any) -> None:
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await served(pilot, engine, "x K=1")
        pilot.app.box.put("Say it.")
        for key, count in (("f2", 3), ("f5", 2)):
            await pilot.press(key)
            listed = pilot.app.screen.query_one(OptionList)
            rows = [str(listed.get_option_at_index(i).prompt) for i in range(listed.option_count)]
            assert len([row for row in rows if "decides how" in row]) == 1
            assert len(rows) == count, rows
            await pilot.press("escape")
        for line, entries in RACES.items():
            pilot.app.actions.command(line)
            await pilot.pause()
            screen = pilot.app.screen
            assert isinstance(screen, RaceScreen)
            assert [racer.entry for racer in screen.race.racers] == entries, line
            screen.dismiss(None)
            await pilot.pause()


POINTLESS = {
    "/export chat.md": "nothing to export",
    "/think": "does not think",
    "/copy": "no answer to copy yet",
    "/retry": "no message to answer yet",
    "/undo": "nothing to undo",
    "/edit": "no message to edit yet",
    "/rename B": "This chat is not being saved",
}
"""Commands in an empty chat, of which nothing could be corrected, and a part of what each gets."""

CORRECTABLE = {
    "/mehtod lookup": "did you mean /method?",
    "/method lokup": "did you mean lookup?",
    "/method lookup nonsense=3": "nonsense",
    "/set stop_loops=7": "stop_loops takes true or false",
    "/set temperature=-1": "temperature must be at least 0",
    "/edit 2": "/edit takes no arguments.",
    "/xyzzy": "There is no command /xyzzy: type / to see them all.",
    "/theme ligt": "did you mean light?",
    "/pace 21": "/pace must be between 0 and 20, not 21.",
    "/schema {'no': 1}": "/schema: The schema is not JSON (line 1, column 2",
    "/race recompute": "recompute cannot run on this model",
    "/race greedy lookup soft greedy lookup": "2 to 4 panes",
    "/compare recompute": "No cache",
    "/compare lookup max_ngram": "key=value",
    "/export chat.exe": "has no format",
    "/export nowhere/chat.html": "No such file or directory",
    "/open": "/open takes one chat saved",
    "/open nothing.json": "Cannot read nothing.json",
    "/copy everything": "/copy takes nothing",
    "/model a b": "/model takes one name",
}
"""Commands after one answer, which stay in the box to be corrected."""


async def test_refused_commands(make_chat: Make, engine: Any, make_steps: Make) -> None:
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        await loaded(pilot, engine, recompute="No cache.")
        for line, reason in POINTLESS.items():
            assert (line, await command(pilot, line)) == (line, "")
            assert reason in app.recent[-1].message, line
        await pilot.press("up")
        assert app.box.text == "/rename B", "it can be gone back to"
        await ask(pilot, engine, "First", make_steps("One."))
        for line, reason in CORRECTABLE.items():
            assert await command(pilot, line) == line
            await workers_done(pilot)
            assert reason in app.recent[-1].message, line
            assert app.box.cursor_location == (0, len(line))
        assert [entry.text for entry in app.dialogue.transcript.entries] == ["First", "One."]
        assert (app.dialogue.method, app.theme) == ("lookup", "dark")
