"""Files and long texts that go with a message: find them, read them, frame them for a model, fold them on the screen.

A message is kept as it was sent, contents included, so that a saved chat is complete; `folded` returns its form on the screen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ... import plain_file
from ...errors import UserError
from ...plain_file import user_path
from ..text.amounts import size_of
from ..text.cells import FOLDED, one_line

MOST_BYTES = 2_000_000
"""Most bytes of one file, far more than a local model's context holds."""

# An open quote ends with its line: the completion of a folder leaves it open.
_MENTION = re.compile(r"""(?<!\S)@(?:"([^"\n]+)(?:"|$)|'([^'\n]+)(?:'|$)|([^\s@"'][^\s]*))""", re.MULTILINE)
_ESCAPED = re.compile(r"(?<!\S)@@(?=\S)")
_HEADER = re.compile(r"^Attached (?:file|text): ([^\n]{1,300}) \(([\d,.]+ [kM]?B)\)\n(`{3,})\n", re.MULTILINE)
_TICKS = re.compile(r"`+")

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text that goes with a message."""

    name: str
    text: str
    size: int
    """Bytes, as read."""
    file: bool = True
    notice: str = ""
    """Sentence about a difference between the text and the file."""

    def framed(self) -> str:
        """Return the text for the model: the name, and the text in a fence longer than any row of backticks in it."""
        fence = "`" * max(3, 1 + max((len(row) for row in _TICKS.findall(self.text)), default=0))
        kind = "file" if self.file else "text"
        end = "" if self.text.endswith("\n") else "\n"
        return f"Attached {kind}: {one_line(self.name)[:300]} ({size_of(self.size)})\n{fence}\n{self.text}{end}{fence}"


def compose(message: str, attachments: Iterable[Attachment]) -> str:
    """Join a message and its attachments, which come first, so that the question comes last."""
    return "\n\n".join([*(attachment.framed() for attachment in attachments), *filter(None, [message])])


def _attached(text: str) -> tuple[list[tuple[re.Match[str], str]], str]:
    """Split a message into its attachments, each a header and a text, and the message after them."""
    attachments = []
    at = 0
    while (header := _HEADER.match(text, at)) is not None:
        end = text.find(f"\n{header[3]}", header.end() - 1)
        if end < 0:
            break
        attachments.append((header, text[header.end() : end + 1]))
        at = end + 1 + len(header[3])
        if not text.startswith("\n\n", at):
            break
        at += 2
    return attachments, text[at:]


def folded(text: str) -> str:
    """Return a message for the screen: each attachment is a line with its name and size."""
    attachments, message = _attached(text)
    return "\n".join([*(f"[{one_line(header[1])} · {header[2]}]" for header, _ in attachments), *filter(None, [message])])


def split_attachments(text: str) -> tuple[str, list[Attachment]]:
    """Split a message that `compose` made into the message and its attachments."""
    attachments, message = _attached(text)
    return message, [
        Attachment(header[1], text, len(text.encode("utf-8", "replace")), file=header[0].startswith("Attached file: "))
        for header, text in attachments
    ]


def escape(message: str) -> str:
    """Escape a sent message for the input box, so that `attach` returns the same message and attaches nothing."""
    return re.sub(r"(?<!\S)@(?=\S)", "@@", message)


def attach(message: str) -> tuple[str, list[Attachment]]:
    """Read the files that a message's `@path`s name; returns the message and the files. `@@` stands for a plain @.

    Raises:
        UserError: a file is missing or cannot go with a message; nothing should be sent.
    """
    attachments: dict[Path, Attachment] = {}
    for name in mentioned(message):
        path = user_path(name)
        if not os.path.exists(path) and (shorter := name.rstrip(".,;:!?)")) != name and shorter:
            name, path = shorter, user_path(shorter)
        if path not in attachments:
            attachments[path] = read(path, name, "Check the name, or write @@ for a plain @.")
    return _ESCAPED.sub("@", message), list(attachments.values())


def mentioned(message: str) -> Iterator[str]:
    """Yield the names after each @ that begins a word."""
    for match in _MENTION.finditer(message):
        yield match[1] or match[2] or match[3]


def read(path: Path, name: str, helps: str = "Check the path.") -> Attachment:
    """Read a file's text.

    Args:
        helps: advice for the message if it is missing.

    Raises:
        UserError: it is missing, unreadable, too large, or no text.
    """
    label = one_line(name)
    try:
        data = plain_file.read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        raise UserError(f"There is no file {label}. {helps}") from None
    except OSError as error:
        raise UserError(
            f"Cannot read {label} ({error.strerror}). Attach a text file of at most {size_of(MOST_BYTES)}."
        ) from None
    text, notice = decode(data, label)
    return Attachment(name, text, len(data), notice=notice)


def decode(data: bytes, label: str) -> tuple[str, str]:
    """Decode bytes; returns the text, and a sentence if some bytes are no text. `label` names them in sentences.

    Raises:
        UserError: the data is binary.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    if data.startswith(b"%PDF-"):
        raise UserError(f"{label} is a PDF document. Pipe its text in: pdftotext FILE - | specchat.")
    if encoding != "utf-16" and b"\0" in data:
        raise UserError(f"{label} is binary, not text. Attach a text file.")
    try:
        text, notice = data.decode(encoding), ""
    except UnicodeDecodeError:
        text = data.decode(encoding, errors="replace")
        notice = f"{label} is not entirely {encoding.upper()[:6].rstrip('-')}: unreadable characters are shown as �."
    return text.replace("\r\n", "\n"), notice


def paste_chip(text: str) -> str:
    """Return the placeholder of a long paste in the input box; empty if the text is short enough to be shown."""
    lines = text.count("\n") + 1
    if lines > 40:
        return f"{FOLDED}pasted {lines:,} lines]"
    return f"{FOLDED}pasted {len(text):,} characters]" if len(text) > 4000 else ""


def with_pastes(message: str, pastes: Mapping[str, str]) -> tuple[str, list[Attachment]]:
    """Return the message and the pastes whose placeholders are in it. One at either end is removed, one in a sentence stays."""
    chips = sorted((chip for chip in pastes if chip in message), key=message.index)
    for _ in chips:
        for chip in chips:
            message = message.strip().removeprefix(chip).removesuffix(chip).strip()
    return message.replace(FOLDED, "["), [
        Attachment(chip.removeprefix(FOLDED)[:-1], text := pastes[chip], len(text.encode("utf-8", "replace")), file=False)
        for chip in chips
    ]
