"""DFlash drafters on llama.cpp: the file that the recipe writes, against the torch drafter that it was written from."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import UserError
from specchat.backends.heads.base import BlockHead
from specchat.backends.llama.drafters.context import StatesContext
from specchat.errors import ContextFull

from ...fakes.models.gguf_changes import changed
from ...fakes.models.gguf_heads import WIDTH, dflash_file, load_head, write_blocks
from ...fakes.models.llama_tiny import VOCAB, needs_llama

pytestmark = needs_llama

LAYOUTS: dict[str, dict[str, Any]] = {
    "all tokens": {},
    "a reduced vocabulary": {"drafted": 512, "layers": 3},
    "one layer and a long block": {"layers": 1, "taps": (0, 1, 4), "block": 16},
    "its own embeddings": {"own_embeddings": True},
    "causal": {"is_causal": True},
    "windows": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 24, "is_causal": False},
    "scaled": {"inner": {"output_multiplier": 0.5, "final_logit_softcapping": 4.0, "input_embedding_scale": 2.0}},
    "speculators": {"layout": "speculators", "drafted": 512},
}

APART = {"F32": 2e-4, "Q8_0": 0.2}
"""Greatest root-mean-square difference of logits from torch's, in units of their standard deviation."""


def both(tmp_path: Path, kind: str, **options: Any) -> tuple[BlockHead, BlockHead]:
    """A drafter on llama.cpp, and on transformers."""
    ours, theirs = (
        load_head(dflash_file(tmp_path / "head", kind, **options)),
        load_head(write_blocks(tmp_path / "head", **options)),
    )
    assert isinstance(ours, BlockHead)
    assert isinstance(theirs, BlockHead)
    return ours, theirs


def apart(found: Any, wanted: Any) -> float:
    """How far logits [n, vocab] are apart; what is not drafted is minus infinity in both."""
    drafted = wanted.logits.isfinite()
    assert torch.equal(found.logits.isfinite(), drafted)
    assert (found.positions, found.nodes) == (wanted.positions, wanted.nodes)
    a, b = found.logits[drafted], wanted.logits[drafted]
    return float((a - b).square().mean().sqrt() / b.std())


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_its_scores_are_those_of_torch(layout: str, tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, "F32", **LAYOUTS[layout])
    assert (ours.info.taps, ours.positions) == (theirs.info.taps, theirs.positions)
    assert (ours.info.kind, ours.info.title, ours.info.dtype) == ("dflash", "DFlash", "all F32")
    rng = random.Random(4)
    states = torch.randn(200, len(ours.info.taps) * WIDTH, generator=torch.Generator().manual_seed(2))
    sessions = [head.open(256) for head in (ours, theirs)]
    far, begun = [], 0
    for end in (40, 41, 44, 110):
        for session in sessions:
            session.extend(states[begun:end])
            assert session.length == end
        for count in (ours.positions, 2):
            token = rng.randrange(8, VOCAB)
            far.append(apart(*(session.guess(token, count) for session in sessions)))
        begun = end
    for session in sessions:
        session.rewind(30)
        session.extend(states[30:50])
    far.append(apart(*(session.guess(9, 3) for session in sessions)))
    assert max(far) < APART["F32"]


def test_its_scores_in_a_smaller_type(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, "Q8_0")
    states = torch.randn(30, 2 * WIDTH, generator=torch.Generator().manual_seed(2))
    sessions = [head.open(64) for head in (ours, theirs)]
    for session in sessions:
        session.extend(states)
    assert APART["F32"] < apart(*(session.guess(70, 5) for session in sessions)) < APART["Q8_0"]


MASK = "tokenizer.ggml.mask_token_id"
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "width": ({"dflash.embedding_length": 128}, {}, "hidden states 128 numbers wide, and those of heads-target have 64"),
    "taps": ({"dflash.target_layers": [1, 6]}, {}, r"layers that heads-target does not have \(1, 6\): it has 6 layers"),
    "fewer taps": ({"dflash.target_layers": [1]}, {}, r"fc.weight has the shape \[64, 128\] instead of \[64, 64\]"),
    "heads": ({"dflash.attention.head_count_kv": 3}, {}, "its attention heads do not go together"),
    "block": ({"dflash.block_size": 1}, {}, r"damaged \(block_size is 1\)"),
    "no mask": ({MASK: None}, {}, r"damaged \(mask_token_id is None\)"),
    "mask": ({MASK: 5000}, {}, "uses the token 5,000 as its mask, and heads-target has 2,048 tokens"),
    "missing": ({}, {"blk.1.attn_q_norm.weight": None}, "such as blk.1.attn_q_norm.weight"),
    "nan": ({}, {"fc.weight": np.full((64, 128), np.nan, np.float32)}, "Cannot load head.gguf: .*invalid data"),
    "DSpark": ({}, {"markov_w1.weight": np.ones((VOCAB, 8), np.float32)}, "holds DSpark, which specchat cannot draft with yet"),
    "DFlash 2": ({}, {"selector_hidden.weight": np.ones((8, 64), np.float32)}, "holds DFlash 2, which"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    values, tensors, words = WRONG[case]
    file = changed(dflash_file(tmp_path / "whole"), tmp_path / "head.gguf", values, tensors)
    with pytest.raises(UserError, match=words) as caught:
        load_head(file)
    assert "\n" not in str(caught.value)


def test_a_build_that_drafts_otherwise_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = dflash_file(tmp_path / "head")
    monkeypatch.setattr(StatesContext, "logits", lambda self, rows: torch.randn(rows, VOCAB))
    with pytest.raises(UserError, match=r"does not draft with head-F32\.gguf as it should"):
        load_head(file)


def test_a_closed_drafter_opens_no_more_and_its_sessions_live_on(tmp_path: Path) -> None:
    head = load_head(dflash_file(tmp_path / "head"))
    assert isinstance(head, BlockHead)
    session = head.open(64)
    head.close()
    with pytest.raises(UserError, match="no longer loaded"):
        head.open(64)
    session.extend(torch.ones(60, 2 * WIDTH))
    with pytest.raises(ContextFull):
        session.extend(torch.ones(5, 2 * WIDTH))
    session.extend(torch.ones(4, 2 * WIDTH))
    session.guess(9, 5)
    session.close()
    with pytest.raises(UserError, match="conversation is closed"):
        session.guess(9, 5)


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
