"""Snapshots of a chat, their way into the database, and entries read back from it."""

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

from ..attach.attachments import folded, split_attachments
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
"""Longest automatic title."""

REST_RUNS, REST_SECONDS = 64, 0.0005
"""Runs (1 ms) after which the thread rests, so that the interface need not wait for the interpreter's lock."""


@dataclass(frozen=True, slots=True)
class Row:
    """An entry's row in the database, and how much of it is written."""

    id: int
    runs: int = 0
    """Number of an answer's runs."""
    parts: int = 0
    done: bool = True


@dataclass(slots=True, eq=False)
class ChatTrack:
    """The history's record of a chat on the screen; only the writing thread changes the fields besides `title`, `quiet` and
    `origin`."""

    chat: int | None = None
    title: str = ""
    """Title set by the user; empty for an automatic one."""
    known_title: str = ""
    """Title set by the user, as the database has it."""
    quiet: int = 0
    """Number of first entries that are no reason to write: those in the database, or in a file that was opened."""
    origin: ChatTrack | None = None
    """Track of the chat that this one branched from."""
    rows: Mapping[ChatEntry, Row] = field(default_factory=dict)
    """Rows of all entries, those of other variants included."""
    order: str = ""
    """Order of the entries, as column `ways` has it."""
    identity: Any = None
    """Identity of the database."""


@dataclass(frozen=True, slots=True)
class ChatSnapshot:
    """A chat at one moment."""

    track: ChatTrack
    path: Sequence[ChatEntry]
    """The entries on the screen."""
    forks: Sequence[Fork]
    entries: Mapping[ChatEntry, ChatEntry]
    """All entries, those of other variants included → themselves, or a copy of an answer that may grow meanwhile."""
    title: str
    model: str
    about: dict[str, Any]
    pieces: Pieces


def snapshot(transcript: Transcript, about: About) -> ChatSnapshot:
    """Take a snapshot of a chat: in a few microseconds, without a copy of any text."""
    from ... import __version__

    path = list(transcript.entries)
    forks = [
        Fork(fork.after, [[] if number == fork.at else list(end) for number, end in enumerate(fork.ends)], fork.at)
        for fork in transcript.variants
    ]
    every = [*path, *(entry for fork in forks for end in fork.ends for entry in end)]
    model = model_body(about)
    load = {name: value for name in LOADED_WITH if (value := getattr(about.selection, name)) is not None}
    return ChatSnapshot(
        transcript.track,
        path,
        forks,
        entries={entry: frozen(entry) if isinstance(entry, Answer) else entry for entry in every},
        title=transcript.track.title,
        model=one_line(str(model.get("name") or model["asked"])),
        about={
            "model": model,
            "settings": settings_body(about),
            "load": load,
            "system": transcript.system,
            "specchat": __version__,
        },
        pieces=about.pieces,
    )


def automatic_title(entries: Sequence[ChatEntry]) -> str:
    """Return the first prompt on one line, without its attachments unless there is nothing else."""
    first = next((entry.text for entry in entries if isinstance(entry, Prompt)), "")
    if first.startswith("Attached "):
        first = split_attachments(first)[0].strip() or folded(first)
    return fit(one_line(first[:2000]), TITLE_CELLS) or "(empty)"


def write(db: sqlite3.Connection, state: ChatSnapshot, identity: Any) -> ChatTrack:
    """Bring a chat's rows up to date, in a transaction.

    Args:
        identity: identity of the database, so that ids of another one are not taken for its own.

    Returns:
        the chat's new track, valid once the transaction is committed.
    """
    track = state.track
    at = time()
    source = track if track.chat is not None or track.origin is None else track.origin
    ours = source.chat is not None and source.identity == identity
    present = db.execute("SELECT ways FROM chats WHERE id = ?", (source.chat,)).fetchone() if ours else None
    old_rows = source.rows if present else {}
    # If entries were taken back for good, or another specchat continued the same chat, its rows stay and this is a branch.
    whole = all(entry in state.entries or isinstance(entry, Notice) for entry in old_rows)
    same = source is track and present == (track.order,) and whole
    chat = source.chat if same else None
    title = stored(state.title or automatic_title(state.path))
    if chat is None:
        chat = db.execute(
            "INSERT INTO chats (title, named, created, changed, model, parent, turn, about)"
            f" VALUES (?, ?, ?, ?, '', ?, {NEXT_TURN}, '')",
            (title, bool(state.title), at, at, source.chat if present else None),
        ).lastrowid
        assert chat is not None
        old_rows = {entry: _copy(db, row, chat) for entry, row in old_rows.items() if entry in state.entries}
    elif state.title != track.known_title:
        db.execute("UPDATE chats SET title = ?, named = ? WHERE id = ?", (title, bool(state.title), chat))
    rows = {
        entry: _write_entry(db, chat, entry, now, old_rows.get(entry), state.pieces) for entry, now in state.entries.items()
    }

    def ids(entries: Sequence[ChatEntry]) -> list[int]:
        return [rows[entry].id for entry in entries]

    forks = [[rows[fork.after].id if fork.after else 0, fork.at, [*map(ids, fork.ends)]] for fork in state.forks]
    order = json.dumps([ids(state.path), forks])
    answers = sum(isinstance(entry, Answer) for entry in state.path)
    values = (stored(state.model), stored(dump(state.about)), answers, order, chat)
    db.execute("UPDATE chats SET model = ?, about = ?, answers = ?, ways = ? WHERE id = ?", values)
    if same and any(row is not old_rows.get(entry) for entry, row in rows.items()):
        # A chat that continues is no longer deleted.
        db.execute(f"UPDATE chats SET changed = ?, turn = {NEXT_TURN}, deleted_at = NULL WHERE id = ?", (at, chat))
    return ChatTrack(chat, known_title=state.title, rows=rows, order=order, identity=identity)


def _copy(db: sqlite3.Connection, row: Row, chat: int) -> Row:
    """Copy an entry into another chat; returns the copy's row."""
    copy = "INSERT INTO entries (chat, text, key, json) SELECT ?, text, key, json FROM entries WHERE id = ?"
    id = db.execute(copy, (chat, row.id)).lastrowid
    assert id is not None
    db.execute("INSERT INTO parts SELECT ?, part, json FROM parts WHERE entry = ?", (id, row.id))
    db.execute("INSERT INTO words (rowid, text) SELECT ?, text FROM words WHERE rowid = ?", (id, row.id))
    return replace(row, id=id)


def _write_entry(db: sqlite3.Connection, chat: int, entry: ChatEntry, now: ChatEntry, row: Row | None, pieces: Pieces) -> Row:
    """Bring an entry's row up to date and return it. `now` is the entry, or the copy of an answer that may grow."""
    if row is not None and row.done:
        return row
    if row is None:
        id = db.execute("INSERT INTO entries (chat, json) VALUES (?, '')", (chat,)).lastrowid
        assert id is not None
        row = Row(id, done=False)
    done = entry is now
    # The thought is in the parts, and takes long to put together at every flush.
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
    """Index an entry for the search, with its thought."""
    db.execute("UPDATE entries SET text = ? WHERE id = ?", (stored(entry.text), id))
    if not isinstance(entry, Notice):
        words = f"{entry.text}\n{entry.thought}" if isinstance(entry, Answer) else entry.text
        db.execute("INSERT OR REPLACE INTO words (rowid, text) VALUES (?, ?)", (id, searchable(words)))


def catch_up(db: sqlite3.Connection) -> None:
    """Index the answers that were being written when specchat was killed, in a transaction. If another specchat is still
    writing one, it replaces the text later."""
    for id, body in db.execute("SELECT id, json FROM entries WHERE text IS NULL").fetchall():
        answer, _ = read_row(db, id, None, body)
        head = {**json.loads(body), **entry_head(answer)}
        db.execute("UPDATE entries SET json = ? WHERE id = ?", (stored(dump(head)), id))
        _finish(db, id, answer)


def _packed(answer: Answer, pieces: Pieces, first: int, end: int) -> bytes:
    """Pack runs `first` up to `end` of an answer, which may be growing meanwhile."""
    token_ids: set[int] = set()
    runs = []
    rests = current_thread() is not main_thread()
    for index in range(first, end):
        runs.append(run_json(answer, index, token_ids))
        if rests and len(runs) % REST_RUNS == 0:
            sleep(REST_SECONDS)
    body = f'{{"runs": [{", ".join(runs)}], "pieces": {dump(pieces_body(token_ids, pieces))}}}'
    return zlib.compress(stored(body).encode())


def read_row(db: sqlite3.Connection, id: int, text: str | None, body: str) -> tuple[ChatEntry, bool]:
    """Return the entry in a row of `entries`, and whether it is whole: an answer with damaged runs keeps only its text and its
    thought."""
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
