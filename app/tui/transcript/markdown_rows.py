"""Answers as Markdown: Rich's renderable, converted to rows of segments for the transcript."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.theme import Theme

from ...chat.entries import Answer
from ...text.cells import sanitise

CODE_THEMES = {True: "github-dark", False: "default"}
"""Whether the page is dark → Pygments' colours for code."""


class PlainHeading(Heading):
    """A heading at the left, whose level shows in its colour and weight."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class PageCode(CodeBlock):
    """Code on the page's second background, not on Pygments'."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        behind = console.get_style("markdown.code_block").bgcolor
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme=self.theme,
            word_wrap=True,
            padding=(0, 1),
            background_color=behind.name if behind is not None else None,
        )


def keep_formula(state: StateInline, silent: bool) -> bool:
    r"""Keep `\(`, `\)`, `\[` and `\]`, a rule of the parser. CommonMark drops the backslash, but answers put formulas between
    them."""
    if state.src[state.pos : state.pos + 2] not in (r"\(", r"\)", r"\[", r"\]"):
        return False
    if not silent:
        state.pending += state.src[state.pos : state.pos + 2]
    state.pos += 2
    return True


class AnswerMarkdown(Markdown):
    """Rich's Markdown with HTML as text and links written out."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": PlainHeading,
        "fence": PageCode,
        "code_block": PageCode,
    }

    def __init__(self, text: str, code_theme: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.markup = text
        # Rich drops HTML; text of the model must not vanish.
        parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
        parser.inline.ruler.before("escape", "formula", keep_formula)
        self.parsed = parser.parse(text)


def styles(variables: Mapping[str, str]) -> Theme:
    """Make Rich's Markdown styles of a theme's variables."""
    page = variables["surface"]

    def style(name: str, **options: bool) -> Style:
        return Style(color=variables[name], **options)  # type: ignore[arg-type]

    return Theme(
        {
            "markdown.h1": style("primary", bold=True, underline=True),
            "markdown.h2": style("primary", bold=True),
            "markdown.h3": style("secondary", bold=True),
            "markdown.h4": style("secondary", bold=True),
            "markdown.h5": style("secondary"),
            "markdown.h6": style("secondary"),
            "markdown.code": Style(color=variables["accent"], bgcolor=page),
            "markdown.code_block": Style(color=variables["foreground"], bgcolor=page),
            "markdown.block_quote": style("quiet", italic=True),
            "markdown.hr": style("faint"),
            "markdown.list": style("foreground"),
            "markdown.item.bullet": style("primary", bold=True),
            "markdown.item.number": style("primary", bold=True),
            "markdown.link": style("secondary", underline=True),
            "markdown.link_url": style("quiet"),
            "markdown.table.border": style("faint"),
            "markdown.table.header": style("primary", bold=True),
        },
        inherit=True,
    )


def as_markdown(answer: Answer) -> str:
    """Convert an answer to Markdown; one constrained to JSON becomes an indented block of code."""
    if answer.asked.get("constraint", {}).get("kind") not in ("json_schema", "json_object"):
        return answer.text
    try:
        text = json.dumps(json.loads(answer.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):  # cut off
        text = answer.text
    return f"~~~~~~json\n{text}\n~~~~~~"


def markdown_rows(text: str, cells: int, variables: Mapping[str, str], dark: bool) -> list[list[Segment]]:
    """Render Markdown in rows of at most `cells`.

    Args:
        text: as the model wrote it; control characters are made visible.
        cells: of a row.
        variables: of the theme in force.
        dark: whether the theme is dark.

    Returns:
        the segments of each row, without blank rows at the start and the end.
    """
    console = Console(
        file=io.StringIO(), width=cells, color_system="truecolor", force_terminal=True, theme=styles(variables), markup=False,
        highlight=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    plain = Style(color=variables["foreground"])
    rows = [
        [Segment(segment.text, plain + segment.style if segment.style else plain) for segment in row if not segment.control]
        for row in console.render_lines(AnswerMarkdown(sanitise(text), CODE_THEMES[dark]), pad=False)
    ]
    rows = [Segment.adjust_line_length(row, cells, pad=False) for row in rows]
    filled = [n for n, row in enumerate(rows) if any(segment.text.strip() for segment in row)]
    return rows[filled[0] : filled[-1] + 1] if filled else []
