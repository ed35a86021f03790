"""The sentence about an answer."""

from __future__ import annotations

import pytest

from specchat.app.chat.entries import TELLING_STEPS, Answer
from specchat.app.render.verdict import against, verdict, verdict_lines, verdict_text
from specchat.engine.messages import Finished, StepRecord


def written(
    *steps: tuple[str, int, int, int], plain: float = 0.0, reason: str = "eos", repeats: int = 1, contended: bool = False
) -> Answer:
    """An answer of steps of 10 ms: (method, tokens, drafted, accepted)."""
    answer = Answer(steps[0][0] if steps else "greedy", "identical")
    for method, tokens, drafted, accepted in steps * repeats:
        answer.add(StepRecord(method, [1] * tokens, "x", drafted, accepted, 1 + drafted, 0.002, 0.007, 0.001))
    count = len(steps) * repeats
    answer.take(Finished(1, reason, "", 0.1, 0.1 + 0.01 * count, plain_seconds=plain, contended=contended))
    return answer


def said(answer: Answer) -> str:
    return "".join(text for text, _ in verdict(answer))


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (written(("draft", 3, 4, 2), plain=0.01, repeats=30), "3.0× · 3.0 tokens a pass · 300 tokens/s · draft"),
        (written(("lookup", 1, 4, 0), plain=0.008, repeats=10), "0.80× · 1.0 tokens a pass · 100 tokens/s · lookup"),
        (written(("lookup", 1, 4, 0), plain=0.0098, repeats=10), "1.0× · 1.0 tokens a pass · 100 tokens/s · lookup"),
        (
            written(("lookup", 1, 0, 0), plain=0.0098, repeats=10),
            "1.0× · 1.0 tokens a pass · 100 tokens/s · lookup · nothing to guess from here",
        ),
        (written(("draft", 3, 4, 2), repeats=30), "3.0 tokens a pass · 300 tokens/s · draft"),
        (
            written(("draft", 3, 4, 2), repeats=30, contended=True),
            "speedup unknown: the machine was busy · 3.0 tokens a pass · 300 tokens/s · draft",
        ),
        (written(("greedy", 1, 0, 0), repeats=9), "1.0 tokens a pass · 100 tokens/s · greedy"),
        (
            written(("recompute", 1, 0, 0), plain=0.0004, repeats=9),
            "0.04× · 1.0 tokens a pass · 100 tokens/s · recompute · each pass reads the whole text again",
        ),
        (
            written(("draft", 3, 4, 2), plain=0.01, repeats=30, reason="cancelled"),
            "Cancelled · 3.0× · 3.0 tokens a pass · 300 tokens/s · draft",
        ),
        (
            written(("greedy", 1, 0, 0), ("draft", 3, 4, 2), plain=0.01, repeats=20),
            "2.0× · 2.0 tokens a pass · 200 tokens/s · greedy 1.0 → draft 3.0",
        ),
        (written(reason="cancelled"), "Cancelled"),
        (written(), "Finished"),
    ],
)
def test_the_line(answer: Answer, line: str) -> None:
    assert said(answer) == line


def test_a_ratio_needs_some_passes_and_a_plain_one_beside_them() -> None:
    few = written(("draft", 3, 4, 2), plain=0.01, repeats=TELLING_STEPS - 1)
    assert said(few).startswith("3.0 tokens a pass")
    assert said(written(("draft", 3, 4, 2), plain=0.01, repeats=TELLING_STEPS)).startswith("3.0×")


def test_a_pass_that_took_prompt_tokens_along_is_not_compared() -> None:
    answer = Answer("draft", "identical")
    answer.add(StepRecord("draft", [1] * 9, "x", 8, 8, 9, 0.0, 0.0001, 0.0, prefilled=90))
    for _ in range(10):
        answer.add(StepRecord("draft", [1, 2], "x", 1, 1, 2, 0.0, 0.01, 0.0))
    answer.take(Finished(1, "eos", "", 0.1, 1.0, plain_seconds=0.01))
    assert said(answer).startswith("2.0×")


def test_it_takes_the_rows_it_needs_and_breaks_between_its_parts() -> None:
    answer = written(("greedy", 1, 0, 0), ("draft", 3, 4, 2), plain=0.01, repeats=20, reason="length")
    assert verdict_text(answer) == "Token limit · 2.0× · 2.0 tokens a pass · 200 tokens/s · greedy 1.0 → draft 3.0"
    assert verdict_text(answer, "small").endswith("draft 3.0 on small")
    for cells in range(23, 90):
        rows = ["".join(text for text, _ in row) for row in verdict_lines(answer, cells)]
        assert max(map(len, rows)) <= cells
        assert " · ".join(rows) == verdict_text(answer)
    styles = [style for _, style in verdict_lines(answer, 200)[0]]
    assert styles[::2] == ["warning", "success", "quiet", "quiet", "quiet"]


def test_what_made_an_answer_slower_stands_below_it() -> None:
    answer = written(("lookup", 1, 4, 0), plain=0.005, repeats=30)
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
    answer.add(StepRecord("lookup", [1, 2], "xy", 1, 1, 2))
    assert "declined" not in said(answer).lower(), "what was tried once was not declined"
