"""The settings file: read, checked with sentences that help, written back without loss."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.settings import locations
from specchat.app.settings import toml as dotted
from specchat.app.settings.fields import Settings
from specchat.app.settings.precedence import Layers, load_settings, method_changes, read, read_settings, save, with_command_line
from specchat.app.settings.toml import rewrite
from specchat.errors import UserError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_every_kind_of_value(file: Path) -> None:
    file.write_text(
        """
        model = "/models/qwen"
        context = 4096
        stop = ["END", "###"]
        method = "greedy"
        [sampling]
        temperature = 1
        top_p = 0.9
        seed = 7
        [keymap]
        next_method = "ctrl+n,f2"
        cancel = ["escape", "ctrl+g"]
        """
    )
    settings = read_settings(file)
    assert settings.model == "/models/qwen"
    assert settings.context == 4096
    assert settings.stop == ("END", "###")
    assert settings.sampling.temperature == 1.0
    assert settings.sampling.seed == 7
    assert settings.keymap == {"next_method": "ctrl+n,f2", "cancel": "escape,ctrl+g"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("model = ", ["not TOML", "end of document"]),
        ("modell = 'a'", ["modell", "did you mean model?"]),
        ("temperature = 0.5", ["temperature", "sampling.temperature"]),
        ("[sampling]\ntemprature = 0.5", ["sampling.temprature", "sampling.temperature"]),
        ("zzz = 1", ["no setting zzz", "choose from model"]),
        ("sampling = 3", ["no setting sampling"]),
        ("methods.lookup = 3", ["no setting methods.lookup"]),
        ("model = 3", ["model takes a model, a folder", "not 3"]),
        ("context = 0", ["context must be at least 1, not 0"]),
        ("kv_type = 'q9'", ["kv_type takes one of auto, f16"]),
        ("max_tokens = 'five'", ["max_tokens takes a whole number, not 'five'"]),
        ("draft_model = ' '", ["draft_model takes a model, a folder"]),
        ("draft_model = ['a', 'b', 'a']", ["draft_model: a is named more than once"]),
        ("[sampling]\ntemperature = -1", ["sampling.temperature must be at least 0, not -1"]),
        ("[sampling]\ntemperature = nan", ["sampling.temperature"]),
        ("[keymap]\nsend = 3", ["keymap.send takes keys"]),
        ("[keymap]\nquit = ['ctrl+q', 'q']", ["keymap.quit: q always types in the chat", "F1 to F12"]),
        ("[keymap]\nhistory_back = 'up, question_mark'", ["keymap.history_back: question_mark always types"]),
        ("[keymap]\nnext_methd = 'f9'", ["no setting keymap.next_methd", "did you mean next_method?"]),
        ("method = 'lokup'", ["method", "lokup"]),
        ("[methods.lokup]\nk = 1", ["methods.lokup", "lokup"]),
        ("[methods.greedy]\nk = 1", ["greedy", "'k'"]),
        ("theme = 'no such theme'", ["theme: There is no theme", "Choose from"]),
        ("[models.builtin]\ntemprature = 1", ["did you mean sampling.temperature?"]),
        ("[models.builtin]\ntheme = 'dark'", ["choose from method"]),
        ("[presets.x]\nsystm = 'x'", ["no setting presets.x.systm: did you mean system?"]),
    ],
)
def test_a_bad_file_is_one_sentence_and_the_defaults(file: Path, text: str, parts: list[str]) -> None:
    file.write_text(text)
    settings, sentence = load_settings(file)
    assert settings == Settings()
    assert sentence is not None
    assert "settings.toml" in sentence
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence
    with pytest.raises(UserError, match=re.escape(sentence)):
        read_settings(file)


def test_saving_keeps_comments_and_order(file: Path) -> None:
    file.write_text('# mine\nmodel = "a"  # the small one\n\n[sampling]\n# warm\ntemperature = 0.5\n')
    save({"theme": None, "max_tokens": 9, "sampling.temperature": 0.7, "keymap.quit": "f2"}, file)
    settings = read_settings(file)
    assert (settings.model, settings.max_tokens, settings.sampling.temperature) == ("a", 9, 0.7)
    assert settings.keymap == {"quit": "f2"}
    text = file.read_text()
    assert '# mine\nmodel = "a"  # the small one\n' in text
    assert "# warm\ntemperature = 0.7\n" in text
    save({"max_tokens": None, "keymap.quit": None, "sampling.top_k": None}, file)
    assert "max_tokens" not in file.read_text()


def test_a_bad_change_or_a_bad_file_is_never_written_over(file: Path) -> None:
    file.write_text("threads = 2\n")
    with pytest.raises(UserError, match="threads must be at least 1"):
        save({"threads": 0}, file)
    assert file.read_text() == "threads = 2\n"
    file.write_text("threads = \n")
    with pytest.raises(UserError, match="line 1"):
        save({"threads": 3}, file)
    assert file.read_text() == "threads = \n"


def test_the_folder_or_the_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    assert locations.settings_file() == tmp_path / "settings.toml"
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "other.toml"))
    assert locations.settings_file() == tmp_path / "other.toml"
    assert locations.config_folder() == tmp_path


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
    mine = with_command_line(settings, {"model": NAME}, {})
    assert (mine.method, mine.system, mine.sampling.temperature) == ("lookup", "Be brief.", 0.7)
    assert mine.methods == {"lookup": {"nodes": 32}}
    other = with_command_line(settings, {"model": "other"}, {})
    assert (other.method, other.system, other.sampling.temperature) == ("ngram", None, 0.2)
    # What is given on the command line goes first.
    overridden = with_command_line(settings, {"model": NAME, "method": "fusion", "sampling.temperature": 0.0}, {})
    assert (overridden.method, overridden.sampling.temperature) == ("fusion", 0.0)
    assert overridden.system == "Be brief."


def test_what_tune_found_is_written_as_the_models_default_and_replaces_what_it_found_before(path: Path) -> None:
    path.write_text(
        f'method = "ngram" # mine\n\n[models."{NAME}"]\nmethod = "recycle"\n[models.builtin]\nmethod = "greedy"\n'
        f'[models."{NAME}".methods.lookup]\nnodes = 8\nfloor = 0.3\n'
    )
    save(method_changes(NAME, "lookup", {"nodes": "32", "floor": "0.1"}))
    text = path.read_text()
    assert "# mine" in text
    mine = with_command_line(read_settings(), {"model": NAME}, {})
    assert mine.method == "lookup"
    assert mine.methods["lookup"] == {"nodes": 32, "floor": 0.1}
    save(method_changes(NAME, "lookup", {"variant": "reference"}))
    assert with_command_line(read_settings(), {"model": NAME}, {}).methods["lookup"] == {"variant": "reference"}
    assert with_command_line(read_settings(), {"model": "builtin"}, {}).method == "greedy"


def test_a_folder_is_the_same_model_with_a_tilde_and_without(path: Path) -> None:
    path.write_text('[models."~/models/small"]\nmethod = "greedy"\n')
    file = read()
    layers = Layers(file, model=str(Path("~/models/small").expanduser()))
    assert layers.settings().method == "greedy"
    assert layers.origin("method").kind == "model"


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
    assert settings.selection().servers == SERVERS


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('url = "ftp://localhost:8080"', "is not a server's address"),
        ('url = "http://me:sk-secret@host"', "must not hold a name or password"),
        ('key = "sk-secret"', "no setting servers.x.key"),
        ('key_env = "sk-secret"', "takes the name of an environment variable, not the key itself"),
        ("model = 3", "servers.x.model takes a text in quotes"),
        ('modle = "x"', "no setting servers.x.modle: did you mean model?"),
    ],
)
def test_what_is_wrong_is_said_without_its_value(tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[servers.x]\n{line}\n")
    settings, problem = load_settings(file)
    assert problem is not None
    assert sentence in problem
    assert "secret" not in problem
    assert not settings.servers.get("x")


names = st.text(min_size=1, max_size=12).filter(lambda name: all(not 0xD800 <= ord(letter) < 0xE000 for letter in name))


@given(st.lists(names, min_size=1, max_size=4))
def test_a_key_in_parts_is_the_same_after_it_was_written(parts: list[str]) -> None:
    assert dotted.split(dotted.join(parts)) == tuple(parts)


def test_a_key_that_is_taken_out_takes_its_empty_table_with_it(file: Path) -> None:
    file.write_text("[a.b]\nc = 1\n[d]\ne = 1\n")
    rewrite(file, {("a", "b", "c"): None, ("d", "x"): None, ("nowhere", "x"): None})
    assert file.read_text() == "[d]\ne = 1\n"


def test_saving_is_refused_where_a_value_is_wrong_and_nothing_else_needs_to_be_right(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('zzz = 1\ntheme = "dark"\n')
    save({"threads": 3}, path)
    assert read(path).values == {"theme": "dark", "threads": 3}
    save({"zzz": None}, path)
    assert read(path).problems == ()
