"""Writes conversations into the history: those that it does not have yet, and what is new of those that it has."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any

from ..chat.entries import Answer, Notice
from ..chat.pieces import Pieces
from ..history.schema import loaded
from ..history.store import Store
from ..history.writing import TITLE_CELLS, Mark, Moment, Saved, Track, rows_of, write
from ..text.cells import fit, one_line
from .conversation import Conversation
from .layout import Way, ways
from .tree import Tree, kept_tree

BATCH_SECONDS = 0.25
"""A transaction is open for so long: another specchat waits meanwhile."""

MEMORY = """CREATE TABLE IF NOT EXISTS imported (
    key BLOB PRIMARY KEY,  -- of an entry where it came from
    entry INTEGER NOT NULL  -- its id here; it may be gone
) WITHOUT ROWID"""


@dataclass(slots=True)
class Tally:
    """How an import went."""

    chats: int = 0
    """New ones."""
    branches: int = 0
    """New ways of a chat beside the one that is shown."""
    continued: int = 0
    """Chats that had been imported and have gone on since."""
    known: int = 0
    """Conversations of which all was there already."""
    messages: int = 0
    """New prompts and answers."""
    missing: int = 0
    """Images and files in what is new, which only a mark tells of."""
    left_out: int = 0
    """Ways beyond the most that are kept of a chat."""
    origins: dict[str, int] = field(default_factory=dict)
    """How many conversations came from what."""

    def __bool__(self) -> bool:
        return bool(self.chats or self.branches or self.continued)


class Importer:
    """Takes conversations in. Use as a context manager: what is written stays, also when it ends with an exception.

    Args:
        store: the history; None for a dry run where there is none yet.
        dry: count, and write nothing.
    """

    def __init__(self, store: Store | None, dry: bool = False) -> None:
        self.store, self.dry = store, dry
        self.tally = Tally()
        self._seen: set[bytes] = set()  # of a dry run: keys of what would be there by now
        self._since = 0.0
        self._remembers = False
        if store is not None:
            if dry:
                found = store.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'imported'").fetchone()
                self._remembers = found is not None
            else:
                with store.transaction() as db:
                    db.execute(MEMORY)
                self._remembers = True

    def __enter__(self) -> Importer:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.flush()
        except sqlite3.Error:
            if kind is None:
                raise

    def flush(self) -> None:
        """End the transaction that is open."""
        if self.store is not None and self.store.db.in_transaction and not self.dry:
            self.store.db.execute("COMMIT")

    def rest(self) -> None:
        """End it if it has been open for long."""
        if monotonic() - self._since > BATCH_SECONDS:
            self.flush()

    def take(self, conversation: Conversation, otherwise: float | None = None) -> None:
        """Take in a conversation.

        Args:
            conversation: it.
            otherwise: when it was where it says nothing of that, in seconds since 1970.

        Raises:
            sqlite3.Error: the history cannot be written; what came before is in it.
        """
        tally = self.tally
        tally.left_out += conversation.left_out
        tally.origins[conversation.origin] = tally.origins.get(conversation.origin, 0) + 1
        created = conversation.created or conversation.changed or otherwise or time()
        changed = max(conversation.changed or created, created)
        with self._open():
            some = list(ways(conversation))
            known = self._known(some)
            unknown = {item.key for way in some for item in way.items} - known.keys()
            if not unknown:
                tally.known += 1
                return
            new = {item.key: item for way in some for item in way.items if item.key in unknown}
            grown = any(known.values()) if self.dry else self._write(conversation, some, known, created, changed)
            self._seen |= unknown if self.dry else set()
            tally.messages += sum(not isinstance(item.entry, Notice) for item in new.values())
            tally.missing += sum(item.missing for item in new.values())
            tally.branches += sum(way.items[-1].key in unknown for way in some[1:])
            if grown:
                tally.continued += 1
            else:
                tally.chats += 1

    def _open(self) -> _Written:
        return _Written(self)

    def begin(self) -> None:
        """Begin a transaction if none is open, or a new one after a while."""
        if self.store is None or self.dry:
            return
        self.rest()
        if not self.store.db.in_transaction:
            self.store.db.execute("BEGIN IMMEDIATE")
            self._since = monotonic()

    def _known(self, some: Sequence[Way]) -> dict[bytes, int]:
        """Ids of the entries that have been imported before, by their keys; 0 for one that is there no longer."""
        found: dict[bytes, int] = {}
        for key in {item.key for way in some for item in way.items}:
            row = None
            if self._remembers:
                assert self.store is not None
                row = self.store.db.execute(
                    "SELECT coalesce(entries.id, 0) FROM imported LEFT JOIN entries ON entries.id = entry WHERE key = ?", (key,)
                ).fetchone()
            if row or key in self._seen:
                found[key] = row[0] if row else 1
        return found

    def _write(
        self, conversation: Conversation, some: Sequence[Way], known: Mapping[bytes, int], created: float, changed: float
    ) -> bool:
        """Write what is new of a conversation; whether its chat had been there before."""
        assert self.store is not None
        db = self.store.db
        chat = self._chat_with([entry for entry in known.values() if entry])
        title = _line(conversation.title)
        tree, track, system = Tree(), Track(title=title, known_title=title), some[0].system
        gone, before = None, 0.0
        if chat is not None:
            rows = rows_of(db, chat)
            tree, entries = kept_tree(db, rows, {entry: key for key, entry in known.items() if entry})
            saved = [Saved(entry, id) for id, entry in entries.items()]
            track = Track(chat, saved=saved, rows=rows, identity=self.store.identity)
            gone, before, kept = db.execute("SELECT deleted_at, changed, system FROM chats WHERE id = ?", (chat,)).fetchone()
            system = loaded(kept)
        items = {id(entry): item for way in some for item, entry in tree.add(way.items)}
        written = write(db, _moment(conversation, tree, system, track), self.store.identity)
        if chat is None:
            db.execute("UPDATE chats SET created = ? WHERE id = ?", (created, written.chat))
        db.execute("UPDATE chats SET changed = max(?, ?), deleted_at = ? WHERE id = ?", (changed, before, gone, written.chat))
        for each in written.saved:
            if (item := items.get(id(each.entry))) is not None:
                db.execute("UPDATE entries SET created = ? WHERE id = ?", (item.at or created, each.id))
                db.execute("INSERT OR REPLACE INTO imported VALUES (?, ?)", (item.key, each.id))
        return chat is not None

    def _chat_with(self, entries: Sequence[int]) -> int | None:
        """The chat that has some entries, the first one if several share them."""
        assert self.store is not None
        for entry in entries:
            (chat,) = self.store.db.execute(
                "SELECT min(chat) FROM (SELECT chat FROM places WHERE entry = ?1 UNION SELECT chat FROM ends WHERE entry = ?1)",
                (entry,),
            ).fetchone()
            if chat is not None:
                return int(chat)
        return None


class _Written:
    """All of a conversation or nothing, within a transaction that others share."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer

    def __enter__(self) -> None:
        self._importer.begin()
        self._do("SAVEPOINT conversation")

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:
            self._do("ROLLBACK TO conversation")
        self._do("RELEASE conversation")

    def _do(self, statement: str) -> None:
        store = self._importer.store
        if store is None or self._importer.dry:
            return
        try:
            if store.db.in_transaction:  # a full disk rolls back by itself
                store.db.execute(statement)
        except sqlite3.Error:
            if statement.startswith("SAVEPOINT"):
                raise


def _moment(conversation: Conversation, tree: Tree, system: str, track: Track) -> Moment:
    from ... import __version__

    entries, forks, saved = tree.path(), tree.forks(), conversation.saved
    every = [*entries, *(entry for fork in forks for number, end in enumerate(fork.ends) if number != fork.at for entry in end)]
    name = _line(saved.model_name if saved is not None else conversation.model)
    return Moment(
        track=track,
        entries=entries,
        forks=forks,
        marks={id(entry): _mark(entry) for entry in every if isinstance(entry, Answer)},
        title=track.title,
        model=name,
        system=system or None,
        about={
            # No `asked`: the name is of no model that could be loaded here.
            "model": saved.model if saved is not None else {"name": name},
            "settings": saved.settings if saved is not None else {},
            "specchat": saved.version if saved is not None else __version__,
            "imported": conversation.origin,
        },
        pieces=saved.pieces if saved is not None else Pieces(),
    )


def _mark(answer: Answer) -> Mark:
    return Mark(len(answer.runs), min(len(answer.runs), len(answer.log)), answer.reason, answer.figures)


def _line(text: str) -> str:
    return fit(one_line(text[:2000]), TITLE_CELLS)
