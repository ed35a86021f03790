"""A token tree as rows of text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.render.tree_rows import StepTree, TreeRow, tree_rows
from specchat.app.text.cells import width
from specchat.engine.messages import StepRecord

WORDS = (" the", " lamp", " and", " wrote", " old", " a", " poem", " about", " of", " light", " on", "漢字", " 👩‍👩‍👧", "")


def piece(token: int) -> str:
    return WORDS[token % len(WORDS)] or f"⟨{token}⟩"


BRANCHING = StepRecord(
    *("fusion", [1, 2, 3, 0], "", 8, 3, 9),
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
    assert plain(tree_rows(tree, piece, 40, 4)) == "● ␣the\n┃ ␣lamp ␣and ␣wrote\n┠─ … 5 more\n┗━ ␣the"


def test_the_guesses_of_several_drafters_are_signed() -> None:
    step = StepRecord("tree", [1, 9], "", 4, 1, 5, tree_tokens=[0, 1, 2, 3, 4], tree_parents=[-1, 0, 0, 2, 2], path=[0, 1])
    step = replace(step, drafters=["draft", "draft-2"], sources=[0, 3, 1, 1, 2], shares=[0.75, 0.25])
    rows = plain(tree_rows(StepTree.of(step, 0), piece, 30))
    assert rows == "● ␣the\n┠─× ␣and¹\n┃   ├─ ␣wrote¹\n┃   └─ ␣old²\n┃ ␣lamp¹²\n┗━ ␣light"
    step = replace(step, drafters=["draft"])  # then it is all one drafter's
    assert "¹" not in plain(tree_rows(StepTree.of(step, 0), piece, 30))


def test_a_chain_reads_in_a_row_or_two() -> None:
    tokens = [i % 11 for i in range(17)]
    step = StepRecord("lookup", tokens[1:], "", 16, 15, 17, tree_tokens=tokens, tree_parents=list(range(-1, 16)))
    step = replace(step, path=list(range(16)))
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
    step = StepRecord("beam", [1], "", 0, 0, 3, tree_tokens=[0, 1, 2, 3, 4, 5, 6, 7], tree_parents=[-1, 0, 1, 2, 1, 4, 4, 0])
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
    over = StepRecord("beam", [1], "", 0, 0, 3, tree_tokens=[0, 1, 2], tree_parents=[-1, 0, 0], path=[0, 1])
    assert plain(tree_rows(StepTree.of(over, 0), piece, 30)) == "● ␣the\n┠─× ␣and\n┃ ␣lamp\n┗━ one text is left"


def test_the_window_of_lookahead_is_counted() -> None:
    step = StepRecord("lookahead", [1, 9], "", 2, 1, 7, tree_tokens=[0, 1, 2, 5, 6, 7, 8])
    step = replace(step, tree_parents=[-1, 0, 1, 0, 3, 1, 5], path=[0, 1])
    rows = tree_rows(StepTree.of(step, 0), piece, 30)
    assert plain(rows) == "● ␣the\n┃ ␣lamp\n┠─× ␣and\n┗━ ␣light\n   … 4 more in the window"
    assert rows[-1].folded == 4


def test_what_the_target_took_from_the_window_is_on_the_path() -> None:
    step = StepRecord("lookahead", [5, 6, 9], "", 1, 0, 5, tree_tokens=[0, 1, 5, 6, 7], tree_parents=[-1, 0, 0, 2, 0])
    step = replace(step, path=[0, 2, 3])
    rows = tree_rows(StepTree.of(step, 0), piece, 30)
    assert plain(rows) == "● ␣the\n┠─× ␣lamp\n┃ ␣a ␣poem\n┗━ ␣light\n   … 1 more in the window"


@st.composite
def steps(draw: Any) -> StepRecord:
    """A step of any tree; the parents of some are nonsense."""
    count = draw(st.integers(1, 40))
    tokens = draw(st.lists(st.integers(0, 13), min_size=count, max_size=count))
    parents = [-1, *(draw(st.integers(max(-2, i - 6), i)) for i in range(1, count))]
    clean = [-1, *(parent if 0 <= parent < i else 0 for i, parent in enumerate(parents[1:], 1))]
    path = [0]
    while (below := [node for node in range(count) if node and clean[node] == path[-1]]) and draw(st.booleans()):
        path.append(draw(st.sampled_from(below)))
    drafted = draw(st.integers(1, count)) if draw(st.booleans()) else count - 1
    made = [tokens[node] for node in path[1:]] + ([3] if draw(st.booleans()) else [])
    probs = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)) if draw(st.booleans()) else []
    drawn = {"tree_tokens": tokens, "tree_parents": parents, "path": path, "probs": probs}
    return StepRecord("any", made, "", drafted, len(path) - 1, count, **drawn)


@given(steps(), st.integers(16, 70), st.one_of(st.none(), st.integers(3, 30)))
def test_any_tree_fits_and_no_node_is_lost(step: StepRecord, cells: int, height: int | None) -> None:
    tree = StepTree.of(step, 0)
    rows = tree_rows(tree, piece, cells, height)
    assert height is None or len(rows) <= height
    assert all(width(row.text) <= cells for row in rows)
    drawn = [node for row in rows for node in row.nodes]
    assert len(drawn) == len(set(drawn))
    assert len(drawn) + sum(row.folded for row in rows) == len(step.tree_tokens)
    for row in rows:
        # What is lit is on the accepted path, and only that.
        lit = any(span.role == "path" for span in row.spans)
        assert all((node in tree.path) == (lit or node == 0) for node in row.nodes)
        assert not (lit and row.folded)
        if lit and row.prob is not None:
            product = 1.0
            for node in row.nodes:
                product *= tree.prob(node) or 0.0
            assert row.prob == pytest.approx(product)
    if height is None:
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
