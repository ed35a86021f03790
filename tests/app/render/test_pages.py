"""The pages of the side panel as lines of text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import TELLING_STEPS, Answer
from specchat.app.chat.methods import known_methods
from specchat.app.chat.pieces import Pieces
from specchat.app.render.blocks import TAIL, EntryBlock
from specchat.app.render.method_page import method_lines
from specchat.app.render.numbers_page import numbers_lines
from specchat.app.render.runs import adjacent_run, find_place, outermost, run_at
from specchat.app.render.thoughts import Thoughts
from specchat.app.render.tree_page import tree_lines
from specchat.app.render.verdict import against, verdict, verdict_lines, verdict_text
from specchat.app.text.lines import StyledLine, length
from specchat.engine.catalog import Totals
from specchat.engine.messages import Finished, StepRecord

from ...fakes.pilots import Make
from ...fakes.thoughts import THOUGHT, thinking_steps


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


def test_the_drafters_of_one_tree_have_their_figures(written: Make) -> None:
    tree: dict[str, Any] = {"tree_tokens": [0, 1, 2, 3], "tree_parents": [-1, 0, 0, 1], "path": [0, 1]}
    step = StepRecord("tree", [1, 5], "a b", drafted=3, accepted=1, nodes=4, **tree)
    step = replace(step, drafters=["draft", "draft-2"], sources=[0, 3, 1, 2], shares=[0.25, 0.75])
    page = method_lines(known_methods()["tree"], "identical", {}, written([step]).totals, 44, models={"draft": "small.gguf"})
    rows = [" ".join(row.split()) for row in text(page).splitlines()]
    assert rows[rows.index("Who drafts") + 1 :][:3] == ["draft 25% of the nodes", "small.gguf", "1 of 2 guesses right"]


def test_plain_decoding_is_not_promised_to_be_like_itself() -> None:
    rows = method_lines(known_methods()["greedy"], "identical", {}, Totals(steps=10, tokens=16, grammar=6), 60)
    page = " ".join(text(rows).split())
    assert "1.60 tokens a pass" in page
    assert "each pass gives one token. The grammar wrote 6 tokens more, without a pass." in page
    assert "Identical" not in page


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
        step = StepRecord(method, [1] * tokens, "x", drafted, min(drafted, tokens - 1), 1 + drafted)
        answer.add(replace(step, draft_seconds=seconds / 9, forward_seconds=seconds))
    rows = numbers_lines(answer, steps[-1][0], cells)
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
    assert "Drafted on" not in text(numbers_lines(written(steps), "fusion", 90))
    steps = [replace(step, ahead=3, wasted=2) for step in steps]
    ahead, wasted = 3 * len(steps), 2 * len(steps)
    page = text(numbers_lines(written(steps), "fusion", 90))
    assert f"Drafted on while the model verified: {ahead} tokens, {wasted} of them for nothing." in page


def test_the_page_of_figures_tells_each_once(written: Make, tree_steps: Make) -> None:
    answer = timed(written(tree_steps() * 5))
    page = text(numbers_lines(answer, "fusion", 60))
    assert "ms to the first token" in page
    titles = ("tokens a pass", "trees right", "Acceptance", "α = ", "Where the time goes", "If each draft were")
    assert sorted(titles, key=page.index) == [*titles]
    assert page.count("trees right") == 1, "a figure is told once"
    assert page.count("Tokens a pass") == 1


@pytest.mark.parametrize(
    ("method", "figures", "sentence"),
    [
        ("greedy", (1, 1), "this is plain decoding."),
        (
            "recompute",
            (1, 30),
            "a pass took 30.0 nodes and gave 1.00 tokens. Its other nodes are the earlier text",
        ),
        ("lookahead", (2, 28), "a pass took 28.0 nodes and gave 2.00 tokens."),
        ("beam", (8, 4, 8), "each token took a pass over 4.0 nodes. Text appears once all beams share it."),
    ],
)
def test_the_page_of_figures_says_what_was_done_instead_of_drafting(
    method: str, figures: tuple[int, ...], sentence: str
) -> None:
    page = text(numbers_lines(plain(method, *figures), method, 44))
    assert f"Nothing was drafted: {sentence}" in " ".join(page.split())
    assert ("Tokens a pass" in page) == (method != "beam")


def test_the_tree_page_draws_no_path_that_no_pass_verified(vocabulary: list[str]) -> None:
    page = text(tree_lines(plain("beam", 3, 4, 3), None, Pieces(vocabulary), 50, 30))
    assert "These 3 tokens became certain in this pass over 4 nodes." in " ".join(page.split())
    assert "␣lamp ␣lamp ␣lamp" in page
    assert "┃" not in page
    assert "accepted" not in page.splitlines()[-1]


def test_probabilities_on_their_way_have_a_sign(written: Make, tree_steps: Make, vocabulary: list[str]) -> None:
    page = text(tree_lines(written(tree_steps()), 1, Pieces(vocabulary), 50, 30, scoring=True))
    assert "… %" in page
    assert "… %" not in text(tree_lines(written(tree_steps()), 1, Pieces(vocabulary), 50, 30))


def test_a_hopeless_token_has_no_bar(written: Make, vocabulary: list[str]) -> None:
    rows = tree_lines(written(), 3, Pieces(vocabulary), 50, 30)
    bars = {part: row[-3][0] for row in rows for part, _ in row if part in ("␣about", "␣a")}
    assert bars == {"␣about": "", "␣a": "━╸"}


def answer_of(
    *steps: tuple[str, int, int, int], plain: float = 0.0, reason: str = "eos", repeats: int = 1, contended: bool = False
) -> Answer:
    """An answer of steps of 10 ms: (method, tokens, drafted, accepted)."""
    answer = Answer(steps[0][0] if steps else "greedy", "identical")
    for method, tokens, drafted, accepted in steps * repeats:
        step = StepRecord(method, [1] * tokens, "x", drafted, accepted, 1 + drafted)
        answer.add(replace(step, draft_seconds=0.002, forward_seconds=0.007, other_seconds=0.001))
    count = len(steps) * repeats
    answer.take(Finished(1, reason, "", 0.1, 0.1 + 0.01 * count, plain_seconds=plain, contended=contended))
    return answer


def said(answer: Answer) -> str:
    return "".join(text for text, _ in verdict(answer))


DRAFT, PLAIN, LOOKUP = ("draft", 3, 4, 2), ("greedy", 1, 0, 0), ("lookup", 1, 4, 0)
SPEED = "3.0 tokens a pass · 300 tokens/s · draft"
SLOW = "1.0 tokens a pass · 100 tokens/s"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (answer_of(DRAFT, plain=0.01, repeats=30), f"3.0× · {SPEED}"),
        (answer_of(LOOKUP, plain=0.008, repeats=10), f"0.80× · {SLOW} · lookup"),
        (answer_of(LOOKUP, plain=0.0098, repeats=10), f"1.0× · {SLOW} · lookup"),
        (answer_of(("lookup", 1, 0, 0), plain=0.0098, repeats=10), f"1.0× · {SLOW} · lookup · nothing to guess from here"),
        (answer_of(DRAFT, repeats=30), SPEED),
        (answer_of(DRAFT, repeats=30, contended=True), f"speedup unknown: the machine was busy · {SPEED}"),
        (answer_of(PLAIN, repeats=9), f"{SLOW} · greedy"),
        (
            answer_of(("recompute", 1, 0, 0), plain=0.0004, repeats=9),
            f"0.04× · {SLOW} · recompute · each pass reads the whole text again",
        ),
        (answer_of(DRAFT, plain=0.01, repeats=30, reason="cancelled"), f"Cancelled · 3.0× · {SPEED}"),
        (
            answer_of(PLAIN, DRAFT, plain=0.01, repeats=20),
            "2.0× · 2.0 tokens a pass · 200 tokens/s · greedy 1.0 → draft 3.0",
        ),
        (answer_of(reason="cancelled"), "Cancelled"),
        (answer_of(), "Finished"),
    ],
)
def test_the_line(answer: Answer, line: str) -> None:
    assert said(answer) == line


def test_a_ratio_needs_some_passes_and_a_plain_one_beside_them() -> None:
    few = answer_of(DRAFT, plain=0.01, repeats=TELLING_STEPS - 1)
    assert said(few).startswith("3.0 tokens a pass")
    assert said(answer_of(("draft", 3, 4, 2), plain=0.01, repeats=TELLING_STEPS)).startswith("3.0×")


def test_a_pass_that_took_prompt_tokens_along_is_not_compared() -> None:
    answer = Answer("draft", "identical")
    answer.add(StepRecord("draft", [1] * 9, "x", drafted=8, accepted=8, nodes=9, forward_seconds=0.0001, prefilled=90))
    for _ in range(10):
        answer.add(StepRecord("draft", [1, 2], "x", drafted=1, accepted=1, nodes=2, forward_seconds=0.01))
    answer.take(Finished(1, "eos", "", 0.1, 1.0, plain_seconds=0.01))
    assert said(answer).startswith("2.0×")


def test_it_takes_the_rows_it_needs_and_breaks_between_its_parts() -> None:
    answer = answer_of(("greedy", 1, 0, 0), ("draft", 3, 4, 2), plain=0.01, repeats=20, reason="length")
    assert verdict_text(answer) == "Token limit · 2.0× · 2.0 tokens a pass · 200 tokens/s · greedy 1.0 → draft 3.0"
    assert verdict_text(answer, "small").endswith("draft 3.0 on small")
    for cells in range(23, 90):
        rows = ["".join(text for text, _ in row) for row in verdict_lines(answer, cells)]
        assert max(map(len, rows)) <= cells
        assert " · ".join(rows) == verdict_text(answer)
    styles = [style for _, style in verdict_lines(answer, 200)[0]]
    assert styles[::2] == ["warning", "success", "quiet", "quiet", "quiet"]


def test_what_made_an_answer_slower_stands_below_it() -> None:
    answer = answer_of(("lookup", 1, 4, 0), plain=0.005, repeats=30)
    (plain,) = verdict_lines(answer, 200)
    answer.held_back = "The text repeats little."
    assert verdict_lines(answer, 200) == [plain, (("The text repeats little. /why says what would help.", "quiet"),)]
    assert max(len("".join(text for text, _ in row)) for row in verdict_lines(answer, 20)) <= 20
    assert "/why" not in verdict_text(answer)


@pytest.mark.parametrize("ratio", [0.96, 1.04])
def test_speeds_are_compared_to_two_digits(ratio: float) -> None:
    assert against(ratio)[0] == "as fast as plain"
    assert against(0.0004) == ("slower than plain (<0.01×)", "warning")
    assert against(12.34) == ("12× faster than plain", "success")


def test_a_draft_that_was_declined_is_not_nothing_to_guess_from() -> None:
    answer = Answer("lookup", "identical")
    for size in (2, 8):
        answer.add(StepRecord("lookup", [1], "x", forward_seconds=0.01, declined=[size, 2.6 if size == 2 else 3.8]))
    answer.take(Finished(1, "eos", "", 0.1, 1.0))
    assert said(answer).endswith(" · lookup · declined: a pass of 8 costs 3.8 plain ones here")
    assert answer.log.record(1).declined == [8, 3.8]
    answer.add(StepRecord("lookup", [1, 2], "xy", drafted=1, accepted=1, nodes=2))
    assert "declined" not in said(answer).lower(), "what was tried once was not declined"


TEXT = "It looks for the last few tokens earlier in the text.\n\nThat is all."


def rows(block: EntryBlock) -> list[tuple[str, str]]:
    return [(f"{row.kind}{'|' * row.thought}{row.sign}", row.text) for row in map(block.row, range(block.height))]


def grown(steps: list[StepRecord], thoughts: Thoughts = "folded", reason: str | None = "eos") -> EntryBlock:
    """A block that took in one step at a time; before each change rows were as they are said to have stayed."""
    answer = Answer("lookup", "identical")
    block = EntryBlock(answer, 40, thoughts=thoughts)
    for step in steps:
        before, versions = rows(block), [block.version(i) for i in range(block.height)]
        answer.add(step)
        first = block.update()
        now = rows(block)
        if first is not None:
            assert now[:first] == before[:first]
        for i, (old, new) in enumerate(zip(before, now, strict=False)):
            assert old == new or versions[i] != block.version(i), "a row that changed is taken from the cache"
    if reason is not None:
        answer.finish(reason)
        block.update()
    return block


def test_open_while_it_is_written_then_a_line() -> None:
    steps = thinking_steps(THOUGHT, TEXT)
    thought = [step for step in steps if step.spans[-1][0]]
    writing = grown(thought, reason=None)
    assert writing.row(0).text.startswith("Thinking ")
    assert writing.text_rows == 1 + TAIL
    assert all(writing.row(i).thought for i in range(1, 1 + TAIL))
    assert writing.row(TAIL).last
    done = grown(steps)
    assert done.row(0).text.startswith("Thought for ")
    assert done.row(0).sign == "▸"
    assert [row[1] for row in rows(done)[1:4]] == ["It looks for the last few tokens earlier", "in the text.", ""]
    done.fold(True)
    thought_text = "".join(row.text for row in map(done.row, range(done.text_rows)) if row.thought)
    assert thought_text.replace(" ", "") == THOUGHT.replace("\n", "").replace(" ", "")
    assert done.opened
    done.fold(False)
    assert rows(done) == rows(grown(steps))


@pytest.mark.parametrize("thoughts", ["open", "folded", "hidden"])
@pytest.mark.parametrize("seed", range(3))
def test_growing_equals_taking_in_at_once(thoughts: Thoughts, seed: int) -> None:
    twice = thinking_steps("First.\nThen", "Well,", seed=seed) + thinking_steps(THOUGHT, TEXT, seed=seed + 1)
    answer = Answer("lookup", "identical")
    for step in twice:
        answer.add(step)
    answer.finish("eos")
    at_once = EntryBlock(answer, 40, thoughts=thoughts)
    at_once.update()
    assert rows(grown(twice, thoughts)) == rows(at_once)
    kinds = [kind for kind, _ in rows(at_once)]
    assert kinds.count("thought▾") == (2 if thoughts == "open" else 0)
    assert ("answer|" in kinds) == (thoughts == "open")


def test_a_thought_that_is_not_closed_is_never_hidden() -> None:
    steps = thinking_steps(THOUGHT, "", closed=False)
    block = grown(steps, "hidden", "length")
    assert block.row(0).text.startswith("Thought for ")
    assert "s, not finished" in block.row(0).text
    assert block.row(0).styles == ("warning",)
    figures = " ".join(row.text for row in map(block.row, range(block.height)) if row.kind == "figures")
    assert "Token limit in the middle of the thought" in figures


def test_the_cursor_goes_where_runs_can_be_seen() -> None:
    block = grown(thinking_steps(THOUGHT, TEXT))

    def stops() -> list[int]:
        out, spot = [], outermost([block], -1)
        while spot is not None:
            out.append(spot.run)
            place = find_place(block, spot.run)
            assert place is not None
            if place.visible:
                assert run_at(block, place.first, place.cell) == spot.run
            spot = adjacent_run([block], spot, 1)
        return out

    folded = stops()
    block.fold(True)
    assert len(stops()) > len(folded) > 1
    assert stops()[-len(folded) :] == folded


def test_a_model_that_does_not_think_is_as_ever() -> None:
    steps = [StepRecord("lookup", [1], "\n\n  Hello\n"), StepRecord("lookup", [2], "there", spans=[[0, 5, 1]])]
    block = grown(steps)
    assert [row[1] for row in rows(block)[:4]] == ["", "", "  Hello", "there"]
