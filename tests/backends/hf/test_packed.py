"""Packed weights give the model's own logits, are in memory once, and leave the model itself working. Where weights are kept
shows in private fields alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specchat.backends.base import ROOT
from specchat.backends.hf.lean import packed
from specchat.backends.hf.lean.packed import FEWEST_ROWS, Packed, Part, filled, onednn
from specchat.backends.hf.model import load_transformers
from specchat.backends.options import LoadOptions

from ...fakes.models.mirror import in_passes
from ...fakes.models.tiny import reference, tiny_folder

FAMILY = ("llama", "mistral", "qwen2", "qwen3")

pytestmark = pytest.mark.skipif(not onednn(), reason="this torch has no oneDNN")


def loaded(kind: str, dtype: str = "float32") -> Any:
    return load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu", dtype=dtype))


@pytest.mark.parametrize("kind", FAMILY)
def test_a_model_of_packed_weights_has_its_own_logits_and_numbers(kind: str) -> None:
    model, whole = loaded(kind), reference(kind)
    layer = model._runner.module.model.layers[0]
    assert isinstance(layer.self_attn.o_proj, Packed)
    assert isinstance(layer.self_attn.q_proj, Part)
    assert isinstance(model.module.lm_head, Packed)
    assert model._runner.lean is not None
    assert model.info.capabilities.tree
    assert model.info.capabilities.layers
    assert model.info.parameters == sum(part.numel() for part in whole.parameters())
    tokens = list(range(40, 60))
    with torch.inference_mode():
        wanted = whole(torch.tensor([tokens]), use_cache=False).logits[0]
        # The module's own pass, which trained drafters and models that fail the proof need.
        torch.testing.assert_close(model.module(torch.tensor([tokens]), use_cache=False).logits[0], wanted, rtol=0, atol=2e-5)
    for sizes in ((1,) * 20, (2, 3, 15), (20,)):
        torch.testing.assert_close(in_passes(model.open_session(), tokens, sizes), wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", FAMILY)
def test_some_rows_of_a_pass_over_few_nodes_are_those_of_all(kind: str, dtype: str) -> None:
    """Matrix products of few nodes are filled up to FEWEST_ROWS; the mask of the wanted rows is the nodes' own."""
    model, tokens = loaded(kind, dtype), list(range(40, 60))
    for n in range(1, FEWEST_ROWS + 2):
        for kept in (range(n - 1, n), range(n)[::2]):
            found = []
            for rows in (range(n), kept):
                session = model.open_session()
                session.prefill(tokens)
                found.append(session.evaluate(tokens[:n], range(ROOT, n - 1), rows).logits.float())
                session.close()
            torch.testing.assert_close(found[1], found[0][list(kept)], rtol=0, atol=0.05 if dtype == "bfloat16" else 2e-5)


@pytest.mark.parametrize("kind", FAMILY)
def test_the_weights_can_be_read_and_are_in_memory_once(kind: str) -> None:
    model, whole = loaded(kind), reference(kind)
    module = model.module
    for found, wanted in zip(module.model.layers, whole.model.layers, strict=True):
        for path in ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
            assert torch.equal(found.get_submodule(path).weight, wanted.get_submodule(path).weight)
    tables = [part for part in module.parameters() if part.ndim > 1]
    assert {id(part) for part in tables} <= {id(module.get_input_embeddings().weight), id(module.lm_head.weight)}
    for part in module.parameters():  # no view keeps the whole file in memory
        assert part.untyped_storage().nbytes() == part.nbytes


@pytest.mark.parametrize("layers", [None, 1, (0, 2)])
def test_a_pass_over_few_nodes_is_filled_up_before_its_products(layers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one through some of the layers; the LM head alone fills up the rows that are wanted."""
    session, alone = loaded("llama").open_session(), []
    session.prefill(range(40, 60))

    def counted(inputs: torch.Tensor) -> torch.Tensor:
        alone.append(inputs.shape)
        return filled(inputs)

    monkeypatch.setattr(packed, "filled", counted)
    session.evaluate([7], [ROOT], layers=layers)
    assert len(alone) == 1
