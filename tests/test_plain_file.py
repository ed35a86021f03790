"""Files that others wrote: only ordinary ones are read, and never more than a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specchat import plain_file
from specchat.app.cli.bench.items import read_items
from specchat.app.saved.chat_json import read_chat
from specchat.app.settings import precedence as settings_file
from specchat.app.theming import themes
from specchat.backends import UserError, load_model
from specchat.backends.transcripts import scan_transcripts


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a\xffb")
    assert plain_file.read_bytes(tmp_path / "a", 3) == b"a\xffb"
    assert plain_file.read_text(tmp_path / "a") == "a\ufffdb"


def test_what_is_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("link")
    for path, said in (
        (tmp_path / "fifo", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "link", "Too many levels"),
        (tmp_path / "none", "No such file"),
        (Path("a\0b"), "No such file"),
    ):
        with pytest.raises(OSError, match=said):
            plain_file.read_bytes(path)


def test_what_only_looks_ordinary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe put there after the look at the file, and a file as /proc/kmsg, whose reader waits for the next message."""
    file = tmp_path / "file"
    file.write_text("text")
    os.mkfifo(tmp_path / "fifo")
    ordinary, stat = os.stat(file), os.stat
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda path, **options: ordinary if path == tmp_path / "fifo" else stat(path, **options))
        with pytest.raises(OSError, match="not a regular file"):
            plain_file.read_bytes(tmp_path / "fifo")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", lambda *_: reading)
        patch.setattr(os, "fstat", lambda _: ordinary)
        with pytest.raises(OSError, match="not a regular file"):
            plain_file.read_bytes(file)
    os.close(writing)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"1234")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**12)
    for path in (tmp_path / "long", tmp_path / "sparse", Path("/proc/self/maps")):
        with pytest.raises(OSError, match="larger than"):
            plain_file.read_bytes(path, 3)


def test_json_that_is_nested_too_deep_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "good.json").write_text('{"a": [1]}')
    with pytest.raises(ValueError, match="deep"):
        plain_file.read_json(tmp_path / "deep.json")
    assert plain_file.read_json(tmp_path / "good.json") == {"a": [1]}


@pytest.mark.parametrize(
    "spec", ["~nobody-of-this-name/model", "~nobody-of-this-name/model.gguf", "x" * 5000, "./" + "x" * 5000]
)
def test_names_that_lead_nowhere(spec: str) -> None:
    with pytest.raises(UserError, match=r"There is no (folder|file|model)"):
        load_model(spec)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_what_a_person_wrote_is_read_with_or_without_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    """Every kind of file that people write by hand."""

    def file(name: str, text: str) -> Path:
        (tmp_path / name).write_bytes(text.encode(encoding))
        return tmp_path / name

    found = settings_file.read(file("settings.toml", 'method = "lookup"\r\n# mine\r\n'))
    assert found.problems == ()
    shipped = themes.SHIPPED / "dune.toml"
    assert themes.read_theme(file("dune.toml", shipped.read_text())) == themes.read_theme(shipped)
    assert read_items(file("prompts.jsonl", '{"prompt": "é?"}\n'), None).items[0].turns == ("é?",)
    messages = '[{"role": "user", "content": "é"}, {"role": "assistant", "content": "a"}]'
    assert len(scan_transcripts(file("records.jsonl", f'{{"messages": {messages}}}\n'))[0]) == 1
    chat = '{"format": "specchat chat", "version": 1, "specchat": "0", "system": null, "entries": []}'
    assert read_chat(file("chat.json", chat)).version == "0"
