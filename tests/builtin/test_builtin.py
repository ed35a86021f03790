"""The model that ships: there, small, offline, and able to copy; the answers that it learned are right."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from specchat import builtin
from specchat.app.tui.chat.welcome import STARTERS
from specchat.app.tui.tour.tour import PROMPT as TOUR
from specchat.backends import LoadOptions, load_model
from specchat.builtin.recipe import evaluate as scoring
from specchat.builtin.recipe import handwritten
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.agreement import agreement
from specchat.builtin.recipe.corpus import TASKS, draw_task, prompt_text
from specchat.builtin.recipe.evaluate import jobs
from specchat.builtin.recipe.generators.draw import Draw, Message
from specchat.builtin.recipe.gguf_export import export
from specchat.builtin.recipe.tokenizer import load

from ..cases import FULL
from ..fakes.models.llama_tiny import needs_llama

COPY = "Repeat this text exactly: "


def test_the_folder_is_found_and_small() -> None:
    folder = builtin.path()
    assert builtin.path(builtin.BUILTIN) == folder
    assert builtin.path(builtin.BUILTIN_DRAFT) == builtin.path("draft") != folder
    assert (folder / "config.json").is_file()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 20_000_000


def test_a_missing_model_says_what_to_do() -> None:
    with pytest.raises(FileNotFoundError, match=r"specchat\.builtin\.recipe\.train"):
        builtin.path("nothing")


def test_the_package_imports_nothing_heavy() -> None:
    code = "import sys, specchat.builtin; sys.exit('torch' in sys.modules or 'tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "sentence",
    [
        "The old lamp was broken, but the garden was quiet.",
        "Anna bought 12 apples and a red kite for $4.50.",
        *(prompt.removeprefix(COPY) for prompt in (TOUR, STARTERS[0].prompt)),  # what a newcomer sees first
    ],
)
def test_it_copies_a_sentence(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = builtin.path()
    model = LlamaForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = tokens_of.load(folder)
    message: Message = {"role": "user", "content": COPY + sentence}
    prompt, _ = tokens_of.encode_chat(tokenizer, [message], generation_prompt=True)
    assert tokenizer.decode(scoring.answers(model, [prompt], 90)[0]) == sentence


def test_there_are_forty_judged_prompts() -> None:
    prompts = handwritten.prompts()
    assert len({asked["prompt"] for asked in prompts}) == 40
    assert all(asked["expect"] and asked["answer"] and asked["good"] in (True, False) for asked in prompts)


def test_the_transcript_shows_every_judged_answer() -> None:
    published = (handwritten.PROMPTS.parent / "HAND_PROMPTS.md").read_text(encoding="utf-8")
    prompts = handwritten.prompts()
    good = sum(asked["good"] for asked in prompts)
    assert f"**{good} of 40 are good**" in published
    assert f"{good} of 40" in (Path(builtin.__file__).parent / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert published.count("\n## ") == 40
    assert "not judged" not in published
    for asked in prompts:
        for line in asked["answer"].split("\n"):
            assert f"> {line}".rstrip() in published


def test_the_first_answers_are_what_the_weights_say() -> None:
    for _, (asked, answer) in zip(range(3), handwritten.answered(builtin.path()), strict=False):
        assert answer == asked["answer"]


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


EXACT = LoadOptions(device="cpu", dtype="float32", threads=1)


@needs_llama
def test_q8_0_chooses_what_float32_chooses() -> None:
    """98% of the tokens of the evaluation's answers (`python -m specchat.builtin.recipe.agreement` takes all of them)."""
    shipped = builtin.path().parent / "target-Q8_0.gguf"
    folder = builtin.path()
    asked = jobs(load(folder), 500 if FULL else 20)
    same, count = agreement(load_model(str(folder), EXACT), load_model(str(shipped), EXACT), asked)
    assert count > 300
    assert same / count >= 0.98


@needs_llama
def test_the_files_that_ship_are_the_recipes(tmp_path: Path) -> None:
    export(builtin.path(), tmp_path / "target.gguf", "Q8_0", "specchat target")
    assert (builtin.path().parent / "target-Q8_0.gguf").read_bytes() == (tmp_path / "target.gguf").read_bytes()
    assert {file.name for file in builtin.path().parent.glob("*.gguf")} == {
        "eagle-Q8_0.gguf",
        *(f"{name}-{kind}.gguf" for name in ("target", "draft") for kind in ("Q8_0", "Q4_0")),
    }


def test_all_of_builtin_is_small() -> None:
    work = builtin.path().parent.parent / "work"
    files = [file for file in builtin.path().parent.parent.rglob("*") if file.is_file() and work not in file.parents]
    assert sum(file.stat().st_size for file in files) <= 45_000_000
