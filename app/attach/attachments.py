"""Files and long texts that go with a message: finding them, reading them, framing them for a model, folding them for the eye.

A message is kept as it was sent, contents and all, so a saved chat lacks nothing; `folded` gives what a screen shows of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ... import plain_file
from ...errors import UserError
from ...plain_file import user_path
from ..text.amounts import size_of
from ..text.cells import FOLDED, one_line

MOST_BYTES = 2_000_000
"""Bytes of one file. Far more than a local model's context holds; a file above it was hardly meant."""

# A quote that is left open ends with its line: a folder's is, when it was completed.
_MENTION = re.compile(r"""(?<!\S)@(?:"([^"\n]+)(?:"|$)|'([^'\n]+)(?:'|$)|([^\s@"'][^\s]*))""", re.MULTILINE)
_ESCAPED = re.compile(r"(?<!\S)@@(?=\S)")
_HEADER = re.compile(r"^Attached (?:file|text): ([^\n]{1,300}) \(([\d,.]+ [kM]?B)\)\n(`{3,})\n", re.MULTILINE)
_BYTE = re.compile(r"\\u(dc[89a-f][0-9a-f])")
_TICKS = re.compile(r"`+")

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True, slots=True)
class Attachment:
    """One text that goes with a message."""

    name: str
    text: str
    size: int
    """Bytes, as read."""
    file: bool = True
    notice: str = ""
    """A sentence where the text is not quite what the file holds."""

    def framed(self) -> str:
        """What the model gets: the name, and the text in a fence longer than any row of backticks in it."""
        fence = "`" * max(3, 1 + max((len(row) for row in _TICKS.findall(self.text)), default=0))
        kind = "file" if self.file else "text"
        end = "" if self.text.endswith("\n") else "\n"
        return f"Attached {kind}: {one_line(self.name)[:300]} ({size_of(self.size)})\n{fence}\n{self.text}{end}{fence}"


def compose(message: str, attachments: Iterable[Attachment]) -> str:
    """The message with its attachments before it, so that the question comes last."""
    return "\n\n".join([*(attachment.framed() for attachment in attachments), *filter(None, [message])])


def _attached(text: str) -> tuple[list[tuple[re.Match[str], str]], str]:
    """The attachments that a message begins with, each as its header and its text; and the message behind them."""
    found, at = list[tuple[re.Match[str], str]](), 0
    while (header := _HEADER.match(text, at)) is not None:
        end = text.find(f"\n{header[3]}", header.end() - 1)
        if end < 0:
            break
        found.append((header, text[header.end() : end + 1]))
        at = end + 1 + len(header[3])
        if not text.startswith("\n\n", at):
            break
        at += 2
    return found, text[at:]


def folded(text: str) -> str:
    """A message as a screen shows it: each attachment is a line with its name and size."""
    found, message = _attached(text)
    return "\n".join([*(f"[{one_line(header[1])} · {header[2]}]" for header, _ in found), *filter(None, [message])])


def parted(text: str) -> tuple[str, list[Attachment]]:
    """A message that `compose` made, and what was attached to it."""
    found, message = _attached(text)
    return message, [
        Attachment(header[1], text, len(text.encode("utf-8", "replace")), file=header[0].startswith("Attached file: "))
        for header, text in found
    ]


def escaped(message: str) -> str:
    """A message that was sent, as it is typed: `attach` makes it this message again, and attaches nothing."""
    return re.sub(r"(?<!\S)@(?=\S)", "@@", message)


def attach(message: str, folder: Path | None = None) -> tuple[str, list[Attachment]]:
    """The message, and the files that its `@path`s name. `@@` stands for an @ that names none.

    Args:
        folder: what relative paths are relative to; the working folder if None.

    Raises:
        UserError: a file is not there or cannot go with a message; nothing should be sent.
    """
    attachments: dict[Path, Attachment] = {}
    for name in mentioned(message):
        path = _path(name, folder)
        if not os.path.exists(path) and (shorter := name.rstrip(".,;:!?)")) != name and shorter:
            name, path = shorter, _path(shorter, folder)
        if path not in attachments:
            attachments[path] = read(path, name, "Check the name, or write @@ for a plain @.")
    return _ESCAPED.sub("@", message), list(attachments.values())


def mentioned(message: str) -> Iterator[str]:
    """The names after an @ that begins a word."""
    for match in _MENTION.finditer(message):
        yield match[1] or match[2] or match[3]


def _path(name: str, folder: Path | None) -> Path:
    if "\0" in name:
        raise UserError(f"{one_line(name)} is not a file name: it contains a NUL character. Correct it.")
    path = (folder or Path()) / user_path(name)
    # Bytes that are no UTF-8 are typed as they are shown.
    return path if os.path.lexists(path) else Path(_BYTE.sub(lambda byte: chr(int(byte[1], 16)), str(path)))


def read(path: Path, name: str, helps: str = "Check the path.") -> Attachment:
    """A file's text.

    Args:
        helps: what to do where it is not there, for the message.

    Raises:
        UserError: it is not there, cannot be read, is too large, or has no text.
    """
    shown = one_line(name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UserError(f"{shown} is a folder. Attach a text file in it.")
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{shown} is not a regular file. Attach a text file, or pipe its output in.")
        if status.st_size > MOST_BYTES:
            size, most = size_of(status.st_size), size_of(MOST_BYTES)
            raise UserError(f"{shown} is {size}, above the {most} limit for a message. Attach a part of it.")
        data = plain_file.read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        raise UserError(f"There is no file {shown}. {helps}") from None
    except OSError as error:
        raise UserError(f"Cannot read {shown} ({error.strerror}). Attach another file.") from None
    text, notice = decoded(data, shown)
    return Attachment(name, text, len(data), notice=notice)


def decoded(data: bytes, shown: str) -> tuple[str, str]:
    """The text of some bytes, and a sentence where some of them are no text.

    Raises:
        UserError: this is binary.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    if data.startswith(b"%PDF-"):
        raise UserError(f"{shown} is a PDF document. Pipe its text in: pdftotext FILE - | specchat.")
    if encoding != "utf-16" and b"\0" in data:
        raise UserError(f"{shown} is binary, not text. Attach a text file.")
    try:
        text, notice = data.decode(encoding), ""
    except UnicodeDecodeError:
        text = data.decode(encoding, errors="replace")
        notice = f"{shown} is not entirely {encoding.upper()[:6].rstrip('-')}: unreadable characters are shown as �."
    return text.replace("\r\n", "\n"), notice


def pasted(text: str) -> str:
    """What stands for a long text in the input box; empty for a text that is short enough to stand there itself."""
    lines = text.count("\n") + 1
    if lines > 40:
        return f"{FOLDED}pasted {lines:,} lines]"
    return f"{FOLDED}pasted {len(text):,} characters]" if len(text) > 4000 else ""


def with_pastes(message: str, pastes: Mapping[str, str]) -> tuple[str, list[Attachment]]:
    """The message, and the pasted texts whose chips are in it. A chip at either end is taken out, one in a sentence stays."""
    found = sorted((chip for chip in pastes if chip in message), key=message.index)
    for _ in found:
        for chip in found:
            message = message.strip().removeprefix(chip).removesuffix(chip).strip()
    return message.replace(FOLDED, "["), [
        Attachment(chip.removeprefix(FOLDED)[:-1], text := pastes[chip], len(text.encode("utf-8", "replace")), file=False)
        for chip in found
    ]
