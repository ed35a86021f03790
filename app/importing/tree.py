"""All ways of a chat as a tree of entries: what is imported is hung into it, what is there stays where it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..chat.entries import Answer, Entry, Notice, Prompt
from ..chat.variants import Fork
from ..history.writing import Rows
from .layout import Item


@dataclass(slots=True)
class Tree:
    """Entries by the one before them (its `id`; 0 at the beginning)."""

    children: dict[int, list[Entry]] = field(default_factory=dict)
    """In the order in which they were written."""
    shown: dict[int, Entry] = field(default_factory=dict)
    """Which of them is on the screen, or would be if that part was."""
    keys: dict[int, bytes] = field(default_factory=dict)
    """By what imported entries are known again, by their `id`."""

    def add(self, items: Sequence[Item]) -> list[tuple[Item, Entry]]:
        """Hang a way into the tree; what is new of it."""
        new: list[tuple[Item, Entry]] = []
        node = 0
        for item in items:
            here = self.children.setdefault(node, [])
            entry = next((child for child in here if self.keys.get(id(child)) == item.key), None)
            if entry is None:
                entry = item.entry
                here.append(entry)
                self.keys[id(entry)] = item.key
                self.shown.setdefault(node, entry)
                new.append((item, entry))
            node = id(entry)
        return new

    def path(self, start: Entry | None = None) -> list[Entry]:
        """What is shown from an entry on, or from the beginning."""
        out = [] if start is None else [start]
        node = 0 if start is None else id(start)
        while node in self.shown:
            out.append(self.shown[node])
            node = id(out[-1])
        return out

    def forks(self) -> list[Fork]:
        """Where the chat went on in several ways."""
        entries = {id(entry): entry for here in self.children.values() for entry in here}
        found = []
        for node, here in self.children.items():
            shown = self.shown.get(node)
            if len(here) < 2 and (shown is not None or not here):
                continue
            ends = [[] if child is shown else self.path(child) for child in here]
            at = next((i for i, child in enumerate(here) if child is shown), len(here))
            found.append(Fork(entries.get(node), ends if at < len(here) else [*ends, []], at))
        return found


def kept_tree(db: sqlite3.Connection, rows: Rows, keys: Mapping[int, bytes]) -> tuple[Tree, dict[int, Entry]]:
    """The tree of a chat in the history, without its texts; and its entries by their ids.

    Args:
        db: the history.
        rows: the chat's.
        keys: of imported entries, by their ids.
    """
    entries: dict[int, Entry] = {}
    for entry_id in (*rows.path, *(end[-1] for end in rows.ends)):
        (kind,) = db.execute("SELECT kind FROM entries WHERE id = ?", (entry_id,)).fetchone()
        blank: Entry = Prompt("") if kind == "prompt" else Answer("", "") if kind == "answer" else Notice("")
        entries[entry_id] = blank
    tree = Tree(keys={id(entries[entry_id]): key for entry_id, key in keys.items() if entry_id in entries})
    firsts: dict[int, dict[int, Entry]] = {}  # of the ends after an entry, by number
    chain(tree, [entries[entry_id] for entry_id in rows.path], 0)
    ends: dict[tuple[int, int], list[Entry]] = {}
    for after, number, _, entry_id in rows.ends:
        ends.setdefault((after, number), []).append(entries[entry_id])
    for (after, number), end in ends.items():
        firsts.setdefault(after, {})[number] = end[0]
        chain(tree, end[1:], id(end[0]))
    for after, shown in rows.forks:
        node = id(entries[after]) if after in entries else 0
        here = dict(firsts.get(after, {}))
        if node in tree.shown:
            here[shown] = tree.shown[node]
        tree.children[node] = [here[number] for number in sorted(here)]
    return tree, entries


def chain(tree: Tree, entries: Sequence[Entry], node: int) -> None:
    """Hang entries one below the other, the first below a node."""
    for entry in entries:
        tree.children[node] = [entry]
        tree.shown[node] = entry
        node = id(entry)
