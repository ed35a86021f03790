"""The database's tables.

    chats    one row a chat, with the order of its entries and its variants
    entries  prompts, answers and notices, as in an export (docs/files.md); a branch has copies of those of its beginning
    parts    the runs of an answer in parts, each as it was flushed: zlib of JSON
    words    the full-text index of entries, by id
    sent     messages that were sent, for the up key
    drafts   unsent text, a row for each running specchat

The index is of trigrams, so that any part of a word is found, in code and in scripts without spaces too; unicode61 finds whole
words only. It keeps no positions (a sixth of the size): a candidate's text is looked at again.
"""

from __future__ import annotations

from ..text.cells import folded

VERSION = 7
"""The schema's version, in `PRAGMA user_version`."""

NEXT_TURN = "(SELECT coalesce(max(turn), 0) + 1 FROM chats)"
"""SQL for the new `turn` of a chat that changes."""

TABLES = frozenset({"chats", "entries", "parts", "words", "sent", "drafts"})


def stored(text: str) -> str:
    """Return a text without lone surrogates, which SQLite cannot store."""
    return text.encode("utf-8", "replace").decode()


def searchable(text: str) -> str:
    """Return the text as the index stores it."""
    # The tokenizer stops at a nul byte. With the spaces every character begins a trigram, so that short words are found too.
    return folded(stored(text.replace("\0", " "))) + "  "


SCHEMA = (
    """CREATE TABLE chats (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created REAL NOT NULL,  -- seconds since 1970, like every time here
        changed REAL NOT NULL,
        model TEXT NOT NULL,  -- its name, for the list
        answers INTEGER NOT NULL DEFAULT 0,  -- how many it has
        parent INTEGER REFERENCES chats (id) ON DELETE SET NULL,  -- the chat that it branched from
        deleted_at REAL,
        named INTEGER NOT NULL DEFAULT 0,  -- whether the user set the title: it stays when the first prompt changes
        turn INTEGER NOT NULL DEFAULT 0,  -- counts changes of all chats: clocks may be set back
        ways TEXT NOT NULL DEFAULT '[[], []]',  -- JSON: ids on the screen; of each fork (id before it, number shown, ids)
        about TEXT NOT NULL  -- JSON: model, settings, load, system, specchat (the version)
    )""",
    # For the list, their number and the next turn alike.
    "CREATE INDEX chats_by_turn ON chats (turn DESC, id DESC, deleted_at)",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        text TEXT,  -- NULL while an answer is being written, and once specchat was killed meanwhile
        key INTEGER,  -- of an answer's text, the same for the same text; NULL while it is being written
        json TEXT NOT NULL  -- all but an answer's runs and token texts
    )""",
    "CREATE INDEX entries_by_chat ON entries (chat)",
    "CREATE INDEX entries_open ON entries (id) WHERE text IS NULL",
    "CREATE INDEX entries_by_key ON entries (key) WHERE key IS NOT NULL",
    """CREATE TABLE parts (
        entry INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
        part INTEGER NOT NULL,
        json BLOB NOT NULL,
        PRIMARY KEY (entry, part)
    )""",
    "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'trigram', detail = 'none')",
    "CREATE TRIGGER entries_gone AFTER DELETE ON entries BEGIN DELETE FROM words WHERE rowid = old.id; END",
    "CREATE TABLE sent (id INTEGER PRIMARY KEY AUTOINCREMENT, json TEXT NOT NULL)",
    "CREATE TABLE drafts (id INTEGER PRIMARY KEY AUTOINCREMENT, json TEXT NOT NULL)",
)
