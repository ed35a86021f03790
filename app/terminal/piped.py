"""`cat notes | specchat`: piped input goes with the first message, and the keyboard is the terminal's."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import BinaryIO

from ...errors import UserError
from ..attach.attachments import MOST_BYTES, decode
from ..text.amounts import size_of

NAME = "standard input"
"""Name of the attachment."""

SLOW_SECONDS = 0.7
"""Time without a byte after which a line says that specchat waits for a pipe's end."""

POLL_SECONDS = 0.1
"""Time between two checks for ctrl+c while nothing comes."""

CHUNK_BYTES = 1 << 18

TERMINAL = "/dev/tty"


def is_piped() -> bool:
    """Whether standard input is a pipe or a file."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def keyboard() -> int | None:
    """Open the terminal that specchat runs in; None if there is none."""
    try:
        return os.open(TERMINAL, os.O_RDWR)
    except OSError:
        return None


def read(source: BinaryIO) -> tuple[str, str]:
    """Read a pipe to its end; returns the text, and a sentence if some of it is no text.

    Raises:
        UserError: it is binary, or too much.
    """
    if not select.select([source], [], [], SLOW_SECONDS)[0]:
        print("specchat: reading standard input until it ends (ctrl+c to cancel) …", file=sys.stderr, flush=True)
    data = read_all(source)
    text, notice = decode(data, "The piped input")
    return (text, notice) if text.strip() else ("", "")


def read_all(source: BinaryIO) -> bytes:
    """Read the bytes of a pipe to its end. No read blocks, so that ctrl+c ends it at any moment: one between Python's check for
    signals and a blocking read would be lost.

    Raises:
        UserError: it is too much, or has no end.
    """
    data = bytearray()
    while len(data) <= MOST_BYTES:
        if select.select([source], [], [], POLL_SECONDS)[0]:
            more = os.read(source.fileno(), CHUNK_BYTES)
            if not more:
                return bytes(data)
            data += more
    raise UserError(f"The piped input is larger than {size_of(MOST_BYTES)}, the limit for a message. Pipe in a part of it.")


def take_over(terminal: int) -> None:
    """Make the keyboard standard input."""
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
