"""Copying: the system's own tool where there is one, and the terminal's clipboard (OSC 52) in any case."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TIMEOUT_SECONDS = 2.0
"""xclip waits for ever for an X server that does not answer."""


def tool() -> list[str] | None:
    """The command that copies its standard input here, None where there is none."""
    candidates: list[list[str]] = []
    if sys.platform == "darwin":
        candidates.append(["pbcopy"])
    if os.environ.get("WAYLAND_DISPLAY"):
        candidates.append(["wl-copy"])
    if os.environ.get("DISPLAY"):
        candidates += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if "microsoft" in os.uname().release.lower():
        candidates.append(["clip.exe"])
    return next((command for command in candidates if shutil.which(command[0])), None)


def copy_with_tool(text: str) -> str | None:
    """Copy with the system's tool; its name if it reported success, None otherwise."""
    command = tool()
    if command is None:
        return None
    try:
        # Output goes nowhere: xclip stays in the background and would keep a pipe open.
        subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return command[0]


def told(what: str, by: str | None) -> str:
    """What was done, in words that claim no more than is known."""
    if by is not None:
        return f"Copied {what} with {by}."
    return f"Sent {what} to the terminal's clipboard (OSC 52). If it did not arrive, the terminal does not allow that."
