"""The parts of the docs that the code generates. `python -m specchat.tests.pages` writes them; a test compares them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from specchat.app.settings.fields import OPTIONS
from specchat.app.settings.keymap import GROUPS, every_way
from specchat.app.tui.actions.dispatch import COMMANDS
from specchat.engine.catalog import describe

DOCS = Path(__file__).resolve().parents[1] / "docs"


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the pages with generated tables, and their text."""
    methods = [f"| `{method['name']}` | {method['summary']} | {method['pays']} |" for method in describe()]
    settings = [f"| `{key}` | {option.help} | {option.when} |" for key, option in OPTIONS.items()]
    yield with_table("methods.md", "| method | what it does | when it pays |", methods)
    yield with_table("settings.md", "| setting | what it is | a change applies |", settings)
    keys = DOCS / "keys.md"
    yield keys, "\n".join((keys.read_text(encoding="utf-8").partition("\n## ")[0].rstrip(), *key_tables())) + "\n"


def with_table(name: str, head: str, rows: Sequence[str]) -> tuple[Path, str]:
    """Return a page and its text, with the rows below a table's head."""
    before, _, after = (DOCS / name).read_text(encoding="utf-8").partition(head)
    after = re.sub(r"^\n(\|.*\n)*", "", after)
    return DOCS / name, "\n".join((f"{before}{head}", "|---|---|---|", *rows, after))


def key_tables() -> Iterator[str]:
    for heading, keys in GROUPS.items():
        yield from (f"\n## {heading}\n", "| key | does | id |", "|---|---|---|")
        yield from (f"| {cell(every_way(key, {}))} | {cell(key.what)} | `{key.id}` |" for key in keys)
    yield from ("\n## Commands\n", "Tab completes a command and what follows it. Words in capitals stand for what you type.")
    yield from ("\n| command | does |", "|---|---|")
    yield from (f"| `/{cell(row.slash)}` | {cell(row.what)} |" for row in COMMANDS)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{page} is written\n")
