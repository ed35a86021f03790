"""The chats of the history: list, search, open, continue, rename, delete."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from time import time
from typing import Any

from ...engine.options import ANSWERING
from ...errors import UserError
from ..chat.about import LOADED_WITH
from ..chat.entries import ChatEntry
from ..chat.transcript import Fork, Transcript
from ..saved.chat_json import SavedChat
from ..settings.fields import Settings, checked
from ..settings.precedence import layers_of
from ..text.cells import find_all, fit, folded, one_line, sanitise
from .recorder import TITLE_CELLS, ChatTrack, Row, Written, read_row
from .store import Store, searchable, stored, trouble

BEFORE, AFTER = 40, 160
"""Characters of an excerpt before the match, and from its start on."""

MOST = 24
"""Most words of a query that are searched for, and trigrams that the index is asked for; more would exclude nothing else."""

_COLUMNS = "chats.id, title, created, changed, model, answers, deleted_at"
_ENTRIES = f"""SELECT entries.id, entries.text, {_COLUMNS} FROM words CROSS JOIN entries ON entries.id = words.rowid
    CROSS JOIN chats ON chats.id = chat WHERE {{}} deleted_at IS NULL ORDER BY words.rowid DESC"""
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
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class ChatHit:
    """A search result, with an excerpt: the text before the match, the match, the text after it."""

    chat: ChatRow
    excerpt: tuple[str, str, str]
    entry: int = 0
    """Id of the prompt or answer that matches; 0 for the title."""


@dataclass(slots=True)
class OpenedChat(SavedChat):
    """A chat from the history."""

    id: int = 0
    title: str = ""
    load: dict[str, Any] = field(default_factory=dict)
    """The chat's own options of its model's load."""
    match: tuple[ChatEntry, str] | None = None
    """The prompt or answer that was searched for, and the text that matches."""


@dataclass(slots=True)
class Chats:
    """The chats of a database. SQLite's errors pass through."""

    store: Store

    def count(self) -> int:
        with self.store.lock:
            return int(self.store.db.execute("SELECT count(*) FROM chats WHERE deleted_at IS NULL").fetchone()[0])

    def newest(self, limit: int = 100) -> list[ChatRow]:
        """List the chats, the last changed one first."""
        return self._rows(f"{_NEWEST} LIMIT ?", limit)

    def row(self, id: int) -> ChatRow:
        """Return a chat by its id, also a deleted one.

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
        """Find the chats with all the words of `text` in one prompt, answer or title, newest first. Words are compared as
        `searchable` has them, a part of one is enough, and words in double quotes belong together."""
        words = [searchable(quoted or word) for quoted, word in _WORDS.findall(text)]
        words = [word for word in words if word.strip()][:MOST]
        if not words:
            return []
        hits: dict[int, ChatHit] = {}
        with self.store.lock:
            for row in self._rows(f"named AND {_NEWEST}"):
                if len(hits) < limit and all(word in folded(row.title) for word in words):
                    hits[row.id] = ChatHit(row, _excerpt(row.title, words[0]))
            trigrams = [word[i : i + 3].replace('"', '""') for word in words for i in range(len(word) - 2)][:MOST]
            # Without a trigram, all texts are looked through, the newest first.
            match = [" AND ".join(f'"{trigram}"' for trigram in trigrams)] if trigrams else []
            query = _ENTRIES.format("words MATCH ? AND " * len(match) + "instr(words.text, ?) AND " * len(words))
            for entry, text, *columns in self.store.db.execute(query, match + words):
                if len(hits) >= limit:
                    break
                if columns[0] not in hits:
                    hits[columns[0]] = ChatHit(_row(columns), _excerpt(text, words[0]), entry)
        return list(hits.values())

    def open(self, id: int, hit: ChatHit | None = None) -> OpenedChat:
        """Open a chat, to which a search result may have led, with its colours, figures and trees; later changes are saved in
        the same place.

        Raises:
            UserError: there is no chat with this id.
        """
        row = self.row(id)
        entries: dict[int, ChatEntry] = {}
        with self.store.lock:
            db = self.store.db
            db.execute("BEGIN")  # one consistent state
            try:
                columns = "SELECT about, named, title, ways FROM chats WHERE id = ?"
                about, named, title, order = db.execute(columns, (id,)).fetchone()
                for entry, text, head in db.execute("SELECT id, text, json FROM entries WHERE chat = ?", (id,)):
                    entries[entry] = read_row(db, entry, text, head)
            finally:
                db.execute("COMMIT")

        def present(ids: list[int]) -> list[ChatEntry]:
            return [entries[id] for id in ids if id in entries]  # other programs may have removed one

        path, forks = json.loads(order)
        body = json.loads(about)
        transcript = Transcript(present(path), body["system"] or None)
        for after, at, ends in forks:
            if after == 0 or after in entries:
                transcript.forks[entries.get(after)] = Fork(entries.get(after), [*map(present, ends)], at)
        own_title = title if named else ""
        rows = {entry: Row(number) for number, entry in entries.items()}
        transcript.track = ChatTrack(own_title, len(path), Written(id, own_title, rows, order, self.store.identity))
        return OpenedChat(
            transcript,
            body["model"],
            body["settings"],
            datetime.fromtimestamp(row.changed).astimezone().isoformat(timespec="seconds"),
            body["specchat"],
            id=id,
            title=row.title,
            load=body["load"],
            match=(entries[hit.entry], hit.excerpt[1]) if hit is not None and hit.entry in entries else None,
        )

    def find(self, text: str | None = None, deleted: bool = False) -> ChatRow:
        """Find the chat (or the `deleted` one) with a number, with a title, or with a part of its title; None for the one that
        was changed last.

        Raises:
            UserError: there is none, or there are several.
        """
        rows = self.deleted() if deleted else self._rows(_NEWEST if text is not None else f"{_NEWEST} LIMIT 1")
        if text is None:
            if not rows:
                raise UserError("There are no chats in the history yet. Start one with `specchat`.")
            return rows[0]
        part = folded(one_line(text))
        numbered = [row for row in rows if str(row.id) == part]
        exact = [row for row in rows if folded(row.title) == part]
        rows = numbered or exact[:1] or [row for row in rows if part in folded(row.title)]
        if not rows:
            raise UserError(f"No chat is called {one_line(text)!r}. `specchat chats list` shows their numbers and titles.")
        if len(rows) > 1:
            numbers = ", ".join(str(row.id) for row in rows[:8]) + (", …" if len(rows) > 8 else "")
            raise UserError(
                f"{len(rows)} chats have {one_line(text)!r} in their title. Give the number of one of them ({numbers})."
            )
        return rows[0]

    def rename(self, id: int, title: str) -> None:
        """Give a chat a title.

        Raises:
            UserError: it is empty, or there is no such chat.
        """
        self._change(id, "title = ?, named = 1", stored(clean_title(title)))

    def delete(self, id: int) -> None:
        """Delete a chat; `undelete` brings it back for 30 days. Raises a UserError as `row`."""
        self._change(id, "deleted_at = coalesce(deleted_at, ?)", time())

    def undelete(self, id: int) -> None:
        """Bring a deleted chat back. Raises a UserError as `row`."""
        self._change(id, "deleted_at = NULL")

    def _change(self, id: int, change: str, *values: object) -> None:
        self.row(id)
        with self.store.transaction() as db:
            db.execute(f"UPDATE chats SET {change} WHERE id = ?", (*values, id))

    def deleted(self) -> list[ChatRow]:
        """List the chats that can be brought back, the last deleted one first."""
        return self._rows("deleted_at IS NOT NULL ORDER BY deleted_at DESC")


@contextmanager
def reading(path: Path | None = None, repair: bool = True) -> Iterator[Chats]:
    """Open the history for reading. `repair` as in `Store`.

    Raises:
        UserError: it cannot be read; says why and what to do.
    """
    with Store(path, repair=repair) as store:
        try:
            yield Chats(store)
        except sqlite3.Error as error:
            raise UserError(trouble(error, store.path)) from None


def clean_title(title: str) -> str:
    """Return a title on one line, cut to TITLE_CELLS.

    Raises:
        UserError: nothing is left of it.
    """
    short = fit(one_line(title[:2000]), TITLE_CELLS)
    if not short:
        raise UserError("A title needs at least one character.")
    return short


def _row(row: Any) -> ChatRow:
    id, title, created, changed, model, answers, deleted_at = row
    return ChatRow(id, one_line(title), created, changed, one_line(model), answers=answers, deleted=deleted_at is not None)


def _excerpt(text: str, word: str) -> tuple[str, str, str]:
    """Return the text around the first match of a word, on one line."""
    start, end = next(find_all(text, word), (0, 0))
    end = min(end, start + AFTER)
    parts = (text[max(0, start - BEFORE) : start], text[start:end], text[end : start + AFTER])
    before, match, after = (re.sub(r"\s+", " ", sanitise(part)) for part in parts)
    return "…" * (start > BEFORE) + before.lstrip(), match, after.rstrip()


def chat_settings(opened: OpenedChat) -> dict[str, Any]:
    """Return a chat's own settings by dotted keys, without invalid ones."""
    body = opened.settings
    values = {name: body.get(name) for name in ("method", *ANSWERING)}
    for name, table in {**body.get("methods", {}), "sampling": body.get("sampling", {})}.items():
        above = "sampling" if name == "sampling" else f"methods.{name}"
        values |= {f"{above}.{key}": value for key, value in table.items()}
    out = {}
    for key, value in values.items():
        if value is not None:
            with suppress(UserError):  # written by another version of specchat
                out[key] = checked(key, value)
    return out


def chat_model(opened: OpenedChat) -> tuple[str, dict[str, Any]]:
    """Return a chat's model as the user named it (empty if unknown), and its options at the load."""
    options = {name: opened.load[name] for name in LOADED_WITH if name in opened.load}
    if "draft_model" in options:
        options["draft_model"] = tuple(options["draft_model"])
    return opened.model.get("asked", ""), options


def resume_settings(settings: Settings, opened: OpenedChat, options: Collection[str] = ()) -> Settings:
    """Return the settings with which a chat continues; `options`, the keys of those on the command line, override its own."""
    layers = layers_of(settings)
    model, load = chat_model(opened)
    if not model or "model" in options:
        model = settings.model
        load = {name: getattr(settings, name) for name in LOADED_WITH}
    overridden = {*options, *(layers.preset if "preset" in options else ())}
    # A system prompt set by hand stays in the settings, for new chats; the opened chat has its own in its transcript.
    system = {key: value for key, value in layers.chat.items() if key == "system"}
    values = system | {key: value for key, value in chat_settings(opened).items() if key not in overridden}
    merged = replace(layers, chat=values, model=model).settings()
    loading = {name: load.get(name, getattr(Settings(), name)) for name in LOADED_WITH if name not in options}
    return replace(merged, model=model, **loading)
