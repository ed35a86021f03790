"""An import from beginning to end: counted first, cancelled, from the command line and from the chat; and what may be done with
its chats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from typer.testing import CliRunner

from specchat.app.cli.main import app
from specchat.app.history.chats import Chats
from specchat.app.importing import keeping
from specchat.app.importing.run import Report

Bring = Callable[..., Report]
Write = Callable[..., Path]


def talk(number: int, answer: str = "It is lit.") -> dict[str, Any]:
    """A conversation."""
    return {
        "id": f"talk-{number}",
        "messages": [{"role": "user", "content": f"Which lamp is number {number}?"}, {"role": "assistant", "content": answer}],
    }


def test_a_dry_run_counts_what_the_import_then_does(bring: Bring, history: Path, write: Write) -> None:
    path = write("x.jsonl", talk(1), talk(2), {"no": "chat"}, talk(1))
    dry = bring(path, dry=True)
    assert not history.exists()
    report = bring(path)
    assert report.tally == dry.tally
    assert (report.tally.chats, report.tally.known, report.bads) == (2, 1, 1)
    grown = talk(1)
    grown["messages"] += [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "No."}]
    path = write("x.jsonl", talk(2), grown, talk(3))
    size = history.stat().st_mtime_ns
    dry = bring(path, dry=True)
    assert history.stat().st_mtime_ns == size
    report = bring(path)
    assert report.tally == dry.tally
    assert (report.tally.chats, report.tally.continued, report.tally.known, report.tally.messages) == (1, 1, 1, 4)


def test_what_was_read_before_a_cancel_stays_and_the_rest_comes_later(bring: Bring, chats: Chats, write: Write) -> None:
    path = write("x.jsonl", *map(talk, range(50)))

    class Stopping(Event):
        def is_set(self) -> bool:
            return chats.count() > 0

    keeping_for, keeping.BATCH_SECONDS = keeping.BATCH_SECONDS, 0.0
    try:
        report = bring(path, stop=Stopping())
    finally:
        keeping.BATCH_SECONDS = keeping_for
    assert report.cancelled
    assert 0 < chats.count() < 50
    assert "Cancelled" in report.sentence()
    assert bring(path).tally.chats == 50 - report.tally.chats
    assert chats.count() == 50


def test_files_that_cannot_be_read_do_not_stop_the_others(bring: Bring, chats: Chats, write: Write, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    (tmp_path / "not.zip").write_bytes(b"PK\x03\x04" + bytes(50))
    report = bring(
        tmp_path / "missing",
        tmp_path,
        tmp_path / "empty",
        tmp_path / "picture.png",
        tmp_path / "not.zip",
        Path("nul\0byte"),
        write("good", talk(1)),
        write("settings.json", {"theme": "dark"}),
    )
    assert chats.count() == 1
    beginnings = (
        "There is no file",
        f"{tmp_path} is a folder",
        "empty is empty",
        "picture.png has no chat",
        "not.zip cannot be",
    )
    assert [sentence.startswith(begin) for sentence, begin in zip(report.failed, beginnings, strict=False)] == [True] * 5
    assert report.failed[5].startswith("There is no file nul␀byte")
    assert "settings.json has no chat that can be imported" in report.failed[6]
    assert all(sentence.endswith(".") for sentence in report.failed)


def test_the_command_names_what_is_wrong_and_says_what_it_did(history: Path, write: Write) -> None:
    path = write("x.jsonl", talk(1), {"no": "chat"})
    result = CliRunner().invoke(app, ["history", "import", str(path)])
    assert result.exit_code == 1
    assert result.stdout == "Imported 1 chat (2 messages). 1 record could not be read.\n"
    assert "x.jsonl, line 2 is no chat that is known here" in result.stderr
    result = CliRunner().invoke(app, ["history", "import", "--json", str(write("y.jsonl", talk(1), talk(2)))])
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert (body["chats"], body["known"], body["problems"]) == (1, 1, [])
    result = CliRunner().invoke(app, ["history", "import", "--dry-run", str(write("z.jsonl", talk(3)))])
    assert result.stdout == "Would import 1 chat (2 messages).\n"


def test_ctrl_c_ends_it_with_what_it_has(history: Path, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    command = [sys.executable, "-m", "specchat", "history", "import", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with path.open("w") as pipe:
            for number in range(400):
                pipe.write(json.dumps(talk(number, "word " * 800)) + "\n")
            pipe.flush()
            process.send_signal(signal.SIGINT)
            try:
                while process.poll() is None:
                    pipe.write(json.dumps(talk(9999, "word " * 8000)) + "\n")
            except BrokenPipeError:
                pass
        out, _ = process.communicate(timeout=120)
    except BaseException:
        process.kill()
        raise
    assert process.returncode == 130
    assert "Cancelled: the rest was not read" in out


def test_a_pipe_that_nobody_writes_to_is_given_up(bring: Bring, tmp_path: Path) -> None:
    path, stop = tmp_path / "pipe", Event()
    os.mkfifo(path)
    # Cancelled when it has waited once.
    assert bring(path, progress=lambda *_: stop.set(), stop=stop).cancelled


def test_a_pipe_is_read_whatever_its_writer_takes_for_it(bring: Bring, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write(*_: Any) -> None:
        if not begun.is_set():
            begun.set()
            Thread(target=path.write_text, args=(json.dumps(talk(1)) + "\n",), daemon=True).start()

    begun = Event()
    assert bring(path, progress=write).tally.chats == 1


def test_a_device_is_no_file_of_chats(bring: Bring) -> None:
    assert "zero cannot be read: it is no ordinary file and no pipe" in " ".join(bring(Path("/dev/zero")).failed)


def test_an_imported_chat_is_gone_on_with_and_a_later_import_leaves_that(
    bring: Bring, history: Path, chats: Chats, write: Write, dialogue: Any, engine: Any, make_steps: Callable[..., Any]
) -> None:
    from specchat.app.history.recorder import Recorder
    from specchat.engine.messages import Steps

    bring(write("x", talk(1)))
    opened = chats.open(1)
    dialogue.transcript = opened.transcript
    recorder = Recorder(history)
    dialogue.submit("And tomorrow?")
    assert [message["content"] for message in engine.asked.messages] == [
        "Which lamp is number 1?",
        "It is lit.",
        "And tomorrow?",
    ]
    engine.begin()
    engine.events.append(Steps(engine.asked.id, make_steps("As well.")))
    engine.finish()
    dialogue.drain()
    recorder.close(dialogue)
    assert chats.count() == 1
    assert chats.open(1).transcript.answers()[-1].text == "As well."
    assert len(chats.open(1).transcript.answers()[-1].log) > 0
    grown = talk(1)
    grown["messages"] += [{"role": "user", "content": "And elsewhere?"}, {"role": "assistant", "content": "No."}]
    assert bring(write("x", grown)).tally.continued == 1
    transcript = chats.open(1).transcript
    assert transcript.entries[-1].text == "As well."
    (fork,) = transcript.variants
    assert [entry.text for number, end in enumerate(fork.ends) if number != fork.at for entry in end] == [
        "And elsewhere?",
        "No.",
    ]


def test_imported_chats_go_into_replay(bring: Bring, history: Path, write: Write) -> None:
    text = "The lamp is lit. " * 12
    bring(write("x.jsonl", talk(1, text), talk(2, text)))
    result = CliRunner().invoke(app, ["replay", "--history", "--json", "--methods", "lookup"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["results"]
    assert row["transcripts"] == 2
    assert row["tokens_per_step"] > 2
    result = CliRunner().invoke(app, ["replay", "--chat", "2", "--json", "--methods", "lookup"])
    assert json.loads(result.stdout)["results"][0]["transcripts"] == 1


def test_replay_without_an_answer_says_what_to_do(history: Path) -> None:
    result = CliRunner().invoke(app, ["replay", "--history"])
    assert result.exit_code != 0
    assert "There is no answer in the history yet" in str(result.exception)


async def test_the_chat_imports_and_lists_what_came(history: Path, write: Write, make_chat: Any) -> None:
    chat = make_chat()
    path = write("my chats.jsonl", talk(1), {"no": "chat"}, talk(2))
    async with chat.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        chat.commands.run(f"/import '{path}'")
        await chat.workers.wait_for_complete([worker for worker in chat.workers if worker.group == "import"])
        await pilot.pause()
        notice = chat.dialogue.transcript.entries[-1]
        assert notice.text.startswith("Imported 2 chats (4 messages). 1 record could not be read. /chats has them.")
        assert "my chats.jsonl, line 2" in notice.text
        chat.commands.run(f"/import -n '{path}'")
        await chat.workers.wait_for_complete([worker for worker in chat.workers if worker.group == "import"])
        assert "were there already" in chat.dialogue.transcript.entries[-1].text
        assert not chat.importing.busy
    with OpenHistory(history) as chats:
        assert chats.count() == 2


class OpenHistory:
    """The chats of a file, for a moment."""

    def __init__(self, path: Path) -> None:
        from specchat.app.history.store import Store

        self.store = Store(path)

    def __enter__(self) -> Chats:
        return Chats(self.store)

    def __exit__(self, *_: object) -> None:
        self.store.close()


async def test_a_run_of_an_imported_answer_says_that_its_steps_are_not_known(
    bring: Bring, history: Path, write: Write, make_chat: Any, engine: Any
) -> None:
    from specchat.app.export.look import told
    from specchat.app.history.resume import find
    from specchat.app.render.inspection import inspect, verdict

    bring(write("x", talk(1)))
    opened = find("Which lamp")
    assert not isinstance(opened, str)
    answer = opened.transcript.answers()[0]
    assert "how it was decoded is not known" in told(answer, 0)
    looked = inspect(answer, 0, answer.pieces)
    assert "came without its steps" in verdict(looked)[0][0].text
    chat = make_chat()
    async with chat.run_test(size=(100, 30)) as pilot:
        engine.loaded()
        await pilot.pause()
        chat.keeping.resume(opened)
        await pilot.pause()
        await pilot.press("f7")
        await pilot.pause()
        assert "without its steps" in "".join(
            segment.text for strip in chat.screen._compositor.render_strips() for segment in strip
        )
