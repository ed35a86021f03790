"""Texts of the user to train on: plain files, and chats as JSON lines."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch

from ....backends import Message, UserError
from ..data import CHUNK, IGNORED, Batch, Encoded, grouped, padded
from .target import FrozenTarget

ROLES = {"human": "user", "gpt": "assistant", "bot": "assistant", "chatgpt": "assistant"}
"""Names of the two sides in some data sets → roles."""


def read(files: Sequence[Path]) -> list[str | list[Message]]:
    """Read the texts and chats of some files.

    A line of a .jsonl file is an object with `messages` (a list of {"role", "content"}) or `conversations` (of {"from",
    "value"}), which is a chat, or with `text`. Any other file is one text.

    Raises:
        UserError: a file cannot be read; says which line is wrong.
    """
    entries: list[str | list[Message]] = []
    for file in files:
        try:
            content = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}.") from None
        if file.suffix not in (".jsonl", ".ndjson"):
            entries += [content] if content.strip() else []
            continue
        for number, line in enumerate(content.split("\n"), 1):  # splitlines would divide a string at U+2028
            if line.strip():
                try:
                    entries.append(_entry(json.loads(line)))
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise UserError(
                        f"Line {number} of {file} is neither a chat nor a text. It should be a JSON object with `messages`, a "
                        'list of {"role": …, "content": …}, or with `text`.'
                    ) from None
    if not entries:
        raise UserError("There is no text in these files. Give text files, or chats as JSON lines (.jsonl).")
    return entries


def _entry(line: Any) -> str | list[Message]:
    if "messages" in line:
        turns = [(turn["role"], turn["content"]) for turn in line["messages"]]
    elif "conversations" in line:
        turns = [(turn["from"], turn["value"]) for turn in line["conversations"]]
    else:
        written: str = "" + line["text"]  # a TypeError where it is none
        return written
    if not turns:
        raise ValueError("a chat without messages")
    return [{"role": ROLES.get(role, "" + role), "content": "" + content} for role, content in turns]


def encode(target: FrozenTarget, entry: str | list[Message], longest: int) -> list[Encoded]:
    """Encode a text or chat for training, in parts of at most `longest` tokens.

    Of a chat the answers are drafted, with the token that ends each. A turn that the chat template writes differently once
    others follow it (models that think drop their thoughts) is left out, and so is a chat that the template refuses.
    """
    codec = target.codec
    if isinstance(entry, str):
        ids = codec.encode(entry)
        return [(part, [True] * len(part)) for i in range(0, len(ids), longest) if len(part := ids[i : i + longest]) > 2]
    answers = [number for number, message in enumerate(entry) if number and message["role"] == "assistant"]
    try:
        whole, *prompts = (codec.encode_chat(part) for part in [entry, *(entry[:number] for number in answers)])
    except UserError:
        return []
    produced = [False] * len(whole)
    for prompt in prompts:
        end = next((i for i in range(len(prompt), len(whole)) if whole[i] in target.ends), None)
        if whole[: len(prompt)] == prompt and end is not None:
            produced[len(prompt) : end + 1] = [True] * (end + 1 - len(prompt))
    end = min(longest, max((i + 1 for i, is_answer in enumerate(produced) if is_answer), default=0))
    return [(whole[:end], produced[:end])] if any(produced[2:end]) else []


class Text:
    """Batches of the user's texts.

    Args:
        entries: from `read`.
        target: whose tokenizer and chat template are used.
        seed: of the order, which is another one each time through.
        longest: most tokens of a part.

    Raises:
        UserError: none of it can be trained on.
    """

    def __init__(self, entries: Sequence[str | list[Message]], target: FrozenTarget, seed: int, longest: int) -> None:
        self._entries = entries
        self._target = target
        self._seed = seed
        self._longest = longest
        if not any(encode(target, entry, longest) for entry in entries):
            raise UserError(
                "Nothing in this text can be trained on: chats need an answer by the assistant and roles that the model's chat "
                "template knows, and texts three tokens."
            )

    def _chunk(self, number: int, size: int) -> list[list[Encoded]]:
        """Draw entries, and group them by length into batches, so that little is padding."""
        chunks = -(-len(self._entries) // CHUNK)
        order = list(range(len(self._entries)))
        random.Random(f"{self._seed}/{number // chunks}").shuffle(order)
        start = number % chunks * CHUNK
        encoded = [part for i in order[start : start + CHUNK] for part in encode(self._target, self._entries[i], self._longest)]
        return grouped(encoded, size, f"{self._seed}/{number}")

    def batches(self, size: int, chunk: int, position: int) -> Iterator[Batch]:
        """Yield endless batches (see `data.batches`)."""
        while True:
            for number, group in list(enumerate(self._chunk(chunk, size), 1))[position:]:
                yield padded(group, chunk, number)
            chunk, position = chunk + 1, 0


def frequent(batches: Iterator[Batch], count: int, sample: int = 200) -> torch.Tensor:
    """Find the `count` most frequent ids in the answers of `sample` batches, ascending; the lowest others fill up."""
    counts: Counter[int] = Counter()
    for batch in islice(batches, sample):
        counts.update(batch.labels[batch.labels != IGNORED].tolist())
    ids = [token for token, _ in counts.most_common(count)]
    more = (token for token in range(count) if token not in counts)
    return torch.tensor(sorted(ids + list(islice(more, count - len(ids)))))


def regenerate(target: FrozenTarget, entries: Sequence[str | list[Message]], file: Path, limit: int, batch: int = 8) -> None:
    """Let the target answer the chats, turn by turn, and write them as JSON lines. A file that begins with answers to these
    chats is continued.

    A chat ends before an answer that does not end within `limit` tokens; texts stay as they are.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    # The last part was cut off, if it is not empty.
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    same = takewhile(lambda pair: _opens(_entry(json.loads(pair[0])), pair[1]), zip(lines, entries, strict=False))
    done = len(list(same)) // batch * batch
    with file.open("a", encoding="utf-8", newline="\n") as out:
        out.truncate(sum(len(line.encode()) + 1 for line in lines[:done]))
        for start in range(done, len(entries), batch):
            group = entries[start : start + batch]
            answered = _answered(target, [entry for entry in group if not isinstance(entry, str)], limit)
            for entry in group:
                line = {"text": entry} if isinstance(entry, str) else {"messages": next(answered)}
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()
            print(f"{min(start + batch, len(entries)):,} of {len(entries):,} chats answered", flush=True)


def _opens(answered: str | list[Message], entry: str | list[Message]) -> bool:
    """Tell whether an answered chat begins like this one; for texts, whether they are the same."""
    return answered == entry if isinstance(answered, str) else answered[:1] == entry[:1]


def _answered(target: FrozenTarget, chats: Sequence[list[Message]], limit: int) -> Iterator[list[Message]]:
    """Yield each chat with the target's answers in place of the given ones."""
    context = int(getattr(target.config, "max_position_embeddings", 1 << 30))
    histories: list[list[Message]] = [[] for _ in chats]
    open_chats = list(range(len(chats)))
    for turn in range(max(map(len, chats), default=0)):
        open_chats = [i for i in open_chats if turn < len(chats[i])]
        answering = []
        for i in open_chats:
            if turn and chats[i][turn]["role"] == "assistant":
                answering.append(i)
            else:
                histories[i].append(chats[i][turn])
        prompts = {}
        for i in answering:
            with suppress(UserError):  # the template refuses it
                prompts[i] = target.codec.encode_chat(histories[i])
        prompts = {i: prompt for i, prompt in prompts.items() if len(prompt) + limit <= context}
        answers = dict(zip(prompts, target.answers(list(prompts.values()), limit), strict=True)) if prompts else {}
        for i in answering:
            if i in answers and len(answers[i]) < limit:
                histories[i].append({"role": "assistant", "content": target.codec.decode(answers[i])})
            else:
                open_chats.remove(i)
    yield from histories
