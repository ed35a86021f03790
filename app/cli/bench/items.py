"""Prompts from files, or the tasks of the built-in set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ....builtin import PROMPTS as BUILTIN_PROMPTS
from ....errors import UserError, did_you_mean
from ....plain_file import as_text

BUILTIN_EACH = 6
"""Prompts of each family of the built-in set by default."""

MOST_BYTES = 200_000_000
"""Longest file of prompts that is read."""

NO_CATEGORY = "prompts"
"""Category of prompts that name none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt."""

    id: str
    """Unique within the set: the line's number, and the turn's behind a slash."""
    category: str
    turns: tuple[str, ...] = ()
    """The user's messages up to this turn. The answers between are those of plain decoding in the same run."""
    messages: tuple[dict[str, str], ...] = ()
    """A whole chat instead, up to where the answer starts."""

    @property
    def question(self) -> str:
        """The part of the id that all turns share."""
        return self.id.partition("/")[0]

    def chat(self, system: str | None, answers: Sequence[str] = ()) -> list[dict[str, str]]:
        """Build the chat up to this turn, with the answers to the turns before it."""
        if self.messages:
            return list(self.messages)
        chat = [{"role": "system", "content": system}] if system else []
        for turn, answer in zip_longest(self.turns, answers[: len(self.turns) - 1]):
            chat.append({"role": "user", "content": turn})
            chat += [{"role": "assistant", "content": answer}] if answer is not None else []
        return chat


@dataclass(slots=True)
class PromptSet:
    """The prompts of a run, and the problems of their file."""

    name: str
    items: list[Item]
    problems: list[str]


def read_items(path: Path | None, limit: int | None, categories: Sequence[str] | None = None) -> PromptSet:
    """Read the prompts of a run: at most `limit` questions of each category, or of the categories named.

    A file is JSONL with a "prompt", "turns" or chat "messages" in each line, and perhaps a "category"; any other is plain text,
    a prompt for each paragraph. None is the built-in set.

    Raises:
        UserError: the file cannot be read, or nothing is left to answer.
    """
    if path is None:
        prompts = _parse_jsonl(BUILTIN_PROMPTS, BUILTIN_PROMPTS.read_text(encoding="utf-8"))
        prompts.name = "built-in tasks"
        limit = limit or BUILTIN_EACH
    else:
        text = _read(path)
        is_jsonl = path.suffix == ".jsonl" or text.lstrip().startswith("{")
        prompts = _parse_jsonl(path, text) if is_jsonl else _split_text(path, text)
    names = list(dict.fromkeys(item.category for item in prompts.items))
    for category in categories or ():
        if category not in names:
            hint = did_you_mean(category, names, None if names else "the prompts have none.")
            prompts.problems.append(f"There is no category {category!r}: {hint}")
    if categories:
        prompts.items = [item for item in prompts.items if item.category in categories]
    if limit is not None:
        chosen: dict[str, list[str]] = {}
        for item in prompts.items:
            questions = chosen.setdefault(item.category, [])
            if item.question not in questions and len(questions) < limit:
                questions.append(item.question)
        prompts.items = [item for item in prompts.items if item.question in chosen[item.category]]
    if not prompts.items:
        raise UserError(next(iter(prompts.problems), f"{path} contains no prompts. Write one per line or paragraph."))
    return prompts


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:  # a pipe too: `specchat bench <(make-prompts)`
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(f"{path} is larger than {MOST_BYTES / 1e6:g} MB. Use fewer prompts.")
        return as_text(data, "strict").replace("\r\n", "\n")
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}). Give a file of prompts, as JSONL or plain text.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text. Save it as UTF-8, or give another file of prompts.") from None


def _split_text(path: Path, text: str) -> PromptSet:
    """Split a text at blank lines; one without any has a prompt in each line."""
    parts = text.split("\n\n" if "\n\n" in text.strip() else "\n")
    prompts = filter(None, map(str.strip, parts))
    return PromptSet(path.name, [Item(str(i), NO_CATEGORY, (prompt,)) for i, prompt in enumerate(prompts, 1)], [])


def _parse_jsonl(path: Path, text: str) -> PromptSet:
    prompts = PromptSet(path.name, [], [])
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            items = _parse_row(json.loads(line), number)
        except (ValueError, RecursionError) as error:
            prompts.problems.append(f"{path}, line {number}, is not JSON: {error}.")
            continue
        if not items:
            prompts.problems.append(f'{path}, line {number}, needs a "prompt", "turns" or chat "messages".')
        prompts.items += items
    return prompts


def _parse_row(row: Any, number: int) -> list[Item]:
    """Make the items of a line, one for each turn; none if it holds no prompt."""
    if not isinstance(row, dict):
        return []
    category = row.get("category")
    category = category.strip() if isinstance(category, str) and category.strip() else NO_CATEGORY
    # The line's number keeps ids apart where questions come twice.
    id = f"{number}"
    turns = [row["prompt"]] if "prompt" in row else row.get("turns")
    messages = row.get("messages")
    if isinstance(turns, list) and turns and all(isinstance(turn, str) and turn.strip() for turn in turns):
        return [Item(id if i == 1 else f"{id}/{i}", category, tuple(turns[:i])) for i in range(1, len(turns) + 1)]
    if isinstance(messages, list) and messages and all(_is_message(message) for message in messages):
        chat = [{"role": m["role"], "content": m["content"]} for m in messages]
        while chat and chat[-1]["role"] == "assistant":
            chat.pop()
        return [Item(id, category, messages=tuple(chat))] if chat else []
    return []


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
