"""Sentences about a run: why it ended where it did, in as many words as fit."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import Answer
from specchat.app.chat.pieces import Pieces
from specchat.app.render.inspection import CONTEXT, LABEL, REFUSED, RUN, inspection_rows, quoted, wrapped
from specchat.app.render.tree_page import tree_lines
from specchat.app.render.tree_rows import StepTree, TreeRow, tree_rows
from specchat.app.text.cells import width
from specchat.app.text.lines import cut, length
from specchat.engine.messages import StepRecord

from ...fakes.pilots import Make


def said(parts: Any) -> str:
    return "".join(text for text, _ in parts)


def rows_of(answer: Answer, index: int, pieces: Pieces, cells: int = 100, rows: int = 4) -> str:
    return "\n".join(said(parts) for parts in inspection_rows(answer, index, pieces, cells, rows))


@pytest.fixture
def answer(tree_steps: Make) -> Answer:
    answer = Answer("fusion", "identical")
    for step in tree_steps():
        answer.add(step)
    answer.finish("eos")
    return answer


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
    # The likeliest refused branch comes first.
    assert "‘a’ (20% likely) or ‘about and’ (<1%), the model chose ‘the’ (71%)" in rows_of(answer, 3, pieces)
    plain = rows_of(answer, 0, pieces)
    assert "drafted 0" not in plain
    assert "Nothing was drafted: one pass gave one token (62% likely)." in plain


@pytest.mark.parametrize("done", [False, True])
def test_the_strip_and_the_tree_page_count_passes_alike(pieces: Pieces, done: bool) -> None:
    """Steps that a constraint wrote are not counted as passes."""
    answer = Answer("lookup", "identical")
    for nodes in (1, 0, 4, 0, 2):
        answer.add(StepRecord("lookup", [0], "x", nodes=nodes, grammar=int(not nodes)))
    if done:
        answer.finish("eos")
    of = " of 3" if done else ""
    for index, number in enumerate((1, 1, 2, 2, 3)):
        page = tree_lines(answer, index, pieces, 60, 20)
        assert f"pass {number}{of} ·" in rows_of(answer, index, pieces)
        assert f"pass {number}{of} " in f"{said(page[0])} "


def test_what_was_not_recorded_is_not_made_up(pieces: Pieces) -> None:
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [0, 1], " the lamp", drafted=6, accepted=1, nodes=7, forward_seconds=0.01))
    text = rows_of(answer, 0, pieces)
    assert "5 of 6 draft tokens were rejected. Which ones was not recorded." in text
    assert "accepted ␣" not in text
    assert "pass 1 ·" in text  # how many there are is not known while it is being written


@pytest.mark.parametrize(
    ("certainty", "count", "sentence"),
    [
        ("exact", 1, "Nothing was drafted: one pass gave one token."),
        ("exact", 3, "One pass gave 3 tokens. The server does not tell what it drafted."),
        ("unknown", 1, "The server does not show its passes, nor what it drafted."),
    ],
)
def test_of_a_servers_run_no_more_is_told_than_it_tells(certainty: str, count: int, sentence: str) -> None:
    answer = Answer("server", "")
    answer.figures.certainty = certainty
    answer.add(StepRecord("server", [-1] * count, " the sea"))
    answer.finish("eos")
    text = rows_of(answer, 0, Pieces(), cells=140)
    assert sentence in text
    assert "node" not in text


def test_text_held_back_to_the_end_is_the_last_runs(answer: Answer, pieces: Pieces) -> None:
    late = Answer("fusion", "identical")
    for index in range(4):
        step = answer.log.record(index)
        late.add(StepRecord(**{**asdict(step), "text": answer.runs[index].text if index < 3 else ""}))
    late.finish("eos", " the")
    assert late.own_text(3) == " the"
    assert not late.own_text(4)
    assert rows_of(late, 3, pieces) == rows_of(answer, 3, pieces)


def test_an_answer_cut_in_the_middle_of_a_run(pieces: Pieces) -> None:
    answer = Answer("lookup", "identical")
    tree: Any = {"tree_tokens": [13, 14, 15, 16], "tree_parents": [-1, 0, 1, 2], "path": [0, 1, 2]}
    answer.add(StepRecord("lookup", [14, 15], " evening Ana", drafted=3, accepted=2, nodes=4, forward_seconds=0.01, **tree))
    answer.finish("length")
    text = rows_of(answer, 0, pieces)
    assert "The answer ended here" in text
    assert "accepted ␣evening ␣Ana" in text
    assert "model’s own" not in text


def test_the_place_is_told_in_whole_words() -> None:
    answer = Answer("lookup", "identical")
    answer.add(StepRecord("lookup", [0, 1], " light", forward_seconds=0.01))
    tree: Any = {"tree_tokens": [1, 2, 3], "tree_parents": [-1, 0, 1], "path": [0, 1]}
    answer.add(StepRecord("lookup", [2, 4], "houses stand", drafted=2, accepted=1, nodes=3, forward_seconds=0.01, **tree))
    text = rows_of(answer, 1, Pieces([" li", "ght", "houses", " fell", " stand"]))
    assert "After ‘lighthouses’ the draft said ‘fell’, the model chose ‘stand’" in text


HOSTILE = ["\x1b[2J", "\u202e", "[bold]x[/]", "\n\n", "😀" * 9, "\t", "x" * 300, "e\u0301", "\r"]


def test_hostile_text_stays_text_and_every_row_fits() -> None:
    vocabulary = Pieces(HOSTILE)
    answer = Answer("[red]fusion[/]", "identical")
    tree: Any = {"tree_tokens": list(range(9)), "tree_parents": [-1, 0, 0, 1, 3, 0, 5, 6, 0], "path": [0, 1, 3]}
    for note in ("", "\x1b]0;title\x07 [link] " + "y" * 400):
        seconds: Any = {"draft_seconds": 0.1, "forward_seconds": 3.0, "other_seconds": 0.1}
        answer.add(StepRecord("[red]fusion[/]", [1, 3, 6], "".join(HOSTILE), 8, 2, 9, **seconds, **tree, note=note))
    for cells in (16, 20, 54, 74, 100):
        for most in (2, 3, 4):
            for index in range(2):
                rows = inspection_rows(answer, index, vocabulary, cells, most, "←→ back")
                assert len(rows) <= most
                for parts in rows:
                    assert length(parts) <= cells
                    assert width(said(parts)) <= cells
                    assert not set(said(parts)) & set("\x1b\x07\u202e\n\t\r")


def test_rows_break_between_words_and_keep_quotations_whole() -> None:
    before = (("After ", LABEL), ("‘the lamp’", CONTEXT), (" the draft also said ", LABEL), ("‘of the sea’", REFUSED))
    parts = (*before, (" (20% likely), the model went with ", LABEL), ("‘a b’", RUN), (" (71%)", LABEL))
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
    assert said(cut((("one ", LABEL), ("two three", RUN)), 9)) == "one two …"


WORDS = (" the", " lamp", " and", " wrote", " old", " a", " poem", " about", " of", " light", " on", "漢字", " 👩‍👩‍👧", "")


def piece(token: int) -> str:
    return WORDS[token % len(WORDS)] or f"⟨{token}⟩"


BRANCHING = StepRecord(
    "fusion",
    [1, 2, 3, 0],
    drafted=8,
    accepted=3,
    nodes=9,
    tree_tokens=[0, 1, 4, 2, 3, 5, 6, 7, 8],
    tree_parents=[-1, 0, 0, 1, 3, 4, 5, 6, 6],
    path=[0, 1, 3, 4],
    probs=[0.93, 0.02, 0.8, 0.99, 0.1, 0.5, 0.3, 0.2, 0.64],
)


def plain(rows: list[TreeRow]) -> str:
    return "\n".join(row.text for row in rows)


def unwatched(step: StepRecord) -> StepRecord:
    return replace(step, probs=[])


def test_a_branching_tree() -> None:
    rows = tree_rows(StepTree.of(unwatched(BRANCHING), 0), piece, 40)
    assert plain(rows) == ("● ␣the\n┠─× ␣old\n┃ ␣lamp ␣and ␣wrote\n┠─× ␣a ␣poem\n┃   ├─ ␣about\n┃   └─ ␣of\n┗━ ␣the")
    assert all(row.prob is None for row in rows)
    assert [span.role for span in rows[2].spans if span.text.strip()] == ["trunk", "path", "path", "path"]
    assert [span.role for span in rows[1].spans] == ["trunk", "guide", "cross", "branch"]
    assert rows[-1].spans[-1].role == "choice"


def test_a_watched_tree_has_a_row_for_each_accepted_token() -> None:
    rows = tree_rows(StepTree.of(BRANCHING, 0), piece, 40)
    assert [(row.text, row.prob) for row in rows] == [
        ("● ␣the", None),
        ("┠─× ␣old", 0.02),
        ("┃ ␣lamp", 0.93),
        ("┃ ␣and", 0.8),
        ("┃ ␣wrote", 0.99),
        ("┠─× ␣a ␣poem", 0.1),
        ("┃   ├─ ␣about", 0.3),
        ("┃   └─ ␣of", 0.2),
        ("┗━ ␣the", 0.64),
    ]


def test_little_room_folds() -> None:
    tree = StepTree.of(BRANCHING, 0)
    rows = tree_rows(tree, piece, 40, 7)
    assert plain(rows) == (
        "● ␣the\n┠─× ␣old\n┃ ␣lamp ␣and ␣wrote\n┠─× ␣a ␣poem\n┃   ├─ ␣about\n┃   └─ ␣of\n┗━ ␣the"
    )  # all of it, the path on one row
    assert rows[2].prob == pytest.approx(0.93 * 0.8 * 0.99)
    assert plain(tree_rows(tree, piece, 40, 5)) == ("● ␣the\n┠─× ␣old\n┃ ␣lamp ␣and ␣wrote\n┠─× ␣a ␣poem … 2 more\n┗━ ␣the")
    assert plain(tree_rows(tree, piece, 40, 3)) == "● ␣the\n┃ … 8 more\n┗━ ␣the"
    assert plain(tree_rows(tree, piece, 40, 4)) == "● ␣the\n┠─ … 1 more\n┃ … 7 more\n┗━ ␣the"


def test_the_guesses_of_several_drafters_are_signed() -> None:
    step = StepRecord("tree", [1, 9], "", 4, 1, 5, tree_tokens=[0, 1, 2, 3, 4], tree_parents=[-1, 0, 0, 2, 2], path=[0, 1])
    step = replace(step, drafters=["draft", "draft-2"], sources=[0, 3, 1, 1, 2], shares=[0.75, 0.25])
    rows = plain(tree_rows(StepTree.of(step, 0), piece, 30))
    assert rows == "● ␣the\n┠─× ␣and¹\n┃   ├─ ␣wrote¹\n┃   └─ ␣old²\n┃ ␣lamp¹²\n┗━ ␣light"
    step = replace(step, drafters=["draft"])  # then it is all one drafter's
    assert "¹" not in plain(tree_rows(StepTree.of(step, 0), piece, 30))


def test_a_chain_reads_in_a_row_or_two() -> None:
    tokens = [i % 11 for i in range(17)]
    tree: Any = {"tree_tokens": tokens, "tree_parents": list(range(-1, 16)), "path": list(range(16))}
    step = StepRecord("lookup", tokens[1:], "", drafted=16, accepted=15, nodes=17, **tree)
    rows = tree_rows(StepTree.of(step, 0), piece, 60)
    assert len(rows) == 5
    assert rows[1].text.startswith("┃ ␣lamp ␣and ␣wrote ␣old ␣a ␣poem ␣about ␣of ␣light ␣on ␣the")
    assert rows[3].text == "┠─× ␣a"
    assert rows[4].text == "┗━ ␣a"


def test_a_plain_step_has_its_one_token() -> None:
    tree = StepTree.of(StepRecord("greedy", [3], "", probs=[0.4]), 0)
    rows = tree_rows(tree, piece, 30)
    assert [(row.text, row.prob) for row in rows] == [("● ␣the", None), ("┗━ ␣wrote", 0.4)]


def test_beams_live_and_die() -> None:
    step = StepRecord("beam", [1], "", nodes=3, tree_tokens=[0, 1, 2, 3, 4, 5, 6, 7], tree_parents=[-1, 0, 1, 2, 1, 4, 4, 0])
    step = replace(step, path=[0, 1], probs=[0.5, 0.3, 0.5, 0.6, 0.5, 0.25, 0.1, 1.0])
    tree = StepTree.of(step, 0)
    assert tree.beams == [3, 5, 6]
    rows = tree_rows(tree, piece, 30)
    assert plain(rows) == "\n".join(
        (
            "● ␣the",
            f"┠─× {piece(7).replace(' ', '␣')}",
            "┃ ␣lamp",
            f"┠── {piece(4).replace(' ', '␣')}",
            f"┃   ├─ {piece(5).replace(' ', '␣')}",
            f"┃   └─ {piece(6).replace(' ', '␣')}",
            "┠── ␣and ␣wrote",
            "┗━ 3 texts open",
        )
    )
    shares = [None if row.prob is None else round(row.prob, 3) for row in rows]
    assert shares == [None, None, None, 0.75, 0.5, 0.25, 0.25, None]
    over = StepRecord("beam", [1], "", nodes=3, tree_tokens=[0, 1, 2], tree_parents=[-1, 0, 0], path=[0, 1])
    assert plain(tree_rows(StepTree.of(over, 0), piece, 30)) == "● ␣the\n┠─× ␣and\n┃ ␣lamp\n┗━ one text is left"


def test_the_window_of_lookahead_is_counted() -> None:
    step = StepRecord("lookahead", [1, 9], "", drafted=2, accepted=1, nodes=7, tree_tokens=[0, 1, 2, 5, 6, 7, 8])
    step = replace(step, tree_parents=[-1, 0, 1, 0, 3, 1, 5], path=[0, 1])
    rows = tree_rows(StepTree.of(step, 0), piece, 30)
    assert plain(rows) == "● ␣the\n┃ ␣lamp\n┠─× ␣and\n┗━ ␣light\n   … 4 more in the window"
    assert rows[-1].folded == 4


@st.composite
def steps(draw: Any) -> StepRecord:
    """A step of any tree."""
    count = draw(st.integers(1, 40))
    tokens = draw(st.lists(st.integers(0, 13), min_size=count, max_size=count))
    parents = [-1, *(draw(st.integers(max(0, i - 6), i - 1)) for i in range(1, count))]
    path = [0]
    while (below := [node for node in range(count) if node and parents[node] == path[-1]]) and draw(st.booleans()):
        path.append(draw(st.sampled_from(below)))
    drafted = draw(st.integers(1, count)) if draw(st.booleans()) else count - 1
    tokens_made = [tokens[node] for node in path[1:]] + ([3] if draw(st.booleans()) else [])
    probs = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)) if draw(st.booleans()) else []
    drawn = {"tree_tokens": tokens, "tree_parents": parents, "path": path, "probs": probs}
    return StepRecord("any", tokens_made, "", drafted=drafted, accepted=len(path) - 1, nodes=count, **drawn)


@given(steps(), st.integers(16, 70), st.integers(3, 30) | st.just(1000))
def test_any_tree_fits_and_no_node_is_lost(step: StepRecord, cells: int, height: int) -> None:
    tree = StepTree.of(step, 0)
    rows = tree_rows(tree, piece, cells, height)
    assert len(rows) <= height
    assert all(width(row.text) <= cells for row in rows)
    drawn = [node for row in rows for node in row.nodes]
    assert len(drawn) == len(set(drawn))
    assert len(drawn) + sum(row.folded for row in rows) == len(step.tree_tokens)
    for row in rows:
        # What is lit is on the accepted path, and only that.
        on_path = any(span.role == "path" for span in row.spans)
        assert all((node in tree.path) == (on_path or node == 0) for node in row.nodes)
        assert not (on_path and row.folded)
        if on_path and row.prob is not None:
            product = 1.0
            for node in row.nodes:
                product *= tree.prob(node) or 0.0
            assert row.prob == pytest.approx(product)
    if height == 1000:
        assert set(tree.path) <= set(drawn)
    # The target's choice is always there.
    assert sum(row.text.startswith("┗━ ") for row in rows) == 1


@given(steps(), st.integers(16, 70))
def test_each_refused_branch_has_one_cross(step: StepRecord, cells: int) -> None:
    tree = StepTree.of(step, 0)
    rows = tree_rows(tree, piece, cells)
    crossed = {row.nodes[0] for row in rows if any(span.role == "cross" for span in row.spans)}
    accepted = set(tree.path)
    refused = {
        node
        for node in range(1, min(len(tree.tokens), tree.guesses))
        if tree.parents[node] in accepted and node not in accepted
    }
    assert crossed == refused
