"""A recurrent GGUF model: its state goes forward only, so it decodes plainly, and says so."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import ROOT, ContextFull, Model, UserError, load_model
from specchat.decoders import Conversation, Generation

from ...fakes.models.llama_tiny import FLOAT32, VOCAB, needs_llama, tiny_folder

pytestmark = needs_llama

WIDTH, INNER, STATE, KERNEL, RANK, LAYERS = 32, 64, 4, 4, 2, 2


def write_mamba(file: Path) -> Path:
    """A Mamba with random weights and the built-in tokenizer."""
    gguf: Any = importlib.import_module("gguf")
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(file, "mamba")
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(RANK)
    data = json.loads((tiny_folder() / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"] | {token["content"]: token["id"] for token in data["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(sorted(vocab, key=lambda token: int(vocab[token])))
    writer.add_token_types([3 if i < 8 else 1 for i in range(VOCAB)])
    writer.add_token_merges([" ".join(merge) for merge in data["model"]["merges"]])
    writer.add_eos_token_id(2)
    shapes: dict[str, tuple[int, ...]] = {
        "ssm_in.weight": (2 * INNER, WIDTH),
        "ssm_conv1d.weight": (INNER, KERNEL),
        "ssm_conv1d.bias": (INNER,),
        "ssm_x.weight": (RANK + 2 * STATE, INNER),
        "ssm_dt.weight": (INNER, RANK),
        "ssm_dt.bias": (INNER,),
        "ssm_d": (INNER,),
        "ssm_out.weight": (WIDTH, INNER),
    }
    writer.add_tensor("token_embd.weight", rng.normal(0, 1, (VOCAB, WIDTH)).astype(np.float32))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"blk.{layer}.ssm_a", -np.exp(rng.normal(0, 0.5, (INNER, STATE))).astype(np.float32))
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}", rng.normal(0, 0.4, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


@pytest.fixture(scope="module")
def mamba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    model = load_model(str(write_mamba(tmp_path_factory.mktemp("mamba") / "mamba.gguf")), FLOAT32)
    yield model
    model.close()


IDS = [(31 * i + 7) % 2000 + 8 for i in range(60)]


def fresh(model: Model, ids: list[int]) -> torch.Tensor:
    """Logits after ids, evaluated one after the other in a new session."""
    session: Any = model.open_session()
    session.prefill(ids[:-1])
    logits: torch.Tensor = session.evaluate(ids[-1:], (ROOT,)).logits[0].clone()
    return logits


def test_it_says_what_it_cannot_do(mamba: Model) -> None:
    assert not mamba.info.capabilities.tree
    assert not mamba.info.capabilities.chain
    assert mamba.info.notes == (
        "This model is recurrent or hybrid: its state cannot branch or rewind, so it supports plain decoding only.",
    )
    with pytest.raises(UserError, match="recurrent"):
        Generation(Conversation(mamba), IDS, "lookup")
    with pytest.raises(UserError, match="chains only"):
        mamba.open_session().evaluate([9, 10], (ROOT, ROOT))


def test_going_back_starts_over_unseen(mamba: Model) -> None:
    session: Any = mamba.open_session()
    session.prefill(IDS[:-1])
    torch.testing.assert_close(session.evaluate(IDS[-1:], (ROOT,)).logits[0], fresh(mamba, IDS), atol=1e-3, rtol=1e-3)
    session.commit((0,))
    assert session.align([*IDS[:20], 50]) == 20
    found = session.evaluate([50, 51, 52], (ROOT, 0, 1), rows=[2, 0]).logits
    torch.testing.assert_close(found[0], fresh(mamba, [*IDS[:20], 50, 51, 52]), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(found[1], fresh(mamba, [*IDS[:20], 50]), atol=1e-3, rtol=1e-3)
    session.commit((0,))
    found = session.evaluate([60], (ROOT,)).logits
    torch.testing.assert_close(found[0], fresh(mamba, [*IDS[:20], 50, 60]), atol=1e-3, rtol=1e-3)
    session.drop([0])
    found = session.evaluate([61], (ROOT,)).logits
    torch.testing.assert_close(found[0], fresh(mamba, [*IDS[:20], 50, 61]), atol=1e-3, rtol=1e-3)
    session.commit(())
    with pytest.raises(ContextFull):
        session.evaluate([1] * 300, range(ROOT, 299))


def test_answers_and_turns(mamba: Model) -> None:
    conversation = Conversation(mamba)
    first = Generation(conversation, IDS, "greedy", max_tokens=12)
    list(first)
    again = Generation(conversation, IDS, "recompute", max_tokens=12)
    list(again)
    assert first.answer == again.answer
    conversation.close()
