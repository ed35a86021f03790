"""The history with 10,000 chats and 5 million tokens: opening, listing, searching, saving.

    python -m specchat.benchmarks.interface.history_speed [--chats 10000] [--tokens 500] [--file FILE] [--compare]

Makes such a database (in a temporary folder, or FILE, which is kept and used again) and prints JSON: milliseconds, medians and
the slowest, of opening the database, a chat out of it, a page of the list, and searches of several kinds; bytes on the disk.
--compare also indexes the same texts in the ways that were not taken, and prints their sizes and times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.entries import Answer, Prompt
from specchat.app.chat.pieces import Pieces
from specchat.app.chat.transcript import Transcript
from specchat.app.history.chats import Chats
from specchat.app.history.schema import loaded, searchable
from specchat.app.history.store import NAME, Store
from specchat.app.history.writing import ChatTrack, snapshot, write
from specchat.engine.messages import StepRecord

VOCABULARY = 20_000
NEEDLE = "quixotry"
"""A word that 20 chats have."""

SYLLABLES = "ka lo mi ren tu sha vel or in ast er on the ing pro de co al ti qu em ber lan dra fo ni su gra pel wo".split()

QUERIES = {
    "a rare word": NEEDLE,
    "a part of a rare word": NEEDLE[1:6],
    "a rare word and a common one": f"{NEEDLE} the",
    "a common word": "the",
    "two common words": "the ing",
    "a common phrase": '"the ing"',
    "a phrase that is nowhere": '"the quinine ing the"',
    "a word that is nowhere": "zyzzyva",
    "common letters that are nowhere": "theasterinprolandra",
    "two letters": "qu",
    "two letters that are nowhere": "ß燈",
    "two letters that few have": "qx",
}


def words(pick: random.Random) -> list[str]:
    """Words, the common ones first."""
    made = ["the", "ing"]
    while len(made) < VOCABULARY:
        made.append("".join(pick.choices(SYLLABLES, k=pick.choice((1, 2, 2, 3, 3, 4)))))
    return made


def fill(store: Store, chats: int, tokens: int) -> None:
    """Write chats of two answers each; the last one has 40 times as many tokens."""
    pick = random.Random(1)
    vocabulary = words(pick)
    weights = [1 / (rank + 3) for rank in range(VOCABULARY)]
    pieces = Pieces(f" {word}" for word in vocabulary)
    dialogue = Dialogue(None, "synthetic", {}, "lookup")  # type: ignore[arg-type]
    needles = set(pick.sample(range(chats), 20))
    draws = iter(())  # type: Iterator[int]

    def token() -> int:
        nonlocal draws
        for drawn in draws:
            return drawn
        draws = iter(pick.choices(range(VOCABULARY), weights, k=100_000))
        return next(draws)

    def answer(count: int, needle: bool) -> Answer:
        made = Answer("lookup", "identical")
        made.pieces = pieces
        while count > 0:
            taken = [token() for _ in range(pick.choice((1, 1, 2, 3, 6)))]
            drafted = [token() for _ in range(4)] if len(taken) > 1 else []
            tree = [0, *taken[:-1], *drafted] if drafted else []
            text = "".join(f" {vocabulary[one]}" for one in taken) + (f" {NEEDLE}" if needle else "")
            needle = False
            made.add(
                StepRecord(
                    *("lookup", taken, text, len(tree) - 1 if tree else 0, len(taken) - 1, max(1, len(tree))),
                    *(pick.random() / 1000, pick.random() / 50, pick.random() / 2000),
                    tree_tokens=tree,
                    tree_parents=list(range(-1, len(tree) - 1)),
                    path=list(range(len(taken))) if tree else [],
                )
            )
            count -= len(taken)
        made.finish("eos")
        return made

    for first in range(0, chats, 100):
        with store.transaction() as db:
            for chat in range(first, min(first + 100, chats)):
                transcript = Transcript(track=ChatTrack())
                for half in range(2):
                    transcript.entries.append(Prompt(" ".join(vocabulary[token()] for _ in range(20))))
                    count = tokens // 2 * (40 if chat == chats - 1 else 1)
                    transcript.entries.append(answer(count, chat in needles and half == 0))
                write(db, snapshot(transcript, dialogue.about()), store.identity)


def timed(work: Callable[[], Any], times: int = 21) -> dict[str, float]:
    """Milliseconds."""
    taken = []
    for _ in range(times):
        begun = perf_counter()
        work()
        taken.append((perf_counter() - begun) * 1000)
    return {"median": round(statistics.median(taken), 2), "slowest": round(max(taken), 2)}


def measure(path: Path) -> dict[str, Any]:
    """Everything about a database."""
    out: dict[str, Any] = {}

    def opened() -> None:
        with Store(path) as store:
            Chats(store).newest(limit=100)

    out["open the database, first page of the list"] = timed(opened)
    with Store(path) as store:
        chats = Chats(store)
        count = chats.count()
        pick = random.Random(2)
        out["chats"] = count
        out["open a chat"] = timed(lambda: chats.open(pick.randrange(1, count)))
        out["open the longest chat"] = timed(lambda: chats.open(count), 5)
        out["tokens of the longest chat"] = sum(len(answer.log.tokens) for answer in chats.open(count).transcript.answers())
        out["a page of 100, anywhere"] = timed(lambda: chats.newest(pick.randrange(count), 100))
        out["search"] = {}
        for name, query in QUERIES.items():
            out["search"][name] = {"found": len(chats.search(query)), **timed(lambda query=query: chats.search(query), 11)}  # type: ignore[misc]
        out["title"] = timed(lambda: chats.titled("the"))
        sizes = store.db.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC").fetchall()
        out["megabytes"] = {name: round(size / 1e6, 1) for name, size in sizes if size > 5e5}
    out["megabytes"]["file"] = round(path.stat().st_size / 1e6, 1)
    return out


class Idle:
    """An engine that says nothing."""

    def drain(self) -> list[Any]:
        return []

    def send(self, command: Any) -> None: ...

    def next_id(self) -> int:
        return 1

    def load(self, model: str, **options: Any) -> int:
        return 1


async def on_screen(path: Path) -> dict[str, float]:
    """Milliseconds of the list in the chat (in Textual's headless driver): from the key to its first rows, to all of it, of
    drawing all rows that are visible, and from a search to what it found, the pause after typing left out."""
    from specchat.app.settings.fields import Settings
    from specchat.app.tui.app import SpecchatApp
    from specchat.app.tui.pickers import chats as chats_screen

    os.environ["SPECCHAT_DATA"], os.environ["SPECCHAT_CONFIG"] = str(path.parent), str(path.parent)
    app = SpecchatApp(Settings(), Idle())
    out: dict[str, float] = {}
    begun = perf_counter()

    def note(name: str) -> None:
        out[name] = round((perf_counter() - begun) * 1000, 1)

    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        begun = perf_counter()
        app.chat_history.browse()
        while not (isinstance(app.screen, chats_screen.ChatsScreen) and app.screen.listed.items):
            await asyncio.sleep(0.001)
        note("first rows")
        screen = app.screen
        with Store(path) as store:
            count = Chats(store).count()
        while len(screen.listed.items) < count:
            await asyncio.sleep(0.001)
        note("all chats")
        await pilot.pause(0.2)
        begun = perf_counter()
        for y in range(screen.listed.size.height):
            screen.listed.render_line(y)
        note("draw the visible rows")
        begun = perf_counter()
        screen.box.value = NEEDLE
        while len(screen.listed.items) == count:
            await asyncio.sleep(0.001)
        note("search")
        out["search"] = round(out["search"] - chats_screen.PAUSE_SECONDS * 1000, 1)
    return out


@contextmanager
def scratch(path: Path) -> Iterator[sqlite3.Connection]:
    """A database beside, with the texts in it."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "scratch.db")
        db.execute("ATTACH ? AS history", (str(path),))
        yield db
        db.close()


def compare(path: Path) -> dict[str, Any]:
    """Other ways to index the same texts: megabytes, seconds to make, milliseconds of queries without a look at the texts."""
    out: dict[str, Any] = {}
    for name, how in {
        "trigram, no positions (taken)": "tokenize = 'trigram', detail = 'none'",
        "trigram, positions": "tokenize = 'trigram'",
        "whole words": "tokenize = 'unicode61'",
    }.items():
        with scratch(path) as db:
            db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', {how})")
            begun = perf_counter()
            texts = db.execute("SELECT id, text FROM history.entries WHERE text IS NOT NULL").fetchall()
            db.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)", ((id, searchable(loaded(text))) for id, text in texts)
            )
            db.commit()
            seconds = perf_counter() - begun
            (size,) = db.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'words%'").fetchone()
            out[name] = {"megabytes": round(size / 1e6, 1), "seconds": round(seconds, 1)}
            if "none" not in how:
                for kind in ("a common phrase", "a phrase that is nowhere", "two common words"):
                    query = QUERIES[kind]
                    sql = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT 50"
                    out[name][kind] = timed(lambda query=query, sql=sql: db.execute(sql, (query,)).fetchall(), 5)  # type: ignore[misc]
    return out


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=500, help="of each chat")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    if given.file is not None and given.file.name != NAME:
        parser.error(f"FILE must be called {NAME}")
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or Path(folder) / "history.db"
        seconds = 0.0
        if not path.exists():
            begun = perf_counter()
            with Store(path) as store:
                fill(store, given.chats, given.tokens)
            seconds = perf_counter() - begun
        out = {"seconds to write all of it": round(seconds, 1), **measure(path)}
        out["on the screen"] = asyncio.run(on_screen(path))
        if given.compare:
            out["compare"] = compare(path)
    print(json.dumps(out, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
