"""Completion in the shell, through the protocol of each: what is offered for what was typed, harmless and without torch."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.app.cli import main as cli
from specchat.app.history.store import Store
from specchat.app.settings.locations import theme_names
from specchat.decoders.registry import methods

SPECCHAT = str(Path(sys.executable).parent / "specchat")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CONFIG", "DATA", "CACHE", "LOG"):
        monkeypatch.setenv(f"SPECCHAT_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def answer_to_shell(shell: str, line: str, **more: str) -> str:
    """Return the answer to a shell, asked in this process: another one takes a third of a second."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", [SPECCHAT])
        for name, value in {"_SPECCHAT_COMPLETE": f"complete_{shell}", **variables, **more}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit):
            cli.main()
    assert err.getvalue() == ""
    return out.getvalue()


def offered(shell: str, line: str) -> list[str]:
    """The values that a shell would show."""
    match shell:
        case "zsh":
            return re.findall(r'^(?:_arguments \'\*: :\(\()?"([^"]*)"', answer_to_shell("zsh", line), re.MULTILINE)
        case "fish":
            rows = answer_to_shell("fish", line, _TYPER_COMPLETE_FISH_ACTION="get-args").splitlines()
        case _:
            rows = answer_to_shell("bash", line).splitlines()
    return [row.partition("\t")[0] for row in rows if row]


SHELLS = ("bash", "zsh", "fish")


def keep(*titles: str) -> None:
    """Put chats into the history."""
    with Store() as store, store.transaction() as db:
        for i, title in enumerate(titles):
            db.execute(
                "INSERT INTO chats (model, about, answers, title, named, created, changed) VALUES ('m', '{}', 1, ?, 1, ?, ?)",
                (title, i, i),
            )


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_offered_what_there_is(shell: str) -> None:
    assert offered(shell, "specchat run --model bui") == ["builtin", "builtin-draft", "builtin-eagle"]
    assert set(offered(shell, "specchat --method look")) == {name for name in methods() if name.startswith("look")}
    assert offered(shell, "specchat --theme d") == [name for name in theme_names() if name.startswith("d")]


def test_every_option_is_completed(home: Path) -> None:
    (home / "here" / "small.gguf").write_bytes(b"GGUF")
    assert offered("zsh", "specchat --draft-model sm") == ["small.gguf"]
    assert offered("zsh", "specchat --theme ") == theme_names()
    assert offered("zsh", "specchat run --kv-type q8") == ["q8_0"]
    assert "--stop-loops" in offered("zsh", "specchat run --stop-l")
    assert "chats" in offered("zsh", "specchat cha")


@pytest.mark.parametrize("shell", SHELLS)
def test_chats_are_offered_by_number(shell: str, home: Path) -> None:
    assert offered(shell, "specchat --resume ") == []
    assert not (home / "data").exists()  # a tab makes no history
    keep("The lighthouse", 'a "$(touch ran)" `touch ran` \\ [bold] \x1b[31m', "third")
    values = offered(shell, "specchat --resume ")
    assert values == ["3", "2", "1"]
    assert offered(shell, "specchat chats show 2") == ["2"]


def test_names_that_a_shell_would_run_are_not_offered(home: Path) -> None:
    hostile = [
        "$(touch ran)",
        "`touch ran`",
        "\\$(touch ran)",
        "';touch ran;'",
        '";touch ran;"',
        "\ntouch ran\n",
        ")));touch ran;(((",
    ]
    for name in (*hostile, "#x", "a^b", "a&b", "a b", "a!b", "a|b", "a>b", "a*", "a?", "{a,b}", "%1"):
        (home / "here" / f"x{name}.gguf").write_bytes(b"GGUF")
    (home / "here" / "good.gguf").write_bytes(b"GGUF")
    assert [value for value in offered("zsh", "specchat --model ") if value.endswith("gguf")] == ["good.gguf"]
    # Titles are shown, without the signs. zsh evaluates it all, and _arguments what is in the list once more.
    keep(*hostile)
    out = answer_to_shell("zsh", "specchat --resume ")
    assert out.count("touch ran") == len(hostile)
    code = f'_arguments() {{ eval "list=( ${{2#*((}}"; }}\neval {out!r}\n'
    subprocess.run(["bash", "-c", code], check=False, capture_output=True)
    assert not (home / "here" / "ran").exists()
    assert not re.search(r"[`$\\;&|<>#!~?]", out)
