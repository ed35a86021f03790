"""The answers of the generators are right: each checked from what the request shows, not by the code that made it."""

import json
import re
from itertools import product
from types import ModuleType

import pytest

from specchat.builtin.recipe.corpus import TASKS, draw_task, prompt_text
from specchat.builtin.recipe.generators.draw import Draw
from specchat.builtin.recipe.generators.tasks import editing, lists

from ..cases import FULL

COUNT = 150 if FULL else 60


def drawn(name: str) -> list[tuple[str, str]]:
    """First exchanges of a task."""
    found = []
    for i in range(COUNT):
        user, assistant, *_ = draw_task(name, Draw(f"answers/{name}/{i}", held_out=i % 2 == 0))
        found.append((user["content"], assistant["content"]))
    return found


def captured(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[tuple[str, str, dict[str, str]]]:
    """The pattern, the text and the fields of each request that a module makes from now on."""
    asked: list[tuple[str, str, dict[str, str]]] = []

    def ask(d: Draw, pattern: str, text: str, **fields: str) -> str:
        asked.append((pattern, text, fields))
        return text

    monkeypatch.setattr(module, "ask", ask)
    return asked


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


def test_parts_are_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = captured(monkeypatch, lists)
    ordinals = "first second third fourth fifth sixth seventh eighth".split()
    counts = "one two three four five six seven eight".split()
    for i in range(4 * COUNT):
        *_, answer = lists.parts(Draw(f"parts/{i}"))
        pattern, text, fields = asked[-1]
        which = fields["which"]
        unit = re.search(r"item|line|sentence|word", which)[0]  # type: ignore[index]
        separators = {"item": r", | and |; |\n", "line": r"\n", "sentence": r"(?<=[.!?]) ", "word": " "}
        units = re.split(separators[unit], text)
        if unit == "item":
            units = [re.sub(r"^(- |\d+\. )", "", each) for each in units]
        words = which.replace("the ", "").split()
        number = next((int(found) for word in words for found in re.findall(r"\d+", word)), 0)
        number = number or next((counts.index(word) + 1 for word in words if word in counts), 0)
        if which.endswith("s"):
            picked = units[-number:] if "last" in words else units[:number]
        elif "last" in words:
            picked = units[-1:]
        else:
            at = number or next(ordinals.index(word) + 1 for word in words if word in ordinals)
            picked = [units[at - 1]]
        wanted = [each for each in units if each not in picked] if "without" in pattern else picked
        found = re.split(separators[unit], answer["content"])
        assert [re.sub(r"^(- |\d+\. )", "", each) if unit == "item" else each for each in found] == wanted


def test_json_is_valid_and_holds_what_was_given() -> None:
    objects = 0
    for asked, answer in drawn("record_json"):
        if answer.startswith("{"):
            objects += 1
            assert all(str(value) in asked for value in json.loads(answer).values())
        else:
            given = json.loads(re.search(r"\{.*\}", asked)[0])  # type: ignore[index]
            assert dict(line.split(": ", 1) for line in answer.split("\n")) == {key: str(given[key]) for key in given}
    assert objects > COUNT / 2


def test_counts_are_right() -> None:
    for asked, answer in drawn("count_items"):
        *counted, total = answer.split("\n")
        assert int(total.split()[0]) == len(counted)
        assert all(item.split(" ", 1)[1] in asked for item in counted)


def test_extracted_values_stand_in_the_text() -> None:
    for asked, answer in drawn("extract"):
        if re.match(r"1\. ", answer):
            assert int(answer.split("\n")[-1].split()[0]) == answer.count("\n")
        values = re.sub(r"(?m)^(?:[A-Z][a-z]+: |\d+\. |\d+ [a-z]+\.$)", "", answer)
        assert all(value in asked for line in values.split("\n") for value in line.split(", "))


def test_replaced_words_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = captured(monkeypatch, editing)
    checked = 0
    for i in range(COUNT):
        *_, answer = editing.replace_word(Draw(f"replace/{i}"))
        _, text, fields = asked[-1]
        if "old" in fields:
            old, new = (fields[name].strip("\"'") for name in ("old", "new"))
            marks = ".,!?;:\"'()%"
            words = [word if word.strip(marks) != old else word.replace(old, new) for word in re.split(r"(\s)", text)]
            assert answer["content"] == "".join(words) != text
            checked += 1
    assert checked > COUNT / 2


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
