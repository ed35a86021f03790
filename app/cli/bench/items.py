"""Prompts from files, or the tasks of the built-in set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ....builtin import PROMPTS as BUILTIN_PROMPTS
from ....errors import UserError, counted, did_you_mean
from ....plain_file import as_text

BUILTIN_EACH = 6
"""Prompts of each family of the built-in set by default."""

MOST_BYTES = 200_000_000
"""Longest file of prompts that is read; Spec-Bench has 0.5 MB, SPEED-Bench's prompts of 32,000 tokens have 52 MB."""

MASKED = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
"""Placeholder in SPEED-Bench's published files for prompts whose licence forbids handing them on."""

MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
"""Categories of Spec-Bench whose questions are MT-bench's, which its results count as one."""

NO_CATEGORY = "prompts"
"""Category of prompts that name none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt."""

    id: str
    """Unique within the set: the question's and the turn's number, or the line's."""
    category: str
    turns: tuple[str, ...] = ()
    """The user's messages up to this turn. The answers between are those of plain decoding in the same run."""
    messages: tuple[dict[str, str], ...] = ()
    """A whole chat instead, up to where the answer starts."""

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

    A file is JSONL or Parquet with a "prompt", "turns" or chat "messages" in each row, and perhaps a "category"; any other is
    plain text, a prompt for each paragraph. None is the built-in set.

    Raises:
        UserError: the file cannot be read, or nothing is left to answer.
    """
    if path is None:
        prompts = _jsonl(BUILTIN_PROMPTS, BUILTIN_PROMPTS.read_text(encoding="utf-8"))
        prompts.name = "built-in tasks"
        limit = limit or BUILTIN_EACH
    elif path.suffix == ".parquet":
        prompts = _rows(path, enumerate(_parquet(path), 1))
    else:
        text = _read(path)
        is_jsonl = path.suffix == ".jsonl" or text.lstrip().startswith("{")
        prompts = _jsonl(path, text) if is_jsonl else _plain(path, text)
    names = list(dict.fromkeys(item.category for item in prompts.items))
    for category in categories or ():
        if category not in names:
            hint = did_you_mean(category, names, None if names else "the prompts have none.")
            prompts.problems.append(f"There is no category {category!r}: {hint}")
    if categories:
        prompts.items = [item for item in prompts.items if item.category in categories]
    if limit is not None:
        prompts.items = _first(prompts.items, limit)
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
    except FileNotFoundError:
        raise UserError(
            f"There is no file {path}. Give prompts as JSONL or plain text, or leave it out for the built-in set."
        ) from None
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror}). Give a file of prompts, as JSONL or plain text.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text. Save it as UTF-8, or give another file of prompts.") from None


def _first(items: Sequence[Item], limit: int) -> list[Item]:
    """Take the first `limit` questions of each category, with all their turns."""
    chosen: dict[str, set[str]] = {}
    out = []
    for item in items:
        questions = chosen.setdefault(item.category, set())
        question = item.id.partition("/")[0]
        if question in questions or len(questions) < limit:
            questions.add(question)
            out.append(item)
    return out


def _plain(path: Path, text: str) -> PromptSet:
    """Split a text at blank lines; one without any has a prompt in each line."""
    parts = [part.strip() for part in text.split("\n\n")]
    if len([part for part in parts if part]) == 1 and "\n\n" not in text.strip():
        parts = [part.strip() for part in text.splitlines()]
    return PromptSet(path.name, [Item(str(i), NO_CATEGORY, (part,)) for i, part in enumerate(filter(None, parts), 1)], [])


def _jsonl(path: Path, text: str) -> PromptSet:
    return _rows(path, ((number, _parsed(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()))


def _parsed(line: str) -> Any:
    """Parse a line; return the error of one that is not JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return error


def _parquet(path: Path) -> list[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UserError("Parquet files need pyarrow: pip install pyarrow. Or save the prompts as JSONL.") from None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} is larger than {MOST_BYTES / 1e6:g} MB. Use fewer prompts.")
        rows: list[Any] = pyarrow.parquet.read_table(path).to_pylist()
    except OSError as error:
        raise UserError(f"Cannot read {path} ({error.strerror or error}). Give a file of prompts.") from None
    except pyarrow.ArrowException:
        raise UserError(f"{path} is not a Parquet file. Download it again.") from None
    return rows


def _rows(path: Path, rows: Iterable[tuple[int, Any]]) -> PromptSet:
    prompts = PromptSet(path.name, [], [])
    masked = 0
    for number, row in rows:
        if MASKED in str(row):
            masked += 1
            continue
        items = _row(row, number)
        if isinstance(row, Exception):
            prompts.problems.append(f"{path}, line {number}, is not JSON: {row}.")
        elif not items:
            prompts.problems.append(f'{path}, line {number}, needs a "prompt", "turns" or chat "messages".')
        prompts.items += items
    if masked:
        prompts.problems.append(
            f"{path}: {counted(masked, 'prompt is a placeholder', 'prompts are placeholders')}. SPEED-Bench's own "
            "prepare_data.py fetches what they stand for; without it the others are answered."
        )
    names = {item.category for item in prompts.items}
    if names.issuperset((*MT_BENCH, "math_reasoning", "rag")):
        prompts.items = [replace(item, category="mt_bench") if item.category in MT_BENCH else item for item in prompts.items]
    return prompts


def _row(row: Any, number: int) -> list[Item]:
    """Make the items of a line, one for each turn; none if it holds no prompt."""
    if not isinstance(row, dict):
        return []
    category = row.get("category")
    category = category.strip() if isinstance(category, str) and category.strip() else NO_CATEGORY
    # The line's number keeps ids apart where questions come twice.
    id = f"{number}"
    prompt, turns, messages = row.get("prompt"), row.get("turns"), row.get("messages")
    if isinstance(prompt, str) and prompt.strip():
        return [Item(id, category, (prompt,))]
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
