"""Bfloat16 on the CPU where the file and the CPU have it. What this CPU can do is patched in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends.hf import model as room
from specchat.backends.hf.model import BFLOAT16, load_transformers
from specchat.backends.hf.proving.prove import promised
from specchat.backends.options import LoadOptions

from ...fakes.models.tiny import tiny_folder


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
