"""Text out of PDF files. A process of its own reads them: it may be ended, and its memory is limited, whatever the file holds.

`python -m specchat.app.attach.pdf FILE MOST SECONDS` prints an object with `text` and `notice`, or with `problem`. pypdf comes
with the extra `documents`; only that process imports it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from time import monotonic
from typing import Any

from ...errors import UserError

MOST_BYTES = 50_000_000
"""Bytes of a PDF file: pictures make most of a large one."""

TIME_SECONDS = 30.0
"""Longest reading. 1,000 pages took 3 s on two busy cores."""

MEMORY_BYTES = 2_000_000_000
"""Most address space of the process (where the system limits it)."""

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a PDF file."""

    text: str
    notice: str = ""
    """A sentence where something has no text."""


def is_pdf(path: Path) -> bool:
    return path.suffix.lower() == ".pdf"


def extract(
    path: Path, shown: str, most: int, given_up: Callable[[], bool] = lambda: False, seconds: float = TIME_SECONDS
) -> Extracted:
    """The text of a PDF file. Blocks until it is there: not for the interface's own thread.

    Args:
        shown: its name in sentences.
        most: characters of text.
        given_up: asked now and then; True ends it.

    Raises:
        UserError: no text can be had; says why and what to do.
    """
    # -P: never import from the working folder, where anything may lie under the name of a library.
    command = [sys.executable, "-P", "-m", __name__, str(path.absolute()), str(most), str(int(seconds))]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        process_group=0,
    ) as process:
        try:
            out = _output(process, monotonic() + seconds, given_up)
        finally:
            process.kill()  # nothing happens where it has ended
    if out is None:
        if given_up():
            raise UserError(f"You stopped reading {shown}. Send the message again, or remove the file from it.")
        raise UserError(f"{shown} takes more than {seconds:.0f} s to read. Attach a part of it, or save it as text.")
    try:
        body = json.loads(out)
    except ValueError:  # it was ended, by the limit on its memory or its processor time, or by a fault in the library
        body = {"problem": "memory"}
    if "text" in body:
        return Extracted(body["text"], body["notice"].replace("{}", shown))
    raise UserError(_sentence(body["problem"], shown, most))


def _output(process: subprocess.Popen[bytes], until: float, given_up: Callable[[], bool]) -> bytes | None:
    """All that it writes; None if it was not to be waited for."""
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if given_up() or monotonic() > until:
                return None


def _sentence(problem: str, shown: str, most: int) -> str:
    match problem:
        case "missing":
            install = f"{quote(sys.executable)} -m pip install pypdf"
            return f"{shown} is a PDF document, which needs a library that is not installed. Run: {install}"
        case "encrypted":
            return f"{shown} is password-protected. Save it without a password and attach that."
        case "scanned":
            return f"{shown} has no text, only pictures. Run text recognition on it first, such as ocrmypdf."
        case "large":
            return f"{shown} has more than {most / 1e6:.1f} million characters of text. Attach a part of it."
        case "memory":
            return f"{shown} needs too much memory or time to read. Save it as text and attach that."
        case _:
            return (
                f"{shown} cannot be read as a PDF document; it may be damaged. Save it again from the program that made it, or "
                "as text."
            )


# The process that reads


def read(path: Path, most: int) -> dict[str, str]:
    """A file's text, or the problem with it."""
    try:
        from pypdf import PdfReader
    except ImportError:
        return {"problem": "missing"}
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not _opened(reader):
            return {"problem": "encrypted"}
        pages, left = [], most
        for number, page in enumerate(reader.pages, 1):
            if found := page.extract_text().replace("\r\n", "\n").replace("\0", "").strip():
                pages.append(f"[Page {number}]\n{found}\n")
                left -= len(pages[-1]) + 1
                if left < 0:
                    return {"problem": "large"}
        count = len(reader.pages)
    except (MemoryError, RecursionError):
        return {"problem": "memory"}
    except Exception:  # the library raises anything where a file is not what it expects
        return {"problem": "damaged"}
    if not pages:
        return {"problem": "scanned"}
    empty = count - len(pages)
    notice = f"{empty:,} of the {count:,} pages of {{}} have no text, perhaps only pictures." if empty else ""
    return {"text": "\n".join(pages), "notice": notice}


def _opened(reader: Any) -> bool:
    """Whether a PDF file opens without a password: many are protected against changes alone."""
    with suppress(Exception):  # its cipher needs a library of its own
        return bool(reader.decrypt(""))
    return False


def limit(seconds: int) -> None:
    """Bound the memory and the processor time of this process."""
    import resource

    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CPU, seconds + 1)):
        with suppress(OSError, ValueError):  # macOS takes no limit of memory
            resource.setrlimit(what, (most, most))


def main() -> None:
    """Read the file that the command line names."""
    file, most, seconds = sys.argv[1:]
    limit(int(seconds))
    # As ASCII: a PDF file may hold lone surrogates.
    print(json.dumps(read(Path(file), int(most))))


if __name__ == "__main__":
    main()
