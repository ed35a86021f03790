"""Slash commands: their table, and how a line is read. What they do is the screen's business."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from ....errors import UserError, did_you_mean
from ...race.entry import split_prompt


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """One command: its name without the slash, its arguments as shown, and what it does."""

    name: str
    arguments: str
    what: str


COMMANDS = (
    SlashCommand("help", "", "keys, commands and methods"),
    SlashCommand("method", "NAME key=value …", "switch the decoding method, also in the middle of an answer"),
    SlashCommand("model", "NAME", "load another model: builtin, a folder, or owner/name on the Hub"),
    SlashCommand("models", "TEXT", "models here and on the Hub, what fits, who drafts for whom; owner/name asks the Hub"),
    SlashCommand(
        "set",
        "temperature=0.7 …",
        "sampling and limits: temperature, top_k, top_p, seed, accept, max_tokens, …",
    ),
    SlashCommand("system", "TEXT", 'the system prompt of this chat; alone, write it in a screen; "" empties it'),
    SlashCommand("preset", "NAME|save NAME|edit|delete|undo|none", "system prompt, method, sampling and limits under a name"),
    SlashCommand("settings", "TEXT", "every setting: value, default, where it comes from; with a text, those that have it"),
    SlashCommand("panel", "numbers|tree|method|off", "open a page of the side panel, or close it"),
    SlashCommand("race", "METHOD METHOD@MODEL … : PROMPT", "race two to four methods or models; all of it may be left out"),
    SlashCommand("races", "N", "races that were run in this chat: open one again"),
    SlashCommand("edit", "N", "write your last message anew, or number N; the chat as it was stays a variant"),
    SlashCommand("retry", "METHOD key=value …", "answer again with the next method or this one, beside the first answer"),
    SlashCommand("regenerate", "new|seed=N", "answer again with the same settings and seed, or with a new seed"),
    SlashCommand("undo", "", "take back your last message and its answer; they stay a variant"),
    SlashCommand("pause", "", "pause the answer, or let it go on; without one, the next begins paused"),
    SlashCommand("step", "N", "take one step of the answer, or N, and pause after it"),
    SlashCommand("markdown", "", "show finished answers as Markdown, or their runs again"),
    SlashCommand("theme", "NAME", "change the colours"),
    SlashCommand("colours", "cycle|heat|underline|off", "how runs are told apart: in turn, by length, by lines, not at all"),
    SlashCommand("copy", "code [N]|run|message|chat", "copy the last answer, or one of these"),
    SlashCommand("editor", "", "write the draft in your editor"),
    SlashCommand("export", "html|svg|md|json|FILE [!]", "save the chat; ! overwrites"),
    SlashCommand("open", "FILE.json", "open a chat that was saved as JSON"),
    SlashCommand("chats", "TEXT", "your chats: search, open, rename, delete; with a text, those that have it"),
    SlashCommand("rename", "TITLE", "give this chat a title"),
    SlashCommand("branch", "TITLE", "go on in a new chat that shares this one's beginning"),
    SlashCommand("clear", "", "start a new chat"),
    SlashCommand("quit", "", "leave"),
)

_NAMES = {command.name: command for command in COMMANDS}

# `/etc/passwd` and `/ hello` are messages, not commands.
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)?(?:\s+(.*))?", re.DOTALL)


def is_command(text: str) -> bool:
    """Whether a message is meant as a command."""
    return text.startswith("/") and "\n" not in text.strip() and _COMMAND.fullmatch(text.strip()) is not None


def parse(text: str) -> tuple[str, list[str]]:
    """Name and arguments of a command.

    Raises:
        UserError: there is no such command (with the nearest), or a quote is not closed.
    """
    match = _COMMAND.fullmatch(text.strip())
    assert match is not None, "ask is_command first"
    name, rest = match[1] or "", match[2] or ""
    if name not in _NAMES:
        raise UserError(f"There is no command /{name}: {did_you_mean(f'/{name}', [f'/{known}' for known in _NAMES])}")
    # A prompt is no list of words: quotes in it are its own.
    if name == "system":
        return name, [rest.strip()] if rest.strip() else []
    rest, colon, prompt = split_prompt(rest) if name == "race" else (rest, "", "")
    try:
        return name, [*shlex.split(rest), *((":", prompt.strip()) if colon else ())]
    except ValueError:
        raise UserError(f"A quote is not closed in {text.strip()}.") from None


def matching(text: str) -> list[SlashCommand]:
    """Commands that a line beginning with a slash may become."""
    if not is_command(text) and text != "/":
        return []
    name, space, _ = text[1:].partition(" ")
    return [command for command in COMMANDS if (command.name == name if space else command.name.startswith(name))]


def pairs(arguments: list[str], usage: str) -> dict[str, str]:
    """`key=value …` as a table.

    Raises:
        UserError: something is not of that form.
    """
    out = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key:
            raise UserError(f"{argument!r} is not of the form key=value: {usage}")
        out[key] = value
    return out


def typed(value: str) -> Any:
    """A typed value as TOML would give it: a number where it is one, else the text."""
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
