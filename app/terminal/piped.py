"""`cat notes | specchat`: what is piped in goes with the first message, and the keyboard comes from the terminal itself."""

from __future__ import annotations

import os
import select
import stat
import sys
from threading import Timer
from typing import BinaryIO

from ...errors import UserError
from ..attach.attachments import MOST_BYTES, decoded
from ..text.amounts import size_of

NAME = "standard input"
"""What the attachment is called."""

SLOW_SECONDS = 0.7
"""A pipe that is not at its end by then is waited for with a line that says so."""

POLL_SECONDS = 0.1
"""How often to look for ctrl+c while nothing comes."""

CHUNK_BYTES = 1 << 18

TERMINAL = "/dev/tty"


def is_piped() -> bool:
    """Whether standard input is a pipe or a file."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)


def keyboard() -> int | None:
    """The terminal that specchat runs in, opened; None if there is none."""
    try:
        return os.open(TERMINAL, os.O_RDWR)
    except OSError:
        return None


def read(source: BinaryIO) -> tuple[str, str]:
    """What comes through a pipe until its end: the text, and a sentence where some of it is no text.

    Raises:
        UserError: it is binary, or too much.
    """
    waiting = Timer(SLOW_SECONDS, _waiting)
    waiting.daemon = True
    waiting.start()
    try:
        data = whole(source)
    finally:
        waiting.cancel()
    text, notice = decoded(data, "The piped input")
    return (text, notice) if text.strip() else ("", "")


def whole(source: BinaryIO) -> bytes:
    """What comes until a pipe's end. Ctrl+c ends it at any moment: one that came between the last look at signals and a read
    that blocks would not, so none blocks.

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


def _waiting() -> None:
    print("specchat: reading standard input until it ends (ctrl+c to cancel) …", file=sys.stderr, flush=True)


def take_over(terminal: int) -> None:
    """Let the keyboard be standard input from now on."""
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
