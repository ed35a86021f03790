"""`specchat settings`: every setting with its value and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.methods import known_methods
from specchat.app.settings.fields import GROUPS, PLAIN, Settings
from specchat.app.settings.rows import entries
from specchat.option import declared_options

from .conftest import Call


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def row(out: str, key: str) -> list[str]:
    """The columns of a setting."""
    line = next(line for line in out.splitlines() if line.split("  ")[0] == key)
    return [part.strip() for part in line.split("  ") if part.strip()]


def test_each_value_with_its_source(call: Call, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(
        'theme = "light"\n# cool\n[sampling]\ntemperature = 0.7\n[models.builtin]\nmethod = "greedy"\n'
        "[presets.calm]\nsampling.top_k = 5\n"
    )
    monkeypatch.setenv("SPECCHAT_COLOURS", "off")
    monkeypatch.setenv("SPECCHAT_SAMPLING_SEED", "7")
    code, out, err = call("--device", "cpu", "settings", "--preset", "calm")
    assert (code, err) == (0, "")
    assert row(out, "theme") == ["theme", "light", f"{file}, line 1"]
    assert row(out, "sampling.temperature") == ["sampling.temperature", "0.7", f"{file}, line 4"]
    assert row(out, "method") == ["method", "greedy", f"default of builtin, {file}, line 6"]
    assert row(out, "colours") == ["colours", "off", "$SPECCHAT_COLOURS"]
    assert row(out, "sampling.seed") == ["sampling.seed", "7", "$SPECCHAT_SAMPLING_SEED"]
    assert row(out, "device") == ["device", "cpu", "--device"]
    assert row(out, "sampling.top_k") == ["sampling.top_k", "5", "preset calm"]
    assert row(out, "max_tokens") == ["max_tokens", "until the context is full", "default"]
    assert row(call("settings", "--model", "other")[1], "method")[2] == "default"
    short = call("settings", "--changed")[1]
    assert "max_tokens" not in short
    assert len(short.splitlines()) == 7


def test_the_same_as_json(call: Call, file: Path) -> None:
    file.write_text('stop = ["END"]\nzzz = 3\n')
    code, out, err = call("settings", "--json")
    body = json.loads(out)
    assert code == 0
    assert body["file"] == str(file)
    assert len(body["problems"]) == 1
    assert "line 2: There is no setting zzz" in body["problems"][0]
    assert "line 2: There is no setting zzz" in err
    found = {row["key"]: row for row in body["settings"]}
    assert set(PLAIN) <= set(found)
    assert found["stop"] == {"key": "stop", "value": ["END"], "default": [], "source": "file", "where": f"{file}, line 1"}


def test_get_set_and_unset(call: Call, file: Path) -> None:
    file.write_text("# mine\nzzz = 3\n")
    assert call("settings", "set", "sampling.temperature", "0.5")[0] == 0
    assert call("settings", "get", "sampling.temperature")[1] == "0.5\n"
    assert call("settings", "set", "stop", "a b", "-c")[0] == 0
    assert call("settings", "get", "stop")[1] == "a b\n-c\n"
    assert call("settings", "set", "history", "off")[1] == f"history = false in {file}, line 4.\n"
    assert call("settings", "set", 'models."a/b-0.6B".sampling.top_k', "3")[0] == 0
    assert call("settings", "--model", "a/b-0.6B", "get", "sampling.top_k")[1] == "3\n"
    assert call("settings", "get", "sampling.top_k")[1] == "0\n"
    assert call("settings", "get", "max_tokens")[1] == "\n"
    assert call("settings", "unset", "zzz", "stop", "models")[0] == 0
    assert file.read_text() == "# mine\nhistory = false\n\n[sampling]\ntemperature = 0.5\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("get", "themes"), "There is no setting themes: did you mean theme?"),
        (("get", "keymap.next_methd"), "did you mean next_method?"),
        (("get", "methods.lookup.nodse"), "did you mean nodes?"),
        (("set", "max_tokens", "-4"), "max_tokens must be at least 1, not -4"),
        (("set", "sampling.temperature", "warm"), "sampling.temperature takes a number"),
        (("set", "theme", "dark", "light"), "theme takes one value"),
        (("set", "models.x.theme", "dark"), "a model has no setting models.x.theme"),
        (("unset", "theme"), "The settings file does not set theme"),
        (("--json", "get", "theme"), "after the command's name"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_changes_nothing(
    call: Call, file: Path, args: tuple[str, ...], sentence: str
) -> None:
    file.write_text("threads = 2\n")
    code, out, err = call("settings", *args)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert file.read_text() == "threads = 2\n"


def test_the_editor_gets_the_file_and_what_is_wrong_with_it_is_told(
    call: Call, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\necho "themee = 1" >> "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    code, _, err = call("settings", "edit")
    assert code == 2
    assert "line 2: There is no setting themee: did you mean theme?" in err
    assert file.read_text().endswith("themee = 1\n")


def test_every_setting_is_in_a_group_and_says_what_it_is_about() -> None:
    assert {said.group for said in declared_options(Settings).values()} <= set(GROUPS)
    found: list[Any] = entries(known_methods())
    assert len({entry.key for entry in found}) == len(found)
    assert all(entry.what for entry in found)
