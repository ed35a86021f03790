"""The chats there are: listed, searched, opened, renamed, deleted."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any

from ...errors import UserError
from ..chat.entries import ChatEntry
from ..chat.transcript import Transcript
from ..chat.variants import Fork
from ..saved.capture import SavedChat
from ..text.cells import find_all, fit, folded, one_line, sanitise
from .schema import stored
from .store import Store, trouble
from .writing import TITLE_CELLS, ChatTrack, Row, read_row

THOUGHTS = "thought:"
"""Before what is searched for: what models thought is searched as well."""

BEFORE, AFTER = 40, 160
"""Characters of an excerpt before what was found, and from there on."""

MOST_TRIGRAMS = 24
"""Trigrams of a word looked for; more of them find nothing less."""

MOST_BEGINNINGS = 400
"""Trigrams that one or two letters may be the beginning of."""

_COLUMNS = "chats.id, title, created, changed, model, answers, parent, deleted_at"
_ENTRIES = f"""SELECT entries.id, entries.text, json, {_COLUMNS} FROM words CROSS JOIN entries ON entries.id = words.rowid
    CROSS JOIN chats ON chats.id = chat WHERE deleted_at IS NULL AND {{}} ORDER BY words.rowid DESC"""
_NEWEST = "deleted_at IS NULL ORDER BY turn DESC, id DESC"
_WORDS = re.compile(r'"([^"]+)"|(\S+)')


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A chat in the list. Texts are safe to show on one line."""

    id: int
    title: str
    created: float
    """Seconds since 1970, like `changed`."""
    changed: float
    model: str
    answers: int
    parent: int | None = None
    """The chat that it branched from."""
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ChatHit:
    """A chat that was searched for, and an excerpt: what stands before, what was found, what stands after."""

    chat: ChatRow
    excerpt: tuple[str, str, str]
    entry: int = 0
    """Number of the prompt or answer that has it; 0 for the title."""


@dataclass(slots=True)
class OpenedChat(SavedChat):
    """A chat out of the history."""

    id: int = 0
    title: str = ""
    damaged: int = 0
    """Answers of which only the text is left."""
    load: dict[str, Any] = field(default_factory=dict)
    """Options that its model was loaded with, where they are a chat's own."""
    found: tuple[ChatEntry, str] | None = None
    """The prompt or answer that was searched for, and what was found in it."""


@dataclass(slots=True)
class Chats:
    """The chats of a database: listed, searched, opened, renamed, deleted. Errors of SQLite pass through as they are."""

    store: Store

    def count(self) -> int:
        with self.store.lock:
            return int(self.store.db.execute("SELECT count(*) FROM chats WHERE deleted_at IS NULL").fetchone()[0])

    def newest(self, limit: int = 100) -> list[ChatRow]:
        """Chats, the last changed one first."""
        return self._rows(f"{_NEWEST} LIMIT ?", limit)

    def row(self, id: int) -> ChatRow:
        """A chat by its number, also a deleted one.

        Raises:
            UserError: there is none.
        """
        if not (rows := self._rows("id = ?", id)):
            raise UserError(f"There is no chat {id} in the history. `specchat chats list` shows them all.")
        return rows[0]

    def _rows(self, where: str, *values: object) -> list[ChatRow]:
        with self.store.lock:
            return [_row(row) for row in self.store.db.execute(f"SELECT {_COLUMNS} FROM chats WHERE {where}", values)]

    def search(self, text: str, limit: int = 50) -> list[ChatHit]:
        """Chats that have all the words of `text` in one prompt, answer or title, newest first. They are compared as
        `folded` has them, a part of a word is enough, and words in double quotes belong together. Behind `thought:` what models
        thought is searched as well."""
        text, thoughts = text.lstrip().removeprefix(THOUGHTS), text.lstrip().startswith(THOUGHTS)
        text = text.replace("\0", " ").encode("utf-8", "replace").decode()
        words = [folded(quoted or word) for quoted, word in _WORDS.findall(text) if (quoted or word).strip()]
        if not words:
            return []
        found: dict[int, ChatHit] = {}
        with self.store.lock:
            for row in self._rows(f"named AND {_NEWEST}"):
                if len(found) < limit and all(word in folded(row.title) for word in words):
                    found[row.id] = ChatHit(row, _excerpt(row.title, words[0]))
            where, *match = self._candidates(words)
            for entry, text, body, *columns in self.store.db.execute(_ENTRIES.format(where), match):
                if len(found) >= limit:
                    break
                if columns[0] in found:
                    continue
                thought = json.loads(body).get("thought", "") if thoughts else ""
                said = f"{text}\n{thought}" if thought else text
                whole = folded(said)
                if all(word in whole for word in words):
                    found[columns[0]] = ChatHit(_row(columns), _excerpt(said, words[0]), entry)
        return list(found.values())

    def _candidates(self, words: list[str]) -> tuple[str, ...]:
        """Build the SQL condition, and its value, for entries that may hold all the words."""
        trigrams = list(dict.fromkeys(word[i : i + 3] for word in words for i in range(len(word) - 2)))[:MOST_TRIGRAMS]
        link = " AND "
        if not trigrams:
            # Too short for the index by themselves: what begins with the longest of them.
            link, word = " OR ", max(words, key=len)
            self.store.db.execute("PRAGMA temp_store = MEMORY")
            self.store.db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.trigrams USING fts5vocab (main, words, row)")
            rows = self.store.db.execute(
                "SELECT term FROM trigrams WHERE term >= ? AND term < ? LIMIT ?",
                (word, word + "\U0010ffff", MOST_BEGINNINGS + 1),
            )
            trigrams = [term for (term,) in rows]
            if len(trigrams) > MOST_BEGINNINGS:  # so common that a look at the newest texts finds some soon
                return ("true",)
        return "words MATCH ?", link.join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams) or '""'

    def open(self, id: int, hit: ChatHit | None = None) -> OpenedChat:
        """A chat with its colours, figures and trees as they were; going on with it is saved in the same place.

        Args:
            hit: where in it something was found.

        Raises:
            UserError: there is none of that number.
        """
        shown = self.row(id)
        entries: dict[int, ChatEntry] = {}
        damaged = 0
        with self.store.lock:
            db = self.store.db
            db.execute("BEGIN")  # all of it as it is at one moment
            try:
                about, named, title, ways = db.execute(
                    "SELECT about, named, title, ways FROM chats WHERE id = ?", (id,)
                ).fetchone()
                for entry, *row in db.execute("SELECT id, text, json FROM entries WHERE chat = ?", (id,)):
                    entries[entry], whole = read_row(db, entry, *row)
                    damaged += not whole
            finally:
                db.execute("COMMIT")

        def present(ids: list[int]) -> list[ChatEntry]:
            return [entries[id] for id in ids if id in entries]  # one may have been removed by other means

        path, forks = json.loads(ways)
        body = json.loads(about)
        transcript = Transcript(present(path), body["system"] or None)
        for after, at, ends in forks:
            if after == 0 or after in entries:
                transcript.variants.put(Fork(entries.get(after), [*map(present, ends)], at))
        given = title if named else ""
        rows = {entry: Row(number) for number, entry in entries.items()}
        transcript.track = ChatTrack(id, given, given, len(path), rows=rows, ways=ways, identity=self.store.identity)
        return OpenedChat(
            transcript,
            body["model"],
            body["settings"],
            datetime.fromtimestamp(shown.changed).astimezone().isoformat(timespec="seconds"),
            body["specchat"],
            id=id,
            title=shown.title,
            damaged=damaged,
            load=body["load"],
            found=(entries[hit.entry], hit.excerpt[1]) if hit is not None and hit.entry in entries else None,
        )

    def latest(self) -> ChatRow:
        """The chat that was changed last.

        Raises:
            UserError: there is none.
        """
        if not (rows := self.newest(limit=1)):
            raise UserError("There are no chats in the history yet. Start one with `specchat`.")
        return rows[0]

    def titled(self, text: str) -> list[ChatRow]:
        """Chats whose title has `text` in it, newest first, or the one of just that title; else the one of that number."""
        wanted = folded(one_line(text))
        some = [row for row in self._rows(_NEWEST) if wanted in folded(row.title)]
        same = [row for row in some if folded(row.title) == wanted]
        if not some and text.isascii() and text.isdigit() and len(text) < 16:
            some = self._rows("deleted_at IS NULL AND id = ?", int(text))
        return same[:1] or some

    def rename(self, id: int, title: str) -> None:
        """Give a chat a title.

        Raises:
            UserError: it is empty, or there is no such chat.
        """
        short = clean_title(title)
        self.row(id)
        with self.store.transaction() as db:
            db.execute("UPDATE chats SET title = ?, named = 1 WHERE id = ?", (stored(short), id))

    def delete(self, id: int) -> None:
        """Take a chat out of the list; `undelete` brings it back for 30 days.

        Raises:
            UserError: there is no such chat.
        """
        self.row(id)
        with self.store.transaction() as db:
            db.execute("UPDATE chats SET deleted_at = ? WHERE id = ? AND deleted_at IS NULL", (time(), id))

    def undelete(self, id: int) -> None:
        """Bring a deleted chat back.

        Raises:
            UserError: there is no such chat.
        """
        self.row(id)
        with self.store.transaction() as db:
            db.execute("UPDATE chats SET deleted_at = NULL WHERE id = ?", (id,))

    def deleted(self) -> list[ChatRow]:
        """Chats that can be brought back, the last deleted one first."""
        return self._rows("deleted_at IS NOT NULL ORDER BY deleted_at DESC")


@contextmanager
def reading(path: Path | None = None, repair: bool = True) -> Iterator[Chats]:
    """The chats, for a moment. `repair` as in `Store`.

    Raises:
        UserError: they cannot be read; says why and what to do.
    """
    with Store(path, reading=True, repair=repair) as store:
        try:
            yield Chats(store)
        except sqlite3.Error as error:
            raise UserError(trouble(error, store.path)) from None


def clean_title(title: str) -> str:
    """A title as it is kept: on one line, not too long.

    Raises:
        UserError: nothing is left of it.
    """
    short = fit(one_line(title[:2000]), TITLE_CELLS)
    if not short:
        raise UserError("A title needs at least one character.")
    return short


def _row(row: Any) -> ChatRow:
    id, title, created, changed, model, answers, parent, deleted_at = row
    name, model = one_line(title), one_line(model)
    return ChatRow(id, name, created, changed, model, answers, parent, deleted_at is not None)


def _excerpt(text: str, word: str) -> tuple[str, str, str]:
    """What stands around the first place of a word, on one line."""
    start, end = next(find_all(text, word), (0, 0))
    end = min(end, start + AFTER)
    before, after = text[max(0, start - BEFORE) : start], text[end : start + AFTER]
    lead = "…" if start > BEFORE else ""
    return lead + _squeezed(before).lstrip(), _squeezed(text[start:end]), _squeezed(after).rstrip()


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", sanitise(text))
