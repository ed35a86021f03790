"""Error sentences: from an exception, or from the engine's exit, to the one sentence that a person reads."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

from ..errors import Cancelled, UserError
from .logfile import log_path, log_traceback
from .messages import Failed

OUT_OF_MEMORY = (
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "failed to map segment",
)
"""Wordings of torch's CPU allocator, drivers and the system's loader of libraries, which raise plain errors."""


LAST_WORDS = re.compile(r"^(?:.*\.(?:c|cc|cpp|cu|h|m):\d+: |terminate called .*\n *what\(\): +)(.+)$", re.MULTILINE)
"""The last output of ggml and C++ before they end the process."""


STUCK = "The engine did not stop, so it was ended. Your chat is safe; send the message again, or choose another model."


def failure(id: int, error: BaseException, loading: str = "") -> Failed:
    """Make the event for an error in the command `id`; log all but user errors with their traceback.

    Callers catch BaseException on purpose: a Rust panic (tokenizers, safetensors) and a library's SystemExit derive from it,
    and neither may cost the engine.

    Args:
        id: of the command.
        error: as raised.
        loading: name of the model, if it was being loaded.
    """
    if isinstance(error, Cancelled):
        return Failed(id, "cancelled", f"Loading {loading} was cancelled." if loading else "Cancelled.")
    if isinstance(error, UserError):
        return Failed(id, "user", str(error))
    log_traceback(f"command {id} failed" + (f" loading {loading}" if loading else ""), error)
    if _is_memory(error):
        what = f"There is not enough memory for {loading}" if loading else "There was not enough memory for this answer"
        return Failed(id, "memory", f"{what}. Choose a smaller model, dtype or context, or close other programs.")
    kind = f"{type(error).__name__}: {error}".splitlines()[0][:200].rstrip(".")
    if isinstance(error, ImportError):
        return Failed(id, "bug", f"A package is missing or broken ({kind}). `specchat doctor` says how to fix it.")
    what = f"Could not load {loading}" if loading else "This answer was interrupted"
    return Failed(id, "bug", f"{what} ({kind}). You can continue; details are in {log_path()}.")


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    torch = sys.modules.get("torch")  # never imported for this: without torch there is no torch error
    if torch is not None and isinstance(error, getattr(torch, "OutOfMemoryError", ())):
        return True
    return isinstance(error, RuntimeError | ImportError | OSError) and any(
        words in str(error).lower() for words in OUT_OF_MEMORY
    )


def ending(code: int, ready: bool, log: Path, loading: str = "") -> str:
    """Write the sentence for an engine process that has ended unexpectedly.

    Args:
        code: the process's return code; negative is the signal that ended it.
        ready: whether it had ever answered.
        log: the engine's log file.
        loading: name of the model, if one was being loaded.
    """
    if not ready and code >= 0:
        return f"The engine could not start (exit code {code}). {log} says why; `specchat doctor` finds what is missing."
    if code == -signal.SIGKILL:
        return (
            "The engine was killed (signal 9), usually because memory ran out. If it happens again, choose a smaller model or "
            "context. Your chat is safe; send the message again to restart the engine."
        )
    how = f"signal {-code}, {_name(-code)}" if code < 0 else f"exit code {code}"
    if code == -signal.SIGABRT and (words := _last_words(log)):
        how = words
    if loading:
        return (
            f"The engine stopped while it loaded {loading} ({how}; see {log}): that file may be damaged, or of a kind that the "
            "runtime does not know. Your chat is safe; choose another model."
        )
    return f"The engine stopped unexpectedly ({how}; see {log}). Your chat is safe; send the message again to restart it."


def _last_words(log: Path) -> str:
    """Read a native library's message from when it ended the process, without the place in its source."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 65_536))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    messages = LAST_WORDS.findall(text.rpartition("Fatal Python error")[0][-2000:])
    return messages[-1][:200].rstrip(".") if messages else ""


def _name(number: int) -> str:
    try:
        return signal.strsignal(number) or signal.Signals(number).name
    except ValueError:
        return "unknown"
