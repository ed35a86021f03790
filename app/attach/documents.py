"""Text out of PDF and office files. A process of its own reads them: it may be ended, and its memory is limited, whatever the
file holds.

The libraries come with the extra `documents`; nothing here but the child process (`document_text`) imports them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from time import monotonic

from ...errors import UserError

KINDS = {
    ".pdf": "PDF",
    ".docx": "Word",
    ".xlsx": "Excel",
    ".xlsm": "Excel",
    ".pptx": "PowerPoint",
    ".odt": "OpenDocument",
    ".ods": "OpenDocument",
    ".odp": "OpenDocument",
}
"""Suffix → what it is called."""

LIBRARIES = ("defusedxml", "openpyxl", "pypdf", "python-docx", "python-pptx")
"""The extra `documents`."""

OLD = {".doc": ".docx", ".xls": ".xlsx", ".ppt": ".pptx"}
"""Formats that no light library reads → those to save them in."""

MOST_BYTES = 50_000_000
"""Of a document: pictures make most of a large one."""

TIME_SECONDS = 30.0
"""Longest reading. 1,000 pages of PDF took 3 s, 25,000 paragraphs of Word 0.5 s, 30,000 rows of Excel 7 s on two busy cores."""

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Extracted:
    """The text of a document."""

    text: str
    notice: str = ""
    """A sentence where something has no text."""


def install_command() -> str:
    """What installs the libraries into this Python, wherever specchat itself came from."""
    return f"{quote(sys.executable)} -m pip install {' '.join(LIBRARIES)}"


def refused(suffix: str, shown: str) -> UserError | None:
    """What to say of a file that is an office document in an old format; None if it is not."""
    if (better := OLD.get(suffix)) is None:
        return None
    return UserError(f"{shown} is in an old office format, which cannot be read: save it as {better} and attach that.")


def extract(
    path: Path, shown: str, most: int, given_up: Callable[[], bool] = lambda: False, seconds: float = TIME_SECONDS
) -> Extracted:
    """The text of a document. Blocks until it is there: not for the interface's own thread.

    Args:
        path: a file with one of KINDS' suffixes.
        shown: its name in sentences.
        most: characters of text.
        given_up: asked now and then; True ends it.
        seconds: longest time.

    Raises:
        UserError: no text can be had; says why and what to do.
    """
    kind = KINDS[path.suffix.lower()]
    # -P: never import from the working folder, where anything may lie under the name of a library.
    limits = [str(most), str(int(seconds))]
    command = [sys.executable, "-P", "-m", "specchat.app.attach.document_text", str(path.absolute()), *limits]
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
            raise UserError(f"Reading {shown} was given up: send the message again, or take the name out.")
        raise UserError(f"{shown} takes longer than {seconds:.0f} s to read: attach a part of it, or save it as text.")
    try:
        body = json.loads(out)
    except ValueError:  # it was ended, by the limit on its memory or its processor time, or by a fault in a library
        body = {"problem": "memory"}
    if "text" in body:
        return Extracted(body["text"], body["notice"].replace("{}", shown))
    raise UserError(_sentence(body["problem"], kind, shown, most))


def _output(process: subprocess.Popen[bytes], until: float, given_up: Callable[[], bool]) -> bytes | None:
    """All that it writes; None if it was not to be waited for."""
    while True:
        try:
            return process.communicate(timeout=_POLL_SECONDS)[0]
        except subprocess.TimeoutExpired:
            if given_up() or monotonic() > until:
                return None


def _sentence(problem: str, kind: str, shown: str, most: int) -> str:
    """What a problem means, and what to do."""
    what = f"{shown} is {'an' if kind[0] in 'EO' else 'a'} {kind} document"
    match problem:
        case "missing":
            return f"{what}; its text needs libraries that are not installed: {install_command()}"
        case "encrypted":
            return f"{shown} is protected with a password: save it without one and attach that."
        case "scanned":
            return f"{shown} has no text, only pictures: let a text recognition (such as ocrmypdf) read it first."
        case "empty":
            return f"{shown} has no text in it: attach another file."
        case "large":
            return f"{shown} has more than {most / 1e6:.1f} million characters of text: attach a part of it."
        case "bomb":
            return f"{shown} unpacks to far more than a document holds, so it is not read: save it anew, or as text."
        case "memory":
            return f"{shown} needs more memory or time to read than a document should: save it as text and attach that."
        case _:
            return f"{what}, but cannot be read as one, so it may be damaged: open it in its program, save it anew, or as text."
