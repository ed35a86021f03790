"""Killed at any moment: the database opens, at most the last second is missing, no chat is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

from specchat.app.chat.transcript import Transcript
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import Store

from ...cases import FULL

RUNS = 200 if FULL else 8
TOGETHER = 4 if FULL else 8
"""Processes that write into the same database at once."""

LAST_SECONDS = 1.0 if FULL else 6.0
"""What may be missing; more where other tests take the processor meanwhile."""


def start(file: Path, name: str) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("streaming.py")
    return subprocess.Popen([sys.executable, str(script), str(file), name], stdout=subprocess.PIPE, text=True)


def expected(said: str, killed: float) -> dict[tuple[int, int], int]:
    """(chat, answer) → tokens that must be there, by what a process said up to a second before its end."""
    out: dict[tuple[int, int], int] = {}
    for line in said.splitlines(keepends=True):
        if line.endswith("\n"):
            at, chat, answer, tokens = line.split()
            if float(at) <= killed - LAST_SECONDS:
                out[int(chat), int(answer)] = int(tokens)
    return out


def test_killed_at_random_moments(file: Path) -> None:
    pick = random.Random(106)  # kills half of the eight late enough for something to be due, and some at once
    names = (f"run-{n}" for n in count())
    due: dict[tuple[str, int, int], int] = {}
    for _ in range(RUNS // TOGETHER):
        running = {name: start(file, name) for name, _ in zip(names, range(TOGETHER), strict=False)}
        for process in running.values():  # Python itself takes a moment
            assert process.stdout is not None
            process.stdout.readline()
        deaths = sorted((pick.uniform(0, LAST_SECONDS + 1.5), name) for name in running)
        begun = time.monotonic()
        for at, name in deaths:
            time.sleep(max(0.0, begun + at - time.monotonic()))
            process = running[name]
            killed = time.monotonic()
            process.send_signal(signal.SIGKILL)
            said, _ = process.communicate()
            due |= {(name, chat, answer): tokens for (chat, answer), tokens in expected(said, killed).items()}
        with Store(file) as store:
            assert store.told == []
    recorder = Recorder(file)  # as the next start does
    recorder.close()
    assert recorder.sentences() == []
    with Store(file) as store:
        chats = Chats(store)
        assert store.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert store.db.execute("PRAGMA foreign_key_check").fetchall() == []
        store.db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        found: dict[tuple[str, int], Transcript] = {}
        for row in chats.newest(limit=100_000):
            name, chat = row.title.split()
            assert (name, int(chat)) not in found
            found[name, int(chat)] = chats.open(row.id).transcript
        for (name, number, answer), tokens in due.items():
            said_there = found[name, number].answers()[answer - 1]
            assert said_there.log.tokens.tolist()[:tokens] == list(range(tokens))
        for transcript in found.values():
            for one in transcript.answers():
                assert one.text == "".join(f" {token}" for token in one.log.tokens.tolist())
                assert one.log.tokens.tolist() == list(range(len(one.log.tokens.tolist())))
        some = next(iter(found))
        assert chats.search(f'"{some[0]} {some[1]}"')
    assert len(due) >= RUNS // 2
