"""A chat as Markdown: prompts as quotations, answers as the model wrote them, a line of figures below each.

Only what would do harm is changed: control characters are made visible, raw HTML becomes text, and a code fence that an answer
leaves open is closed, so that it cannot swallow what follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..cells import one_line, sanitise
from ..transcript import Answer, Notice, Prompt
from ..widgets.blocks import figures_lines
from .record import SavedChat

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

ROUNDS = 8
"""Times that a text is looked through for raw HTML: what the first finding had hidden shows in the next round."""

DEEP = 17
"""The parser leaves out what is nested 20 deep, where other renderers go on; a list counts two."""

_TAG = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
_END = "specchat-end-of-text"
_WIDE = 1 << 20
"""Cells of a line that is never broken."""


def chat_markdown(chat: SavedChat) -> Iterator[str]:
    """The file's text, entry by entry."""
    what = [plain(text) for text in (chat.model_name, chat.saved) if text]
    yield "# specchat" + (f": {' · '.join(what)}" if what else "") + "\n"
    if chat.transcript.system:
        yield f"\n**System prompt**\n\n{quoted(chat.transcript.system)}\n"
    for entry in chat.transcript.entries:
        match entry:
            case Prompt(text):
                yield f"\n---\n\n{quoted(text)}\n"
            case Notice(text):
                yield f"\n*{plain(text)}*\n"
            case Answer():
                if text := closed(inert(sanitise(entry.text)).strip("\n")):
                    yield f"\n{text}\n"
                yield f"\n`{one_line(' '.join(figures_lines(entry, _WIDE))).replace('`', chr(39))}`\n"


def plain(text: str) -> str:
    """`text` on a line, with nothing in it that Markdown reads as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~&!])", r"\\\1", one_line(text))


def quoted(text: str) -> str:
    """`text` as a quotation: whatever it opens ends with it. Its line breaks stay."""
    lines = sanitise(text).strip("\n").split("\n")
    # Looked through as it will stand: a tab behind the mark makes no code of a line that would be code without it.
    return inert("\n".join(f"> {line}" if line else ">" for line in lines))


def inert(text: str) -> str:
    """`text` with raw HTML as text; code that shows HTML stays as it is."""
    if _TAG.search(text) is None:
        return text
    for _ in range(ROUNDS):
        spans = _html(text)
        if spans is None:
            break
        if not spans:
            return text
        lines = text.split("\n")
        for start, end in spans:
            lines[start:end] = [_TAG.sub(r"\1\\<", line) for line in lines[start:end]]
        escaped = "\n".join(lines)
        if escaped == text:
            break
        text = escaped
    return text.replace("<", "&lt;")


def closed(text: str) -> str:
    """`text` with a fence at its end if it leaves one open."""
    if "```" not in text and "~~~" not in text:
        return text
    if _ends(text):
        return text
    fence = next((token.markup for token in reversed(_parser().parse(text)) if token.type == "fence"), "```")
    if _ends(f"{text}\n{fence}"):
        return f"{text}\n{fence}"
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _html(text: str) -> list[tuple[int, int]] | None:
    """Lines (from, to) of the blocks that have raw HTML; None where quotations and lists are too deep to look into."""
    spans = []
    for token in _parser().parse(text):
        if token.level >= DEEP:
            return None
        raw = token.type == "html_block" or any(child.type == "html_inline" for child in _all(token.children or ()))
        if raw and token.map:
            spans.append((token.map[0], token.map[1]))
    return spans


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:  # an image holds its description's tokens
        yield token
        yield from _all(token.children or ())


def _ends(text: str) -> bool:
    """Whether a paragraph after `text` is a paragraph of the page."""
    last = _parser().parse(f"{text}\n\n{_END}")[-3:]
    return [token.type for token in last] == ["paragraph_open", "inline", "paragraph_close"] and (
        last[1].content == _END and last[0].level == 0
    )
