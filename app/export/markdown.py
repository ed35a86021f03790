"""A chat as Markdown: prompts as quotations, answers as the model wrote them, each with its verdict below.

Control characters become visible, raw HTML becomes text, and an open code fence of an answer is closed, so that neither can
swallow the text after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..chat.entries import Answer, Notice, Prompt
from ..render.thoughts import thought_line
from ..render.verdict import verdict_text
from ..saved.chat_json import SavedChat
from ..text.cells import one_line, sanitise

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_TAG = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
_END = "specchat-end-of-text"


def chat_markdown(chat: SavedChat, *, thoughts: bool = False) -> Iterator[str]:
    """Yield the file's text by entry, with folded thoughts if `thoughts`."""
    title = [plain(text) for text in (chat.model_name, chat.saved) if text]
    yield "# specchat" + (f": {' · '.join(title)}" if title else "") + "\n"
    if chat.transcript.system:
        yield f"\n**System prompt**\n\n{quoted(chat.transcript.system)}\n"
    for entry in chat.transcript.entries:
        match entry:
            case Prompt() as prompt:
                yield f"\n---\n\n{quoted(prompt.display_text)}\n"
            case Notice():
                yield f"\n*{plain(entry.text)}*\n"
            case Answer():
                if thoughts and (thought := closed(inert(sanitise(entry.thought)).strip("\n"))):
                    summary = plain(thought_line(entry.totals.thought))
                    yield f"\n<details>\n<summary>{summary}</summary>\n\n{thought}\n\n</details>\n"
                if text := closed(inert(sanitise(entry.text)).strip("\n")):
                    yield f"\n{text}\n"
                yield f"\n*{plain(verdict_text(entry, chat.model_of(entry)))}*\n"


def plain(text: str) -> str:
    """Return text on one line with Markdown's markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!])", r"\\\1", one_line(text))


def quoted(text: str) -> str:
    """Return text as a quotation, which also closes whatever the text opens. Line breaks stay."""
    lines = sanitise(text).strip("\n").split("\n")
    # Searched with its marks: a tab after the mark makes no code of a line that would be code without it.
    return inert("\n".join(f"> {line}" if line else ">" for line in lines))


def inert(text: str) -> str:
    """Turn raw HTML into text, except inside code."""
    if _TAG.search(text) is None:
        return text
    lines = text.split("\n")
    for start, end in _html(text):
        lines[start:end] = [_TAG.sub(r"\1\\<", line) for line in lines[start:end]]
    escaped = "\n".join(lines)
    return escaped.replace("<", "&lt;") if _html(escaped) else escaped


def _html(text: str) -> list[tuple[int, int]]:
    """Return the lines (from, to) of the blocks with raw HTML."""
    spans = []
    for token in _parser().parse(text):
        kinds = {token.type, *(child.type for child in token.children or ())}
        if token.map and kinds & {"html_block", "html_inline"}:
            spans.append((token.map[0], token.map[1]))
    return spans


def closed(text: str) -> str:
    """Close a code fence that the text leaves open: a paragraph after it is outside of everything that it opens."""
    tokens = _parser().parse(f"{text}\n\n{_END}")
    if tokens[-1].type == "paragraph_close" and tokens[-2].content == _END:
        return text
    return f"{text}\n{tokens[-1].markup}" if tokens[-1].type == "fence" else text


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
