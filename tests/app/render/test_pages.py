"""An answer as rows of text: its block, the pages of the side panel, the strip about a run, its tree."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.app.chat.entries import TELLING_STEPS, Answer
from specchat.app.chat.methods import known_methods
from specchat.app.chat.runs import Pieces
from specchat.app.render.blocks import TAIL, EntryBlock
from specchat.app.render.inspection import CONTEXT, LABEL, REFUSED, RUN, inspection_rows, quoted, wrapped
from specchat.app.render.method_page import method_lines
from specchat.app.render.numbers_page import numbers_lines
from specchat.app.render.runs import adjacent_run, find_place, outermost, run_at
from specchat.app.render.thoughts import Thoughts
from specchat.app.render.tree_page import tree_lines
from specchat.app.render.tree_rows import StepTree, TreeRow, tree_rows
from specchat.app.render.verdict import against, verdict, verdict_lines, verdict_text
from specchat.app.text.cells import width
from specchat.app.text.lines import StyledLine, cut, length
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


def test_a_hopeless_token_has_no_bar_and_probabilities_on_their_way_a_sign(written: Make, vocabulary: list[str]) -> None:
    rows = tree_lines(written(), 3, Pieces(vocabulary), 50, 30)
    bars = {part: row[-3][0] for row in rows for part, _ in row if part in ("␣about", "␣a")}
    assert bars == {"␣about": "", "␣a": "━╸"}
    assert "… %" not in text(rows)
    assert "… %" in text(tree_lines(written(), 3, Pieces(vocabulary), 50, 30, scoring=True))


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


# A run in the strip, and the tree of its pass


def joined(parts: Any) -> str:
    return "".join(text for text, _ in parts)


def rows_of(answer: Answer, index: int, pieces: Pieces, cells: int = 100, rows: int = 4) -> str:
    return "\n".join(joined(parts) for parts in inspection_rows(answer, index, pieces, cells, rows))


@pytest.fixture
def answer(written: Make) -> Answer:
    answer: Answer = written()
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
    undrafted = rows_of(answer, 0, pieces)
    assert "drafted 0" not in undrafted
    assert "Nothing was drafted: one pass gave one token (62% likely)." in undrafted


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
        assert f"pass {number}{of} " in f"{joined(page[0])} "


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
                    assert width(joined(parts)) <= cells
                    assert not set(joined(parts)) & set("\x1b\x07\u202e\n\t\r")


def test_rows_break_between_words_and_keep_quotations_whole() -> None:
    before = (("After ", LABEL), ("‘the lamp’", CONTEXT), (" the draft also said ", LABEL), ("‘of the sea’", REFUSED))
    parts = (*before, (" (20% likely), the model went with ", LABEL), ("‘a b’", RUN), (" (71%)", LABEL))
    for cells in range(24, 90):
        broken = [joined(row) for row in wrapped(parts, cells, 9)]
        assert " ".join(row.strip() for row in broken) == joined(parts)
        assert all(row.count("‘") == row.count("’") for row in broken)


def test_quotations() -> None:
    assert quoted(" lamp and ") == "‘lamp and’"
    assert quoted("  ") == "‘␣␣’"
    assert quoted("⏎") == "‘⏎’"
    assert quoted("abcdefgh", 5) == "‘abcd…’"
    assert quoted("abcdefgh", 5, end=True) == "‘…efgh’"
    assert joined(cut((("one ", LABEL), ("two three", RUN)), 9)) == "one two …"


WORDS = (" the", " lamp", " and", " wrote", " old", " a", " poem", " about", " of", " light", " on", "漢字", " 👩‍👩‍👧", "")


def piece(token: int) -> str:
    return WORDS[token % len(WORDS)] or f"⟨{token}⟩"


BRANCHES: Any = {"tree_tokens": [0, 1, 4, 2, 3, 5, 6, 7, 8], "tree_parents": [-1, 0, 0, 1, 3, 4, 5, 6, 6], "path": [0, 1, 3, 4]}
PROBS = [0.93, 0.02, 0.8, 0.99, 0.1, 0.5, 0.3, 0.2, 0.64]
BRANCHING = StepRecord("fusion", [1, 2, 3, 0], drafted=8, accepted=3, nodes=9, **BRANCHES, probs=PROBS)
DRAWN = "● ␣the\n┠─× ␣old\n┃ ␣lamp ␣and ␣wrote\n┠─× ␣a ␣poem\n┃   ├─ ␣about\n┃   └─ ␣of\n┗━ ␣the"


def shape(rows: list[TreeRow]) -> str:
    return "\n".join(row.text for row in rows)


def test_a_branching_tree() -> None:
    rows = tree_rows(StepTree.of(replace(BRANCHING, probs=[]), 0), piece, 40)
    assert shape(rows) == DRAWN
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
    assert shape(rows) == DRAWN  # all of it, the path on one row
    assert rows[2].prob == pytest.approx(0.93 * 0.8 * 0.99)
    assert shape(tree_rows(tree, piece, 40, 5)) == ("● ␣the\n┠─× ␣old\n┃ ␣lamp ␣and ␣wrote\n┠─× ␣a ␣poem … 2 more\n┗━ ␣the")
    assert shape(tree_rows(tree, piece, 40, 3)) == "● ␣the\n┠─ … 8 more\n┗━ ␣the"
    assert shape(tree_rows(tree, piece, 40, 4)) == "● ␣the\n┃ ␣lamp ␣and ␣wrote\n┠─ … 5 more\n┗━ ␣the"


def test_the_guesses_of_several_drafters_are_signed() -> None:
    step = StepRecord("tree", [1, 9], "", 4, 1, 5, tree_tokens=[0, 1, 2, 3, 4], tree_parents=[-1, 0, 0, 2, 2], path=[0, 1])
    step = replace(step, drafters=["draft", "draft-2"], sources=[0, 3, 1, 1, 2], shares=[0.75, 0.25])
    rows = shape(tree_rows(StepTree.of(step, 0), piece, 30))
    assert rows == "● ␣the\n┠─× ␣and¹\n┃   ├─ ␣wrote¹\n┃   └─ ␣old²\n┃ ␣lamp¹²\n┗━ ␣light"
    step = replace(step, drafters=["draft"])  # then it is all one drafter's
    assert "¹" not in shape(tree_rows(StepTree.of(step, 0), piece, 30))


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
    old, a, poem = ((piece(token).replace(" ", "␣")) for token in (4, 5, 6))
    last = piece(7).replace(" ", "␣")
    drawn = f"● ␣the\n┠─× {last}\n┃ ␣lamp\n┠── {old}\n┃   ├─ {a}\n┃   └─ {poem}\n┠── ␣and ␣wrote\n┗━ 3 texts open"
    assert shape(rows) == drawn
    shares = [None if row.prob is None else round(row.prob, 3) for row in rows]
    assert shares == [None, None, None, 0.75, 0.5, 0.25, 0.25, None]
    over = StepRecord("beam", [1], "", nodes=3, tree_tokens=[0, 1, 2], tree_parents=[-1, 0, 0], path=[0, 1])
    assert shape(tree_rows(StepTree.of(over, 0), piece, 30)) == "● ␣the\n┠─× ␣and\n┃ ␣lamp\n┗━ one text is left"


def test_the_window_of_lookahead_is_counted() -> None:
    step = StepRecord("lookahead", [1, 9], "", drafted=2, accepted=1, nodes=7, tree_tokens=[0, 1, 2, 5, 6, 7, 8])
    step = replace(step, tree_parents=[-1, 0, 1, 0, 3, 1, 5], path=[0, 1])
    rows = tree_rows(StepTree.of(step, 0), piece, 30)
    assert shape(rows) == "● ␣the\n┃ ␣lamp\n┠─× ␣and\n┗━ ␣light\n   … 4 more in the window"
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
