"""Copying. The system's own tool copies, and what it gives back is compared; where there is none, the terminal is asked
(OSC 52), which never answers, and that is said."""

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
"""PowerShell takes a second or two to start."""

LONG_BYTES = 74_994
"""Of text, 100,000 as OSC 52 writes it: what xterm, hterm and others take at most."""

SCREEN_BYTES = 756
"""Of one string that GNU screen passes on to the terminal; it drops longer ones (its limit is 768)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that copies its standard input, and one that gives back what was copied."""

    name: str
    copy: tuple[str, ...]
    paste: tuple[str, ...] = ()
    """Empty where nothing can read the clipboard."""
    buffer: bool = False
    """It fills tmux's own buffer; whether the terminal's clipboard gets it too cannot be known."""
    windows: bool = False
    """It takes UTF-16 and gives back lines that end as on Windows."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How a copy went."""

    tool: Tool | None = None
    """Whose clipboard has the text; None if no tool's has."""
    checked: bool = False
    """It was read back, and was the same."""
    wrong: str = ""
    """The tool that gave back something else, or failed."""


def tools(environment: Mapping[str, str] | None = None) -> list[Tool]:
    """The programs that can copy here, best first."""
    env = os.environ if environment is None else environment
    path = env.get("PATH")
    found: list[Tool] = []
    if sys.platform == "darwin":
        found.append(Tool("pbcopy", ("pbcopy",), ("pbpaste",)))
    if env.get("WAYLAND_DISPLAY"):
        found.append(Tool("wl-copy", ("wl-copy",), ("wl-paste", "--no-newline")))
    if env.get("DISPLAY"):
        at = ("-selection", "clipboard")
        found.append(Tool("xclip", ("xclip", *at, "-in"), ("xclip", *at, "-out")))
        found.append(Tool("xsel", ("xsel", "--clipboard", "--input"), ("xsel", "--clipboard", "--output")))
    if "microsoft" in platform.release().lower():
        read = "[Console]::OutputEncoding=[Text.Encoding]::UTF8; [Console]::Out.Write((Get-Clipboard -Raw))"
        found.append(Tool("clip.exe", ("clip.exe",), ("powershell.exe", "-NoProfile", "-Command", read), windows=True))
    if env.get("TMUX"):
        # -w also sends it to the terminal, which tmux does for its own buffers even where programs may not.
        found.append(Tool("tmux", ("tmux", "load-buffer", "-w", "-"), ("tmux", "save-buffer", "-"), buffer=True))
    return [tool for tool in found if shutil.which(tool.copy[0], path=path)]


def copy(text: str) -> Copied:
    """Copy with the first tool that proves it. Takes as long as the tools do: call it beside the interface."""
    wrong, unread = "", None
    for tool in tools():
        if not _give(tool, text):
            wrong = wrong or tool.name
            continue
        back = _take(tool)
        if back is not None and _same(tool, text, back):
            return Copied(tool, True, wrong)
        if back is None and unread is None:
            unread = tool
        elif back is not None:
            wrong = wrong or tool.name
    return Copied(unread, False, wrong)


def _give(tool: Tool, text: str) -> bool:
    data = text.encode("utf-16-le", "replace") if tool.windows else text.encode("utf-8", "replace")
    commands = [tool.copy]
    if tool.buffer:
        commands.append(tuple(word for word in tool.copy if word != "-w"))  # tmux before 3.2 has no -w
    # Output goes nowhere: xclip stays in the background and would keep a pipe open.
    return any(_run(command, b"\xff\xfe" * tool.windows + data, tool) is not None for command in commands)


def _take(tool: Tool) -> str | None:
    """What the clipboard holds; None if it cannot be read."""
    if not tool.paste or shutil.which(tool.paste[0]) is None:
        return None
    data = _run(tool.paste, None, tool)
    return None if data is None else data.decode("utf-8", "replace")


def _run(command: tuple[str, ...], data: bytes | None, tool: Tool) -> bytes | None:
    """What a command prints, b"" for one that is given something; None if it failed or took too long."""
    try:
        done = subprocess.run(
            command,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            stdout=subprocess.PIPE if data is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WINDOWS_SECONDS if tool.windows else TIMEOUT_SECONDS,
            # Without a locale pbcopy and pbpaste take UTF-8 for Mac Roman, both of them, so that a comparison would not tell.
            env={**os.environ, "LC_ALL": "en_US.UTF-8"} if tool.name == "pbcopy" else None,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout or b""


def _same(tool: Tool, text: str, back: str) -> bool:
    """Whether what came back is what was given."""
    text = text.encode("utf-8", "replace").decode()
    if tool.windows:
        return back.lstrip("\ufeff").replace("\r\n", "\n").removesuffix("\n") == text.removesuffix("\n")
    return back == text


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
        failed = f"{copied.wrong} could not copy {what}, so specchat sent it" if copied.wrong else f"Sent {what}"
        return (
            f"{failed} to the terminal's clipboard (OSC 52). Terminals do not confirm this.{limits} If nothing arrives, "
            f"{hint()}."
        )
    if tool.buffer:
        where = f"Copied {what} to tmux's buffer (checked)" if copied.checked else f"Sent {what} to tmux"
        return f"{where}, and sent it to the terminal, which does not confirm it.{limits} tmux's paste key works in any case."
    if not copied.checked:
        return f"Copied {what} with {tool.name}. Nothing here can read the clipboard back to check."
    if remote:
        done = f"Copied {what} on {one_host()} with {tool.name} (checked)"
        return f"{done}, and sent it to your terminal, which does not confirm it.{limits}"
    return f"Copied {what} with {tool.name} (checked)."


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
