"""The pages of the side panel as lines of text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.answer_json import answer_json
from specchat.app.chat.entries import Answer, Figures
from specchat.app.chat.methods import known_methods
from specchat.app.chat.pieces import Pieces
from specchat.app.render.method_page import method_lines
from specchat.app.render.numbers_page import Curve, numbers_lines
from specchat.app.render.tree_page import tree_lines
from specchat.app.text.lines import StyledLine, length
from specchat.engine.catalog import Totals
from specchat.engine.messages import Finished, StepRecord

from ...fakes.pilots import Make


def merged() -> list[StepRecord]:
    """Steps of two draft models and prompt lookup, in one tree."""
    tree: dict[str, Any] = {"tree_tokens": [0, 1, 2, 3], "tree_parents": [-1, 0, 0, 1], "path": [0, 1]}
    who: dict[str, Any] = {"drafters": ["draft", "draft-2", "lookup"], "sources": [0, 3, 1, 4]}
    return [StepRecord("tree", [1, 5], "a b", 3, 1, 4, **tree, **who, shares=shares) for shares in ([0.5, 0.5], [0.25, 0.75])]


@pytest.fixture(scope="session")
def written(tree_steps: Make, vocabulary: list[str]) -> Make:
    """Makes an answer out of steps."""

    def make(records: list[StepRecord] | None = None) -> Answer:
        answer = Answer("fusion", "identical", pieces=Pieces(vocabulary))
        for record in tree_steps() if records is None else records:
            answer.add(record)
        return answer

    return make


def text(lines: list[StyledLine]) -> str:
    return "\n".join("".join(part for part, _ in row).rstrip() for row in lines)


@pytest.mark.parametrize("name", known_methods())
@pytest.mark.parametrize("cells", [35, 58])
def test_every_method_is_explained_within_the_width(name: str, cells: int, written: Make) -> None:
    method = known_methods()[name]
    totals = written().totals
    rows = method_lines(method, method.label, {}, totals, cells, keys=("ctrl+down", "ctrl+up"))
    assert all(length(row) <= cells for row in rows)
    flowing = " ".join(text(rows).split())
    assert method.explains.replace("`", "") in flowing
    assert method.pays.replace("`", "") in flowing
    for param in method.params:
        assert f"{param['name']} = " in flowing


def test_plain_decoding_is_not_promised_to_be_like_itself() -> None:
    rows = method_lines(known_methods()["greedy"], "identical", {}, Totals(steps=10, tokens=16, grammar=6), 60)
    told = " ".join(text(rows).split())
    assert "1.60 tokens a pass" in told
    assert "each pass gives one token. The grammar wrote 6 tokens more, without a pass." in told
    assert "Identical" not in told


def test_tokens_that_are_unknown_have_their_number(written: Make, tree_steps: Make, vocabulary: list[str]) -> None:
    page = text(tree_lines(written(tree_steps()[1:2]), None, Pieces(), 50, 30))
    assert "┃ ⟨14⟩" in page
    first = text(tree_lines(written(tree_steps()[:1]), None, Pieces(vocabulary), 50, 30))
    assert "● ⟨prompt⟩" in first  # no step names the prompt's last token


@given(st.integers(24, 70), st.integers(4, 50), st.integers(0, 3))
def test_the_tree_page_fits(written: Make, vocabulary: list[str], cells: int, height: int, index: int) -> None:
    rows = tree_lines(written(), index, Pieces(vocabulary), cells, max(height, 6), paused=True, keys="F9 one pass")
    assert all(length(row) <= cells for row in rows)
    assert len(rows) <= max(height, 6)


@given(
    st.lists(
        st.tuples(st.sampled_from(["lookup", "greedy", "early-exit"]), st.integers(1, 30), st.integers(0, 40), st.floats(0, 9)),
        min_size=1,
        max_size=40,
    ),
    st.integers(30, 62),
)
def test_the_page_of_figures_fits(steps: list[tuple[str, int, int, float]], cells: int) -> None:
    answer = Answer("lookup", "identical")
    for method, tokens, drafted, seconds in steps:
        answer.add(StepRecord(method, [1] * tokens, "x", drafted, min(drafted, tokens - 1), 1 + drafted, seconds / 9, seconds))
    rows = numbers_lines(answer, steps[-1][0], Curve(), cells)
    assert all(length(row) <= cells for row in rows)
    assert sum("α" in part for row in rows for part, _ in row) <= 3
    page = text(rows)
    assert page.find("Tokens a pass") < page.find("Of its ") or "Of its " not in page, "the curve is of all its passes"


def plain(method: str, count: int, nodes: int, earlier: int = 0) -> Answer:
    answer = Answer(method, "identical")
    for _ in range(3):
        answer.add(StepRecord(method, [1] * count, "x", nodes=nodes, forward_seconds=0.01, earlier=earlier))
    return answer


def timed(answer: Answer, plain_seconds: float = 0.01) -> Answer:
    answer.take(Finished(1, "eos", "", 0.1, 1.0, plain_seconds=plain_seconds))
    return answer


def test_the_page_of_figures_tells_what_was_drafted_on(written: Make, tree_steps: Make) -> None:
    steps = tree_steps()
    assert "Drafted on" not in text(numbers_lines(written(steps), "fusion", Curve(), 90))
    steps = [replace(step, ahead=3, wasted=2) for step in steps]
    made, wasted = 3 * len(steps), 2 * len(steps)
    page = text(numbers_lines(written(steps), "fusion", Curve(), 90))
    assert f"Drafted on while the model verified: {made} tokens, {wasted} of them for nothing." in page


def test_the_page_of_figures_tells_each_once(written: Make, tree_steps: Make) -> None:
    answer = timed(written(tree_steps() * 5))
    page = text(numbers_lines(answer, "fusion", Curve(), 60))
    assert "ms to the first token" in page
    order = [
        page.index(title)
        for title in (
            "tokens a pass",
            "trees right",
            "Acceptance",
            "α = ",
            "Where the time goes",
            "If each draft were",
        )
    ]
    assert order == sorted(order)
    assert page.count("trees right") == 1, "a figure is told once"
    assert page.count("Tokens a pass") == 1
    assert "FLOPs" not in page


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (plain("greedy", 1, 1), "Nothing was drafted: this is plain decoding."),
        (
            plain("recompute", 1, 30),
            "a pass took 30.0 nodes and gave 1.00 tokens. Its other nodes are the earlier text, read again.",
        ),
        (plain("lookahead", 2, 28), "Nothing was drafted: a pass took 28.0 nodes and gave 2.00 tokens."),
        (
            plain("beam", 8, 4, 8),
            "Nothing was drafted: each token took a pass over 4.0 nodes. Text appears once all beams share it.",
        ),
    ],
    ids=lambda value: value.method if isinstance(value, Answer) else "",
)
def test_the_page_of_figures_says_what_was_done_instead_of_drafting(answer: Answer, sentence: str) -> None:
    page = text(numbers_lines(answer, answer.method, Curve(), 44))
    assert sentence in " ".join(page.split())
    assert ("Tokens a pass" in page) == (answer.method != "beam")


def test_the_tree_page_draws_no_path_that_no_pass_verified(vocabulary: list[str]) -> None:
    page = text(tree_lines(plain("beam", 3, 4, 3), None, Pieces(vocabulary), 50, 30))
    assert "These 3 tokens became certain in this pass over 4 nodes." in " ".join(page.split())
    assert "␣lamp ␣lamp ␣lamp" in page
    assert "┃" not in page
    assert "accepted" not in page.splitlines()[-1]


def figures_read(run: Callable[[], object], files: tuple[str, ...]) -> set[str]:
    """The figures that code in these files asks totals and figures for, while something runs."""
    read: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Totals, Figures):
            get = kind.__getattribute__

            def noted(self: Any, name: str, get: Any = get) -> Any:
                if sys._getframe(1).f_code.co_filename.endswith(files) and not name.startswith("_"):
                    read.add(name)
                return get(self, name)

            patch.setattr(kind, "__getattribute__", noted)
        run()
    return read


@pytest.mark.parametrize("certainty", ["", "exact"])
def test_json_has_every_figure_of_the_page(written: Make, tree_steps: Make, certainty: str) -> None:
    """Whatever the page of figures asks of an answer, the object of `run --json` asks for as well."""
    answer = timed(written([*tree_steps(), StepRecord("lookup", [1, 1], "x", 1, 1, 2)] * 5))
    answer.figures.certainty = certainty
    page = figures_read(lambda: numbers_lines(answer, "fusion", Curve(), 60), ("numbers_page.py", "verdict.py"))
    told = figures_read(lambda: answer_json(answer), ("answer_json.py",))
    assert {"alpha", "what_if"} <= page or certainty
    # The method tells whether tokens were found earlier, only servers cause doubt, and `run` has no pace.
    missing = page - told - {"earlier", "doubt", "rested"}
    assert not missing, f"missing in the JSON: {sorted(missing)}"


def test_probabilities_on_their_way_have_a_sign(written: Make, tree_steps: Make, vocabulary: list[str]) -> None:
    page = text(tree_lines(written(tree_steps()), 1, Pieces(vocabulary), 50, 30, weighing=True))
    assert "… %" in page
    assert "… %" not in text(tree_lines(written(tree_steps()), 1, Pieces(vocabulary), 50, 30))


def test_a_hopeless_token_has_no_bar(written: Make, vocabulary: list[str]) -> None:
    rows = tree_lines(written(), 3, Pieces(vocabulary), 50, 30)
    bars = {part: row[-3][0] for row in rows for part, _ in row if part in ("␣about", "␣a")}
    assert bars == {"␣about": "", "␣a": "━╸"}
