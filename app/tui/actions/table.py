"""The table of actions as slash commands, and docs/keys.md, which `python -m specchat.app.tui.actions.table` writes."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ....errors import UserError, did_you_mean
from ...race.entry import split_prompt
from ...settings.actions import ACTIONS, Action
from ...settings.fields import SAMPLING
from ...settings.keymap import GROUPS, KeyBinding, every_way

COMMANDS = tuple(row for row in ACTIONS if row.slash)
"""Actions that are slash commands too."""

_NAMES = {name: row for row in COMMANDS for name in (row.command, *row.aliases)}

# `/etc/passwd` and `/ hello` are messages, not commands.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)?(?:\s+(.*))?", re.DOTALL)


def is_command(text: str) -> bool:
    return text.startswith("/") and "\n" not in text.strip() and _COMMAND.fullmatch(text.strip()) is not None


def command_of(name: str) -> Action | None:
    return _NAMES.get(name)


def parse(text: str) -> tuple[Action, list[str]]:
    """Split a line into its command and the words behind it.

    Raises:
        UserError: there is no such command (with the nearest), or a quote is not closed.
    """
    match = _COMMAND.fullmatch(text.strip())
    assert match is not None, "ask is_command first"
    name, rest = match[1] or "", match[2] or ""
    if name in SAMPLING:
        raise UserError(f"{name} is a setting: /set {name}={rest.strip() or '…'} changes it.")
    if name not in _NAMES:
        near = did_you_mean(f"/{name}", [f"/{command}" for command in _NAMES], "type / to see them all.")
        raise UserError(f"There is no command /{name}: {near}")
    row = _NAMES[name]
    # A prompt is no list of words: quotes in it are its own.
    if row.takes == "text":
        return row, [rest.strip()] if rest.strip() else []
    rest, colon, prompt = split_prompt(rest) if row.takes == "prompt" else (rest, "", "")
    try:
        return row, [*shlex.split(rest), *((":", prompt.strip()) if colon else ())]
    except ValueError:
        raise UserError(f"A quote is not closed in {text.strip()}. Close it, or leave it out.") from None


def matching(text: str) -> list[Action]:
    """List the commands that a line beginning with a slash may become."""
    if not is_command(text) and text != "/":
        return []
    name, space, _ = text[1:].partition(" ")
    if space:
        return [_NAMES[name]] if name in _NAMES else []
    return [row for row in COMMANDS if row.goes_by(name)]


def pairs(arguments: Sequence[str], usage: str) -> dict[str, str]:
    """Parse `key=value …`.

    Raises:
        UserError: something is not of that form.
    """
    for argument in arguments:
        if argument.find("=") < 1:
            raise UserError(f"{argument!r} is not of the form key=value: {usage}")
    return dict(argument.split("=", 1) for argument in arguments)


# docs/keys.md

PAGE = Path(__file__).resolve().parents[3] / "docs" / "keys.md"

HEAD = """# Keys and commands

Made by `python -m specchat.app.tui.actions.table` from `app/settings/actions.py` and `app/settings/keymap.py`.

You need to remember two keys: **F1** (or **?** in the empty input box) shows the keys that matter where you are and searches
everything else; **ctrl+o** waits for a letter and shows what each does. Every alt key and F key works that way too: ctrl+o,
then the letter of the alt key or the number of the F key. So nothing needs F keys, or alt, which macOS and xterm do not send by
default.

To change a key, name its id in the settings file (`specchat locate settings` prints where that is); several keys are a list.
The letters after ctrl+o have ids of their own.

```toml
[keymap]
next_method = "alt+n"
editor = ["alt+e", "f12"]
leader_models = "d"
```

In the chat, bare letters, digits and space always type.
"""


def page() -> str:
    parts = [HEAD]
    for heading, keys in GROUPS.items():
        parts.append(f"## {heading}\n\n" + "\n".join(_keys(keys)) + "\n")
    parts.append("## Commands\n\n" + "\n".join(_commands()) + "\n")
    return "\n".join(parts)


def _keys(keys: Iterable[KeyBinding]) -> Iterator[str]:
    yield "| key | does | id |"
    yield "|---|---|---|"
    for key in keys:
        yield f"| {_cell(every_way(key, {}))} | {_cell(key.what)} | `{key.id}` |"


def _commands() -> Iterator[str]:
    yield "Tab completes a command and what follows it. Words in capitals stand for what you type.\n"
    yield "| command | does |"
    yield "|---|---|"
    for row in COMMANDS:
        yield f"| `/{_cell(row.slash)}` | {_cell(row.what)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")
