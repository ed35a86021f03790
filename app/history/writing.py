"""A chat as it is at one moment, how that moment gets into the database, and how entries come back."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from threading import current_thread, main_thread
from time import sleep, time
from typing import Any

from ..attach.attachments import folded, parted
from ..chat.about import LOADED_WITH, About
from ..chat.entries import Answer, ChatEntry, Notice, Prompt
from ..chat.pieces import Pieces
from ..chat.runs import Run
from ..chat.transcript import Transcript
from ..chat.variants import Fork
from ..saved.capture import frozen, model_body, settings_body
from ..saved.chat_json import dump, entry_head, pieces_body, read_entry, run_json, steps_of, tail_of
from ..saved.reading import BadFile, Table
from ..text.cells import fit, one_line
from .schema import NEXT_TURN, searchable, stored

TITLE_CELLS = 80
"""Longest title that is made of a prompt."""

REST_RUNS, REST_SECONDS = 64, 0.0005
"""After so many runs (1 ms) the interface's thread gets its turn at once, where it would wait for the interpreter's lock."""


@dataclass(frozen=True, slots=True)
class Row:
    """Place of an entry in the database, and how much of it is written."""

    id: int
    runs: int = 0
    """How many runs of an answer it has."""
    parts: int = 0
    done: bool = True


@dataclass(slots=True, eq=False)
class ChatTrack:
    """What the history knows of a chat on the screen; the writing thread's business but for `title`, `quiet` and `origin`."""

    chat: int | None = None
    title: str = ""
    """The one that it was given; empty for an automatic one."""
    known_title: str = ""
    """The one that it was given as far as the database knows."""
    quiet: int = 0
    """Entries that are no reason to write: those that the database has, or those of a file that was opened."""
    origin: ChatTrack | None = None
    """Track of the chat that this one branched from."""
    rows: Mapping[ChatEntry, Row] = field(default_factory=dict)
    """Every entry that the database has, those that lie aside among them."""
    ways: str = ""
    """Their order, as the database has it."""
    identity: Any = None
    """Identity of the database that has it."""


@dataclass(frozen=True, slots=True)
class ChatSnapshot:
    """A chat at one moment."""

    track: ChatTrack
    path: Sequence[ChatEntry]
    """The entries on the screen."""
    forks: Sequence[Fork]
    entries: Mapping[ChatEntry, ChatEntry]
    """All entries, those that lie aside among them; an answer that may grow while it is written down, as it is now."""
    title: str
    model: str
    about: dict[str, Any]
    pieces: Pieces


def snapshot(transcript: Transcript, about: About) -> ChatSnapshot:
    """A chat as it is now: a few microseconds and no copy of any text."""
    from ... import __version__

    path = list(transcript.entries)
    forks = [
        Fork(fork.after, [[] if number == fork.at else list(end) for number, end in enumerate(fork.ends)], fork.at)
        for fork in transcript.variants
    ]
    every = [*path, *(entry for fork in forks for end in fork.ends for entry in end)]
    model = model_body(about)
    load = {name: value for name in LOADED_WITH if (value := about.load.get(name)) is not None}
    return ChatSnapshot(
        transcript.track,
        path,
        forks,
        {entry: frozen(entry) if isinstance(entry, Answer) else entry for entry in every},
        transcript.track.title,
        one_line(str(model.get("name") or model["asked"])),
        {"model": model, "settings": settings_body(about), "load": load, "system": transcript.system, "specchat": __version__},
        about.pieces,
    )


def automatic_title(entries: Sequence[ChatEntry]) -> str:
    """The first prompt on a line; without what is attached to it, unless that is all of it."""
    first = next((entry.text for entry in entries if isinstance(entry, Prompt)), "")
    if first.startswith("Attached "):
        first = parted(first)[0].strip() or folded(first)
    return fit(one_line(first[:2000]), TITLE_CELLS) or "(empty)"


def write(db: sqlite3.Connection, now: ChatSnapshot, identity: Any) -> ChatTrack:
    """Bring a chat up to date, in a transaction.

    Args:
        identity: of the database, so that ids of another one are not taken for its own.

    Returns:
        what its track must know once the transaction has come to its end.
    """
    track, at = now.track, time()
    source = track if track.chat is not None or track.origin is None else track.origin
    ours = source.chat is not None and source.identity == identity
    present = db.execute("SELECT ways FROM chats WHERE id = ?", (source.chat,)).fetchone() if ours else None
    known = source.rows if present else {}
    # Where entries were taken back for good, or another specchat went on with the same chat, its end stays: this is a branch.
    whole = all(entry in now.entries or isinstance(entry, Notice) for entry in known)
    same = source is track and present == (track.ways,) and whole
    chat = source.chat if same else None
    if chat is None:
        chat = db.execute(
            "INSERT INTO chats (title, named, created, changed, model, parent, turn, about)"
            f" VALUES (?, ?, ?, ?, '', ?, {NEXT_TURN}, '')",
            (stored(now.title or automatic_title(now.path)), bool(now.title), at, at, source.chat if present else None),
        ).lastrowid
        assert chat is not None
        known = {entry: _copied(db, row, chat) for entry, row in known.items() if entry in now.entries}
    elif now.title != track.known_title:
        title = stored(now.title or automatic_title(now.path))
        db.execute("UPDATE chats SET title = ?, named = ? WHERE id = ?", (title, bool(now.title), chat))
    rows = {entry: _write_entry(db, chat, entry, state, known.get(entry), now.pieces) for entry, state in now.entries.items()}
    ways = json.dumps(
        [
            [rows[entry].id for entry in now.path],
            [
                [rows[fork.after].id if fork.after else 0, fork.at, [[rows[entry].id for entry in end] for end in fork.ends]]
                for fork in now.forks
            ],
        ]
    )
    answers = sum(isinstance(entry, Answer) for entry in now.path)
    values = (stored(now.model), stored(dump(now.about)), answers, ways, chat)
    db.execute("UPDATE chats SET model = ?, about = ?, answers = ?, ways = ? WHERE id = ?", values)
    if same and any(row is not known.get(entry) for entry, row in rows.items()):
        # Somebody goes on with it, so it is no longer deleted.
        db.execute(f"UPDATE chats SET changed = ?, turn = {NEXT_TURN}, deleted_at = NULL WHERE id = ?", (at, chat))
    return ChatTrack(chat, known_title=now.title, rows=rows, ways=ways, identity=identity)


def _copied(db: sqlite3.Connection, row: Row, chat: int) -> Row:
    """An entry once more, for another chat."""
    copy = "INSERT INTO entries (chat, text, key, json) SELECT ?, text, key, json FROM entries WHERE id = ?"
    id = db.execute(copy, (chat, row.id)).lastrowid
    assert id is not None
    db.execute("INSERT INTO parts SELECT ?, part, json FROM parts WHERE entry = ?", (id, row.id))
    db.execute("INSERT INTO words (rowid, text) SELECT ?, text FROM words WHERE rowid = ?", (id, row.id))
    return replace(row, id=id)


def _write_entry(db: sqlite3.Connection, chat: int, entry: ChatEntry, now: ChatEntry, row: Row | None, pieces: Pieces) -> Row:
    """Bring an entry up to date; the row that has it now."""
    if row is not None and row.done:
        return row
    if row is None:
        id = db.execute("INSERT INTO entries (chat, json) VALUES (?, '')", (chat,)).lastrowid
        assert id is not None
        row = Row(id, done=False)
    done = entry is now
    # Its thought is all in the parts, and long to put together at every flush.
    head = entry_head(now if done or not isinstance(now, Answer) else replace(now, runs=[]))
    head.pop("text", None)
    if isinstance(now, Answer):
        steps = steps_of(now)
        if steps > row.runs:
            part = _packed(now, now.pieces if len(now.pieces) else pieces, row.runs, steps)
            db.execute("INSERT INTO parts VALUES (?, ?, ?)", (row.id, row.parts, part))
            row = replace(row, runs=steps, parts=row.parts + 1)
        head["tail"] = tail_of(now, steps)
    db.execute("UPDATE entries SET json = ? WHERE id = ?", (stored(dump(head)), row.id))
    if done:
        _finish(db, row.id, now)
        if isinstance(now, Answer) and now.text:
            key = int.from_bytes(blake2b(stored(now.text).encode(), digest_size=8).digest()) >> 1
            db.execute("UPDATE entries SET key = ? WHERE id = ?", (key, row.id))
    return replace(row, done=done)


def _finish(db: sqlite3.Connection, id: int, entry: ChatEntry) -> None:
    """Let an entry be found, by its thought too."""
    db.execute("UPDATE entries SET text = ? WHERE id = ?", (stored(entry.text), id))
    if not isinstance(entry, Notice):
        words = f"{entry.text}\n{entry.thought}" if isinstance(entry, Answer) else entry.text
        db.execute("INSERT OR REPLACE INTO words (rowid, text) VALUES (?, ?)", (id, searchable(words)))


def catch_up(db: sqlite3.Connection) -> None:
    """Let answers be found that were being written when specchat was killed, in a transaction. Should another specchat be
    writing one just now, it replaces the text when it is done."""
    for id, body in db.execute("SELECT id, json FROM entries WHERE text IS NULL").fetchall():
        answer, _ = read_row(db, id, None, body)
        head = {**json.loads(body), **entry_head(answer)}
        db.execute("UPDATE entries SET json = ? WHERE id = ?", (stored(dump(head)), id))
        _finish(db, id, answer)


def _packed(answer: Answer, pieces: Pieces, first: int, end: int) -> bytes:
    """A part of an answer, from run number `first` up to `end`; it may be growing meanwhile."""
    seen: set[int] = set()
    runs = []
    beside = current_thread() is not main_thread()
    for index in range(first, end):
        runs.append(run_json(answer, index, seen))
        if beside and len(runs) % REST_RUNS == 0:
            sleep(REST_SECONDS)
    return zlib.compress(stored(f'{{"runs": [{", ".join(runs)}], "pieces": {dump(pieces_body(seen, pieces))}}}').encode())


def read_row(db: sqlite3.Connection, id: int, text: str | None, body: str) -> tuple[ChatEntry, bool]:
    """The entry in a row of `entries`; and whether it is whole. Of an answer whose runs are damaged the text and the thought
    are left."""
    head = json.loads(body)
    runs: list[Any] = []
    pieces: dict[str, Any] = {}
    try:
        for (part,) in db.execute("SELECT json FROM parts WHERE entry = ? ORDER BY part", (id,)):
            more = json.loads(zlib.decompress(part))
            runs += more["runs"]
            pieces |= more["pieces"]
        return read_entry(Table({**head, "text": text or "", "runs": runs, "pieces": pieces})), True
    except (BadFile, zlib.error, ValueError, KeyError, TypeError, RecursionError):
        answer = Answer(one_line(head["method"]), one_line(head["label"]), asked=head.get("asked", {}))
        if thought := head.get("thought"):
            answer.runs.append(Run(thought, 0, answer.method, -1, spans=((1, len(thought), 0), (0, 0, 0))))
        answer.finish(one_line(head["reason"]), text or "")
        return answer, False
