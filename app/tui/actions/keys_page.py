"""docs/keys.md, made of the tables of keys and commands: `python -m specchat.app.tui.actions.keys_page` writes it, a test
compares it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...settings.keymap import GROUPS, Key, spell
from .table import COMMANDS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "keys.md"

HEAD = """# Keys and commands

Made by `python -m specchat.app.tui.actions.keys_page` from `app/settings/keymap.py` and `app/tui/actions/table.py`.

A key is changed in the settings file by its id; several keys are a list. `specchat locate settings` says where the file is.

```toml
[keymap]
next_method = "alt+n"
editor = ["alt+e", "f12"]
```

In the chat, bare letters, digits and space always type. On a Mac the terminal must send alt (Terminal: *Use Option as Meta
key*).
"""


def page() -> str:
    """The page's text."""
    parts = [HEAD]
    for heading, keys in GROUPS.items():
        parts.append(f"## {heading}\n\n" + "\n".join(_keys(keys)) + "\n")
    parts.append("## Commands\n\n" + "\n".join(_commands()) + "\n")
    return "\n".join(parts)


def _keys(keys: Iterable[Key]) -> Iterator[str]:
    yield "| key | does | id |"
    yield "|---|---|---|"
    for key in keys:
        yield f"| {_cell(spell(key.keys))} | {_cell(key.what)} | `{key.id}` |"


def _commands() -> Iterator[str]:
    yield "Tab completes a command and what follows it. Words in capitals stand for what you type.\n"
    yield "| command | does |"
    yield "|---|---|"
    for command in COMMANDS:
        yield f"| `{_cell(f'/{command.name} {command.arguments}'.strip())}` | {_cell(command.what)} |"


def _cell(text: str) -> str:
    """A text in a cell of a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")
