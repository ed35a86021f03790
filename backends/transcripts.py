"""Recorded answers as text, and the tokenizers that turn them into tokens without any model. Pure Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..plain_file import as_text, read_bytes, read_json

BENCH = "specchat-bench"
"""What the first line of a record of `specchat bench` has."""

MOST_BYTES = 500_000_000
"""Size of a file of records, or of a tokenizer, at most."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One recorded answer."""

    prompt: str
    """As the model received it, chat template included; without the BOS token. Of a chat: its messages, one after the other."""
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


def scan_transcripts(path: Path) -> tuple[list[Transcript], list[str]]:
    """The records of a JSONL file, and a sentence for each line that is none, or for a file without any; blank lines are passed
    over.

    A line is an object with a "prompt" and a "response", both texts, or with chat "messages" ({"role", "content"}): every
    assistant message is a record of its own, with the messages before it as the prompt; a "response" beside them is one more.
    What `specchat run --json` and a record of `specchat bench` on servers have is read too: "text" in place of "response",
    "token_ids" and "prompt_ids"; of a prompt that was answered several times the first answer counts.
    `"finish_reason": "length"` marks an answer that was cut off.

    Raises:
        UserError: there is no such file, or it is no UTF-8 text.
    """
    try:
        # Not splitlines: JSON may hold the line separators of Unicode as they are.
        lines = as_text(read_bytes(path, MOST_BYTES), "strict").split("\n")
    except FileNotFoundError:
        raise UserError(f"There is no file {path}. Give a JSONL file of recorded prompts and responses.") from None
    except OSError as error:
        raise UserError(
            f"Cannot read {path} ({error.strerror}). Give a JSONL file of recorded prompts and responses."
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text. Give a JSONL file of recorded prompts and responses.") from None
    records: list[Transcript] = []
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
        if isinstance(row, dict) and (BENCH in row or "item" in row):
            item = str(row.get("item"))
            if BENCH in row or row.get("error") or item in measured:
                continue
            measured.add(item)
        found = records_of(row, number)
        if found:
            records += found
        else:
            problems.append(f'{path}, line {number}, needs a "prompt" and a "response", both texts, or chat "messages".')
    if not records and not problems:
        problems.append(f'{path} contains no records. It needs lines like {{"prompt": "…", "response": "…"}}.')
    return records, problems


def records_of(row: Any, line: int = 0) -> list[Transcript]:
    """The records of one line; none if it is not what a record looks like."""
    if not isinstance(row, dict):
        return []
    ended, response = row.get("finish_reason") != "length", row.get("response", row.get("text"))
    prompt, chat = row.get("prompt"), row.get("messages")
    if isinstance(prompt, str) and isinstance(response, str):
        return [Transcript(prompt, response, line, (), ended, _ids(row, "prompt_ids"), _ids(row, "token_ids"))]
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
            out.append(Transcript(text, message["content"], line, before, ended or not last, *ids))
    return out


def _ids(row: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Recorded token ids; empty where there are none, or where they are something else."""
    found = row.get(name)
    return tuple(found) if isinstance(found, list) and all(type(each) is int and each >= 0 for each in found) else ()


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str)


class FileTokenizer:
    """A folder's tokenizer.json. Loads the package `tokenizers` (no torch)."""

    def __init__(self, folder: Path) -> None:
        """Read it.

        Raises:
            UserError: no such file, not a tokenizer, or no EOS token named.
        """
        from tokenizers import Tokenizer

        path = folder if folder.suffix == ".json" else folder / "tokenizer.json"
        if not path.is_file():
            raise UserError(f"There is no {path}. Give the folder that contains the model's tokenizer.json.")
        try:
            self._tokenizer = Tokenizer.from_buffer(read_bytes(path, MOST_BYTES))
        except Exception as error:  # the package raises bare Exception
            raise UserError(f"Cannot read {path} as a tokenizer: {error}.") from None
        self.eos_id = self._find_eos(path)

    def _find_eos(self, path: Path) -> int:
        """Id of the EOS token: by tokenizer_config.json, else by its usual names."""
        names = ["</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<eos>"]
        config = path.with_name("tokenizer_config.json")
        if config.is_file():
            try:
                told = read_json(config, MOST_BYTES)
            except (OSError, ValueError):
                raise UserError(f"{config} is not valid JSON. Download it again.") from None
            token: Any = told.get("eos_token") if isinstance(told, dict) else None
            names.insert(0, str(token.get("content") if isinstance(token, dict) else token))
        for name in names:
            found: int | None = self._tokenizer.token_to_id(name)
            if found is not None:
                return found
        raise UserError(f"{path} does not name an EOS token. Put a tokenizer_config.json with an eos_token next to it.")

    def encode(self, text: str, start: bool = True) -> list[int]:
        """Return token ids, with the BOS token in front, if there is one, where `start` is True. Special tokens in the text are
        tokens."""
        self._tokenizer.encode_special_tokens = False
        whole = text.encode("utf-8", "replace").decode()  # it takes no lone surrogates
        ids: list[int] = self._tokenizer.encode(whole, add_special_tokens=start).ids
        return ids


def encode_transcript(tokenizer: FileTokenizer, record: Transcript) -> tuple[list[int], list[int]]:
    """Tokens of a record's prompt and response.

    The two are encoded as one text, as the model wrote them (an answer encoded alone may start with a space too many),
    unless a token spans the border between them: then each alone. The prompt went through a chat template, so special
    tokens in it are tokens.
    """
    prompt = tokenizer.encode(record.prompt)
    both = tokenizer.encode(record.prompt + record.response)
    if both[: len(prompt)] == prompt:
        return prompt, both[len(prompt) :]
    return prompt, tokenizer.encode(record.response, start=False)
