"""Slash commands: their names, what may follow them, and the help that has them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specchat.app.chat.methods import Method
from specchat.app.settings.actions import ACTIONS
from specchat.app.settings.fields import SAMPLING
from specchat.app.tui.actions import complete
from specchat.app.tui.actions.complete import KnownNames, completions, line, quoted
from specchat.app.tui.actions.settings import set_now
from specchat.app.tui.actions.table import COMMANDS, parse
from specchat.app.tui.composer.completion import Completion

from ....fakes.pilots import Make, chatting, settle

SIZE = (90, 26)

KNOWN = KnownNames(
    methods={
        "greedy": Method("greedy"),
        "lookup": Method(
            "lookup",
            params=(
                {"name": "variant", "default": "ours", "doc": "Which.", "choices": ["ours", "reference"]},
                {"name": "nodes", "default": 16, "doc": "How many.", "choices": []},
            ),
        ),
        "recompute": Method("recompute"),
    },
    unavailable={"recompute": "no cache"},
    names={
        "themes": {"dark": "Night.", "light": "Day.", "safe-dark": "For colour-blind eyes."},
        "models": {"builtin": "", "owner/name": ""},
        "presets": {"poet": "In verse."},
        "settings": {"temperature": "0.0", "seed": "", "accept": "exact"},
    },
    files={"": ["docs/", "docs/old chat.json", "a.json", "b.md", "c.py"]},
)


def offered(before: str) -> list[str]:
    typed = line(before)
    return [] if typed is None else [offer.name for offer in completions(typed, KNOWN)]


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("/the", ["/theme"]),
        ("/theme", []),  # complete
        ("/method ", ["greedy", "lookup"]),  # what this model cannot run is left out
        ("/method lo", ["lookup"]),
        ("/method lookup", []),
        ("/method lookup ", ["variant=", "nodes="]),
        ("/method lookup nodes=8 ", ["variant="]),
        ("/method lookup variant=", ["variant=ours", "variant=reference"]),
        ("/method lookup variant=r", ["variant=reference"]),
        ("/method greedy ", []),
        ("/theme d", ["dark", "safe-dark"]),  # what begins so comes first
        ("/theme dark ", []),
        ("/race greedy ", ["lookup"]),
        ("/race greedy : prompt ", []),
        ("/set te", ["temperature="]),
        ("/set temperature=0.5 ", ["seed=", "accept="]),
        ("/set accept=r", ["accept=rejection"]),
        ("/panel t", ["tree", "method"]),
        ("/panel mthd", ["method"]),
        ("/colours l", ["length"]),
        ("/copy c", ["code", "chat"]),
        ("/export ", ["html", "md", "json"]),
        ("/export md ", ["b.md", "docs/"]),
        ("/open ", ["a.json", "docs/", "docs/old chat.json"]),
        ("/open 'docs/o", ["docs/old chat.json"]),
        ("/model own", ["owner/name"]),
        ("/models own", ["owner/name"]),
        ("/redo ne", ["new"]),
        ("/compare lookup nodes=8 v", ["variant="]),
        ("/preset save ", ["poet"]),
        ("/preset po", ["poet"]),
        ("/preset none ", []),
        ("/quit ", []),
        ("a message", []),
        ("/etc/passwd", []),
    ],
)
def test_what_may_follow(before: str, names: list[str]) -> None:
    found = offered(before)
    assert sorted(found) == sorted(names)
    if found and names[0].startswith(before.split()[-1]):
        assert found[0] == names[0]


def test_a_lone_slash_offers_every_command() -> None:
    assert offered("/") == [f"/{command.command}" for command in COMMANDS]


def test_every_command_whose_arguments_are_known_offers_them() -> None:
    free = {"pass", "pace", "edit", "rename", "branch", "system", "settings", "find"}  # a number, a title, a text
    takes = {row.command for row in COMMANDS if row.arguments}
    assert {row.command for row in COMMANDS if row.words or row.id in {**complete.KINDS, **complete.COMPLETERS}} == takes - free


@given(st.text(max_size=30))
@example("'")
@example('"a\\')
@example("a  'b c")
def test_any_line_can_be_looked_at(rest: str) -> None:
    for name in (row.command for row in COMMANDS):
        typed = line(f"/{name} {rest}")
        if typed is not None:
            assert 0 < typed.start <= len(name) + 2 + len(rest)
            completions(typed, KNOWN)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12))
@example('it\'s a "name".json')
def test_a_name_is_quoted_so_that_the_command_gets_it(name: str) -> None:
    if not name.endswith("/"):
        assert parse(f"/open {quoted(name)}")[1] == [name]
        typed = line(f"/open {quoted(name + '/')}x")
        if typed is not None and "\x85" not in name:
            assert typed.word == f"{name}/x"


async def type_text(pilot: Any, text: str) -> None:
    await pilot.press(*({" ": "space", "/": "slash", ".": "full_stop", "=": "equals_sign"}.get(c, c) for c in text))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    (here / "old").mkdir(parents=True)
    for name in ("chat.json", "old/my chat.json", "notes.txt"):
        (here / name).write_text("{}")
    monkeypatch.chdir(here)
    (here / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("SPECCHAT_DATA", str(tmp_path / "data"))
    return here


async def test_tab_completes_the_command_its_method_and_the_setting(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=SIZE) as (app, pilot):
        box, list_ = app.chat_screen.input, app.chat_screen.query_one(Completion)
        await type_text(pilot, "/me")
        assert list_.names == ["/method"]
        await pilot.press("tab")
        assert box.text == "/method "
        await pilot.press("down", "down", "enter")
        assert box.text == "/method lookup "
        await pilot.press("tab")
        assert box.text == "/method lookup max_ngram="
        await type_text(pilot, "4")
        assert not list_.display
        await pilot.press("enter")
        assert app.dialogue.method == "lookup"
        assert app.dialogue.settings["lookup"] == {"max_ngram": "4"}


async def test_enter_runs_what_is_typed_unless_the_arrows_chose(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await type_text(pilot, "/theme l")
        await type_text(pilot, "ight")
        await pilot.press("enter")
        assert app.theme == "light"
        await pilot.press("up")
        assert app.chat_screen.input.text == "/theme light"
        assert not app.chat_screen.query_one(Completion).display, "up goes on to the message before"


async def test_files_are_completed_with_quotes_where_they_need_them(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await type_text(pilot, "/open my")
        await settle(app, pilot)
        assert app.chat_screen.query_one(Completion).names == ["old/my chat.json"]
        await pilot.press("tab")
        assert app.chat_screen.input.text == "/open 'old/my chat.json'"


async def test_esc_sends_the_list_away_and_a_long_list_scrolls(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=SIZE) as (app, pilot):
        await type_text(pilot, "/")
        list_ = app.chat_screen.query_one(Completion)
        assert list_.size.height == list_.rows < len(COMMANDS)
        await pilot.press("up")
        assert list_.chosen == f"/{COMMANDS[-1].command}"
        assert f"/{COMMANDS[-1].command}" in list_.render().plain
        await pilot.press("escape")
        assert not list_.display
        await pilot.press("enter")
        assert app.chat_screen.input.text == "/", "that is no command yet"


async def test_every_action_has_its_function(make_chat: Make) -> None:
    app = make_chat()
    async with app.run_test(size=SIZE):
        assert app.actions.methods.keys() == {row.id for row in ACTIONS}


def test_set_completes_what_it_takes(make_chat: Make) -> None:
    assert set(set_now(make_chat().settings)) >= {*SAMPLING, "accept", "max_tokens", "stop", "system"}
