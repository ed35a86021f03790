"""Architectures whose caches are special: sliding windows can be drafted for, hybrids say that they cannot."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import ROOT, Model, UserError
from specchat.backends.files.verdicts import Tried
from specchat.backends.llama.model import load_llama
from specchat.backends.llama.plain import LlamaPlainSession
from specchat.backends.rounding import TOKENS
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import methods, unavailable
from specchat.engine.tasks.proving import prove_lengths
from specchat.engine.tasks.work import Job

from ...fakes.models.llama_tiny import FLOAT32, VOCAB, needs_llama, tiny_folder
from ...zoo import gguf_files as zoo
from ...zoo.llama_zoo import Plain

pytestmark = needs_llama

WIDTH, HEADS, HEAD, FEED, LAYERS, WINDOW = 32, 2, 16, 48, 4, 8
INNER, STATE, KERNEL, RANK = 2 * WIDTH, 4, 4, 2
IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]
REPEATING = IDS[:12] * 4


def write(file: Path, architecture: str, tensors: dict[str, tuple[int, ...]], fill: Callable[[Any], None]) -> Path:
    """A model with random weights and the built-in tokenizer."""
    gguf: Any = importlib.import_module("gguf")
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(256)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_block_count(LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    fill(writer)
    data = json.loads((tiny_folder() / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = data["model"]["vocab"] | {token["content"]: token["id"] for token in data["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(sorted(vocab, key=lambda token: int(vocab[token])))
    writer.add_token_types([3 if i < 8 else 1 for i in range(VOCAB)])
    writer.add_token_merges([" ".join(merge) for merge in data["model"]["merges"]])
    writer.add_eos_token_id(2)
    rng = np.random.default_rng(0)
    shared: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, WIDTH), "output_norm.weight": (WIDTH,)}
    for name, shape in (shared | tensors).items():
        if name.endswith("ssm_a"):
            values = -np.exp(rng.normal(0, 0.5, shape))
        elif "norm" in name:
            values = np.ones(shape)
        else:
            values = rng.normal(0, 0.3, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def attention(layer: int, heads: int = HEADS) -> dict[str, tuple[int, ...]]:
    shapes = {"attn_q": (HEADS, WIDTH), "attn_k": (heads, WIDTH), "attn_v": (heads, WIDTH), "attn_output": (0, WIDTH)}
    out: dict[str, tuple[int, ...]] = {
        f"blk.{layer}.{name}.weight": (count * HEAD, width) for name, (count, width) in shapes.items()
    }
    return out | {f"blk.{layer}.attn_output.weight": (WIDTH, HEADS * HEAD)}


def feed(layer: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
        "ffn_gate": (FEED, WIDTH),
        "ffn_up": (FEED, WIDTH),
        "ffn_down": (WIDTH, FEED),
    }
    return {f"blk.{layer}.{name}.weight": shape for name, shape in shapes.items()}


def gemma2(folder: Path) -> Path:
    """Every other layer sees WINDOW tokens only."""

    def fill(writer: Any) -> None:
        writer.add_head_count_kv(HEADS)
        writer.add_key_length(HEAD)
        writer.add_value_length(HEAD)
        writer.add_sliding_window(WINDOW)
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)

    tensors: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        posts = {f"blk.{layer}.post_{name}_norm.weight": (WIDTH,) for name in ("attention", "ffw")}
        tensors |= attention(layer) | feed(layer) | posts
    return write(folder / "gemma2.gguf", "gemma2", tensors, fill)


def test_what_failed_near_the_window_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    file = gemma2(tmp_path)
    verdict = load_llama(file, "gemma2", FLOAT32).verdict
    assert verdict is not None
    verdict.keep("gemma2.attention.sliding_window", Tried(WINDOW, None, True, False))
    able = load_llama(file, "gemma2", FLOAT32).info.capabilities
    assert (able.tree, able.chain) == (False, True)
    assert "Near 8 tokens (gemma2.attention.sliding_window in its configuration)" in able.reasons["tree"]
    verdict.keep("gemma2.attention.sliding_window", Tried(WINDOW, None, False, None))
    model = load_llama(file, "gemma2", FLOAT32)
    assert not model.info.capabilities.chain
    assert isinstance(model.open_session(64), LlamaPlainSession)
    assert answer(model, "greedy", 8)


def jamba(folder: Path) -> Path:
    """Mamba layers and attention layers by turns."""
    heads = [0, HEADS, 0, HEADS]

    def fill(writer: Any) -> None:
        writer.add_head_count_kv(heads)
        writer.add_ssm_conv_kernel(KERNEL)
        writer.add_ssm_inner_size(INNER)
        writer.add_ssm_state_size(STATE)
        writer.add_ssm_time_step_rank(RANK)

    shapes: dict[str, tuple[int, ...]] = {
        "ssm_in.weight": (2 * INNER, WIDTH),
        "ssm_conv1d.weight": (INNER, KERNEL),
        "ssm_conv1d.bias": (INNER,),
        "ssm_x.weight": (RANK + 2 * STATE, INNER),
        "ssm_dt_norm.weight": (RANK,),
        "ssm_dt.weight": (INNER, RANK),
        "ssm_dt.bias": (INNER,),
        "ssm_b_norm.weight": (STATE,),
        "ssm_c_norm.weight": (STATE,),
        "ssm_a": (INNER, STATE),
        "ssm_d": (INNER,),
        "ssm_out.weight": (WIDTH, INNER),
    }
    tensors: dict[str, tuple[int, ...]] = {}
    for layer in range(LAYERS):
        mamba = {f"blk.{layer}.{name}": shape for name, shape in shapes.items()}
        tensors |= feed(layer) | (attention(layer) if heads[layer] else mamba)
    return write(folder / "jamba.gguf", "jamba", tensors, fill)


def answer(model: Model, method: str, tokens: int = 60) -> list[int]:
    conversation = Conversation(model, draft_model=model)
    generation = Generation(conversation, REPEATING, method, max_tokens=tokens)
    generation._eos = frozenset()
    list(generation)
    conversation.close()
    return generation.answer


def test_sliding_windows_draft_and_rewind_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    model = load_llama(gemma2(tmp_path), "gemma2", FLOAT32)
    assert model.info.capabilities.tree
    plain = answer(model, "greedy")
    for method in ("recompute", "lookup", "lookahead", "draft", "tree", "early-exit"):
        assert answer(model, method) == plain, method
    # Near the window, in texts so long.
    found = prove_lengths(Job(model, None, lambda _: None, lambda: False))
    (row,) = found["lengths"]
    assert (row["names"], row["texts"]) == (["gemma2.attention.sliding_window"], [WINDOW, WINDOW + 21])
    assert (row["plain"], row["chain"], row["tree"], found["broken"], found["proven"]) == (None, True, True, False, 256)
    # Far behind the window, back again, and on along another way: as a fresh cache has it.
    session: Any = model.open_session()
    session.prefill(REPEATING)
    session.rewind(10)
    session.evaluate([5, 6, 7], (ROOT, ROOT, 0))
    session.commit([1])
    found = session.evaluate([9, 8], (ROOT, 0)).logits.clone()
    fresh: Any = model.open_session()
    text = [*REPEATING[:10], 6, 9, 8]
    torch.testing.assert_close(found, fresh.evaluate(text, range(-1, 12), rows=[11, 12]).logits, atol=1e-3, rtol=1e-3)
    model.close()


def test_hybrids_say_that_they_decode_plainly(tmp_path: Path) -> None:
    model = load_llama(jamba(tmp_path), "jamba", FLOAT32)
    capabilities = model.info.capabilities
    assert (capabilities.tree, capabilities.chain) == (False, False)
    (note,) = model.info.notes
    assert note == "This model is recurrent or hybrid: its state cannot branch or rewind, so it supports plain decoding only."
    reasons = {name: unavailable(method, capabilities) for name, method in methods().items()}
    drafting = {name for name, method in methods().items() if method.drafts}
    assert {name for name, reason in reasons.items() if reason} == drafting
    assert {reasons[name] for name in drafting} == {note}
    with pytest.raises(UserError, match="plain decoding only"):
        Generation(Conversation(model), IDS, "lookup")
    assert answer(model, "greedy", 20) == answer(model, "recompute", 20)
    model.close()


def test_a_table_of_positions_that_is_shorter_than_the_proof(tmp_path: Path) -> None:
    # Its cache is not float32, so the load measures how passes round, in texts of up to 275 tokens.
    model = load_llama(zoo.write("gpt2", tmp_path / "gpt2.gguf"), "gpt2", replace(FLOAT32, dtype="float16"))
    assert model.info.context < TOKENS
    assert model.info.capabilities.tree
    model.close()


def test_logits_of_a_token_that_is_decoded_alone(tmp_path: Path) -> None:
    # CogVLM's graph does not pick the rows that are asked for, so a pass of several gives those of its first tokens.
    file = zoo.write("cogvlm", tmp_path / "cogvlm.gguf")
    model = load_llama(file, "cogvlm", FLOAT32)
    model.info = replace(model.info, eos_ids=())
    generation = Generation(Conversation(model), IDS[:14], max_tokens=8)
    assert [token for step in generation for token in step.tokens] == Plain(file, 64).writes(IDS[:14], 8)
    model.close()
