"""The code in an answer: its blocks, found as Markdown has them."""

from __future__ import annotations

from dataclasses import dataclass

from .cells import fit, one_line


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

    def preview(self, cells: int, rows: int = 3) -> str:
        """The block's first lines that say something, each cut to fit."""
        said = [line for line in self.text.expandtabs(4).splitlines() if line.strip()]
        shown = [fit(_safe(line), cells) for line in said[:rows]]
        return "\n".join(shown + (["…"] if len(said) > rows else []))


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
