"""Servers in the settings: names, addresses, and where a key is, never the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed, flat, save
from specchat.app.settings.precedence import load_settings, read_settings
from specchat.errors import UserError

FILE = """
model = "work"
[servers.work]
url = "https://llm.example/v1"
model = "big"
key_env = "WORK_KEY"
[servers.here]
url = "http://localhost:8080"
"""
SERVERS = {
    "work": {"url": "https://llm.example/v1", "model": "big", "key_env": "WORK_KEY"},
    "here": {"url": "http://localhost:8080"},
}


def test_servers_are_read_and_go_with_every_load(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(FILE)
    settings = read_settings(file)
    assert settings.servers == SERVERS
    assert settings.load_options()["servers"] == SERVERS
    assert changed(Settings(), flat(settings)).servers == SERVERS


def test_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    save({"servers.here.url": "http://localhost:8080"}, file)
    assert file.read_text() == '[servers.here]\nurl = "http://localhost:8080"\n'
    save({"servers.here.url": None}, file)
    assert file.read_text() == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('url = "ftp://localhost:8080"', "is not a server's address"),
        ('url = "http://me:sk-secret@host"', "must not hold a name or password"),
        ('key = "sk-secret"', "keys are never in the settings"),
        ('key_env = "sk-secret"', "takes the name of an environment variable, not the key itself"),
        ("model = 3", "servers.x.model takes a text in quotes"),
        ('modle = "x"', "a server has no setting servers.x.modle: did you mean model?"),
    ],
)
def test_what_is_wrong_is_said_without_its_value(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[servers.x]\n{line}\n")
    settings, problem = load_settings(file)
    assert problem is not None
    assert said in problem
    assert "line 2" in problem
    assert "secret" not in problem
    assert not settings.servers.get("x")


def test_a_model_that_is_an_address_holds_no_password() -> None:
    assert changed(Settings(), {"model": "http://host:8080/v1#name"}).model == "http://host:8080/v1#name"
    for wrong in ("http://me:sk-secret@host", "http://"):
        with pytest.raises(UserError) as caught:
            changed(Settings(), {"model": wrong}, {"model": "--model"})
        assert "secret" not in str(caught.value)
