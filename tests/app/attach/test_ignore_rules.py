"""What git ignores: as git itself has it, and quickly whatever a stranger's rules say."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from specchat.app.attach import attachments
from specchat.app.attach.files import walk
from specchat.app.attach.ignore_rules import rule
from specchat.errors import UserError

RULES = r"""
a
/a
a/
/a/
*.log
!b.log
a*b
*a*b*
?.log
[ab].log
[!ab].log
[^a]*
[a-c]b
[z-a]b
[]a].log
[!]].log
[a
[!]
a[\]b]
\a
a\
\!a
\#a
# comment
!
**
/**
**/
**/b
**/d/b
d/**
d/**/b
d/**/e/**/b
d/*/b
d/e
d//e
a**b
**a
d/**b
d/b.log
*/b
b.log 
b.log\ 
d/
!d/
!d/b
e/
*
.*
/*
!/d
"""  # noqa: W291
LINES = [line for line in RULES.split("\n") if line]
NAMES = ["a", "b", "axb", "b.log", "b.log ", "x.log", "].log", "!a", "#a", "a]", "a\\", ".h"]


def tree(folder: Path) -> None:
    for inner in ("", "d/e", "d", "e"):
        (folder / inner).mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (folder / inner / name).write_text("")


@pytest.mark.skipif(shutil.which("git") is None, reason="git itself is what the rules are compared with")
def test_files_are_ignored_as_git_does(tmp_path: Path) -> None:
    pick = random.Random(3)
    cases = [[line] for line in LINES] + [[line, "!b"] for line in LINES[::3]] + [pick.sample(LINES, 4) for _ in range(20)]
    for number, lines in enumerate(cases):
        tree(tmp_path / str(number))
        (tmp_path / str(number) / ".gitignore").write_text("\n".join(lines) + "\n")
        if number % 4 == 0:
            (tmp_path / str(number) / "d" / ".gitignore").write_text(pick.choice(LINES) + "\r\n")
    git = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=git, check=True)
    listing = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    found = subprocess.run(listing, cwd=tmp_path, env=git, check=True, capture_output=True, text=True).stdout
    theirs = {name for name in found.split("\0") if name}
    ours = {file.relative_to(tmp_path).as_posix() for file in walk(tmp_path, hidden=True)}
    for number, lines in enumerate(cases):
        mine, wanted = ({name for name in names if name.startswith(f"{number}/")} for names in (ours, theirs))
        assert mine == wanted, lines
    assert len(theirs) > 1000


@pytest.mark.parametrize(
    "line",
    ["*a" * 400 + "b", "**/a/" * 150 + "b", "[ab]*" * 150 + "c", "?*" * 400 + "b", "a**" * 300 + "b", "[" * 999, "\\" * 999],
    ids=lambda line: line[:6],
)
def test_rules_that_would_backtrack_for_ever_do_not(line: str) -> None:
    """It would take a matcher that tries every way longer than the universe lasts."""
    found = rule(line)
    for names in (["a" * 250], ["a"] * 200, ["ab" * 120] * 20):
        assert found is None or not found.matches(names, folder=False)


def test_rules_that_are_no_ordinary_file_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ["pipe", "zeros", "sparse", "folder", "loop", "garbage"]
    for name in folders:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("a")
        (tmp_path / name / "b.log").write_text("b")
    os.mkfifo(tmp_path / "pipe" / ".gitignore")
    (tmp_path / "zeros" / ".gitignore").symlink_to("/dev/zero")
    with (tmp_path / "sparse" / ".gitignore").open("wb") as file:
        file.write(b"*.log\n")
        file.truncate(10**11)
    (tmp_path / "folder" / ".gitignore").mkdir()
    (tmp_path / "loop" / ".gitignore").symlink_to(".gitignore")
    (tmp_path / "garbage" / ".gitignore").write_bytes(b"\xff\xfe[\0*.log\n*.log\n")
    found = [file.relative_to(tmp_path).as_posix() for file in walk(tmp_path)]
    every = {f"{folder}/{name}" for folder, name in product(folders, ["a.txt", "b.log"])}
    assert set(found) == every - {"garbage/b.log"}


def test_a_look_through_a_folder_ends_when_it_is_given_up(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"{i:02}.txt").write_text("x")
    looks = iter([False] * 5 + [True] * 100)
    assert len(list(walk(tmp_path, given_up=lambda: next(looks)))) == 5


def test_a_folder_that_takes_too_long_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x")
    monkeypatch.setattr(attachments, "WALK_SECONDS", -1.0)
    with pytest.raises(UserError, match="Attach a folder inside it"):
        attachments.attach("Look at @.", tmp_path)
