"""What is being typed comes back, whatever ended the program."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from specchat.app.history.drafts import NEW, Drafts
from specchat.app.history.prompts import Typed


def kept(folder: Path, shown: int, **texts: str) -> Drafts:
    drafts = Drafts(folder)
    drafts.by_chat = {int(name[1:]): [Typed(text)] for name, text in texts.items()}
    drafts.write(drafts.line(shown))
    return drafts


def test_the_next_run_takes_what_was_on_the_screen_and_knows_the_others(tmp_path: Path) -> None:
    kept(tmp_path, 5, c5="Being typed", c7="In another chat").close()
    after = Drafts(tmp_path)
    assert [typed.text for typed in after.take_over()] == ["Being typed"]
    assert {chat: [each.text for each in typed] for chat, typed in after.by_chat.items()} == {7: ["In another chat"]}
    (left,) = os.listdir(tmp_path)  # until this run has written it
    after.write(after.line(7))
    assert left not in os.listdir(tmp_path)


def test_a_running_one_keeps_its_own(tmp_path: Path) -> None:
    running = kept(tmp_path, NEW, c0="Mine")
    assert Drafts(tmp_path).take_over() == []
    running.close()
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == ["Mine"]


def test_a_kill_while_it_writes_costs_the_last_moment_alone(tmp_path: Path) -> None:
    drafts = kept(tmp_path, NEW, c0="Hello")
    (file,) = tmp_path.iterdir()
    os.close(drafts._file)
    with file.open("ab") as opened:
        opened.write(b'{"shown": 0, "dra')
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == ["Hello"]


def test_what_a_thread_writes_late_is_older_and_changes_nothing(tmp_path: Path) -> None:
    drafts = kept(tmp_path, NEW, c0="Half")
    late, drafts.by_chat[NEW] = drafts.line(NEW), [Typed("Half a thought")]
    drafts.close(drafts.line(NEW))
    drafts.write(late)
    drafts.write("")
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == ["Half a thought"]


def test_nothing_is_left_of_what_was_sent(tmp_path: Path) -> None:
    drafts = kept(tmp_path, NEW, c0="Hello")
    drafts.by_chat[NEW] = []
    drafts.write(drafts.line(NEW))
    drafts.close()
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_read_costs_the_others_nothing(tmp_path: Path) -> None:
    kept(tmp_path, NEW, c0="Hello").close()
    (tmp_path / "0-folder.json").mkdir()
    (tmp_path / "1-dangling.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "2-pipe.json")
    (tmp_path / "3-damaged.json").write_bytes(b"\0\xff" * 100 + b"[" * 100_000)
    drafts = Drafts(tmp_path)
    assert [typed.text for typed in drafts.take_over()] == ["Hello"]
    drafts.by_chat[NEW] = [Typed("More")]
    drafts.write(drafts.line(NEW))
    drafts.close()
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == ["More"]


def test_a_disk_that_takes_a_part_costs_neither_the_draft_before_nor_the_next(tmp_path: Path) -> None:
    drafts = kept(tmp_path, NEW, c0="Before")
    (file,) = tmp_path.iterdir()
    limits, size = resource.getrlimit(resource.RLIMIT_FSIZE), file.stat().st_size
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    drafts.by_chat[NEW] = [Typed("Lost")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            drafts.write(drafts.line(NEW))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert file.stat().st_size == size + 10
    drafts.by_chat[NEW] = [Typed("After")]
    drafts.write(drafts.line(NEW))
    drafts.close()
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == ["After"]


def test_a_draft_of_any_length_comes_back(tmp_path: Path) -> None:
    """Escaped, it is six times as long."""
    text = "漢字" * 200_000
    kept(tmp_path, NEW, c0=text).close()
    assert [typed.text for typed in Drafts(tmp_path).take_over()] == [text]
