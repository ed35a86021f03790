"""The model that ships: small, offline, able to copy, its answers right; its tokenizer and its corpus."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LlamaForCausalLM

from specchat import builtin
from specchat.app.tui.composer.starters import STARTERS
from specchat.app.tui.tour import PROMPT as TOUR
from specchat.backends import LoadOptions, load_model
from specchat.builtin import PROMPTS, path
from specchat.builtin.recipe import evaluate as scoring
from specchat.builtin.recipe import handwritten
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.agreement import agreement
from specchat.builtin.recipe.corpus import TASKS, bench_tasks, draw_task, prompt_text
from specchat.builtin.recipe.evaluate import jobs
from specchat.builtin.recipe.generators.draw import Draw, Message, is_held_out
from specchat.builtin.recipe.generators.facts import FACTS
from specchat.builtin.recipe.gguf_export import export
from specchat.builtin.recipe.tokenizer import load

from ..cases import FULL, cases
from ..fakes.models.llama_tiny import needs_llama

COPY = "Repeat this text exactly: "


def test_the_folder_is_found_and_small() -> None:
    folder = builtin.path()
    assert builtin.path(builtin.BUILTIN) == folder
    assert builtin.path(builtin.BUILTIN_DRAFT) == builtin.path("draft") != folder
    assert (folder / "config.json").is_file()
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 20_000_000
    with pytest.raises(FileNotFoundError, match=r"specchat\.builtin\.recipe\.train"):
        builtin.path("nothing")
    work = builtin.path().parent.parent / "work"
    files = [file for file in builtin.path().parent.parent.rglob("*") if file.is_file() and work not in file.parents]
    assert sum(file.stat().st_size for file in files) <= 45_000_000


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


def test_the_transcript_shows_every_judged_answer() -> None:
    published = (handwritten.PROMPTS.parent / "HAND_PROMPTS.md").read_text(encoding="utf-8")
    prompts = handwritten.prompts()
    good = sum(prompt["good"] for prompt in prompts)
    assert f"**{good} of 40 are good**" in published
    assert f"{good} of 40" in (Path(builtin.__file__).parent / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert published.count("\n## ") == 40
    assert "not judged" not in published
    for prompt in prompts:
        for line in prompt["answer"].split("\n"):
            assert f"> {line}".rstrip() in published
    prompts = handwritten.prompts()
    assert len({prompt["prompt"] for prompt in prompts}) == 40
    assert all(prompt["expect"] and prompt["answer"] and prompt["good"] in (True, False) for prompt in prompts)


def test_the_first_answers_are_what_the_weights_say() -> None:
    for _, (prompt, answer) in zip(range(3), handwritten.answered(builtin.path()), strict=False):
        assert answer == prompt["answer"]


COUNT = 150 if FULL else 60


def drawn(name: str) -> list[tuple[str, str]]:
    tasks = []
    for i in range(COUNT):
        user, assistant, *_ = draw_task(name, Draw(f"answers/{name}/{i}", held_out=i % 2 == 0))
        tasks.append((user["content"], assistant["content"]))
    return tasks


def entries(text: str) -> list[str]:
    return [re.sub(r"^(- |\d+\. )", "", item) for item in re.split(r", |; |\n", text)]


@pytest.mark.parametrize("name", ["copy_sentences", "copy_long", "copy_words", "copy_names", "copy_list", "copy_figures",
                                  "copy_code", "summarise", "long_passage", "passage_question"])  # fmt: skip
def test_what_is_copied_stands_in_the_request(name: str) -> None:
    assert all(answer in request for request, answer in drawn(name))


def test_sorted_lists_are_sorted_and_sums_are_right() -> None:
    down = 0
    for prompt, answer in drawn("sort"):
        numbers = entries(answer)
        keys = (
            [int(item) for item in numbers] if all(item.isdigit() for item in numbers) else [item.lower() for item in numbers]
        )
        assert keys in (sorted(keys), sorted(keys, reverse=True))
        down += keys != sorted(keys)
        assert all(item in prompt for item in numbers)
    assert COUNT / 15 < down < COUNT / 2
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
    prompts = jobs(load(folder), 500 if FULL else 20)
    same, count = agreement(load_model(str(folder), EXACT), load_model(str(shipped), EXACT), prompts)
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


WEIGHTS = path()

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    [
        "", " ", "\n\n", "👩‍👩‍👧‍👦 🇩🇪 ❤️", "漢字かな交じり文", "\x00\x07\x1b[31m", "don't I'LL", "a  b\t\tc \n", "<|end|>",
        "١٢٣ 1234",
    ]
)  # fmt: skip


@cache
def shipped() -> Tokenizer:
    return tokens_of.load(WEIGHTS)


@cases(300)
@given(TEXTS)
def test_any_text_survives(text: str) -> None:
    ids = shipped().encode(text, add_special_tokens=False).ids
    assert shipped().decode(ids, skip_special_tokens=False) == text
    # Nothing that a user types becomes a control token.
    assert all(token >= len(tokens_of.SPECIAL) for token in ids)


@cases(50)
@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=4))
def test_the_template_and_the_ids_grow_at_the_end(contents: list[str]) -> None:
    render = jinja2.Environment().from_string(tokens_of.CHAT_TEMPLATE).render
    roles = ["user", "assistant"]
    messages: list[Message] = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    shorter = messages[:-1]
    assert render(bos_token="", messages=messages).startswith(render(bos_token="", messages=shorter))
    ids, produced = tokens_of.encode_chat(shipped(), messages)
    assert ids[: len(tokens_of.encode_chat(shipped(), shorter)[0])] == tokens_of.encode_chat(shipped(), shorter)[0]
    assert len(ids) == len(produced)


def test_the_loss_is_on_what_the_assistant_says() -> None:
    messages: list[Message] = [{"role": "user", "content": "Say moon."}, {"role": "assistant", "content": "moon"}]
    ids, produced = tokens_of.encode_chat(shipped(), messages)
    spoken = [token for token, trained in zip(ids, produced, strict=True) if trained]
    assert spoken[-1] == tokens_of.END
    assert shipped().decode(spoken[:-1]) == "moon"


def test_transformers_agrees() -> None:
    theirs = AutoTokenizer.from_pretrained(WEIGHTS, local_files_only=True)
    messages: list[Message] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi 😀\n 42"}]
    ours, _ = tokens_of.encode_chat(shipped(), messages, generation_prompt=True)
    rendered = theirs.apply_chat_template(
        [{"role": m["role"], "content": m["content"]} for m in messages], add_generation_prompt=True, tokenize=False
    )
    assert theirs(rendered, add_special_tokens=False).input_ids == ours
    assert theirs.eos_token_id == tokens_of.END
    split = theirs("<|end|>", add_special_tokens=False, split_special_tokens=True).input_ids
    assert tokens_of.END not in split


def _printed(hash_seed: str) -> str:
    command = [sys.executable, "-m", "specchat.builtin.recipe.corpus", "--seed", "7", "--count", "400"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, check=True)
    assert len(done.stdout.splitlines()) == 400
    return hashlib.sha256(done.stdout).hexdigest()


def test_the_same_bytes_in_every_process() -> None:
    assert _printed("1") == _printed("2")


def test_what_is_held_out_is_asked_in_evaluation_alone() -> None:
    """Each turn of a chat is drawn alone, so an exchange stands for a chat."""
    for name, task in TASKS.items():
        training = Draw(f"test/{name}")
        for _ in range(30):
            assert not task.splits or not is_held_out(prompt_text(draw_task(name, training)))
        messages = draw_task(name, Draw(f"test/{name}", held_out=True))
        assert not task.splits or is_held_out(prompt_text(messages))
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
        assert all(message["content"] for message in messages)


@pytest.mark.parametrize("name", ["small_talk", "outside"])
def test_what_is_asked_in_evaluation_is_not_asked_in_training(name: str) -> None:
    def plain(d: Draw) -> str:
        return draw_task(name, d)[0]["content"].lower().strip(" .?!")

    trained, held_out = Draw("a"), Draw("b", held_out=True)
    assert not {plain(trained) for _ in range(4000)} & {plain(held_out) for _ in range(500)}


def test_facts_hold_their_keys_and_the_bench_is_drawn() -> None:
    for fact in FACTS:
        assert fact.key in fact.short
        assert len(fact.key) >= 7
    written = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    assert written == list(bench_tasks(60))
