"""Files that go with a message: finding, reading, framing, folding."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.attach.attachments import (
    MOST_BYTES,
    Attachment,
    attach,
    compose,
    decode,
    folded,
    mentioned,
    paste_chip,
)
from specchat.app.attach.names import names_below, ranked, score
from specchat.app.text.cells import FOLDED
from specchat.errors import UserError

hostile = st.text(st.sampled_from("`\n\r ~a[]@\x1b\u202e\u2028")) | st.text()


@given(hostile, st.text(min_size=1))
def test_a_text_cannot_close_its_fence(text: str, name: str) -> None:
    header, fence, *rest = Attachment(name, text, 5).framed().split("\n")
    assert header.startswith("Attached file: ")
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert rest[-1] == fence
    assert fence not in "\n".join(rest[:-1])
    inside = "\n".join(rest[:-1])
    assert inside == (text.removesuffix("\n") if text.endswith("\n") else text)


@given(
    st.lists(hostile, min_size=1, max_size=4), st.text(st.characters(blacklist_characters="\n"), min_size=1).map("Q".__add__)
)
def test_folding_shows_a_line_for_each_attachment_and_the_message_as_it_is(texts: list[str], message: str) -> None:
    sent = compose(message, [Attachment(f"{i}.txt", text, 5) for i, text in enumerate(texts)])
    assert folded(sent).split("\n", len(texts)) == [*(f"[{i}.txt · 5 B]" for i in range(len(texts))), message]


@given(hostile.map("Attached file: x (5 B)\n```\n".__add__))
def test_a_message_that_only_looks_framed_never_crashes(text: str) -> None:
    assert folded(text)


def test_what_an_at_sign_names() -> None:
    message = """See @a.txt, @"my notes.md" and @'x y' but not me@home.org or @@property @ "@"."""
    assert list(mentioned(message)) == ["a.txt,", "my notes.md", "x y"]


def test_a_full_stop_after_a_name_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("alpha")
    text, (one,) = attach("Read @a.txt. Or @a.txt? Not @@me.")
    assert (text, one.name, one.text) == ("Read @a.txt. Or @a.txt? Not @me.", "a.txt", "alpha")


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x.bin", b"a\0b", "x.bin is binary, not text"),
        pytest.param("x.txt", b"a" * (MOST_BYTES + 1), "Cannot read x.txt (it is larger than 2 MB).", id="too_large"),
        ("x.pdf", b"%PDF-1.4 text", "x.pdf is a PDF document. Pipe its text in: pdftotext FILE - | specchat."),
    ],
)
def test_files_that_cannot_go_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(data)
    with pytest.raises(UserError, match=f"^{re.escape(sentence)}"):
        attach(f"Read @{name}")


def test_encodings() -> None:
    assert decode("\ufeffé\r\n".encode(), "x") == ("é\n", "")
    assert decode("é".encode("utf-16"), "x") == ("é", "")
    assert decode(b"\xe9t\xe9", "x") == ("�t�", "x is not entirely UTF-8: unreadable characters are shown as �.")


def make(folder: Path, **files: str) -> None:
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_a_folder_gives_its_files_but_what_git_ignores_and_what_is_hidden(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    make(tmp_path, _dot_gitignore="build/\n*.log\n", a_dot_py="a", b_dot_log="b", build__c_dot_py="c", _dot_env="secret")
    make(tmp_path, sub___dot_gitignore="!keep.log\n", sub__keep_dot_log="k", sub__other_dot_log="o")
    assert names_below(tmp_path / "sub") == ["keep.log"]
    assert names_below(tmp_path) == ["sub/", "a.py", "sub/keep.log"]
    assert names_below(tmp_path / "build") == ["c.py"], "a folder that is ignored itself"
    with pytest.raises(UserError, match=r"^Cannot read .*/sub/ \(Is a directory"):
        attach(f"Look at @{tmp_path}/sub/")


def test_no_program_of_a_repository_is_run(tmp_path: Path) -> None:
    for command in (["init", "-q"], ["config", "core.fsmonitor", f"touch {tmp_path / 'ran'}"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    make(tmp_path, _dot_gitignore="*.log\n", a_dot_txt="a", b_dot_log="b")
    assert names_below(tmp_path) == ["a.txt"]
    assert not (tmp_path / "ran").exists()


def test_long_pastes() -> None:
    assert paste_chip("short\n" * 39) == ""
    assert paste_chip("x\n" * 211 + "x") == f"{FOLDED}pasted 212 lines]"
    assert paste_chip("x" * 4001) == f"{FOLDED}pasted 4,001 characters]"


names = st.lists(st.text("abcXY/._-é", min_size=1, max_size=20), max_size=30, unique=True)


@given(st.text("abcXY/._-é", max_size=5), names)
def test_completions_have_the_typed_letters_in_order_and_the_exact_name_first(query: str, candidates: list[str]) -> None:
    matches = ranked(query, candidates, most=100)
    assert set(matches) <= set(candidates)
    for name in candidates:
        letters = iter(name.casefold())
        assert (name in matches) == all(letter in letters for letter in query.casefold())
    if query.casefold() in matches and "/" not in query:
        best = score(query, matches[0])
        assert best is not None
        assert best >= (score(query, query.casefold()) or 0)
