"""What to tell a person when the engine process has ended unasked."""

from __future__ import annotations

import signal
from pathlib import Path


def ending(code: int, ready: bool, log: Path) -> str:
    """One sentence on an unasked end.

    Args:
        code: the process's return code; negative is the signal that ended it.
        ready: whether it had ever answered.
        log: the engine's log file.
    """
    if not ready and code >= 0:
        return f"The engine could not start (exit code {code}): {log} says why, and `specchat doctor` what is missing."
    if code == -signal.SIGKILL:
        return (
            "The engine was killed (signal 9), as systems do when memory runs out: if it happens again, choose a smaller "
            "model or context. Your chat is kept; send again to start the engine afresh."
        )
    how = f"signal {-code}, {_name(-code)}" if code < 0 else f"exit code {code}"
    return f"The engine stopped unexpectedly ({how}; see {log}). Your chat is kept; send again to start it afresh."


def _name(number: int) -> str:
    try:
        return signal.strsignal(number) or signal.Signals(number).name
    except ValueError:
        return "unknown"
