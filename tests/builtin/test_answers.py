"""The answers of the generators are right: each checked from what the request shows, not by the code that made it."""

import json
import re
from types import ModuleType

import pytest

from specchat.builtin.recipe.corpus import TASKS, draw_task, prompt_text
from specchat.builtin.recipe.generators.draw import Draw
from specchat.builtin.recipe.generators.passages import lines
from specchat.builtin.recipe.generators.sentences import plain_sentence
from specchat.builtin.recipe.generators.tasks import editing, lists

COUNT = 150


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
    assert 10 < down < COUNT / 2


def test_a_list_may_be_longer_than_a_pool_of_names() -> None:
    found = [lists.items(Draw(f"list/{i}", held_out=True), 10, 10) for i in range(100)]
    assert {len(set(each)) for each in found} == {10}


def test_reversed_lists_are_reversed() -> None:
    for asked, answer in drawn("reverse"):
        places = [asked.rindex(item) for item in entries(answer)]
        assert len(places) >= 2
        assert all(item in asked for item in entries(answer))


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


def test_items_once_each() -> None:
    for asked, answer in drawn("change_items"):
        found = entries(answer)
        assert len(set(found)) == len(found)
        assert all(item in asked for item in found)


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


def test_spelled_words_have_their_letters() -> None:
    for asked, answer in drawn("spelling"):
        letters = re.sub("[^a-z]", "", answer.lower())
        assert set(letters) <= set(asked.lower())


def test_an_attached_file_has_its_size() -> None:
    files = 0
    for name in ("passage_question", "long_passage"):
        for asked, _ in drawn(name):
            found = re.search(r"Attached file: \S+ \(([\d.,]+) (k?B)\)\n```\n(.*?)\n```", asked, re.DOTALL)
            if found:
                files += 1
                size = len(found[3].encode()) + 1
                told = float(found[1].replace(",", "")) * (1000 if found[2] == "kB" else 1)
                assert abs(told - size) <= (50 if found[2] == "kB" else 0)
    assert files > 10


def test_passages_say_one_thing_about_each() -> None:
    for i in range(60):
        found = lines(Draw(f"lines/{i}"), 6)
        about = [thing for line in found for thing in line.about]
        assert len(set(about)) == len(about)
        assert all((line.questions and line.text[0].isupper()) or line.text[0].isdigit() for line in found)
        assert not any(re.search(r"[{}|<>@~]|\ba [aeio]", text) for line in found for text in (line.text, *line.questions))


def test_a_plain_sentence_has_one_end() -> None:
    d = Draw("plain")
    assert all(not re.search(r"[.!?] ", plain_sentence(d)) for _ in range(200))


@pytest.mark.parametrize("name", list(TASKS))
def test_texts_are_clean_and_fit(name: str) -> None:
    for i in range(60):
        messages = draw_task(name, Draw(f"clean/{name}/{i}"))
        assert len(prompt_text(messages)) < 7000
        for message in messages:
            assert message["content"].strip()
            # Nothing of the patterns is left.
            assert not re.search(r"\{[a-z]\w*\}|@(list|lines|numbers|code|table|words)\b|\(\w+\|", message["content"])
        assert all(message["content"] == message["content"].strip() for message in messages[1::2])
