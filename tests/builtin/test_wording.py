"""How requests are worded: in very many ways, by the same frames in scope and out of it, with the letters that matter kept."""

import math
import re

import pytest

from specchat.builtin.recipe.corpus import TASKS, draw_task
from specchat.builtin.recipe.generators import wording
from specchat.builtin.recipe.generators.draw import Choice, Draw, parsed

from ..cases import FULL

TEXTS = {"noise", "foreign", "pasted"}
"""Tasks that are no requests."""


def ways(pattern: str) -> int:
    """How many texts a pattern stands for, some perhaps twice."""

    def count(choice: Choice) -> int:
        return sum(math.prod(1 if isinstance(part, str) else count(part) for part in row) for row in choice)

    return count(parsed(pattern))


def test_patterns_are_parsed() -> None:
    d = Draw("patterns")
    assert {d.say("(a|b|) c") for _ in range(60)} == {"a c", "b c", "c"}
    assert {d.say("x (y (1|2)|z)|w") for _ in range(90)} == {"x y 1", "x y 2", "x z", "w"}
    assert {d.say("a owl|a use") for _ in range(20)} == {"an owl", "a use"}
    assert ways("(a|b|) c") == 3
    assert ways("x (y (1|2)|z)|w") == 4
    with pytest.raises(ValueError, match="brackets do not match"):
        d.say("a (b|c")


def test_no_two_requests_begin_alike() -> None:
    # The first words hold the frame; content alone would differ at the end.
    for name in TASKS.keys() - TEXTS:
        starts = set()
        for i in range(300 if FULL else 60):
            first = draw_task(name, Draw(f"wording/{name}/{i}"))[0]["content"]
            starts.add(" ".join(re.sub(r"[^a-z ]", "", first.lower()).split()[:5]))
        assert len(starts) > (150 if FULL else 40)


def test_fields_keep_their_letters() -> None:
    d = Draw("fields")
    typed = {wording.ask(d, "write a poem about {topic}", topic="Ulla (7) {x}") for _ in range(300)}
    assert len(typed) > 150
    assert all("Ulla (7) {x}" in text for text in typed)
    assert len({wording.loosely(d, "What is the capital of France?").lower() for _ in range(300)}) > 20


def test_the_text_of_a_request_stays_as_it_is() -> None:
    d = Draw("text")
    for text in ("one word", "Two\nlines", "- a list\n- of two", 'He said "no".', "{braces} (and brackets|bars)"):
        asked = [wording.ask(d, "repeat @text", text) for _ in range(200)]
        assert all(text in each for each in asked)
        assert {True, False} == {each.startswith(text) for each in asked}


def test_a_message_has_one_answer() -> None:
    answers: dict[str, set[str]] = {}
    for name in ("small_talk", "asked", "how_to", "fact", "comparison", "outside", "noise", "arithmetic", "large_numbers"):
        for i in range(400):
            user, assistant, *_ = draw_task(name, Draw(f"one/{name}/{i}"))
            plain = re.sub(r"[^\w+*/:-]+", " ", user["content"].lower()).strip()
            answers.setdefault(plain, set()).add(assistant["content"])
    assert len(answers) > 2500
    assert [text for text, found in answers.items() if len(found) > 1 and text] == []
