"""`python -m specchat.engine`: messages come on standard input and leave on standard output; all else goes to the log."""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
from collections.abc import MutableMapping
from typing import cast

from .logfile import log_path, redirect


def main() -> None:
    """Move the protocol off the descriptors 0 and 1, then serve until the parent goes."""
    # Before anything native is imported: libraries print to 1 and 2, and some read 0.
    commands, events = os.dup(0), os.dup(1)
    redirect(log_path())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        cast(io.TextIOWrapper, stream).reconfigure(line_buffering=True, errors="backslashreplace")
    faulthandler.enable(file=2)
    prepare(os.environ)  # read when the libraries are loaded, so it must be set before torch is
    # Ctrl-C reaches the terminal's whole group; the app decides on its meaning.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    from ..decoders.methods.auto import figures
    from ..plain_file import cache_folder
    from .server import Server

    figures.file = cache_folder() / "auto.json"
    Server(commands, events).run()


def prepare(environment: MutableMapping[str, str]) -> None:
    """Set variables, unless they are set: OpenMP's threads spin between two operators for about as
    long as Python needs, then sleep, and torch asks the system for huge pages.

    Threads that never sleep delay the working one when other processes want the cores too (the drawing process does); those
    that sleep at once take longer to wake than a small operator takes. On two idle cores a pass of the built-in model took
    1.6 ms this way, and 5.8 ms with threads that sleep at once (llama.cpp: 0.8 and 7.0 ms); next to a busy process on each core
    neither was clearly faster.

    Each pass reads all weights once: with huge pages the CPU translates a five-hundredth as many page addresses.
    """
    if "OMP_WAIT_POLICY" not in environment:
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
        environment.setdefault("GOMP_SPINCOUNT", "10000")
    environment.setdefault("THP_MEM_ALLOC_ENABLE", "1")


if __name__ == "__main__":
    main()
