"""Copying from the chat: an answer, a message, a block of code, a pass, everything. Clipboard tools run in the background."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from threading import Lock

from textual.app import App

from ....errors import NotPossible, UserError, counted
from ...chat.entries import Answer, Prompt
from ...settings import actions
from ...text.cells import fit, one_line, sanitise
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .dispatch import runs
from .rewrite import prompts_of

LOOK_BACK = 200_000
"""Characters of answers searched for code, last answer first (about 0.2 s)."""

TIMEOUT_SECONDS = 2.0
"""Longest run of a clipboard tool: xclip waits forever for an X server that does not answer."""

PREVIEW_ROWS = 3
"""Lines of each block in the menu of blocks."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One block of code."""

    text: str
    """Code without the fence and the last line break."""
    language: str = ""
    """Language named by the fence; empty for none, and for indented code."""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1

    def preview(self, cells: int) -> str:
        """Shorten the block to its first lines with text, each cut to fit."""
        lines = [line for line in self.text.expandtabs(4).splitlines() if line.strip()]
        rows = []
        for line in lines[:PREVIEW_ROWS]:
            indent = min(len(line) - len(line.lstrip(" ")), 12)
            rows.append(fit(" " * indent + one_line(line), cells))
        return "\n".join(rows + (["…"] if len(lines) > PREVIEW_ROWS else []))


def code_blocks(answer: str) -> list[CodeBlock]:
    """List the blocks of code in an answer, in order; a fence still open counts up to its end."""
    if not any(mark in answer for mark in ("```", "~~~", "    ", "\t")):
        return []
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
    def command(self, *words: str) -> None:
        """Copy the named part; without words, the inspected pass, else the marked entry, else the last answer."""
        view = self.host.view
        match words:
            case () if view.cursor.by_keys:
                self.run()
            case () if isinstance(view.mark.entry, Prompt):
                self.message()
            case () | ("answer",):
                self.answer()
            case ("code",):
                self.code()
            case ("code", number) if number.isdecimal():
                self.code(int(number))
            case ("thought",):
                self.thought()
            case ("message",):
                self.message()
            case ("pass" | "run",):
                self.run()
            case ("chat",):
                self.conversation()
            case _:
                raise UserError("/copy takes code, code N, thought, pass, message or chat; alone it copies the answer.")

    def answer(self) -> None:
        """Copy the marked answer, else the last one with text."""
        marked, last = self.host.view.mark.entry, self._last()
        answer = marked if isinstance(marked, Answer) and marked.text else last
        if answer is None:
            raise NotPossible("There is no answer to copy yet.")
        which = "the answer" if answer is last else "the marked answer"
        self.text(answer.text, which if answer.done else f"{which} so far")

    def thought(self) -> None:
        """Copy the thought of the marked answer, else the last thought."""
        marked = self.host.view.mark.entry
        answers = [marked] if isinstance(marked, Answer) else self.host.dialogue.transcript.answers()[::-1]
        thought = next(filter(None, (answer.thought for answer in answers)), "")
        if not thought:
            raise NotPossible("There is no thought to copy.")
        self.text(thought, "the thought")

    def message(self) -> None:
        """Copy the user's marked message, else the last one."""
        marked = self.host.view.mark.entry
        prompts = prompts_of(self.host)
        if not prompts:
            raise NotPossible("There is no message to copy yet.")
        self.text(marked.text if isinstance(marked, Prompt) else prompts[-1].text, "your message")

    def run(self) -> None:
        cursor = self.host.view.cursor
        answer = cursor.answer
        if answer is None or cursor.spot is None:
            raise NotPossible("No pass is selected. Select one with F7 and the arrow keys.")
        text = answer.own_text(cursor.spot.run)
        if not text:
            raise NotPossible("This pass has no text of its own.")
        self.text(text, f"the pass {fit(repr(one_line(text)), 32)}")

    def conversation(self) -> None:
        from ...export.markdown import chat_markdown
        from ...saved.chat_json import capture

        if not self.host.dialogue.transcript.has_messages:
            raise NotPossible("There is nothing to copy yet. Ask something first.")
        self.text("".join(chat_markdown(capture(self.host.dialogue))), "the chat")

    @runs(actions.COPY_CODE)
    def code(self, number: int | None = None) -> None:
        """Copy a block of code of the marked answer, else of the last answer with one; a menu chooses between several."""
        blocks, where = self._code()
        if number is not None and not 1 <= number <= len(blocks):
            raise UserError(
                f"{where.capitalize()} has {counted(len(blocks), 'block')} of code, but no number {number}. Take one of them."
            )
        if number is not None or len(blocks) == 1:
            self._copy_block(blocks, (number or 1) - 1)
            return
        cells = max(20, min(76, self.host.view.screen.size.width * 94 // 100) - 16)
        items = [
            MenuItem(str(index), block.language or "text", counted(block.lines, "line"), detail=block.preview(cells))
            for index, block in enumerate(blocks)
        ]
        menu = Menu(f"Copy code of {where}", items, "", self.host.live.keymap)
        self.host.ask(menu, lambda index: self._copy_block(blocks, int(index)))

    def _code(self) -> tuple[list[CodeBlock], str]:
        marked = self.host.view.mark.entry
        if isinstance(marked, Answer):
            if blocks := code_blocks(marked.text):
                return blocks, "the marked answer"
            raise NotPossible("The marked answer has no code. Mark another with alt+up and alt+down, or press esc.")
        last = self._last()
        unsearched = LOOK_BACK
        for answer in reversed(self.host.dialogue.transcript.answers()):
            if blocks := code_blocks(answer.text):
                return blocks, "the last answer" if answer is last else "the last answer with code"
            unsearched -= len(answer.text)
            if unsearched < 0:
                raise NotPossible("The latest answers have no code. Mark an older one with alt+up, then copy.")
        raise NotPossible("No answer in this chat has a block of code.")

    def _copy_block(self, blocks: list[CodeBlock], index: int) -> None:
        block = blocks[index]
        which = f"block {index + 1} of {len(blocks)}" if len(blocks) > 1 else "the code"
        lines = counted(block.lines, "line")
        self.text(block.text, f"{which} ({', '.join(filter(None, (block.language, lines)))})")

    def _last(self) -> Answer | None:
        return next((answer for answer in reversed(self.host.dialogue.transcript.answers()) if answer.text), None)

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
