"""Files and long texts that go with a message: finding them, reading them, framing them for a model, folding them for the eye.

A message is kept as it was sent, contents and all, so a saved chat lacks nothing; `folded` gives what a screen shows of it.
"""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from ... import plain_file
from ...engine.options import kind_of_image
from ...errors import UserError
from ...plain_file import user_path
from ..text.amounts import size_of
from ..text.cells import one_line
from . import pdf
from .files import GivenUp, walk

MOST_BYTES = 2_000_000
"""Bytes of one file. Far more than a local model's context holds; a file above it was hardly meant."""

MOST_IMAGE_BYTES = 10_000_000
"""Bytes of one image."""

IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""Ends of image files' names."""

MOST_FILES = 200
"""Files of one folder."""

OFFICE = (".doc", ".docx", ".xls", ".xlsx", ".xlsm", ".ppt", ".pptx", ".odt", ".ods", ".odp")
"""What office programs save; none of it is read."""

WALK_SECONDS = 10.0
"""The longest look through a folder."""

# A quote that is left open ends with its line: a folder's is, when it was completed.
_MENTION = re.compile(r"""(?<!\S)@(?:"([^"\n]+)(?:"|$)|'([^'\n]+)(?:'|$)|([^\s@"'][^\s]*))""", re.MULTILINE)
_ESCAPED = re.compile(r"(?<!\S)@@(?=\S)")
_HEADER = re.compile(r"^Attached (?:file|text|image): ([^\n]{1,300}) \(([\d,.]+ [kM]?B)\)\n(`{3,})\n", re.MULTILINE)
_TICKS = re.compile(r"`+")

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True, slots=True)
class Attachment:
    """One text, or image, that goes with a message."""

    name: str
    text: str
    size: int
    """Bytes, as read."""
    file: bool = True
    image: bool = False
    """The text is a `data:` address that holds an image."""
    notice: str = ""
    """A sentence where the text is not quite what the file holds."""

    def framed(self) -> str:
        """What the model gets: the name, and the text in a fence longer than any row of backticks in it."""
        fence = "`" * max(3, 1 + max((len(row) for row in _TICKS.findall(self.text)), default=0))
        kind = "image" if self.image else "file" if self.file else "text"
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
    return message, [_parted(header[1], header[0].split(maxsplit=2)[1], inner) for header, inner in found]


def _parted(name: str, kind: str, text: str) -> Attachment:
    size = len(text.partition(",")[2]) * 3 // 4 if kind == "image:" else len(text.encode("utf-8", "replace"))
    return Attachment(name, text, size, file=kind != "text:", image=kind == "image:")


def escaped(message: str) -> str:
    """A message that was sent, as it is typed: `attach` makes it this message again, and attaches nothing."""
    return re.sub(r"(?<!\S)@(?=\S)", "@@", message)


def attach(message: str, folder: Path | None = None, given_up: GivenUp | None = None) -> tuple[str, list[Attachment]]:
    """The message, and the files that its `@path`s name. `@@` stands for an @ that names none.

    Args:
        folder: what relative paths are relative to; the working folder if None.
        given_up: as GivenUp.

    Raises:
        UserError: a file is not there or cannot go with a message; nothing should be sent.
    """
    attachments: dict[Path, Attachment] = {}
    for name in mentioned(message):
        path = _path(name, folder)
        if not os.path.exists(path) and (shorter := name.rstrip(".,;:!?)")) != name and shorter:
            name, path = shorter, _path(shorter, folder)
        for file, label in _files(path, name, given_up):
            if file not in attachments:
                attachments[file] = read(file, label, given_up, "Check the name, or write @@ for a plain @.")
    return _ESCAPED.sub("@", message), list(attachments.values())


def read_all(path: Path, name: str) -> list[Attachment]:
    """A file, or the text files of a folder.

    Raises:
        UserError: as `read`; or a folder that has none, or too many.
    """
    return [read(file, label) for file, label in _files(path, name)]


def slow(message: str) -> bool:
    """Whether a message names what takes time to read: a folder, or a PDF file."""
    for name in mentioned(message):
        for end in {name, name.rstrip(".,;:!?)")}:
            if pdf.is_pdf(Path(end)) or (end and os.path.isdir(_path(end, None))):
                return True
    return False


def mentioned(message: str) -> Iterator[str]:
    """The names after an @ that begins a word."""
    for match in _MENTION.finditer(message):
        yield match[1] or match[2] or match[3]


def _path(name: str, folder: Path | None) -> Path:
    if "\0" in name:
        raise UserError(f"{one_line(name)} is not a file name: it contains a NUL character.")
    path = user_path(name)
    return path if folder is None else folder / path


def _files(path: Path, name: str, given_up: GivenUp | None = None) -> Iterator[tuple[Path, str]]:
    if not os.path.isdir(path):
        yield path, name
        return
    found = []
    total = 0
    late = until(WALK_SECONDS)
    for file in walk(path, given_up=lambda: late() or (given_up is not None and given_up())):
        try:
            size = file.stat().st_size
            if size > MOST_BYTES or pdf.is_pdf(file) or _binary(file):
                continue
        except OSError:
            continue
        total += size
        found.append(file)
        if len(found) > MOST_FILES or total > MOST_BYTES:
            raise UserError(
                f"The folder {one_line(name)} has more than {MOST_FILES} text files or {size_of(MOST_BYTES)}. Attach a folder "
                "inside it, or single files."
            )
    if given_up is not None and given_up():
        raise UserError(f"You stopped reading the folder {one_line(name)}.")
    if late():
        raise UserError(
            f"Searching the folder {one_line(name)} takes more than {WALK_SECONDS:g} s. Attach a folder inside it, or single "
            "files."
        )
    if not found:
        raise UserError(
            f"The folder {one_line(name)} has no text files (hidden and ignored files do not count). Attach a file."
        )
    for file in found:
        yield file, f"{name.rstrip('/')}/{file.relative_to(path).as_posix()}"


def until(seconds: float) -> GivenUp:
    """Gives up so many seconds from now."""
    end = monotonic() + seconds
    return lambda: monotonic() > end


def _binary(file: Path) -> bool:
    with plain_file.opened(file) as opened:
        start = opened.read(4096)
    return b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff"))


def read(path: Path, name: str, given_up: GivenUp | None = None, helps: str = "Check the path.") -> Attachment:
    """A file's text. A PDF file may take many seconds.

    Args:
        given_up: as GivenUp.
        helps: what to do where it is not there, for the message.

    Raises:
        UserError: it is not there, cannot be read, is too large, or has no text.
    """
    shown = one_line(name)
    document = pdf.is_pdf(path)
    image = path.suffix.lower() in IMAGES
    most = pdf.MOST_BYTES if document else MOST_IMAGE_BYTES if image else MOST_BYTES
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{shown} is not a regular file. Attach a text file, or pipe its output in.")
        if path.suffix.lower() in OFFICE and _binary(path):
            raise UserError(
                f"{shown} is an office document, which specchat cannot read. Save it as text or PDF and attach that."
            )
        if status.st_size > most:
            fit = "limit for a PDF file" if document else "limit for an image" if image else "limit for a message"
            helps = "Make it smaller." if image else "Attach a part of it."
            raise UserError(f"{shown} is {size_of(status.st_size)}, above the {size_of(most)} {fit}. {helps}")
        if document:
            path.open("rb").close()
            found = pdf.extract(path, shown, MOST_BYTES, given_up or (lambda: False))
            return Attachment(name, found.text, status.st_size, notice=found.notice)
        data = plain_file.read_bytes(path, most)
    except FileNotFoundError:
        raise UserError(f"There is no file {shown}. {helps}") from None
    except OSError as error:
        raise UserError(f"Cannot read {shown} ({error.strerror}). Attach another file.") from None
    if kind := kind_of_image(data):
        return Attachment(name, f"data:image/{kind};base64,{b64encode(data).decode()}", len(data), image=True)
    text, notice = decoded(data, shown)
    return Attachment(name, text, len(data), notice=notice)


def refuse_images(attachments: Iterable[Attachment], why: str) -> None:
    """Refuse images where a model cannot see them.

    Args:
        why: the reason, a clause with what helps behind it; empty where it can.

    Raises:
        UserError: there is one.
    """
    image = next((each for each in attachments if each.image), None)
    if image is not None and why:
        raise UserError(f"{one_line(image.name)} is an image, and {why}")


def decoded(data: bytes, shown: str) -> tuple[str, str]:
    """The text of some bytes, and a sentence where some of them are no text.

    Raises:
        UserError: this is binary.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
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
        return f"[pasted {lines:,} lines]"
    return f"[pasted {len(text):,} characters]" if len(text) > 4000 else ""


def with_pastes(message: str, pastes: Mapping[str, str]) -> tuple[str, list[Attachment]]:
    """The message, and the pasted texts whose chips are in it. A chip at either end is taken out, one in a sentence stays."""
    found = sorted((chip for chip in pastes if chip in message), key=message.index)
    for _ in found:
        for chip in found:
            message = message.strip().removeprefix(chip).removesuffix(chip).strip()
    return message, [
        Attachment(chip[1:-1], text := pastes[chip], len(text.encode("utf-8", "replace")), file=False) for chip in found
    ]
