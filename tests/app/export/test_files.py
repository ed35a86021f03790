"""Names of exports, files that are in the way, disks that are full, and files that cannot be opened."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specchat.app.chat.entries import Answer, Prompt
from specchat.app.chat.transcript import Transcript
from specchat.app.export.formats import Look, SavedChat, export_chat, target
from specchat.app.saved.chat_json import read_chat
from specchat.app.saved.race_json import read_race
from specchat.app.theming.themes import load_themes
from specchat.engine.messages import StepRecord
from specchat.errors import UserError

pytestmark = pytest.mark.usefixtures("here")


def chat() -> SavedChat:
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [1, 2], "Hi there", 4, 1, 5, tree_tokens=[9, 1, 8], tree_parents=[-1, 0, 0], path=[0, 1]))
    answer.finish("eos")
    return SavedChat(Transcript([Prompt("Hello"), answer]), {"name": "builtin"})


def look() -> Look:
    return Look(load_themes()[0]["dark"])


@pytest.mark.parametrize("name", ["chat", "chat.txt", "chat.", ".html", "x.html.gz"])
def test_a_name_without_a_known_suffix_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(UserError, match=r"\.html, \.md or \.json"):
        target(name)


def test_a_format_gives_a_name_its_suffix(here: Path) -> None:
    assert target("notes", "html") == Path("notes.html")
    assert target("notes.HTM", "html") == Path("notes.HTM")
    assert target("v1.2", "md") == Path("v1.2.md")
    with pytest.raises(UserError, match=r"ends in \.md, but you asked for html"):
        target("notes.md", "html")
    (here / "folder").mkdir()
    assert target("folder", "md").parent == Path("folder")
    assert target("", "json").name.startswith("specchat-")
    with pytest.raises(UserError, match="is a folder"):
        target("folder")


def test_a_file_is_never_overwritten_unasked(here: Path) -> None:
    paths = [export_chat(chat(), Path("chat.html"), look()) for _ in range(3)]
    assert [path.name for path in paths] == ["chat.html", "chat-2.html", "chat-3.html"]
    (here / "chat-2.html").write_text("mine")
    (here / "chat-2.html").chmod(0o640)
    assert export_chat(chat(), Path("chat-2.html"), look(), overwrite=True).name == "chat-2.html"
    assert (here / "chat-2.html").read_text() == (here / "chat.html").read_text()
    assert (here / "chat-2.html").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(here)) == ["chat-2.html", "chat-3.html", "chat.html"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the disk is read-only"), (errno.EACCES, "is not writable")],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_cannot_be_written_leaves_everything_as_it_was(
    here: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str, overwrite: bool
) -> None:
    (here / "chat.html").write_text("before")

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=f"Could not write chat.html: .*{words}"):
        export_chat(chat(), Path("chat.html"), look(), overwrite)
    assert os.listdir(here) == ["chat.html"]
    assert (here / "chat.html").read_text() == "before"


def test_a_folder_that_is_not_there_and_a_name_that_is_too_long(here: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        export_chat(chat(), Path("nowhere/chat.html"), look())
    with pytest.raises(UserError, match="its name is too long"):
        export_chat(chat(), Path("x" * 300 + ".html"), look())
    (here / "folder.html").mkdir()
    with pytest.raises(UserError, match="not a regular file"):
        export_chat(chat(), Path("folder.html"), look(), overwrite=True)
    (here / "file").write_text("")
    with pytest.raises(UserError, match="there is no such folder"):
        export_chat(chat(), Path("file/chat.html"), look())


def spoilt(change: Callable[[Any], None]) -> str:
    """What is said of a saved chat after a change."""
    path = export_chat(chat(), Path("chat.json"), look(), overwrite=True)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(UserError) as caught:
        read_chat(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("entries"), "entries is missing"),
        (lambda d: d.update(format="specchat race"), "its format is specchat race, not specchat chat"),
        (lambda d: d.pop("format"), 'it has no "format": "specchat chat"'),
        (lambda d: d.update(version=2), "Update specchat"),
        (lambda d: d.update(version="one"), "version is not a whole number"),
        (lambda d: d.update(system=3), "system is not a text"),
        (lambda d: d["entries"].append({"kind": "song"}), "entries[2].kind is 'song'"),
        (lambda d: d["entries"].append([]), "entries[2] is not an object"),
        (lambda d: d["entries"][0].pop("text"), "entries[0].text is missing"),
        (lambda d: d["entries"][1]["runs"][0].update(tokens=[1, "2"]), "entries[1].runs[0].tokens[1] is not a whole number"),
        (lambda d: d["entries"][1]["runs"][0].update(tokens=[2**40]), "tokens[0] is not a whole number"),
        (lambda d: d["entries"][1]["runs"][0].update(seconds=float("nan")), "seconds is not a number of 0 or more"),
        (lambda d: d["entries"][1]["runs"][0].update(forward=1e300), "took too long to be true"),
        (lambda d: d["entries"][1]["runs"][0].update(shade=17), "shade is not a whole number from -3 to 1"),
        (lambda d: d["entries"][1]["runs"][0].update(carried=99), "carried is more than its text has"),
        (lambda d: d["entries"][1]["runs"][0]["tree"].update(parents=[-1, 5, 0]), "do not make a tree"),
        (lambda d: d["entries"][1]["runs"][0].update(path=[0, 7]), "path leaves the tree"),
        (lambda d: d["entries"][1]["runs"][0].update(path=[0, 1, 2]), "path is no path of the tree"),
        (lambda d: d["entries"][1].update(pieces={"x": "y"}), "is no token's number"),
        (lambda d: d["entries"][1]["figures"].pop("tokens"), "entries[1].figures.tokens is missing"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(change: Callable[[Any], None], words: str) -> None:
    said = spoilt(change)
    assert words in said
    assert said.startswith("chat.json")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a saved chat"),
        (b"{", "not a saved chat"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", 'has no "format"'),
        (b'{"format": "\\u001b[31m"}', "its format is"),
        (b"9" * 5000, "not JSON"),
    ],
)
def test_files_of_other_kinds(content: bytes, words: str) -> None:
    Path("other.json").write_bytes(content)
    with pytest.raises(UserError, match=r"other\.json") as caught:
        read_chat(Path("other.json"))
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("read", [read_chat, read_race])
def test_files_that_have_no_end_are_sentences(read: Callable[[Path], object]) -> None:
    os.mkfifo("pipe.json")
    Path("zeros.json").symlink_to("/dev/zero")
    with Path("sparse.json").open("wb") as file:
        file.truncate(10**11)
    for name, words in (
        ("pipe.json", "not a regular file"), ("zeros.json", "not a regular file"), ("sparse.json", "larger than 200 MB")
    ):  # fmt: skip
        with pytest.raises(UserError, match=rf"Cannot read {name}: .*{words}"):
            read(Path(name))


@pytest.mark.parametrize("format", ["html", "md", "json"])
@pytest.mark.parametrize("odd", [[], {"a": 1}, -1, 1e308, "\ud83d\0"], ids=str)
def test_whatever_a_file_says_of_its_model_it_is_exported_again(odd: Any, format: str) -> None:
    opened = chat()
    opened.model = dict.fromkeys(("asked", "name", "backend", "device", "dtype", "parameters", "layers", "context"), odd)
    opened.transcript.answers()[0].asked = {"model": "one"}
    assert export_chat(opened, Path(f"chat.{format}"), look()).read_bytes()
