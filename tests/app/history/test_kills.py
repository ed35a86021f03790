"""Killed at any moment: the database opens, nothing that was saved is missing, no chat is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

from specchat.app.chat.transcript import Transcript
from specchat.app.history import told
from specchat.app.history.chats import Chats
from specchat.app.history.recorder import Recorder
from specchat.app.history.store import Store

from ...cases import FULL

RUNS = 200 if FULL else 8
TOGETHER = 4 if FULL else 8
"""Processes that write into the same database at once."""

MOST_SAYINGS = 60
"""Most times that a process says what is saved before it is killed; about two seconds."""


def start(file: Path, name: str) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("streaming.py")
    return subprocess.Popen([sys.executable, str(script), str(file), name], stdout=subprocess.PIPE, text=True)


def expected(said: str) -> dict[tuple[int, int], int]:
    """(chat, answer) → tokens that must be there, by what a process said before its end."""
    out: dict[tuple[int, int], int] = {}
    for line in said.splitlines(keepends=True):
        if line.endswith("\n"):
            chat, answer, tokens = line.split()
            out[int(chat), int(answer)] = int(tokens)
    return out


def test_killed_at_random_moments(file: Path) -> None:
    pick = random.Random(106)
    names = (f"run-{n}" for n in count())
    due: dict[tuple[str, int, int], int] = {}
    for _ in range(RUNS // TOGETHER):
        running = {name: start(file, name) for name, _ in zip(names, range(TOGETHER), strict=False)}
        for name, process in running.items():
            assert process.stdout is not None
            said = "".join(process.stdout.readline() for _ in range(pick.randint(1, MOST_SAYINGS)))
            time.sleep(pick.uniform(0, 0.05))  # anywhere between two frames
            process.send_signal(signal.SIGKILL)
            said += process.communicate()[0]
            due |= {(name, chat, answer): tokens for (chat, answer), tokens in expected(said).items()}
        with Store(file) as store:
            assert told() == []
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
    assert len(due) >= RUNS
