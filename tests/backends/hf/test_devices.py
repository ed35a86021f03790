"""Threads follow what passes take; bfloat16 on the CPU where the file and the CPU have it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specchat.backends.hf import model as room
from specchat.backends.hf.devices import BUSY, HELD, TRIES, Threads
from specchat.backends.hf.model import BFLOAT16, load_transformers
from specchat.backends.hf.proving.prove import promised
from specchat.backends.options import LoadOptions

from ...fakes.models.tiny import tiny_folder

AT_LOAD = {1: ((1, 0.10), (8, 0.16)), 2: ((1, 0.09), (8, 0.10))}


def run(threads: Threads, used: list[int], seconds: dict[int, float], passes: int) -> None:
    """Passes over one node that take so long by number of threads."""
    for _ in range(passes):
        threads.learn(1, seconds[used[-1]])


def test_the_quickest_at_load_until_the_machine_is_busy_and_again_afterwards() -> None:
    used: list[int] = []
    threads = Threads(AT_LOAD, used.append)
    assert used == [2]
    run(threads, used, {1: 0.2, 2: 0.09 * BUSY - 0.01}, 200)
    assert used == [2]
    run(threads, used, {1: 0.15, 2: 0.45}, 1 + 2 * TRIES)
    assert threads.now == used[-1] == 1
    run(threads, used, {1: 0.15, 2: 0.45}, 10 * HELD)
    assert used.count(1) >= 9
    run(threads, used, {1: 0.10, 2: 0.09}, 2 * HELD)
    assert threads.now == used[-1] == 2
    count = len(used)
    run(threads, used, {2: 0.09}, 500)
    assert len(used) == count


@given(st.lists(st.tuples(st.integers(1, 600), st.floats(1e-4, 10)), max_size=300))
def test_only_numbers_that_were_measured_are_used(passes: list[tuple[int, float]]) -> None:
    used: list[int] = []
    threads = Threads({**AT_LOAD, 4: ((1, 0.2), (8, 0.3))}, used.append)
    for nodes, seconds in passes:
        threads.learn(nodes, seconds)
    assert set(used) <= {1, 2, 4}
    assert threads.now == used[-1]


@pytest.fixture
def halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model in bfloat16."""
    from transformers import AutoModelForCausalLM

    whole: Any = AutoModelForCausalLM.from_pretrained(tiny_folder("llama"), dtype=torch.bfloat16)
    whole.save_pretrained(tmp_path)
    for file in tiny_folder("llama").glob("*token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(room, "quick_in_bfloat16", lambda: True)
    return tmp_path


def test_a_file_in_bfloat16_runs_in_it_and_says_so(halved: Path) -> None:
    model = load_transformers(halved, "half", LoadOptions(device="cpu"))
    # In float32 only if its bits sent it back.
    assert (BFLOAT16 in model.info.notes) == (model.info.dtype == "bfloat16")
    for dtype in ("float32", "bfloat16"):
        model = load_transformers(halved, "half", LoadOptions(device="cpu", dtype=dtype))
        assert model.info.dtype == dtype
        assert BFLOAT16 not in model.info.notes


def test_without_the_same_bits_it_runs_in_float32(halved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(*args: Any) -> Any:
        runner, found = promised(*args)
        return runner, replace(found, exact=False) if runner.dtype == torch.bfloat16 else found

    monkeypatch.setattr(room, "promised", moved)
    assert load_transformers(halved, "half", LoadOptions(device="cpu")).info.dtype == "float32"
    assert load_transformers(halved, "half", LoadOptions(device="cpu", exact="off")).info.dtype == "bfloat16"
