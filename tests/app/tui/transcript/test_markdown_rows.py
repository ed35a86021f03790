"""Finished answers as Markdown: rows that fit, nothing lost, nothing hostile, and back again."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.selection import Selection

from specchat.app.text.cells import width
from specchat.app.theming.themes import load_themes
from specchat.app.tui.transcript.markdown_rows import markdown_rows
from specchat.engine.messages import StepRecord

from ....cases import cases
from ....fakes.pilots import Make, ask, chatting, command, settle, shown

PALETTE = load_themes()[0]["dark"]
COLOURS = {**PALETTE.colours, **PALETTE.variables()}

TEXT = """# Prompt lookup

It drafts what **followed** the last tokens, *earlier* in the text:

- no draft model
- `ngram` matches
  1. the longest first

> Free lunch, sometimes.

```python
def verify(draft, choice):
    return [a for a, b in zip(draft, choice) if a == b]
```

| method | tokens per step |
|---|---|
| lookup | 2.4 |

See [the page](https://example.org/lookup) and <b>this</b>.
"""


def rows(text: str, cells: int = 60) -> list[list[Segment]]:
    return markdown_rows(text, cells, COLOURS, True)


def plain(text: str, cells: int = 60) -> str:
    return "\n".join("".join(segment.text for segment in row).rstrip() for row in rows(text, cells))


def test_every_part_is_there() -> None:
    rendered = plain(TEXT)
    for part in (
        "Prompt lookup", "followed", "• no draft model", "ngram", "1 the longest first", "Free lunch, sometimes.",
        "def verify(draft, choice):", "tokens per step", "2.4", "the page", "https://example.org/lookup", "<b>this</b>",
    ):  # fmt: skip
        assert part in rendered
    assert "**" not in rendered
    assert "```" not in rendered


def test_formulas_keep_their_marks() -> None:
    text = "Inline \\(x^2 + y_1\\) and displayed:\n\n\\[\n\\int_0^1 x dx\n\\]\n\nBut \\*no emphasis\\*."
    rendered = plain(text)
    for part in ("\\(x^2 + y_1\\)", "\\[", "\\]", "\\int_0^1", "*no emphasis*"):
        assert part in rendered


texts = st.text(st.characters(codec="utf-8") | st.sampled_from("#*_`|-> \n\t[]()<>你好🙂\u0301\x1b\x07\u202e"), max_size=200)


cell = st.text("ab 你好🙂é`*", max_size=12)


@cases(100, 15)
@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=4), texts, st.integers(20, 120))
def test_tables_and_code_fit(table: list[tuple[str, str, str]], code: str, cells: int) -> None:
    lines = ["|a|b|c|", "|-|-:|:-:|", *(f"|{'|'.join(row)}|" for row in table), "", "```python", code, "```"]
    for row in rows("\n".join(lines), cells):
        assert sum(width(segment.text) for segment in row) <= cells


async def answered(pilot: Any, engine: Any) -> None:
    """A chat with an answer in Markdown."""
    records = [
        StepRecord("lookup", [1, 2], part, drafted=3, accepted=1, nodes=4, forward_seconds=0.01)
        for part in TEXT.splitlines(keepends=True)
    ]
    await ask(pilot, engine, "How?", records)


async def test_the_key_shows_markdown_and_the_runs_again(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), size=(100, 40)) as (app, pilot):
        await answered(pilot, engine)
        before = shown(app)
        assert "**followed**" in before
        app.chat_screen.input.put("a draft")
        await pilot.press("ctrl+g")
        rendered = shown(app)
        assert "**" not in rendered
        assert "• no draft model" in rendered
        assert " lookup · " in rendered
        assert app.chat_screen.input.text == "a draft"
        copied = app.chat_screen.view.get_selection(Selection(None, None))
        assert copied is not None
        assert "It drafts what followed the last tokens, earlier in the text:" in copied[0]
        assert not {"**", "\0"} & set(copied[0])
        await pilot.press("ctrl+g")
        assert shown(app) == before


async def test_an_answer_is_runs_while_it_is_written_and_markdown_when_it_has_ended(make_chat: Make, engine: Any) -> None:
    async with chatting(make_chat(), engine, size=(100, 40)) as (app, pilot):
        app.actions.command("/markdown")
        await command(pilot, "How?")
        engine.begin([StepRecord("lookup", [1], "Some **bold** text.\n\nMore **of** it.\n\nThe **end**.")])
        await settle(app, pilot)
        assert "**bold**" in shown(app)
        engine.finish()
        await settle(app, pilot)
        assert "Some bold text." in shown(app)
        assert "**" not in shown(app), "in no row"
        app.theme = "light"
        await pilot.pause()
        assert "Some bold text." in shown(app)
        await pilot.resize_terminal(60, 20)
        assert "Some bold text." in shown(app)


def test_pictures(picture: Make, engine: Any) -> None:
    async def before(pilot: Any) -> None:
        await answered(pilot, engine)
        await pilot.press("ctrl+g")

    assert picture(before)
