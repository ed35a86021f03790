"""The answers of the generators are right: each checked from what the request shows, not by the code that made it."""

import re
from itertools import product

import pytest

from specchat.builtin.recipe.corpus import TASKS, draw_task, prompt_text
from specchat.builtin.recipe.generators.draw import Draw

from ..cases import FULL

COUNT = 150 if FULL else 60


def drawn(name: str) -> list[tuple[str, str]]:
    """First exchanges of a task."""
    found = []
    for i in range(COUNT):
        user, assistant, *_ = draw_task(name, Draw(f"answers/{name}/{i}", held_out=i % 2 == 0))
        found.append((user["content"], assistant["content"]))
    return found


def entries(text: str) -> list[str]:
    """The items of a list in any notation."""
    return [re.sub(r"^(- |\d+\. )", "", item) for item in re.split(r", |; |\n", text)]


@pytest.mark.parametrize("name", ["copy_sentences", "copy_long", "copy_words", "copy_names", "copy_list", "copy_figures",
                                  "copy_code", "summarise", "long_passage", "passage_question"])  # fmt: skip
def test_what_is_copied_stands_in_the_request(name: str) -> None:
    assert all(answer in asked for asked, answer in drawn(name))


def test_sorted_lists_are_sorted() -> None:
    down = 0
    for asked, answer in drawn("sort"):
        found = entries(answer)
        keys = [int(item) for item in found] if all(item.isdigit() for item in found) else [item.lower() for item in found]
        assert keys in (sorted(keys), sorted(keys, reverse=True))
        down += keys != sorted(keys)
        assert all(item in asked for item in found)
    assert COUNT / 15 < down < COUNT / 2


def test_sums_are_right() -> None:
    for _, answer in drawn("arithmetic"):
        left, right = answer.split(" = ")
        a, sign, b = left.split()
        assert {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[sign] == int(right)


def test_texts_are_clean_and_fit() -> None:
    for name, i in product(TASKS, range(60 if FULL else 12)):
        messages = draw_task(name, Draw(f"clean/{name}/{i}"))
        assert len(prompt_text(messages)) < 7000
        for message in messages:
            assert message["content"].strip()
            # Nothing of the patterns is left.
            assert not re.search(r"\{[a-z]\w*\}|@(list|lines|numbers|code|table|words)\b|\(\w+\|", message["content"])
        assert all(message["content"] == message["content"].strip() for message in messages[1::2])
