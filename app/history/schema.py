"""What is in the database.

    chats    one row a chat
    places   which entries are on a chat's screen, in order: a branch shares those of its beginning
    forks    after which entries a chat went on in several ways, and which of them is on the screen
    ends     the entries of the other ways, in order
    entries  prompts, answers and notices; an answer's text and thought are there when it is finished
    steps    the runs of an answer in parts, each as it was flushed: zlib of JSON as docs/files.md describes it
    words    the full-text index of entries, by id

The index is of trigrams, so that any part of a word is found, in code and in scripts without spaces too; unicode61 finds whole
words only. It keeps neither texts nor positions (a sixth of the size): a candidate's text is looked at again.
"""

from __future__ import annotations

import sqlite3

from ..text.cells import folded

VERSION = 6
"""The schema's version, as `PRAGMA user_version` has it."""

NEXT_TURN = "(SELECT coalesce(max(turn), 0) + 1 FROM chats)"
"""What `turn` becomes in a chat that changes."""

TABLES = frozenset({"chats", "places", "forks", "ends", "entries", "steps", "words"})


def stored(text: str) -> str:
    """A text as SQLite can hold it: without lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def loaded(text: str | bytes | None) -> str:
    """A text from the database; it may have some as bytes."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""


def searchable(text: str) -> str:
    """What the index gets of a text. It must stay the same for as long as VERSION does: an entry is taken out of the index by
    telling it the text that went in."""
    # The tokenizer stops at a nul byte. With the spaces every character begins a trigram, so that short words are found too.
    return folded(stored(text.replace("\0", " "))) + "  "


SCHEMA = (
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,  -- seconds since 1970, like every time here
        changed REAL NOT NULL,
        model TEXT NOT NULL,  -- its name, for the list
        system TEXT,
        about TEXT NOT NULL,  -- JSON: model, settings, specchat (the version)
        parent INTEGER REFERENCES chats (id) ON DELETE SET NULL,  -- the chat that it branched from
        deleted_at REAL,
        named INTEGER NOT NULL DEFAULT 0,  -- a title that was given stays when the first prompt changes
        answers INTEGER NOT NULL DEFAULT 0,  -- how many it has
        turn INTEGER NOT NULL DEFAULT 0  -- counts changes of all chats: clocks may be set back
    )""",
    "CREATE INDEX chats_by_turn ON chats (turn DESC, id DESC) WHERE deleted_at IS NULL",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,  -- prompt, answer or notice
        created REAL NOT NULL,
        text TEXT,
        severity TEXT,  -- of a notice
        method TEXT,  -- of an answer, like all that follows
        label TEXT,
        reason TEXT,  -- NULL while it is being written, and for ever if specchat was killed meanwhile
        figures TEXT,  -- JSON
        indexed INTEGER NOT NULL DEFAULT 0,  -- characters that the index knows of text and thought: they are there or not
        thought TEXT,  -- NULL where there is none
        asked TEXT  -- JSON: model, method, settings, sampling, accept, max_tokens, stop
    )""",
    "CREATE INDEX entries_open ON entries (id) WHERE kind = 'answer' AND reason IS NULL",
    """CREATE TABLE places (
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries (id),
        PRIMARY KEY (chat, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX places_by_entry ON places (entry)",
    """CREATE TABLE forks (
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        after INTEGER NOT NULL,  -- the entry before it; 0: the beginning
        shown INTEGER NOT NULL,  -- number of the end on the screen, whose entries are in places (or with their own fork)
        PRIMARY KEY (chat, after)
    ) WITHOUT ROWID""",
    """CREATE TABLE ends (
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        after INTEGER NOT NULL,
        number INTEGER NOT NULL,  -- from 0, in the order in which they were written
        position INTEGER NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries (id),
        PRIMARY KEY (chat, after, number, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX ends_by_entry ON ends (entry)",
    """CREATE TABLE steps (
        entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
        part INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (entry, part)
    )""",
    "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = 'trigram', detail = 'none')",
)


def words_of(text: str, thought: str) -> str:
    """What the index gets of an entry: thoughts are found too, by those who look for them."""
    return f"{text}\n{thought}" if thought else text


def indexed(db: sqlite3.Connection, entry: int) -> str:
    """What the index has of an entry."""
    text, thought, length = db.execute("SELECT text, thought, indexed FROM entries WHERE id = ?", (entry,)).fetchone()
    return words_of(loaded(text), loaded(thought))[:length]


def index(db: sqlite3.Connection, entry: int, text: str, known: str = "") -> None:
    """Let an entry be found by its text.

    Args:
        text: all of it, as `words_of` puts it.
        known: the text that the index has of it so far.
    """
    if known:
        db.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (entry, searchable(known)))
    if text:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (entry, searchable(text)))
    db.execute("UPDATE entries SET indexed = ? WHERE id = ?", (len(text), entry))
