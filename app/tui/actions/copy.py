"""Copying an answer, a message, a block of code or the selection. Clipboard tools run in the background."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from threading import Lock
from typing import NamedTuple

from textual.app import App

from ....errors import NotPossible, UserError, counted
from ...chat.entries import Answer, Prompt
from ...settings import actions
from ...text.cells import one_line, sanitise
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .dispatch import runs

TIMEOUT_SECONDS = 2.0
"""Longest run of a clipboard tool: xclip waits forever for an X server that does not answer."""


class CodeBlock(NamedTuple):
    """One block of code."""

    text: str
    """Code without the fence and the last line break."""
    language: str = ""
    """Language named by the fence; empty for none, and for indented code."""

    @property
    def lines(self) -> str:
        return counted(self.text.count("\n") + 1, "line")


def code_blocks(answer: str) -> list[CodeBlock]:
    """List the blocks of code in an answer, in order; a fence still open counts up to its end."""
    from markdown_it import MarkdownIt  # 20 ms, unused in most chats

    parser = MarkdownIt("commonmark").disable("inline")  # inline rules take most of the time
    blocks = []
    for token in parser.parse(answer.replace("\r\n", "\n")):
        if token.type in ("fence", "code_block") and token.content.strip():
            language = one_line(token.info).split()[:1] if token.type == "fence" else []
            blocks.append(CodeBlock(token.content.removesuffix("\n"), "".join(language)[:24]))
    return blocks


def clipboard_tool() -> list[str]:
    """Find the platform's command that copies its standard input; empty if there is none."""
    if sys.platform == "darwin":
        command = ["pbcopy"]
    elif os.environ.get("WAYLAND_DISPLAY"):
        command = ["wl-copy"]
    elif os.environ.get("DISPLAY"):
        command = ["xclip", "-selection", "clipboard", "-in"]
    else:
        return []
    return command if shutil.which(command[0]) else []


def copy_with_tool(text: str) -> str:
    """Copy a text with the platform's tool, within TIMEOUT_SECONDS; return its name, empty on failure."""
    if not (command := clipboard_tool()):
        return ""
    try:
        # No pipes: xclip stays in the background and would keep them open. Without a locale pbcopy reads UTF-8 as Mac Roman.
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


class Copier:
    """Copies parts of the chat, and reports truly how it went. Control characters are copied in their visible form: pasted
    into a shell they could run something.

    Args:
        app: asks the terminal to copy.
    """

    def __init__(self, host: Host, app: App[None]) -> None:
        self.host = host
        self._app = app
        self._tool_lock = Lock()

    @runs(actions.COPY_ANSWER)
    def copy(self, *words: str) -> None:
        """Copy the marked message or answer, else the last answer; with `code`, a block of code."""
        if words == ("code",):
            self.copy_code()
            return
        if words:
            raise UserError("/copy takes nothing (the marked message or the last answer) or code (a block of code).")
        marked, last = self.host.view.mark.entry, self._answers()[-1:]
        if isinstance(marked, Prompt):
            self.text(marked.text, "your message")
        elif isinstance(marked, Answer) and marked.text:
            self.text(marked.text, "the marked answer" if marked.done else "the marked answer so far")
        elif last:
            self.text(last[0].text, "the answer" if last[0].done else "the answer so far")
        else:
            raise NotPossible("There is no answer to copy yet.")

    def _answers(self) -> list[Answer]:
        return [answer for answer in self.host.dialogue.transcript.answers() if answer.text]

    @runs(actions.COPY_CODE)
    def copy_code(self) -> None:
        """Copy a block of code of the marked answer, else of the last answer; a menu chooses between several."""
        marked = self.host.view.mark.entry
        answers = [marked] if isinstance(marked, Answer) else self._answers()[-1:]
        blocks = [block for answer in answers for block in code_blocks(answer.text)]
        if not blocks:
            raise NotPossible("This answer has no block of code. Mark another one with alt+up and alt+down.")

        def choose(index: str) -> None:
            block = blocks[int(index)]
            which = f"block {int(index) + 1} of {len(blocks)}" if len(blocks) > 1 else "the code"
            self.text(block.text, f"{which} ({', '.join(filter(None, (block.language, block.lines)))})")

        if len(blocks) == 1:
            choose("0")
            return
        items = [
            MenuItem(str(index), block.language or "text", block.lines, detail=one_line(block.text.strip().splitlines()[0]))
            for index, block in enumerate(blocks)
        ]
        self.host.ask(Menu("Copy code", items, "", self.host.live.keymap), choose)

    def text(self, text: str, what: str) -> None:
        """Copy a text and report the outcome in a notice.

        Args:
            text: any; control characters are made visible.
            what: its name in the notice: "the answer".
        """
        text = sanitise(text)
        self._app.copy_to_clipboard(text)

        def copy() -> str:
            with self._tool_lock:  # two at once would overwrite each other
                return copy_with_tool(text)

        def report(tool: str) -> None:
            sent = f"Sent {what} to the terminal's clipboard (OSC 52). Terminals do not confirm this."
            self.host.tell(f"Copied {what} with {tool}." if tool else sent)

        if clipboard_tool():
            self.host.in_background(copy, report)
        else:
            report("")
