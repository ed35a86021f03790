"""Wrapping: nothing is lost, nothing is too wide, and growing gives what wrapping at once gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.text.cells import expand_tabs, find_all, fit, graphemes, has_words, one_line, sanitise, width
from specchat.app.text.wrap import Flow, line_ends

from ....cases import cases
from ....fakes.pilots import Make, ask, chatting, command, shown, toasts

CHARACTERS = st.one_of(
    st.sampled_from("ab cd  e\n\n\t-."),
    st.sampled_from(["漢字", "。", "「", "🇩🇪", "👩‍👩‍👧‍👦", "e\u0301", "❤", "\ufe0f", "\u200d", "👍", "🏽", "🇩", "한"]),
    st.characters(codec="utf-8"),
)
TEXTS = st.lists(CHARACTERS, max_size=60).map("".join).map(sanitise)
WIDTHS = st.integers(2, 40)

# The first character outside ASCII imports `regex`: slow once, which is no failure.
relaxed = cases(100, 40)
thorough = cases(400, 100)


def wrapped(text: str, cells: int) -> list[str]:
    flow = Flow(cells)
    flow.append(text, 0)
    flow.wrap()
    return [line.text for line in flow.lines]


@relaxed
@given(TEXTS, WIDTHS)
def test_wrapping_loses_nothing_keeps_clusters_whole_and_no_line_is_too_wide(text: str, cells: int) -> None:
    lines = wrapped(text, cells)
    assert "".join(lines) == text
    assert set(line_ends(text, cells)) <= {end for _, end in graphemes(text)}
    for line in lines:
        # Spaces may hang over the edge: they are not drawn there.
        assert width(expand_tabs(line.rstrip("\n").rstrip(" \t\u3000"), 0)) <= cells


@thorough
@given(st.lists(st.one_of(TEXTS, CHARACTERS.map(sanitise)), max_size=12), WIDTHS, st.data())
def test_growing_equals_wrapping_at_once(parts: list[str], cells: int, data: st.DataObject) -> None:
    grown, at_once = Flow(cells), Flow(cells)
    for index, part in enumerate(parts):
        grown.append(part, index)
        at_once.append(part, index)
        if data.draw(st.booleans()):
            before = [(line.text, list(line.pieces())) for line in grown.lines]
            first = grown.wrap()
            # What the widget relies on: rows before the first changed one are as they were.
            assert [(line.text, list(line.pieces())) for line in grown.lines[:first]] == before[:first]
    grown.wrap()
    at_once.wrap()
    assert [line.text for line in grown.lines] == [line.text for line in at_once.lines]
    assert [list(line.pieces()) for line in grown.lines] == [list(line.pieces()) for line in at_once.lines]


LENT = st.one_of(st.just(""), CHARACTERS.map(sanitise), TEXTS)


@relaxed
@given(st.lists(st.tuples(TEXTS, LENT), min_size=1, max_size=12), WIDTHS)
def test_what_is_lent_is_shown_and_leaves_no_trace(parts: list[tuple[str, str]], cells: int) -> None:
    grown, at_once = Flow(cells), Flow(cells)
    for index, (part, lent) in enumerate(parts):
        before = [(line.text, list(line.pieces())) for line in grown.lines]
        grown.append(part, index)
        at_once.append(part, index)
        grown.lend(lent, -1)
        first = grown.wrap()
        assert [(line.text, list(line.pieces())) for line in grown.lines[:first]] == before[:first]
        fresh = Flow(cells)
        for number, (text, _) in enumerate(parts[: index + 1]):
            fresh.append(text, number)
        if lent:
            fresh.append(lent, -1)
        fresh.wrap()
        assert [line.text for line in grown.lines] == [line.text for line in fresh.lines]
        owned = [[(text, grown.owners[segment]) for text, segment in line.pieces()] for line in grown.lines]
        assert owned == [[(text, fresh.owners[segment]) for text, segment in line.pieces()] for line in fresh.lines]
    grown.lend()
    grown.wrap()
    at_once.wrap()
    assert [list(line.pieces()) for line in grown.lines] == [list(line.pieces()) for line in at_once.lines]


@pytest.mark.parametrize(
    ("text", "cells", "lines"),
    [
        ("one two three", 8, ["one two ", "three"]),
        ("eight888 nine", 8, ["eight888 ", "nine"]),
        ("    indented_and_long", 10, ["    indent", "ed_and_lon", "g"]),
        ("a\n\nb\n", 8, ["a\n", "\n", "b\n"]),
        ("日本語の文", 4, ["日本", "語の", "文"]),
        ("日本。語", 4, ["日", "本。", "語"]),
        ("ab 漢字", 5, ["ab 漢", "字"]),
    ],
)
def test_where_lines_break(text: str, cells: int, lines: list[str]) -> None:
    assert wrapped(text, cells) == lines


def test_cells() -> None:
    assert sanitise("\x1b[31mred\u202e\x9b\ud800 a\r\nb\rc [b]é") == "␛[31mred\\u202e\\x9b\\ud800 a\nb␍c [b]é"
    assert (width("abc"), width("漢字"), width("👩‍👩‍👧‍👦"), width("🇩🇪")) == (3, 4, 2, 2)
    assert fit("a long line", 6) == "a lon…"
    assert fit("漢字漢字", 5) == "漢字…"
    assert expand_tabs("a\tb", 0) == "a   b"
    assert expand_tabs("\tb", 2) == "  b"
    assert one_line("a\nb \x1b") == "a b ␛"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Cafe\u0301", "café"),
        ("ＦＵＬＬ", "full"),
        ("eﬃcient", "EFFICIENT"),
        ("Straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("한글", "한글"),
    ],
)
def test_ways_of_writing_a_letter_are_the_same_to_a_search(text: str, query: str) -> None:
    assert has_words(f"before {text} after", query)
    assert has_words(f"before {query} after", text)
    (span,) = find_all(f"before {text}\n after", query)
    assert f"before {text}\n after"[slice(*span)] in text


# Cells of it are no characters, and it has two lines however wide the terminal is.
ANSWER = "漢字\tthe first Needle.\nAnd a needle\nagain 👍🏽, then nothing\n" + "more\n" * 60


def selected(app: Any) -> str:
    return app.chat_screen.get_selected_text() or ""


@pytest.mark.parametrize("markdown", [False, True], ids=["runs", "Markdown"])
async def test_find_selects_each_match(make_chat: Make, engine: Any, make_steps: Make, markdown: bool) -> None:
    async with chatting(make_chat(), size=(60, 20), notifications=True) as (app, pilot):
        await ask(pilot, engine, "Where is the NEEDLE?", make_steps(ANSWER))
        app.chat_screen.view.markdown = markdown
        await pilot.pause()
        matches = []
        for _ in range(4):
            await command(pilot, "/find needle")
            matches.append(selected(app))
        assert matches == ["needle", "Needle", "NEEDLE", "needle"]  # and from the end again
        assert "Match 3 of 3 for “needle”." in toasts(app)
        assert "And a needle" in shown(app)
        await pilot.press("ctrl+f")
        assert selected(app) == "Needle"
        await command(pilot, "/find needle again 👍🏽")
        assert selected(app).split() == ["needle", "again", "👍🏽"]  # over the end of a line
        await pilot.press("escape")
        assert selected(app) == ""
        await command(pilot, "/find haystack")
        assert "does not contain “haystack”" in toasts(app)
