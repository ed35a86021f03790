"""Copying. The system's own tool copies; where there is none, the terminal is asked (OSC 52), which never answers, and that is
said."""

from __future__ import annotations

import base64
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from ..text.amounts import size_of

TIMEOUT_SECONDS = 2.0
"""xclip waits for ever for an X server that does not answer."""

WINDOWS_SECONDS = 8.0
"""A program of Windows takes longer to start."""

LONG_BYTES = 74_994
"""Bytes of text, 100,000 as OSC 52 writes it: what xterm, hterm and others take at most."""

SCREEN_BYTES = 756
"""Bytes of one string that GNU screen passes on to the terminal; it drops longer ones (its limit is 768)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that copies its standard input."""

    name: str
    command: tuple[str, ...]
    buffer: bool = False
    """It fills tmux's own buffer; whether the terminal's clipboard gets it too cannot be known."""
    windows: bool = False
    """It takes UTF-16."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How a copy went."""

    tool: Tool | None = None
    """The tool whose clipboard has the text; None if no tool's has."""
    failed: str = ""
    """The first tool that did not take it."""


def tools(environment: Mapping[str, str] | None = None) -> list[Tool]:
    """The programs that can copy here, best first."""
    env = os.environ if environment is None else environment
    path = env.get("PATH")
    found: list[Tool] = []
    if sys.platform == "darwin":
        found.append(Tool("pbcopy", ("pbcopy",)))
    if env.get("WAYLAND_DISPLAY"):
        found.append(Tool("wl-copy", ("wl-copy",)))
    if env.get("DISPLAY"):
        found += [Tool("xclip", ("xclip", "-selection", "clipboard", "-in")), Tool("xsel", ("xsel", "--clipboard", "--input"))]
    if "microsoft" in platform.release().lower():
        found.append(Tool("clip.exe", ("clip.exe",), windows=True))
    if env.get("TMUX"):
        # -w also sends it to the terminal, which tmux does for its own buffers even where programs may not.
        found.append(Tool("tmux", ("tmux", "load-buffer", "-w", "-"), buffer=True))
    return [tool for tool in found if shutil.which(tool.command[0], path=path)]


def copy(text: str) -> Copied:
    """Copy with the first tool that takes it. Takes as long as the tools do: call it beside the interface."""
    failed = ""
    for tool in tools():
        if _give(tool, text):
            return Copied(tool, failed)
        failed = failed or tool.name
    return Copied(None, failed)


def _give(tool: Tool, text: str) -> bool:
    data = b"\xff\xfe" + text.encode("utf-16-le", "replace") if tool.windows else text.encode("utf-8", "replace")
    commands = [tool.command]
    if tool.buffer:
        commands.append(tuple(word for word in tool.command if word != "-w"))  # tmux before 3.2 has no -w
    return any(_run(command, data, tool) for command in commands)


def _run(command: tuple[str, ...], data: bytes, tool: Tool) -> bool:
    """Whether a command took what it was given, in time."""
    try:
        subprocess.run(
            command,
            input=data,
            # Nowhere: xclip stays in the background and would keep a pipe open.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WINDOWS_SECONDS if tool.windows else TIMEOUT_SECONDS,
            # Without a locale pbcopy takes UTF-8 for Mac Roman.
            env={**os.environ, "LC_ALL": "en_US.UTF-8"} if tool.name == "pbcopy" else None,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def osc52(text: str, environment: Mapping[str, str] | None = None) -> str:
    """What asks the terminal to copy, in a form that tmux and GNU screen pass on to it."""
    env = os.environ if environment is None else environment
    plain = f"\x1b]52;c;{base64.b64encode(text.encode('utf-8', 'replace')).decode()}\a"
    if env.get("TMUX"):
        # The first is for a tmux that takes it itself (set-clipboard on), the second for one that passes it on.
        return f"{plain}\x1bPtmux;\x1b{plain}\x1b\\"
    if env.get("STY"):
        return "".join(f"\x1bP{plain[at : at + SCREEN_BYTES]}\x1b\\" for at in range(0, len(plain), SCREEN_BYTES))
    return plain


def told(what: str, copied: Copied, text: str, remote: bool | None = None) -> str:
    """What was done, in words that claim no more than is known.

    Args:
        what: names it: "the answer".
        copied: how the tools did.
        text: what was copied.
        remote: whether specchat runs on another machine than the terminal; looked up if None.
    """
    size = len(text.encode("utf-8", "replace"))
    limits = f" It is long ({size_of(size)}), and some terminals take no more than 75 kB." if size > LONG_BYTES else ""
    remote = is_remote() if remote is None else remote
    tool = copied.tool
    if tool is None:
        failed = f"{copied.failed} could not copy {what}, so specchat sent it" if copied.failed else f"Sent {what}"
        return (
            f"{failed} to the terminal's clipboard (OSC 52). Terminals do not confirm this.{limits} If nothing arrives, "
            f"{hint()}."
        )
    unsure = f"sent it to {'the' if tool.buffer else 'your'} terminal, which does not confirm it.{limits}"
    if tool.buffer:
        return f"Copied {what} to tmux's buffer, and {unsure} tmux's paste key works in any case."
    if remote:
        return f"Copied {what} on {one_host()} with {tool.name}, and {unsure}"
    return f"Copied {what} with {tool.name}."


def asks_terminal(copied: Copied, remote: bool | None = None) -> bool:
    """Whether the terminal is asked too: where no tool's clipboard is surely the one in front of the user."""
    remote = is_remote() if remote is None else remote
    return copied.tool is None or copied.tool.buffer or remote


def is_remote() -> bool:
    """Whether this is a session over ssh, so that a tool's clipboard may be the wrong machine's."""
    return bool(os.environ.get("SSH_TTY") or os.environ.get("SSH_CONNECTION"))


def one_host() -> str:
    """This machine's name."""
    return platform.node().split(".")[0] or "this machine"


def hint() -> str:
    """What to do where the terminal takes nothing."""
    env = os.environ
    if env.get("TMUX"):
        return "set set-clipboard on in tmux"
    if env.get("STY"):
        return "screen or the terminal blocks it; /export md writes a file instead"
    if env.get("WAYLAND_DISPLAY"):
        return "install wl-clipboard, or allow it in the terminal's settings"
    if env.get("DISPLAY"):
        return "install xclip, or allow it in the terminal's settings"
    return "allow it in the terminal's settings"
