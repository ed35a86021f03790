"""A chat as it is at one moment, and how that moment gets into the database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, NamedTuple

from ..attach.attachments import folded, parted
from ..chat.about import LOADED_WITH, About
from ..chat.entries import Answer, ChatEntry, Figures, Notice, Prompt
from ..chat.pieces import Pieces
from ..chat.runs import spelled
from ..chat.transcript import Transcript
from ..chat.variants import Fork
from ..saved.capture import model_body, settings_body
from ..saved.chat_json import figures_body
from ..text.cells import fit, one_line
from .entries import pack, parts_of, texts_of
from .schema import NEXT_TURN, index, indexed, stored, words_of

TITLE_CELLS = 80
"""Longest title that is made of a prompt."""


@dataclass(slots=True, eq=False)
class SavedEntry:
    """An entry that the database has."""

    entry: ChatEntry
    id: int
    runs: int = 0
    """How many runs of an answer it has."""
    parts: int = 0
    done: bool = True


class Rows(NamedTuple):
    """The ids of a chat's entries, as the database has them."""

    path: Sequence[int] = ()
    """What is on the screen, in order."""
    forks: Sequence[tuple[int, int]] = ()
    """(entry before it, number of the end on the screen), in the order of the entries."""
    ends: Sequence[tuple[int, int, int, int]] = ()
    """(entry before the fork, number, position, entry) of the other ends, in order."""


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
    saved: list[SavedEntry] = field(default_factory=list)
    """Every entry that the database has, those that lie aside among them."""
    rows: Rows = field(default_factory=Rows)
    identity: Any = None
    """Identity of the database that has it."""


@dataclass(frozen=True, slots=True)
class AnswerMark:
    """How far an answer has come. What comes later is not looked at, so it may grow while it is written down."""

    runs: int
    steps: int
    reason: str | None
    figures: Figures


@dataclass(frozen=True, slots=True)
class ChatSnapshot:
    """A chat at one moment."""

    track: ChatTrack
    entries: Sequence[ChatEntry]
    forks: Sequence[Fork]
    marks: Mapping[int, AnswerMark]
    """How far each answer is, by its `id`."""
    title: str
    model: str
    system: str | None
    about: dict[str, Any]
    pieces: Pieces


def snapshot(transcript: Transcript, about: About) -> ChatSnapshot:
    """A chat as it is now: a few microseconds and no copy of any text."""
    from ... import __version__

    entries, variants = list(transcript.entries), transcript.variants
    forks = [Fork(fork.after, [list(end) for end in fork.ends], fork.at) for fork in variants]
    model = model_body(about)
    return ChatSnapshot(
        transcript.track,
        entries,
        forks,
        {id(entry): _mark(entry) for entry in _every(entries, forks) if isinstance(entry, Answer)},
        transcript.track.title,
        one_line(str(model.get("name") or model["asked"])),
        transcript.system,
        {"model": model, "settings": settings_body(about), "load": _load_body(about), "specchat": __version__},
        about.pieces,
    )


def _load_body(about: About) -> dict[str, Any]:
    """The options of the model's load that are the chat's own, as far as they were given."""
    return {name: value for name in LOADED_WITH if (value := about.load.get(name)) is not None}


def _every(entries: Sequence[ChatEntry], forks: Sequence[Fork]) -> Iterator[ChatEntry]:
    """All entries: those on the screen, then those that lie aside."""
    yield from entries
    for fork in forks:
        for number, end in enumerate(fork.ends):
            if number != fork.at:
                yield from end


def _mark(answer: Answer) -> AnswerMark:
    runs = len(answer.runs)
    figures = answer.figures if answer.done else replace(answer.figures)
    return AnswerMark(runs, min(runs, len(answer.log)), answer.reason, figures)


def automatic_title(entries: Sequence[ChatEntry]) -> str:
    """The first prompt on a line; without what is attached to it, unless that is all of it."""
    first = next((entry.text for entry in entries if isinstance(entry, Prompt)), "")
    if first.startswith("Attached "):
        first = parted(first)[0].strip() or folded(first)
    return fit(one_line(first[:2000]), TITLE_CELLS) or "(empty)"


class Written(NamedTuple):
    """What a track must know once a transaction has come to its end."""

    chat: int
    saved: list[SavedEntry]
    rows: Rows


def write(db: sqlite3.Connection, now: ChatSnapshot, identity: Any) -> Written:
    """Bring a chat up to date, in a transaction.

    Args:
        identity: of the database, so that ids of another one are not taken for its own.
    """
    chat, known, parent = _place(db, now, identity)
    at = time()
    before = rows_of(db, chat) if chat is not None else Rows()
    fresh = chat is None
    answers = sum(isinstance(entry, Answer) for entry in now.entries)
    title = stored(now.title or automatic_title(now.entries))
    row = (stored(now.model), stored(now.system) if now.system else None, json.dumps(now.about), answers)
    if chat is None:
        chat = db.execute(
            "INSERT INTO chats (model, system, about, answers, title, named, created, changed, parent, turn)"
            f" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {NEXT_TURN})",
            (*row, title, bool(now.title), at, at, parent),
        ).lastrowid
        assert chat is not None
    else:
        db.execute("UPDATE chats SET model = ?, system = ?, about = ?, answers = ? WHERE id = ?", (*row, chat))
        if now.title != now.track.known_title:
            db.execute("UPDATE chats SET title = ?, named = ? WHERE id = ?", (title, bool(now.title), chat))
    grown = False
    saved: dict[int, SavedEntry] = {}
    for entry in _every(now.entries, now.forks):
        mark, item = now.marks.get(id(entry)), known.get(id(entry))
        if item is None:
            item = SavedEntry(entry, _insert(db, entry, at), done=mark is None)
            grown = True
        if isinstance(entry, Answer) and mark is not None and not item.done:
            item = _write_answer(db, entry, mark, item, now.pieces)
            grown = True
        saved[id(entry)] = item
    rows = _rows(now, {key: item.id for key, item in saved.items()})
    _write_rows(db, chat, before, rows)
    if grown and not fresh:
        # Somebody goes on with it, so it is no longer deleted.
        db.execute(f"UPDATE chats SET changed = ?, turn = {NEXT_TURN}, deleted_at = NULL WHERE id = ?", (at, chat))
    return Written(chat, list(saved.values()), rows)


def rows_of(db: sqlite3.Connection, chat: int) -> Rows:
    """What the database has of a chat's order."""
    return Rows(
        [entry for (entry,) in db.execute("SELECT entry FROM places WHERE chat = ? ORDER BY position", (chat,))],
        db.execute("SELECT after, shown FROM forks WHERE chat = ? ORDER BY after", (chat,)).fetchall(),
        db.execute(
            "SELECT after, number, position, entry FROM ends WHERE chat = ? ORDER BY after, number, position", (chat,)
        ).fetchall(),
    )


def _rows(now: ChatSnapshot, ids: Mapping[int, int]) -> Rows:
    forks, ends = [], []
    for fork in now.forks:
        after = ids[id(fork.after)] if fork.after is not None else 0
        forks.append((after, fork.at))
        for number, end in enumerate(fork.ends):
            if number != fork.at:
                ends += [(after, number, position, ids[id(entry)]) for position, entry in enumerate(end)]
    return Rows([ids[id(entry)] for entry in now.entries], sorted(forks), sorted(ends))


def _write_rows(db: sqlite3.Connection, chat: int, before: Rows, now: Rows) -> None:
    """Write down what is another than before; mostly one more entry at the end."""
    same = 0
    while same < min(len(before.path), len(now.path)) and before.path[same] == now.path[same]:
        same += 1
    if same < len(before.path):
        db.execute("DELETE FROM places WHERE chat = ? AND position >= ?", (chat, same))
    db.executemany("INSERT INTO places VALUES (?, ?, ?)", [(chat, i, now.path[i]) for i in range(same, len(now.path))])
    if before.forks != now.forks:
        db.execute("DELETE FROM forks WHERE chat = ?", (chat,))
        db.executemany("INSERT INTO forks VALUES (?, ?, ?)", [(chat, *fork) for fork in now.forks])
    if before.ends != now.ends:
        db.execute("DELETE FROM ends WHERE chat = ?", (chat,))
        db.executemany("INSERT INTO ends VALUES (?, ?, ?, ?, ?)", [(chat, *end) for end in now.ends])


def _place(db: sqlite3.Connection, now: ChatSnapshot, identity: Any) -> tuple[int | None, dict[int, SavedEntry], int | None]:
    """Where a chat goes: its id (None for a new one), what the database has of it by the `id` of the entry, and what the new
    one branches from."""
    branching = now.track.chat is None and now.track.origin is not None
    track = now.track.origin if now.track.chat is None and now.track.origin is not None else now.track
    chat = track.chat
    if chat is None or track.identity != identity:
        return None, {}, None
    found = rows_of(db, chat)
    there = {*found.path, *(end[-1] for end in found.ends)}
    if not there:  # removed for good meanwhile
        return None, {}, None
    known = {id(item.entry): item for item in track.saved if item.id in there}
    have = {id(entry) for entry in _every(now.entries, now.forks)}
    if not branching and found == track.rows and all(id(item.entry) in have for item in track.saved):
        return chat, known, None
    # Entries were taken back for good, or another specchat went on with the same chat: the other end stays, this is a branch.
    return None, known, chat


def _insert(db: sqlite3.Connection, entry: ChatEntry, at: float) -> int:
    match entry:
        case Prompt(text):
            values: tuple[Any, ...] = ("prompt", at, stored(text), None, None, None, None)
        case Notice(text, severity):
            values = ("notice", at, stored(text), severity, None, None, None)
        case Answer():
            asked = json.dumps(entry.asked) if entry.asked else None
            values = ("answer", at, None, None, stored(entry.method), stored(entry.label), asked)
    id = db.execute(
        "INSERT INTO entries (kind, created, text, severity, method, label, asked) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    ).lastrowid
    assert id is not None
    if isinstance(entry, Prompt):
        index(db, id, entry.text)
    return id


def _write_answer(db: sqlite3.Connection, answer: Answer, mark: AnswerMark, item: SavedEntry, pieces: Pieces) -> SavedEntry:
    done = mark.reason is not None
    tail = "".join(run.text for run in answer.runs[mark.steps : mark.runs]) if done else ""
    runs, parts = item.runs, item.parts
    if mark.steps > runs or tail:
        data = pack(answer, answer.pieces if len(answer.pieces) else pieces, runs, mark.steps, tail)
        db.execute("INSERT INTO steps VALUES (?, ?, ?)", (item.id, parts, data))
        runs, parts = mark.steps, parts + 1
    db.execute(
        "UPDATE entries SET method = ?, label = ?, figures = ?, reason = ? WHERE id = ?",
        (stored(answer.method), stored(answer.label), json.dumps(figures_body(mark.figures)), mark.reason, item.id),
    )
    if done:
        runs_there = answer.runs[: mark.runs]
        _write_text(db, item.id, spelled(runs_there), spelled(runs_there, thought=True))
    return SavedEntry(answer, item.id, runs, parts, done)


def _write_text(db: sqlite3.Connection, entry: int, text: str, thought: str) -> None:
    known = indexed(db, entry)
    values = (stored(text), stored(thought) if thought else None, entry)
    db.execute("UPDATE entries SET text = ?, thought = ? WHERE id = ?", values)
    index(db, entry, words_of(text, thought), known)


def catch_up(db: sqlite3.Connection) -> None:
    """Let answers be found that were being written when specchat was killed, in a transaction. Should another specchat be
    writing one just now, it replaces the text when it is done."""
    for (id,) in db.execute("SELECT id FROM entries WHERE kind = 'answer' AND reason IS NULL AND indexed = 0").fetchall():
        text, thought = texts_of(parts_of(db, id))
        if text or thought:
            _write_text(db, id, text, thought)
