"""Defaults per model: tables of the settings file, which `specchat tune` writes too."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed, flat, read, save
from specchat.app.settings.precedence import Layers, load_settings, method_changes, read_settings, with_given
from specchat.errors import UserError

NAME = "Qwen/Qwen3-0.6B"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    return tmp_path / "settings.toml"


def test_a_model_has_its_own_method_sampling_and_system_prompt(path: Path) -> None:
    path.write_text(
        f'method = "ngram"\n[sampling]\ntemperature = 0.2\n[models."{NAME}"]\nmethod = "lookup"\nsystem = "Be brief."\n'
        f'[models."{NAME}".sampling]\ntemperature = 0.7\n[models."{NAME}".methods.lookup]\nnodes = 32\n'
    )
    settings = read_settings()
    mine = with_given(settings, {"model": NAME}, {})
    assert (mine.method, mine.system, mine.sampling.temperature) == ("lookup", "Be brief.", 0.7)
    assert mine.methods == {"lookup": {"nodes": 32}}
    other = with_given(settings, {"model": "other"}, {})
    assert (other.method, other.system, other.sampling.temperature) == ("ngram", None, 0.2)
    # What is given on the command line goes first.
    given = with_given(settings, {"model": NAME, "method": "fusion", "sampling.temperature": 0.0}, {})
    assert (given.method, given.sampling.temperature) == ("fusion", 0.0)
    assert given.system == "Be brief."


def test_what_tune_found_is_written_as_the_models_default_and_replaces_what_it_found_before(path: Path) -> None:
    path.write_text(
        f'method = "ngram" # mine\n\n[models."{NAME}"]\nmethod = "recycle"\n[models.builtin]\nmethod = "greedy"\n'
        f'[models."{NAME}".methods.lookup]\nnodes = 8\nfloor = 0.3\n'
    )
    save(method_changes(NAME, "lookup", {"nodes": "32", "floor": "0.1"}))
    text = path.read_text()
    assert "# mine" in text
    mine = with_given(read_settings(), {"model": NAME}, {})
    assert mine.method == "lookup"
    assert mine.methods["lookup"] == {"nodes": 32, "floor": 0.1}
    save(method_changes(NAME, "lookup", {"variant": "reference"}))
    assert with_given(read_settings(), {"model": NAME}, {}).methods["lookup"] == {"variant": "reference"}
    assert with_given(read_settings(), {"model": "builtin"}, {}).method == "greedy"


def test_a_folder_is_the_same_model_with_a_tilde_and_without(path: Path) -> None:
    path.write_text('[models."~/models/small"]\nmethod = "greedy"\n')
    found = read()
    layers = Layers(found, model=str(Path("~/models/small").expanduser()))
    assert layers.settings().method == "greedy"
    assert layers.origin("method").said.endswith("line 2")


@pytest.mark.parametrize("value", ["lokup", "lookup:nods=3", "lookup:nodes=x", 3])
def test_what_is_no_method_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"models\.x\.method"):
        changed(Settings(), {"models.x.method": value})


def test_what_a_model_cannot_have_is_named_with_its_line_and_the_nearest(path: Path) -> None:
    path.write_text('threads = 3\n[models.builtin]\nmethod = "greedy"\ntemprature = 1\ntheme = "dark"\n')
    settings, sentence = load_settings()
    assert settings.threads == 3
    assert settings.method == "greedy"
    assert sentence is not None
    assert "line 4" in sentence
    assert "did you mean sampling.temperature?" in sentence
    assert "line 5" in sentence
    assert "choose from method" in sentence


# Servers in the settings: names, addresses, and where a key is, never the key


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
