"""Copying with the platform's own tool. Where there is none, the terminal is asked (OSC 52), which never answers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TIMEOUT_SECONDS = 2.0
"""xclip waits for ever for an X server that does not answer."""


def tool() -> list[str]:
    """The command that copies its standard input here; empty where there is none."""
    if sys.platform == "darwin":
        command = ["pbcopy"]
    elif os.environ.get("WAYLAND_DISPLAY"):
        command = ["wl-copy"]
    elif os.environ.get("DISPLAY"):
        command = ["xclip", "-selection", "clipboard", "-in"]
    else:
        return []
    return command if shutil.which(command[0]) else []


def copy(text: str) -> str:
    """Copy a text with the platform's tool; its name, empty if it did not. It may take TIMEOUT_SECONDS."""
    if not (command := tool()):
        return ""
    try:
        # Its output goes nowhere: xclip stays in the background and would keep a pipe open. Without a locale pbcopy takes
        # UTF-8 for Mac Roman.
        subprocess.run(
            command,
            input=text.encode("utf-8", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            env={**os.environ, "LC_ALL": "en_US.UTF-8"},
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return command[0]
