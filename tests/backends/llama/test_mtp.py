"""MTP layers in a model's own GGUF file: against the torch layer of the same checkpoint."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import UserError
from specchat.backends.base import ROOT
from specchat.backends.heads.base import PathHead
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.llama.drafters.load import load_gguf_mtp
from specchat.backends.llama.model import load_llama

from ...fakes.models.gguf_changes import changed
from ...fakes.models.gguf_heads import eagle_file, glm_file, glm_llama, load_head
from ...fakes.models.llama_tiny import FLOAT32, needs_llama, room, tiny_llama
from ...fakes.models.mtp_files import LAYERS, WIDTH, mtp_folder, mtp_target
from ...fakes.models.tiny import VOCAB

pytestmark = needs_llama


def both() -> tuple[PathHead, PathHead]:
    """The layer on llama.cpp, and on transformers."""
    ours, theirs = load_gguf_mtp(glm_llama()), load_mtp(mtp_target("glm4-moe"))
    assert isinstance(ours, PathHead)
    assert theirs is not None
    return ours, theirs


def test_its_scores_are_those_of_torch() -> None:
    ours, theirs = both()
    assert (ours.info.kind, ours.info.title, ours.info.taps) == ("mtp", "MTP", (LAYERS,))
    rng = random.Random(4)
    text = [rng.randrange(2, VOCAB) for _ in range(60)]
    states = torch.randn(60, WIDTH, generator=torch.Generator().manual_seed(2))
    sessions = [head.open(128) for head in (ours, theirs)]
    begun = 0

    def compare(found: Any, wanted: Any) -> None:
        torch.testing.assert_close(found.logits, wanted.logits, atol=1e-3, rtol=1e-3)
        assert found.positions == wanted.positions

    for end in (40, 41, 44, 58):
        compare(*(session.extend(text[begun + 1 : end], states[begun : end - 1]) for session in sessions))
        for parents in ([ROOT, ROOT, ROOT], [0, 0, 2], [5, 1]):
            tokens = [rng.randrange(2, VOCAB) for _ in parents]
            compare(*(session.grow(tokens, parents) for session in sessions))
        begun = end - 1
    for session in sessions:
        session.rewind(20)
    compare(*(session.extend(text[21:31], states[20:30]) for session in sessions))


def test_its_states_are_the_models_last_and_no_others_are_handed_out() -> None:
    model = glm_llama()
    assert model.info.layers == LAYERS
    assert model.info.capabilities.states
    session = model.open_session(64, (LAYERS,))
    text = [3, 50, 60, 70, 80]
    session.prefill(text)
    theirs = mtp_target("glm4-moe").open_session(64, (LAYERS,))
    theirs.prefill(text)
    torch.testing.assert_close(session.states(0, 5), theirs.states(0, 5), atol=1e-3, rtol=1e-3)
    with pytest.raises(UserError, match="does not hand out the hidden states of glm4moe models"):
        model.open_session(64, (1,))
    with pytest.raises(UserError, match="a vocabulary of 2,048 tokens, and glm has 256"):
        load_head(eagle_file(room() / "for-another"), model)


def test_files_without_a_layer_that_can_draft(tmp_path: Path) -> None:
    assert load_gguf_mtp(tiny_llama()) is None
    without = load_llama(glm_file(mtp_folder("glm4-moe"), tmp_path / "without.gguf", mtp=False), "without", FLOAT32)
    assert load_gguf_mtp(without) is None
    assert "glm4moe models" in without.info.capabilities.reasons["states"]
    without.open_session(64).prefill([3, 4, 5])
    without.close()
    whole = glm_file(mtp_folder("glm4-moe"), tmp_path / "whole.gguf")
    alone = changed(whole, tmp_path / "alone.gguf", {}, {"blk.0.attn_norm.weight": None})
    with pytest.raises(UserError, match="contains a model's MTP layer alone"):
        load_llama(alone, "alone", FLOAT32)
