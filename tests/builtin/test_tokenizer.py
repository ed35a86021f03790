"""The recipe's text: a tokenizer in which any text survives, and a corpus of the same bytes everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import cache

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from specchat.builtin import PROMPTS, path
from specchat.builtin.recipe import tokenizer as tokens_of
from specchat.builtin.recipe.corpus import TASKS, bench_tasks, draw_task, prompt_text
from specchat.builtin.recipe.generators.draw import Draw, Message, is_held_out
from specchat.builtin.recipe.generators.facts import FACTS

from ..cases import cases

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
    spoken = [token for token, wanted in zip(ids, produced, strict=True) if wanted]
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


def test_no_training_prompt_is_held_out() -> None:
    # What holds for an exchange holds for a chat: each turn of a chat is drawn by itself.
    for name, task in TASKS.items():
        d = Draw(f"test/{name}")
        for _ in range(30):
            assert not task.splits or not is_held_out(prompt_text(draw_task(name, d)))


@pytest.mark.parametrize("name", ["small_talk", "outside"])
def test_what_is_asked_in_evaluation_is_not_asked_in_training(name: str) -> None:
    def plain(d: Draw) -> str:
        return draw_task(name, d)[0]["content"].lower().strip(" .?!")

    trained, asked = Draw("a"), Draw("b", held_out=True)
    assert not {plain(trained) for _ in range(4000)} & {plain(asked) for _ in range(500)}


def test_evaluation_prompts_are_held_out() -> None:
    for name, task in TASKS.items():
        messages = draw_task(name, Draw(f"test/{name}", held_out=True))
        assert not task.splits or is_held_out(prompt_text(messages))
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2)
        assert all(message["content"] for message in messages)


def test_every_fact_holds_its_key() -> None:
    for fact in FACTS:
        assert fact.key in fact.short
        assert len(fact.key) >= 7


def test_the_bench_asks_what_training_never_sees() -> None:
    written = [json.loads(line) for line in PROMPTS.read_text(encoding="utf-8").splitlines()]
    assert written == list(bench_tasks(60))
