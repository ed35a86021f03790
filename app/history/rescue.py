"""What can be read of another history: a damaged file, or one that an older specchat wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from .schema import SCHEMA, TABLES, VERSION, index, loaded, words_of


def begin(db: sqlite3.Connection) -> None:
    """Make the tables of a history, in a transaction."""
    for statement in SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def readable(path: Path) -> Iterator[sqlite3.Connection]:
    """A history to read from."""
    # Where nothing waits to be written into it, no other files are made beside it.
    how = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)) as db:
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        yield db


def carry(old: sqlite3.Connection, new: sqlite3.Connection) -> tuple[int, int]:
    """Copy each chat that can be read, as far as it can be.

    Args:
        old: of any version; a file that is no database has no chats.
        new: has its tables and no rows, and is in a transaction.

    Returns:
        the old one's version (0 where it cannot be read), and how many chats were copied.

    Raises:
        sqlite3.Error: the new one cannot be written.
    """
    columns = {table: _columns(old, new, table) for table in TABLES}
    chats: set[int] = set()
    entries: set[int] = set()

    def rows(table: str, column: str, value: int) -> Iterator[dict[str, Any]]:
        if column in (names := columns[table]):
            for row in _read(old, f"SELECT {', '.join(names)} FROM {table} WHERE {column} = ?", value):
                yield dict(zip(names, row, strict=True))

    for id in _ids(old):
        for row in rows("chats", "id", id):
            _insert(new, "chats", row | {"parent": row.get("parent") if row.get("parent") in chats else None})
            chats.add(id)
    for id in sorted(chats):
        ways = {table: list(rows(table, "chat", id)) for table in ("places", "forks", "ends")}
        for entry in {row["entry"] for table in ("places", "ends") for row in ways[table]} - entries:
            for row in rows("entries", "id", entry):
                entries.add(entry)
                _insert(new, "entries", row | {"indexed": 0})
                index(new, entry, words_of(loaded(row["text"]), loaded(row.get("thought"))))
                for data in rows("steps", "entry", entry):
                    _insert(new, "steps", data)
        for table, found in ways.items():
            for row in found:
                if table == "forks" or row["entry"] in entries:
                    _insert(new, table, row)
    new.execute(
        "UPDATE chats SET answers = (SELECT count(*) FROM places JOIN entries ON entries.id = entry"
        " WHERE chat = chats.id AND kind = 'answer')"
    )
    (version,) = next(_read(old, "PRAGMA user_version"), (0,))
    return version, len(chats)


def _ids(old: sqlite3.Connection) -> list[int]:
    """The chats that there are: from the first on and from the last back, up to where the file is damaged."""
    found: set[int] = set()
    for order in ("ASC", "DESC"):
        found.update(row[0] for row in _read(old, f"SELECT id FROM chats ORDER BY id {order}"))
    return sorted(id for id in found if isinstance(id, int))


def _columns(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table that both histories know."""
    known = {name for _, name, *_ in _read(old, f"PRAGMA table_info ({table})")}
    return [name for _, name, *_ in new.execute(f"PRAGMA table_info ({table})") if name in known]


def _read(old: sqlite3.Connection, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
    """What a query finds before it comes to damage."""
    try:
        yield from old.execute(query, values)
    except sqlite3.DatabaseError:
        return


def _insert(new: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    signs = ", ".join("?" * len(row))
    new.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({signs})", tuple(row.values()))
