"""What is said about a run: why it ended where it did, in as many words as there is room for."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from specchat.app.chat.entries import Answer
from specchat.app.chat.pieces import Pieces
from specchat.app.render.inspection import LABEL, LIT, inspect, quoted, verdict
from specchat.app.render.inspection_rows import inspection_rows, wrapped
from specchat.app.render.tree_page import tree_lines
from specchat.app.text.cells import width
from specchat.app.text.lines import cut, length
from specchat.engine.messages import StepRecord

from ...fakes.pilots import Make


def said(parts: Any) -> str:
    return "".join(text for text, _ in parts)


def rows_of(answer: Answer, index: int, pieces: Pieces, cells: int = 100, rows: int = 4) -> str:
    return "\n".join(said(parts) for parts in inspection_rows(inspect(answer, index, pieces), cells, rows))


@pytest.fixture
def answer(tree_steps: Make) -> Answer:
    made = Answer("fusion", "identical")
    for step in tree_steps():
        made.add(step)
    made.finish("eos")
    return made


@pytest.fixture
def pieces(vocabulary: list[str]) -> Pieces:
    return Pieces(vocabulary)


def test_all_that_is_known_of_a_run(answer: Answer, pieces: Pieces) -> None:
    text = rows_of(answer, 1, pieces, rows=6)
    assert "fusion  pass 2 of 4 · drafted 7 · accepted 3 · 4 tokens" in text
    assert "10 ms · 8 nodes" in text
    assert "draft 0.4 + pass 9.3 + rest 0.3 ms" in text
    assert "accepted ␣evening ␣Ana ␣climbed  model’s own ␣the" in text
    assert "After ‘climbed’ the draft said ‘of’ (2% likely), the model chose ‘the’ (97%)" in text
    assert "After ‘Ana’ the draft also said ‘light on’ (21% likely), the model went with ‘climbed’ (54%)" in text
    assert text.endswith("From 15 guesses that had been worth it.")


@pytest.mark.parametrize("done", [False, True])
def test_the_strip_and_the_tree_page_count_passes_alike(pieces: Pieces, done: bool) -> None:
    """Steps that a constraint wrote are not counted as passes."""
    made = Answer("lookup", "identical")
    for nodes in (1, 0, 4, 0, 2):
        made.add(StepRecord("lookup", [0], "x", nodes=nodes, grammar=int(not nodes)))
    if done:
        made.finish("eos")
    of = " of 3" if done else ""
    for index, number in enumerate((1, 1, 2, 2, 3)):
        page = tree_lines(made, index, pieces, 60, 20)
        assert f"pass {number}{of} ·" in rows_of(made, index, pieces)
        assert f"pass {number}{of} " in f"{said(page[0])} "


def test_the_likeliest_refused_branch_comes_first(answer: Answer, pieces: Pieces) -> None:
    assert "‘a’ (20% likely) or ‘about and’ (<1%), the model chose ‘the’ (71%)" in rows_of(answer, 3, pieces)


def test_a_step_without_a_draft_counts_none(answer: Answer, pieces: Pieces) -> None:
    text = rows_of(answer, 0, pieces)
    assert "drafted 0" not in text
    assert "Nothing was drafted: one pass gave one token (62% likely)." in text


def test_what_was_not_recorded_is_not_made_up(pieces: Pieces) -> None:
    made = Answer("lookup", "identical")
    made.add(StepRecord("lookup", [0, 1], " the lamp", 6, 1, 7, 0.0, 0.01, 0.0))
    text = rows_of(made, 0, pieces)
    assert "5 of 6 draft tokens were rejected. Which ones was not recorded." in text
    assert "accepted ␣" not in text
    assert "pass 1 ·" in text  # how many there are is not known while it is being written


@pytest.mark.parametrize(
    ("certainty", "count", "told"),
    [
        ("exact", 1, "Nothing was drafted: one pass gave one token."),
        ("exact", 3, "One pass gave 3 tokens. The server does not tell what it drafted."),
        ("unknown", 1, "The server does not show its passes, nor what it drafted."),
    ],
)
def test_of_a_servers_run_no_more_is_told_than_it_tells(certainty: str, count: int, told: str) -> None:
    answer = Answer("server", "")
    answer.figures.certainty = certainty
    answer.add(StepRecord("server", [-1] * count, " the sea"))
    answer.finish("eos")
    text = rows_of(answer, 0, Pieces(), cells=140)
    assert told in text
    assert "node" not in text


def test_text_held_back_to_the_end_is_the_last_runs(answer: Answer, pieces: Pieces) -> None:
    made = Answer("fusion", "identical")
    for index in range(4):
        step = answer.log.record(index)
        made.add(StepRecord(**{**asdict(step), "text": answer.runs[index].text if index < 3 else ""}))
    made.finish("eos", " the")
    assert made.own_text(3) == " the"
    assert not made.own_text(4)
    assert rows_of(made, 3, pieces) == rows_of(answer, 3, pieces)


def test_an_answer_cut_in_the_middle_of_a_run(pieces: Pieces) -> None:
    made = Answer("lookup", "identical")
    tree: Any = {"tree_tokens": [13, 14, 15, 16], "tree_parents": [-1, 0, 1, 2], "path": [0, 1, 2]}
    made.add(StepRecord("lookup", [14, 15], " evening Ana", 3, 2, 4, 0.0, 0.01, 0.0, **tree))
    made.finish("length")
    text = rows_of(made, 0, pieces)
    assert "The answer ended here" in text
    assert "accepted ␣evening ␣Ana" in text
    assert "model’s own" not in text


def test_the_place_is_told_in_whole_words() -> None:
    made = Answer("lookup", "identical")
    made.add(StepRecord("lookup", [0, 1], " light", 0, 0, 1, 0.0, 0.01, 0.0))
    tree: Any = {"tree_tokens": [1, 2, 3], "tree_parents": [-1, 0, 1], "path": [0, 1]}
    made.add(StepRecord("lookup", [2, 4], "houses stand", 2, 1, 3, 0.0, 0.01, 0.0, **tree))
    text = rows_of(made, 1, Pieces([" li", "ght", "houses", " fell", " stand"]))
    assert "After ‘lighthouses’ the draft said ‘fell’, the model chose ‘stand’" in text


def sentence(answer: Answer, index: int) -> str:
    return " ".join(said(parts) for parts in verdict(inspect(answer, index, Pieces())))


HOSTILE = ["\x1b[2J", "\u202e", "[bold]x[/]", "\n\n", "😀" * 9, "\t", "x" * 300, "e\u0301", "\r"]


def test_hostile_text_stays_text_and_every_row_fits() -> None:
    vocabulary = Pieces(HOSTILE)
    made = Answer("[red]fusion[/]", "identical")
    tree: Any = {"tree_tokens": list(range(9)), "tree_parents": [-1, 0, 0, 1, 3, 0, 5, 6, 0], "path": [0, 1, 3]}
    for note in ("", "\x1b]0;title\x07 [link] " + "y" * 400):
        text = "".join(HOSTILE)
        made.add(StepRecord("[red]fusion[/]", [1, 3, 6], text, 8, 2, 9, 0.1, 3.0, 0.1, **tree, note=note))
    for cells in (16, 20, 54, 74, 100):
        for most in (2, 3, 4):
            for index in range(2):
                shown = inspection_rows(inspect(made, index, vocabulary), cells, most, "←→ back")
                assert len(shown) <= most
                for parts in shown:
                    assert length(parts) <= cells
                    assert width(said(parts)) <= cells
                    assert not set(said(parts)) & set("\x1b\x07\u202e\n\t\r")


def test_as_many_words_as_there_is_room_for(answer: Answer, pieces: Pieces) -> None:
    run = inspect(answer, 1, pieces)
    assert len(said(verdict(run, brief=True)[0])) < len(said(verdict(run)[0]))
    assert "After ‘climbed’: draft ‘of’ (2%), model ‘the’ (97%)" in rows_of(answer, 1, pieces, cells=54, rows=3)


def test_rows_break_between_words_and_keep_quotations_whole(answer: Answer, pieces: Pieces) -> None:
    parts = verdict(inspect(answer, 3, pieces))[0]
    for cells in range(24, 90):
        broken = [said(row) for row in wrapped(parts, cells, 9)]
        assert " ".join(row.strip() for row in broken) == said(parts)
        assert all(row.count("‘") == row.count("’") for row in broken)


def test_quotations() -> None:
    assert quoted(" lamp and ") == "‘lamp and’"
    assert quoted("  ") == "‘␣␣’"
    assert quoted("⏎") == "‘⏎’"
    assert quoted("abcdefgh", 5) == "‘abcd…’"
    assert quoted("abcdefgh", 5, end=True) == "‘…efgh’"
    assert said(cut((("one ", LABEL), ("two three", LIT)), 9)) == "one two …"
