"""Where `specchat` and `python -m specchat` begin. Imports next to nothing before ctrl+c has its meaning."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """The console entry point."""
    # Not KeyboardInterrupt: wherever that lands (an import, a callback, the interpreter's end) Python prints a traceback. What
    # has something to finish sets its own handler while it lasts.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)

    if sys.stderr is None:  # 2>&-: whatever is opened next would be written to as standard error
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")

    from .app.cli import main as cli

    cli.main()


def _leave(number: int, frame: object) -> None:
    os._exit(128 + number)


if __name__ == "__main__":
    main()
