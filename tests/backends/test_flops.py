"""What a model's FLOPs are said to be, against what torch counts."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

from specchat.backends import LoadOptions, load_model
from specchat.backends.base import ROOT
from specchat.backends.hf.model import load_transformers
from specchat.backends.info import flops
from specchat.backends.loading import builtin_path

from ..fakes.models import llama_tiny
from ..fakes.models.llama_tiny import needs_llama
from ..fakes.models.tiny import tiny_folder


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "gemma3", "mixtral", "qwen3-moe", "gpt-neox"])
def test_a_short_text_takes_what_torch_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tied heads, fused projections, and mixtures whose experts run only for the tokens that chose them."""
    # Of weights in a layout of their own, and of grouped products, torch counts nothing.
    monkeypatch.setattr("specchat.backends.hf.lean.halves._known", lambda: False)
    monkeypatch.setattr("specchat.backends.hf.lean.halves.pays", lambda _: False)
    monkeypatch.setattr("specchat.backends.hf.lean.lean.pays", lambda _: False)
    model: Any = load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu"))
    if hasattr(model.module.config, "num_experts_per_tok"):
        model.module.set_experts_implementation("eager")
    session = model.open_session()
    with FlopCounterMode(display=False) as counter:
        session.evaluate([5, 6, 7], [ROOT, 0, 1])
    session.close()
    assert flops(model.info.weights, 3) == pytest.approx(counter.get_total_flops(), rel=0.06)


@needs_llama
@pytest.mark.parametrize("head", ["tied", "its own"])
def test_it_is_the_same_on_llama_cpp(head: str) -> None:
    folder = builtin_path() if head == "tied" else llama_tiny.tiny_folder()
    with closing(load_model(str(folder))) as ours, closing(load_model(str(llama_tiny.gguf_of(folder)))) as theirs:
        assert theirs.info.weights == ours.info.weights > 0
