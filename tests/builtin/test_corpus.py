"""The corpus: the same bytes everywhere, and an evaluation side that training never meets."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from specchat.builtin import PROMPTS
from specchat.builtin.recipe.corpus import TASKS, bench_tasks, draw_task, prompt_text
from specchat.builtin.recipe.generators.draw import Draw, is_held_out
from specchat.builtin.recipe.generators.facts import FACTS


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
