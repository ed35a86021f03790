"""A chat as Markdown: prompts as quotations, answers as the model wrote them, each with its verdict below.

Only harmful text is changed: control characters become visible, raw HTML becomes text, and an open code fence of an answer is
closed, so that it cannot swallow the text after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..chat.entries import Answer, Notice, Prompt
from ..render.thoughts import thought_line
from ..render.verdict import verdict_text
from ..saved.capture import SavedChat
from ..text.cells import one_line, sanitise

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

ROUNDS = 8
"""Searches of a text for raw HTML: each may reveal more in the next."""

DEEP = 17
"""Nesting level from which on a text is not searched: the parser stops at 20, other renderers go on; a list counts two."""

_TAG = re.compile(r"(?<!\\)((?:\\\\)*)<(?=[A-Za-z/!?])")
_LINK = re.compile(r"(?<!\\)((?:\\\\)*)([\[\]<])")
_SCHEME = re.compile(r"script|data|file|&|%|\\", re.IGNORECASE)
"""Parts of harmful links, each of which has one."""
_UNSEEN = re.compile(r"[\x00-\x20]|%0[9ad]|%20", re.IGNORECASE)
"""Characters of a link that browsers ignore."""
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
    """Turn raw HTML and links that would run something into text, except inside code."""
    return unlinked(_without_html(text))


def _without_html(text: str) -> str:
    if _TAG.search(text) is None:
        return text
    text = _escaped(text, lambda text: _html(text) or [], _TAG, r"\1\\<")
    return text if _html(text) == [] else text.replace("<", "&lt;")


def unlinked(text: str) -> str:
    """Remove links to schemes such as `javascript:`, however they are spelled; their text stays."""
    if _SCHEME.search(text) is None:
        return text
    text = _escaped(text, _harmful, _LINK, r"\1\\\2")
    return _LINK.sub(r"\1\\\2", text) if _harmful(text) else text


def _escaped(text: str, find: Callable[[str], list[tuple[int, int]]], signs: re.Pattern[str], by: str) -> str:
    """Replace signs in the lines (from, to) that `find` returns, until it changes nothing."""
    for _ in range(ROUNDS):
        lines = text.split("\n")
        for start, end in find(text):
            lines[start:end] = [signs.sub(by, line) for line in lines[start:end]]
        escaped = "\n".join(lines)
        if escaped == text:
            break
        text = escaped
    return text


def _harmful(text: str) -> list[tuple[int, int]]:
    """Return the lines (from, to) of the paragraphs with harmful links."""
    from markdown_it.common.normalize_url import validateLink

    spans = []
    for token in _lenient().parse(text):
        if token.level >= DEEP:
            return [(0, text.count("\n") + 1)]
        for child in _all(token.children or ()):
            target = str(child.attrs.get("href") or child.attrs.get("src") or "")
            if token.map and not validateLink(_UNSEEN.sub("", target)):
                spans.append((token.map[0], token.map[1]))
    return spans


def closed(text: str) -> str:
    """Close a code fence that the text leaves open."""
    if ("```" not in text and "~~~" not in text) or _ends(text):
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


@cache
def _lenient() -> MarkdownIt:
    """Return a parser that accepts any link, as careless programs do."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _html(text: str) -> list[tuple[int, int]] | None:
    """Return the lines (from, to) of the blocks with raw HTML; None if quotations and lists are nested too deep."""
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
    """Whether a paragraph after `text` would be outside of everything that it opens."""
    last = _parser().parse(f"{text}\n\n{_END}")[-3:]
    return [token.type for token in last] == ["paragraph_open", "inline", "paragraph_close"] and (
        last[1].content == _END and last[0].level == 0
    )
