"""EAGLE-3 heads and DFlash drafters on llama.cpp: the files that the recipe writes, against the torch ones behind them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import UserError, load_model
from specchat.backends.files.gguf_file import read_layout
from specchat.backends.heads.base import BlockHead, PathHead
from specchat.backends.llama.drafters.load import numbers

from ...fakes.drafters.gguf_heads import WIDTH, dflash_file, eagle_file, load_head, torch_target, write_blocks, write_eagle
from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import needs_llama, tiny_llama

pytestmark = needs_llama


APART = {"F32": 1e-3, "F16": 1e-2, "Q8_0": 0.2}
"""Greatest root-mean-square difference of logits from torch's, in units of their standard deviation. Those of unlike
heads are 1.4 apart; random weights make more of rounding than trained ones, and each kind of CPU rounds in its own way (F32
2.3e-4 on an AMD EPYC)."""


def both(tmp_path: Path, make: Any, write: Any, kind: str, **options: Any) -> list[Any]:
    """A drafter on llama.cpp, and on transformers."""
    heads = [load_head(make(tmp_path / "head", kind, **options)), load_head(write(tmp_path / "head", **options))]
    assert all(isinstance(head, PathHead if write is write_eagle else BlockHead) for head in heads)
    return heads


@pytest.mark.parametrize("options", [{}, {"layout": "speculators", "drafted": 512}, {"sample_from_anchor": False}])
def test_dsparks_chain_is_that_of_torch(options: dict[str, Any], tmp_path: Path) -> None:
    """In its one pass llama.cpp goes along the likeliest tokens, as torch does token by token."""
    ours, theirs = both(tmp_path, dflash_file, write_blocks, "F32", paths="vanilla", **options)
    assert (ours.info.title, ours.positions) == ("DSpark", theirs.positions)
    states = torch.randn(90, len(ours.info.taps) * WIDTH, generator=torch.Generator().manual_seed(2))
    sessions = [head.open(128) for head in (ours, theirs)]
    for begun, end in ((0, 40), (40, 43), (43, 90)):
        for session in sessions:
            session.extend(states[begun:end])
        rows = sessions[0].guess(9, ours.positions).logits
        found, far = sessions[1].begin(9, ours.positions), []
        for node in range(ours.positions):
            wanted = found.logits[0]
            drafted = wanted.isfinite()
            assert torch.equal(rows[node].isfinite(), drafted)
            far.append(float((rows[node] - wanted)[drafted].square().mean().sqrt() / wanted[drafted].std()))
            assert int(rows[node].argmax()) == int(wanted.argmax())
            if node + 1 < ours.positions:
                found = sessions[1].grow([int(wanted.argmax())], [node])
        assert max(far) < APART["F32"] / 5


SECOND: dict[str, Any] = {"paths": "dflash2", "candidates": 7}


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q5_0", "Q4_0"])
def test_tables_are_decoded_as_gguf_does(kind: str, tmp_path: Path) -> None:
    quants: Any = importlib.import_module("gguf.quants")
    reader: Any = importlib.import_module("gguf").GGUFReader
    file = dflash_file(tmp_path / "head", kind, paths="vanilla", rank=32)
    (layout,) = read_layout(file)
    theirs = {tensor.name: quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader(file).tensors}
    for tensor in layout.tensors:
        if tensor.name.startswith("markov"):
            np.testing.assert_array_equal(numbers(file, tensor).numpy(), theirs[tensor.name])


WRONG_PATHS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "width": ({"target_hidden_size": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
    "taps": ({"target_layers": [1, 2, 6]}, {}, r"layers that heads-target does not have \(1, 2, 6\): it has 6 layers"),
    "two taps": ({"target_layers": [1, 2]}, {}, "one layer and read 3 of the target's. .* 1 layer and reads 2"),
    "no taps": ({"target_layers": None}, {}, r"damaged \(target_layers is None\)"),
    "layers": ({"block_count": 2}, {}, "has 2 layers and reads 3"),
    "no width": ({"target_hidden_size": None}, {}, r"damaged \(target_hidden_size is None\)"),
    "nan": ({}, {"fc.weight": np.full((64, 192), np.nan, np.float32)}, "Cannot load head.gguf: .*invalid data"),
    "vocabulary": ({"tokens": [f"t{i}" for i in range(2000)]}, {}, "a vocabulary of 2,000 tokens, and heads-target has 2,048"),
}
"""Metadata and tensors."""


MASK = "tokenizer.ggml.mask_token_id"
WRONG_BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "width": ({"dflash.embedding_length": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
    "taps": ({"dflash.target_layers": [1, 6]}, {}, r"layers that heads-target does not have \(1, 6\): it has 6 layers"),
    "block": ({"dflash.block_size": 1}, {}, r"damaged \(block_size is 1\)"),
    "no mask": ({MASK: None}, {}, r"damaged \(mask_token_id is None\)"),
    "mask": ({MASK: 5000}, {}, "uses the token 5,000 as its mask, and heads-target has 2,048 tokens"),
    "nan": ({}, {"fc.weight": np.full((64, 128), np.nan, np.float32)}, "Cannot load head.gguf: .*invalid data"),
}

AT = "dflash."
WRONG_SECOND: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a part": ({}, {"d2t": np.arange(512)}, "drafts a part of the vocabulary, which DFlash 2 does not do"),
    "nan": ({}, {"selector_hidden.weight": np.full((12, 64), np.nan, np.float32)}, "Cannot load head.gguf: .*invalid data"),
    "vocabulary": ({"tokenizer.ggml.tokens": [b"a", b"b"]}, {}, "a vocabulary of 2 tokens, and heads-target has 2,048"),
}


@pytest.mark.parametrize(
    ("drafter", "case"),
    [*(("eagle", c) for c in WRONG_PATHS), *(("dflash", c) for c in WRONG_BLOCKS), *(("dflash2", c) for c in WRONG_SECOND)],
)
def test_a_wrong_file_is_refused_in_one_sentence(drafter: str, case: str, tmp_path: Path) -> None:
    if drafter == "dflash2":
        values, tensors, words = WRONG_SECOND[case]
        whole = dflash_file(tmp_path / "whole", **SECOND)
    elif drafter == "dflash":
        values, tensors, words = WRONG_BLOCKS[case]
        whole = dflash_file(tmp_path / "whole")
    else:
        values, tensors, words = WRONG_PATHS[case]
        values = {"tokenizer.ggml.tokens" if key == "tokens" else f"eagle3.{key}": value for key, value in values.items()}
        values = {key: [v.encode() for v in value] if key.endswith("tokens") else value for key, value in values.items()}
        whole = eagle_file(tmp_path / "whole", drafted=512)
    with pytest.raises(UserError, match=words) as caught:
        load_head(changed(whole, tmp_path / "head.gguf", values, tensors))
    assert "\n" not in str(caught.value)


def test_pairs_that_do_not_go_together(tmp_path: Path) -> None:
    file = eagle_file(tmp_path / "head")
    with pytest.raises(UserError, match=r"trained drafter \(EAGLE-3\) in GGUF, which drafts for models on llama.cpp only"):
        load_head(file, torch_target())
    with pytest.raises(UserError, match=r"is a trained drafter \(EAGLE-3\), not a model of its own"):
        load_model(str(file))
    with pytest.raises(UserError, match="layers that tiny does not have"):
        load_head(file, tiny_llama())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"layout": "deepspec"}, "sample_from_anchor"),
        ({"bias": True}, "biases"),
        ({"hidden": 32, "own_embeddings": True}, "another width than the target's"),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 24}, "causal layers beside others"),
        ({"taps": (1, 5)}, "the target's last state"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "scaled rotary embeddings"),
    ],
)
def test_what_llama_cpp_does_not_compute_is_not_written(options: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"llama.cpp has no DFlash drafters with {why}"):
        dflash_file(tmp_path / "head", **options)
    assert not list(tmp_path.glob("*.gguf"))
