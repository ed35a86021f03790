"""Drafting with half layers: without an attention or an MLP block, on every family, or a sentence that says why not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.base import Block
from specchat.backends.hf.blocks import Run
from specchat.backends.hf.model import load_transformers
from specchat.backends.options import LoadOptions

from ...cases import FULL
from ...fakes.models.mirror import GAPS, HALVES, close, linear
from ...fakes.models.references import logits_of
from ...fakes.models.tiny import TREES, WINDOW, reference, tiny_folder, tiny_model


def silenced(kind: str, run: Run) -> Any:
    """The reference with the output projections of what `run` leaves out set to zero: these blocks then add nothing."""
    model = copy.deepcopy(reference(kind))
    layers = next(part for name, part in model.named_modules() if name.endswith((".layers", ".h")))
    last = {"attention": ("o_proj", "attn.c_proj", "attention.dense"), "mlp": ("down_proj", "mlp.c_proj", "dense_4h_to_h")}
    for index, layer in enumerate(layers):
        for block, names in last.items():
            if index in run or Block(index, block) in run:  # type: ignore[arg-type]
                continue
            found = [weight for name, weight in layer.named_parameters() if any(ending in name for ending in names)]
            assert found
            for weight in found:
                weight.data.zero_()
    return model


RUNS: tuple[Run, ...] = (*HALVES, *GAPS, (Block(0, "attention"),), (Block(2, "mlp"),))
SOME = [(kind, run) for i, kind in enumerate(TREES) for j, run in enumerate(RUNS) if FULL or (i + j) % 4 == 0]


@pytest.mark.parametrize(("kind", "run"), SOME, ids=str)
def test_a_block_that_is_left_out_adds_nothing(kind: str, run: Run) -> None:
    session: Any = tiny_model(kind).open_session()
    ids = list(range(20, 20 + WINDOW + 8))
    wanted = logits_of(silenced(kind, run), ids)
    assert not torch.allclose(wanted, linear(kind, ids), atol=1e-2)
    close(session.evaluate(ids[:5], range(-1, 4), layers=run).logits, wanted[:5])
    close(session.evaluate(ids[5:], range(4, len(ids) - 1), layers=list(run)).logits, wanted[5:])
    close(session.evaluate((), ()).logits, linear(kind, ids))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gpt-neox", "mistral", "gemma3"])
def test_a_draft_without_blocks_sees_what_the_whole_model_made_of_the_text_before(kind: str) -> None:
    from transformers.cache_utils import DynamicCache

    run: Run = (0, Block(1, "mlp"), Block(2, "attention"))
    before, ids = list(range(20, 20 + WINDOW + 8)), [7, 8, 9]
    cache = DynamicCache(config=reference(kind).config)
    with torch.inference_mode():
        reference(kind)(input_ids=torch.tensor([before]), past_key_values=cache, use_cache=True)
        wanted = silenced(kind, run)(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]
    session: Any = tiny_model(kind).open_session()
    session.prefill(before)
    # The drafts of two branches: neither sees the other's, and both see the committed text.
    close(session.evaluate([*ids, *ids], (ROOT, 0, 1, ROOT, 3, 4), layers=run).logits, torch.cat((wanted, wanted)))
    session.drop((0,))
    close(session.evaluate((5,), (5,)).logits[-1:], linear(kind, [*before, *ids, 5])[-1:])
    session.commit((3, 4, 5, 6))
    close(session.evaluate((6,), (ROOT,)).logits, linear(kind, [*before, *ids, 5, 6])[-1:])


def test_layers_whose_blocks_add_the_hidden_states_themselves_are_left_out_whole_only() -> None:
    session: Any = tiny_model("bloom").open_session()
    session.prefill(range(10, 20))
    with pytest.raises(UserError, match=r"BloomBlock.* whole layers only, such as 3 or 4-6\."):
        session.evaluate([5], (ROOT,), layers=(0, Block(1, "mlp"), 2))
    assert session.evaluate([5], (ROOT,), layers=(0, 2)).nodes == (0,)
    close(session.evaluate([6], (0,), (1,)).logits, linear("bloom", [*range(10, 20), 5, 6])[-1:])


@pytest.mark.parametrize("change", ["normalised", "nameless", "loses"])
def test_a_layer_has_to_show_that_its_blocks_can_be_told_apart(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model: Any = load_transformers(tiny_folder("gemma2"), "gemma2", LoadOptions(device="cpu"))
    layer = model._runner.module.model.layers[1]
    session = model.open_session()
    if change == "nameless":
        layer.self_attention_block = layer._modules.pop("self_attn")
    else:
        forward = type(layer).forward

        def changed(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if change == "loses":
                raise ValueError("too many values to unpack")
            return forward(self, hidden_states, *args, **kwargs) * 1.5  # type: ignore[no-any-return]

        monkeypatch.setattr(type(layer), "forward", changed)
    with pytest.raises(UserError, match="do not separate attention and MLP"):
        session.evaluate([5], (ROOT,), layers=(Block(1, "attention"),))


def test_a_node_that_stopped_early_is_not_committed() -> None:
    session: Any = tiny_model("llama").open_session()
    session.prefill(range(10, 20))
    session.evaluate([5], (ROOT,))
    session.evaluate([6, 7], (0, 0), layers=2)
    with pytest.raises(ValueError, match="stopped early"):
        session.commit((0, 1))
    assert session.length == 10
    # It may be kept, and finished below the new tail.
    session.commit((0,), keep=(2,))
    close(session.evaluate((), ()).logits, linear("llama", [*range(10, 20), 5, 7])[-1:])
    session.commit((2,))
    assert list(session.tokens) == [*range(10, 20), 5, 7]
