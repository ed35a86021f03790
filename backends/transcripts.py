"""Recorded answers as text, and the tokenizers that turn them into tokens without any model. Pure Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..plain_file import as_text, read_bytes, read_json

MOST_BYTES = 500_000_000
"""Size of a file of records, or of a tokenizer, at most."""


USUAL_ENDS = ("</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<eos>")


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """One recorded answer."""

    prompt: str
    """Prompt that the model received, chat template included, without the BOS token. For a chat: its messages in a row."""
    response: str
    line: int = 0
    """Line of the file that it comes from, from 1; 0 if it comes from none."""
    messages: tuple[Mapping[str, str], ...] = ()
    """The chat before the answer; a model that has a chat template renders it."""
    ended: bool = True
    """Whether the model ended the answer itself; False where it was cut off at a token limit."""
    prompt_ids: tuple[int, ...] = ()
    """Token ids of the prompt, if they were recorded."""
    response_ids: tuple[int, ...] = ()
    """Token ids of the answer, if they were recorded; with the end token, if it has one."""


def scan_transcripts(path: Path) -> tuple[list[RecordedAnswer], list[str]]:
    """Read the records of a JSONL file, and a problem for each line that is none, or for a file without any. Blank lines are
    skipped.

    A line is an object with a "prompt" and a "response", both texts, or with chat "messages" ({"role", "content"}): every
    assistant message is a separate record, with the messages before it as the prompt; a "response" next to them is one more.
    What `specchat run --json` and a record of `specchat bench` on servers have is read too: "text" in place of "response",
    "token_ids" and "prompt_ids"; of a prompt that was answered several times the first answer counts.
    `"finish_reason": "length"` marks an answer that was cut off.

    Raises:
        UserError: there is no such file, or it is no UTF-8 text.
    """
    try:
        # Not splitlines: JSON may hold the line separators of Unicode as they are.
        lines = as_text(read_bytes(path, MOST_BYTES), "strict").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        problem = f"There is no file {path}" if isinstance(error, FileNotFoundError) else f"Cannot read {path} ({reason})"
        raise UserError(f"{problem}. Give a JSONL file of recorded prompts and responses.") from None
    records: list[RecordedAnswer] = []
    problems: list[str] = []
    measured: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"{path}, line {number}, is not JSON: {error}.")
            continue
        if isinstance(row, dict) and "item" in row:
            item = str(row.get("item"))
            if row.get("error") or item in measured:
                continue
            measured.add(item)
        transcripts = records_of(row, number)
        if transcripts:
            records += transcripts
        else:
            problems.append(f'{path}, line {number}, needs a "prompt" and a "response", both texts, or chat "messages".')
    if not records and not problems:
        problems.append(f'{path} contains no records. It needs lines like {{"prompt": "…", "response": "…"}}.')
    return records, problems


def records_of(row: Any, line: int = 0) -> list[RecordedAnswer]:
    """Read the records in one line; none if it does not look like a record."""
    if not isinstance(row, dict):
        return []
    ended, response = row.get("finish_reason") != "length", row.get("response", row.get("text"))
    prompt, chat = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str) and isinstance(response, str):
        return [
            RecordedAnswer(
                prompt, response, line, ended=ended, prompt_ids=_ids(row, "prompt_ids"), response_ids=_ids(row, "token_ids")
            )
        ]
    if not isinstance(chat, list) or not all(_is_message(message) for message in chat):
        return []
    messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in chat]
    if isinstance(response, str):
        messages.append({"role": "assistant", "content": response})
    out = []
    for i, message in enumerate(messages):
        if i and message["role"] == "assistant":
            before = tuple(messages[:i])
            text = "".join(f"{m['role']}: {m['content']}\n\n" for m in before) + "assistant: "
            last = i == len(messages) - 1
            ids = (_ids(row, "prompt_ids"), _ids(row, "token_ids")) if last and isinstance(response, str) else ((), ())
            out.append(RecordedAnswer(text, message["content"], line, before, ended or not last, *ids))
    return out


def _ids(row: Mapping[str, Any], name: str) -> tuple[int, ...]:
    ids = row.get(name)
    return tuple(ids) if isinstance(ids, list) and all(type(token) is int and token >= 0 for token in ids) else ()


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)


class FileTokenizer:
    """A folder's tokenizer.json. Loads the package `tokenizers` (no torch)."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        path = folder if folder.suffix == ".json" else folder / "tokenizer.json"
        try:
            self._tokenizer = Tokenizer.from_buffer(read_bytes(path, MOST_BYTES))
        except Exception as error:  # the package raises bare Exception
            raise UserError(f"Cannot read {path} as a tokenizer ({error}). Give the folder with the model's own.") from None
        token: Any = None
        with suppress(OSError, ValueError, AttributeError):
            token = read_json(path.with_name("tokenizer_config.json"), MOST_BYTES).get("eos_token")
        names = [str(token.get("content") if isinstance(token, dict) else token), *USUAL_ENDS]
        ids = (self._tokenizer.token_to_id(name) for name in names)
        eos = next((i for i in ids if i is not None), None)
        if eos is None:
            raise UserError(f"{path} does not name an EOS token. Put a tokenizer_config.json with an eos_token next to it.")
        self.eos_id: int = eos
        """The EOS token: by tokenizer_config.json, else by its usual names."""

    def encode(self, text: str, start: bool = True) -> list[int]:
        """Return token ids, with the BOS token in front, if there is one, where `start` is True. Special tokens in the text are
        tokens."""
        self._tokenizer.encode_special_tokens = False
        whole = text.encode("utf-8", "replace").decode()  # it takes no lone surrogates
        ids: list[int] = self._tokenizer.encode(whole, add_special_tokens=start).ids
        return ids


def encode_transcript(tokenizer: FileTokenizer, record: RecordedAnswer) -> tuple[list[int], list[int]]:
    """Encode a record's prompt and response as one text, as the model wrote them (an answer encoded alone may start
    with a space too many), unless a token spans the border between them: then each alone. The prompt went through a
    chat template, so special tokens in it are tokens."""
    prompt = tokenizer.encode(record.prompt)
    both = tokenizer.encode(record.prompt + record.response)
    if both[: len(prompt)] == prompt:
        return prompt, both[len(prompt) :]
    return prompt, tokenizer.encode(record.response, start=False)
