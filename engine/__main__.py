"""`python -m specchat.engine`: messages come on standard input and leave on standard output; all else goes to the log."""

from __future__ import annotations

import faulthandler
import io
import os
import signal
import sys
from typing import cast

from .logfile import log_path, redirect


def main() -> None:
    """Secure the protocol's descriptors, then serve until the parent goes."""
    # Before anything native is imported: libraries print to 1 and 2, and some read 0.
    commands, events = os.dup(0), os.dup(1)
    redirect(log_path())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        cast(io.TextIOWrapper, stream).reconfigure(line_buffering=True, errors="backslashreplace")
    faulthandler.enable(file=2)
    # OpenMP's threads spin between two operators by default. Where others want the cores too (the drawing process does) a
    # spinning thread holds up the one that has work: 48 tokens of the built-in model took 0.4 s instead of 7 to 36 s on two
    # busy cores. Read when the library is loaded, so it must be set before torch is.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Ctrl-C reaches the terminal's whole group; what it means is the app's to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    from ..decoders.methods.auto import figures
    from ..plain_file import cache_folder
    from .server import Server

    figures.file = cache_folder() / "auto.json"
    Server(commands, events).run()


if __name__ == "__main__":
    main()
