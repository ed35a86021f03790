"""Recorded answers as text, and the tokenizers that turn them into tokens without any model. Pure Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .base import UserError


@dataclass(frozen=True, slots=True)
class Transcript:
    """One recorded answer."""

    prompt: str
    """As the model received it, chat template included; without the BOS token."""
    response: str
    line: int = 0
    """Line of the file that it comes from, from 1; 0 if it comes from none."""


def read_transcripts(path: Path) -> list[Transcript]:
    """The records of a JSONL file with a "prompt" and a "response" in each line; blank lines are passed over.

    Raises:
        UserError: no such file, a malformed line (named by its number), or no record at all.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(f"There is no file {path}: give a JSONL file of recorded prompts and responses.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as UTF-8 text: {error}.") from None
    out = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}, is not JSON: {error}.") from None
        if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("prompt", "response")):
            raise UserError(f'{path}, line {number}, needs a "prompt" and a "response", both texts.')
        out.append(Transcript(row["prompt"], row["response"], number))
    if not out:
        raise UserError(f'{path} holds no record: it needs lines like {{"prompt": "…", "response": "…"}}.')
    return out


class TextTokenizer(Protocol):
    """What a recorded model needs of a tokenizer."""

    eos_id: int
    size: int
    """Ids run from 0 to size - 1."""

    def encode(self, text: str, start: bool = True, special: bool = False) -> list[int]:
        """Token ids; with the BOS token in front, if there is one, where `start` is True. Text that spells a special
        token becomes that token where `special` is True, and stays text elsewhere."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Text; special tokens left out, invalid UTF-8 as U+FFFD."""

    def pieces(self) -> list[str]:
        """For each id the text it shows as when alone."""


class WordTokenizer:
    """Words of given texts, and UTF-8 bytes for all else: needs no file and loses nothing.

    Ids 0 … 255 are bytes, `eos_id` (256 unless told otherwise) ends a text, the ASCII words (with the space before
    them) of `texts` follow. What is not ASCII goes byte by byte, which makes a recorded chat a fair test of text out of
    tokens.
    """

    WORD = re.compile(r" ?[A-Za-z0-9_]+")

    def __init__(self, texts: Iterable[str] = (), eos_id: int = 256) -> None:
        self.eos_id = eos_id
        words = dict.fromkeys(word for text in texts for word in self.WORD.findall(text) if len(word) > 1)
        self._ids = {word: eos_id + 1 + i for i, word in enumerate(words)}
        self._bytes = dict(enumerate(bytes([b]) for b in range(256)))
        self._bytes.update((i, word.encode()) for word, i in self._ids.items())
        self.size = eos_id + 1 + len(words)

    def encode(self, text: str, start: bool = True, special: bool = False) -> list[int]:
        out: list[int] = []
        end = 0
        for match in self.WORD.finditer(text):
            out += text[end : match.start()].encode(errors="replace")
            known = self._ids.get(match.group())
            if known is None:
                out += match.group().encode()
            else:
                out.append(known)
            end = match.end()
        out += text[end:].encode(errors="replace")
        return out

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(self._bytes.get(token, b"") for token in tokens).decode(errors="replace")

    def pieces(self) -> list[str]:
        out = [f"<{i}>" for i in range(self.size)]
        out[self.eos_id] = "<eos>"
        for i, raw in self._bytes.items():
            out[i] = raw.decode() if raw.isascii() else f"<0x{raw[0]:02X}>"
        return out


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
            raise UserError(f"There is no {path}: give the folder that holds the model's tokenizer.json.")
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises bare Exception
            raise UserError(f"{path} is not a tokenizer that can be read: {error}.") from None
        self.size = self._tokenizer.get_vocab_size()
        self.eos_id = self._find_eos(path)

    def _find_eos(self, path: Path) -> int:
        """Id of the EOS token: by tokenizer_config.json, else by its usual names."""
        names = ["</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<eos>"]
        config = path.with_name("tokenizer_config.json")
        if config.is_file():
            token: Any = json.loads(config.read_text(encoding="utf-8")).get("eos_token")
            names.insert(0, token["content"] if isinstance(token, dict) else str(token))
        for name in names:
            found: int | None = self._tokenizer.token_to_id(name)
            if found is not None:
                return found
        raise UserError(f"{path} names no EOS token: put a tokenizer_config.json with an eos_token beside it.")

    def encode(self, text: str, start: bool = True, special: bool = False) -> list[int]:
        self._tokenizer.encode_special_tokens = not special
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=start).ids
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def pieces(self) -> list[str]:
        alone = self._tokenizer.decode_batch([[i] for i in range(self.size)], skip_special_tokens=True)
        out = []
        for i, text in enumerate(alone):
            name = self._tokenizer.id_to_token(i) or f"<{i}>"
            if name.startswith("▁") and not text.startswith(" "):
                text = " " + text  # the decoder strips the space in front of a whole text
            out.append(text or name)
        return out


def encode_transcript(tokenizer: TextTokenizer, record: Transcript) -> tuple[list[int], list[int]]:
    """Tokens of a record's prompt and response.

    The two are encoded as one text, as the model wrote them (an answer encoded alone may start with a space too many),
    unless a token spans the border between them: then each alone. The prompt went through a chat template, so special
    tokens in it are tokens.
    """
    prompt = tokenizer.encode(record.prompt, special=True)
    both = tokenizer.encode(record.prompt + record.response, special=True)
    if both[: len(prompt)] == prompt:
        return prompt, both[len(prompt) :]
    return prompt, tokenizer.encode(record.response, start=False, special=True)
