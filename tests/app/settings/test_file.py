"""The settings file: read, checked with sentences that help, written back without loss."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from specchat.app.settings import locations
from specchat.app.settings.fields import Settings
from specchat.app.settings.file import changed, save
from specchat.app.settings.precedence import load_settings, read_settings
from specchat.errors import UserError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_no_file_gives_the_defaults(file: Path) -> None:
    assert load_settings(file) == (Settings(), None)


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
        ("model = ", ["line 1", "not TOML"]),
        ("model = 'a'\n\n[sampling\n", ["line 3"]),
        ("modell = 'a'", ["modell", "did you mean model?"]),
        ("temperature = 0.5", ["temperature", "sampling.temperature"]),
        ("[sampling]\ntemprature = 0.5", ["sampling.temprature", "sampling.temperature"]),
        ("zzz = 1", ["no setting zzz", "choose from model"]),
        ("sampling = 3", ["sampling is a table", "[sampling]"]),
        ("methods.lookup = 3", ["methods.lookup must be a table"]),
        ("model = 3", ["model takes a text in quotes, not 3"]),
        ("model = ''", ["model is empty"]),
        ("context = 0", ["context must be at least 1, not 0"]),
        ("context = 1.5", ["context takes a whole number"]),
        ("threads = true", ["threads takes a whole number"]),
        ("kv_type = 'q9'", ["kv_type takes one of auto, f16"]),
        ("gpu_layers = -1", ["gpu_layers must be at least 0"]),
        ("max_tokens = '5'", ["max_tokens takes a whole number, not '5'"]),
        ("stop = [1]", ["stop takes a list of non-empty texts"]),
        ("stop = ['']", ["non-empty texts"]),
        ("draft_model = ' '", ["draft_model is empty. Give a model"]),
        ("draft_model = ['a', '']", ["draft_model is empty. Give a model"]),
        ("draft_model = ['a', 'b', 'a']", ["draft_model names a more than once"]),
        ("draft_model = [1]", ["draft_model takes a list of non-empty texts"]),
        ("dtype = 'int4'", ["dtype takes one of auto, float32"]),
        ("draft_dtype = 'int4'", ["draft_dtype takes one of auto, float32"]),
        ("draft_device = 'gpu'", ["draft_device takes one of auto, cpu, cuda"]),
        ("draft_threads = 0", ["draft_threads must be at least 1"]),
        ("device = 'gpu'", ["device takes one of auto, cpu, cuda"]),
        ("[sampling]\ntemperature = -1", ["sampling.temperature must be 0 or more, not -1"]),
        ("[sampling]\ntop_p = 0.0", ["sampling.top_p must be above 0"]),
        ("[sampling]\nseed = -4", ["sampling.seed must be between 0"]),
        ("[sampling]\ntemperature = nan", ["sampling.temperature"]),
        ("[model]\nname = 'x'", ["no setting model.name"]),
        ("[keymap]\nsend = 3", ["keymap.send takes keys"]),
        ("[keymap]\nsend = 'f2,,f3'", ["keymap.send takes keys"]),
        ("[keymap]\nquit = ['ctrl+q', 'q']", ["keymap.quit: q always types in the chat", "F1 to F12"]),
        ("[keymap]\nhistory_back = 'up, question_mark'", ["keymap.history_back: question_mark always types"]),
        ("[keymap]\nnext_methd = 'f9'", ["no binding keymap.next_methd", "did you mean next_method?"]),
        ("method = 'lokup'", ["method", "lokup"]),
        ("[methods.lokup]\nk = 1", ["methods.lokup", "lokup"]),
        ("[methods.greedy]\nk = 1", ["greedy", "'k'"]),
        ("theme = 'no such theme'", ["theme takes one of"]),
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


def test_saving_makes_the_file_and_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings.toml"
    save({"stop": ("x",), "sampling.seed": 3}, path)
    assert path.read_text() == 'stop = ["x"]\n\n[sampling]\nseed = 3\n'
    assert [p.name for p in path.parent.iterdir()] == ["settings.toml"]


def test_a_bad_change_or_a_bad_file_is_never_written_over(file: Path) -> None:
    file.write_text("threads = 2\n")
    with pytest.raises(UserError, match="threads must be at least 1"):
        save({"threads": 0}, file)
    assert file.read_text() == "threads = 2\n"
    file.write_text("threads = \n")
    with pytest.raises(UserError, match="line 1"):
        save({"threads": 3}, file)
    assert file.read_text() == "threads = \n"


def test_a_full_disk_asks_for_room(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save({"theme": "light"}, file)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"settings[.]toml \(No space left on device\)[.] Free some space there[.]"):
        save({"theme": "dark"}, file)
    assert "light" in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_message_can_call_a_key_by_its_option() -> None:
    with pytest.raises(UserError, match=r"^--top-k must be 0"):
        changed(Settings(), {"sampling.top_k": -1}, {"sampling.top_k": "--top-k"})


def test_the_folder_or_the_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path))
    assert locations.settings_file() == tmp_path / "settings.toml"
    monkeypatch.setenv("SPECCHAT_CONFIG", str(tmp_path / "other.toml"))
    assert locations.settings_file() == tmp_path / "other.toml"
    assert locations.config_folder() == tmp_path
