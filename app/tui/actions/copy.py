"""Copying out of the chat: an answer, a message, a block of code, a run, all of it. The tools run beside the interface."""

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
from .registry import runs
from .rewrite import prompts_of

LOOK_BACK = 200_000
"""Characters of answers that are looked through for code, last answer first (some 0.2 s)."""

TIMEOUT_SECONDS = 2.0
"""xclip waits for ever for an X server that does not answer."""

PREVIEW_ROWS = 3
"""Lines of a block of code in the menu of several."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One block of code."""

    text: str
    """The code as it stands in the answer, without the fence and without the last line break."""
    language: str = ""
    """The language that the fence names; empty for none, and for code that is only indented."""

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1

    def preview(self, cells: int) -> str:
        """The block's first lines that say something, each cut to fit."""
        said = [line for line in self.text.expandtabs(4).splitlines() if line.strip()]
        shown = [fit(_safe(line), cells) for line in said[:PREVIEW_ROWS]]
        return "\n".join(shown + (["…"] if len(said) > PREVIEW_ROWS else []))


def code_blocks(answer: str) -> list[CodeBlock]:
    """Every block of code in an answer, in order. A fence that is still open counts as far as it goes."""
    if "```" not in answer and "~~~" not in answer and "    " not in answer and "\t" not in answer:
        return []
    from markdown_it import MarkdownIt  # 20 ms, and most chats never ask

    # Blocks alone: what is inside a line is of no interest, and takes most of the time.
    parser = MarkdownIt("commonmark").disable("inline")
    found = []
    for token in parser.parse(answer.replace("\r\n", "\n")):
        if token.type in ("fence", "code_block") and token.content.strip():
            language = one_line(token.info).split()[:1] if token.type == "fence" else []
            found.append(CodeBlock(token.content.removesuffix("\n"), "".join(language)[:24]))
    return found


def _safe(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return " " * min(indent, 12) + one_line(line)


def clipboard_tool() -> list[str]:
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


def copy_with_tool(text: str) -> str:
    """Copy a text with the platform's tool; its name, empty if it did not. It may take TIMEOUT_SECONDS."""
    if not (command := clipboard_tool()):
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


class Copier:
    """Copies parts of the chat, and says truly what was done. Control characters are copied as they are shown, never as
    themselves: what is pasted into a shell could run there.

    Args:
        app: asks the terminal to copy.
    """

    def __init__(self, host: Host, app: App[None]) -> None:
        self.host, self._app = host, app
        self._turn = Lock()

    @runs(actions.COPY_ANSWER)
    def command(self, *words: str) -> None:
        """Copy what is named; alone, what is looked into, what is marked, or the last answer."""
        match words:
            case ():
                self._at_hand()
            case ("answer",):
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

    def _at_hand(self) -> None:
        view = self.host.view
        if view.cursor.by_keys:
            self.run()
        elif isinstance(view.mark.entry, Prompt):
            self.message()
        else:
            self.answer()

    def answer(self) -> None:
        """Copy the marked answer, else the last that has text."""
        answer = self._answer()
        if answer is None:
            raise NotPossible("There is no answer to copy yet.")
        which = "the answer" if answer is self._last() else "the marked answer"
        self.text(answer.text, which if answer.done else f"{which} so far")

    def thought(self) -> None:
        """Copy the thought of the marked answer, else the last there is."""
        marked = self.host.view.mark.entry
        answers = [marked] if isinstance(marked, Answer) else self.host.dialogue.transcript.answers()[::-1]
        thought = next(filter(None, (answer.thought for answer in answers)), "")
        if not thought:
            raise NotPossible("There is no thought to copy.")
        self.text(thought, "the thought")

    def message(self) -> None:
        """Copy the marked message of the user's, else the last."""
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
        index = cursor.spot.run
        own = answer.own_text(index)
        if not own:
            raise NotPossible("This pass has no text of its own.")
        self.text(own, f"the pass {fit(repr(one_line(own)), 32)}")

    def conversation(self) -> None:
        from ...export.markdown import chat_markdown
        from ...saved.capture import capture

        if not self.host.dialogue.transcript.has_messages:
            raise NotPossible("There is nothing to copy yet. Ask something first.")
        self.text("".join(chat_markdown(capture(self.host.dialogue))), "the chat")

    @runs(actions.COPY_CODE)
    def code(self, number: int | None = None) -> None:
        """Copy a block of code of the marked answer, else of the last answer that has one; choose where there are several."""
        blocks, where = self._code()
        if number is not None and not 1 <= number <= len(blocks):
            raise UserError(
                f"{where.capitalize()} has {counted(len(blocks), 'block')} of code, but no number {number}. Take one of them."
            )
        if number is None and len(blocks) > 1:
            self._choose(blocks, where)
        else:
            self._copy_block(blocks, (number or 1) - 1)

    def _code(self) -> tuple[list[CodeBlock], str]:
        marked = self.host.view.mark.entry
        if isinstance(marked, Answer):
            if blocks := code_blocks(marked.text):
                return blocks, "the marked answer"
            raise NotPossible("The marked answer has no code. Mark another with alt+up and alt+down, or press esc.")
        last = self._last()
        left = LOOK_BACK
        for answer in reversed(self.host.dialogue.transcript.answers()):
            if blocks := code_blocks(answer.text):
                return blocks, "the last answer" if answer is last else "the last answer with code"
            left -= len(answer.text)
            if left < 0:
                raise NotPossible("The latest answers have no code. Mark an older one with alt+up, then copy.")
        raise NotPossible("No answer in this chat has a block of code.")

    def _choose(self, blocks: list[CodeBlock], where: str) -> None:
        from ..pickers.menu import Menu, MenuItem

        cells = max(20, min(76, self.host.view.screen.size.width * 94 // 100) - 16)
        items = [
            MenuItem(str(index), block.language or "text", counted(block.lines, "line"), detail=block.preview(cells))
            for index, block in enumerate(blocks)
        ]

        menu = Menu(f"Copy code of {where}", items, "", self.host.live.keymap)
        self.host.ask(menu, lambda index: self._copy_block(blocks, int(index)))

    def _copy_block(self, blocks: list[CodeBlock], index: int) -> None:
        block = blocks[index]
        which = f"block {index + 1} of {len(blocks)}" if len(blocks) > 1 else "the code"
        lines = counted(block.lines, "line")
        self.text(block.text, f"{which} ({', '.join(filter(None, (block.language, lines)))})")

    def _answer(self) -> Answer | None:
        marked = self.host.view.mark.entry
        return marked if isinstance(marked, Answer) and marked.text else self._last()

    def _last(self) -> Answer | None:
        return next((answer for answer in reversed(self.host.dialogue.transcript.answers()) if answer.text), None)

    def text(self, text: str, what: str) -> None:
        """Copy a text; say how it went when that is known.

        Args:
            text: any; control characters are made visible.
            what: names it: "the answer".
        """
        text = sanitise(text)
        self._app.copy_to_clipboard(text)

        def copy() -> str:
            with self._turn:  # two at once would find each other's text
                return copy_with_tool(text)

        def told(tool: str) -> None:
            sent = f"Sent {what} to the terminal's clipboard (OSC 52). Terminals do not confirm this."
            self.host.tell(f"Copied {what} with {tool}." if tool else sent)

        if clipboard_tool():
            self.host.beside(copy, told)
        else:
            told("")
