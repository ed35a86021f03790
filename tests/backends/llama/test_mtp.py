"""MTP layers in a model's own GGUF file: against the torch layer of the same checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specchat.backends import UserError
from specchat.backends.base import ROOT
from specchat.backends.llama.drafters.load import load_gguf_mtp
from specchat.backends.llama.model import load_llama
from specchat.decoders import Conversation, Generation

from ...cases import FULL
from ...fakes.drafters.gguf_heads import eagle_file, glm_file, glm_llama, load_head
from ...fakes.drafters.mtp_files import LAYERS, mtp_folder, mtp_target
from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import FLOAT32, needs_llama, room, tiny_llama
from ...zoo import gguf_files as zoo

pytestmark = needs_llama


def test_its_states_are_the_models_own() -> None:
    model = glm_llama()
    assert model.info.layers == LAYERS
    assert model.info.capabilities.states
    session = model.open_session(64, (1, LAYERS))
    text = [3, 50, 60, 70, 80]
    session.prefill(text)
    theirs = mtp_target("glm4-moe").open_session(64, (1, LAYERS))
    theirs.prefill(text)
    torch.testing.assert_close(session.states(0, 5), theirs.states(0, 5), atol=1e-3, rtol=1e-3)
    with pytest.raises(UserError, match="a vocabulary of 2,048 tokens, and glm has 256"):
        load_head(eagle_file(room() / "for-another"), model)


def test_files_without_a_layer_that_can_draft(tmp_path: Path) -> None:
    assert load_gguf_mtp(tiny_llama()) is None
    without = load_llama(glm_file(mtp_folder("glm4-moe"), tmp_path / "without.gguf", mtp=False), "without", FLOAT32)
    assert load_gguf_mtp(without) is None
    without.open_session(64).prefill([3, 4, 5])
    without.close()
    whole = glm_file(mtp_folder("glm4-moe"), tmp_path / "whole.gguf")
    alone = changed(whole, tmp_path / "alone.gguf", {}, {"blk.0.attn_norm.weight": None})
    with pytest.raises(UserError, match="contains a model's MTP layer alone"):
        load_llama(alone, "alone", FLOAT32)


DRAFTING = ("glm4moe", "cohere2moe", "qwen35", "qwen35moe", "qwen3next", "nemotron_h_moe", "bailingmoe3", "hy_v3", "step35")
NOT = ("mimo2",)
"""Architectures of which llama.cpp wants tensors that the file does not have."""


@pytest.mark.parametrize("architecture", (*DRAFTING, *NOT) if FULL else ("qwen3next", "mimo2"))
def test_which_architectures_draft_with_their_own_layer_is_found_by_trying(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(zoo.write(f"{architecture}-mtp", tmp_path / "model.gguf"), architecture, FLOAT32)
    model.info = replace(model.info, eos_ids=())
    if architecture in NOT:
        with pytest.raises(UserError, match=f"does not draft with the MTP layers of {architecture} models"):
            load_gguf_mtp(model)
        model.open_session(64).prefill([5, 6, 7])
        model.close()
        return
    head = load_gguf_mtp(model)
    assert head is not None
    for number in range(20 if FULL else 1):
        prompt = [(31 * i * (number + 1) + 7) % 2000 + 8 for i in range(5 + number)]
        texts = []
        for method in ("greedy", "mtp", "lookup"):  # the last in a session that hands out states, too
            conversation = Conversation(model, head=head, context=128)
            generation = Generation(conversation, prompt, method, max_tokens=48 if FULL else 12)
            drafted = sum(step.drafted for step in generation)
            assert drafted or method != "mtp"
            texts.append(generation.answer)
            # The states are those of the text, whatever was refused on its way.
            end, layers = conversation.session.length, model.info.layers
            single = model.open_session(128, (layers,))
            for token in conversation.session.tokens:
                single.evaluate([token], (ROOT,))
                single.commit((0,))
            torch.testing.assert_close(conversation.session.states(0, end), single.states(0, end), atol=5e-3, rtol=1e-3)
            single.close()
            conversation.close()
        assert texts[0] == texts[1] == texts[2]
    model.close()
