"""Whole answers on llama.cpp: llama.cpp's own greedy tokens, and transformers', under every method that promises them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import ROOT
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import builtin_path
from specchat.decoders import Conversation, Generation, encode_prompt

from ...cases import FULL
from ...fakes.models.llama_tiny import FLOAT32, gguf_of, needs_llama, tiny_folder, tiny_llama
from ...fakes.prompts import mixed_prompts
from ...zoo import gguf_files as zoo
from ...zoo.llama_zoo import Plain

pytestmark = needs_llama

PROMPTS = mixed_prompts(50 if FULL else 2)
"""Without a KV cache 64 tokens cost 64 passes over everything."""
TOKENS = 128 if FULL else 40
"""Passes of one and of several tokens round differently (quantized ones multiply activations in 8 bits): two logits as close as
this may change places."""
"""Share of all tokens."""


def test_float32_logits_are_transformers() -> None:
    from ...fakes.models.llama_tiny import linear

    model = tiny_llama()
    session: Any = model.open_session()
    ids = [(31 * i + 7) % 2000 + 8 for i in range(300)]
    scores = session.evaluate(ids, range(-1, 299), rows=[0, 1, 17, 150, 299])
    torch.testing.assert_close(scores.logits, linear([ids[: n + 1] for n in scores.nodes]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("folder", [tiny_folder, builtin_path])
def test_float32_answers_are_transformers_token_for_token(folder: Any) -> None:
    from transformers import AutoModelForCausalLM

    path: Path = folder()
    network: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    network.eval()
    network.generation_config.eos_token_id = None
    model = load_llama(gguf_of(path), "float32", FLOAT32)
    differences = []
    for text in PROMPTS:
        ids = encode_prompt(model, text)
        with torch.inference_mode():
            output = network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=TOKENS, pad_token_id=0)
        wanted = output[0, len(ids) :].tolist()
        conversation = Conversation(model)
        generation = Generation(conversation, ids, "greedy", max_tokens=TOKENS)
        generation._eos = frozenset()
        list(generation)
        conversation.close()
        at = next((i for i, (ours, theirs) in enumerate(zip(generation.answer, wanted, strict=True)) if ours != theirs), None)
        if at is not None:
            with torch.inference_mode():
                logits = network(torch.tensor([ids + wanted[:at]])).logits[0, -1]
            differences.append(float(logits[wanted[at]] - logits[generation.answer[at]]))
    print(f"{len(differences)} of {len(PROMPTS)} answers differ, first where the logits are {differences} apart")
    assert all(gap < 1e-3 for gap in differences)
    model.close()


IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]


@pytest.fixture
def gemma2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every other layer sees WINDOW tokens only."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    return zoo.write("gemma2", tmp_path / "gemma2.gguf")


def test_longrope_reads_a_text_alike_in_sessions_of_every_size(tmp_path: Path) -> None:
    # llama.cpp chooses the factors by the size of the context: these texts are short, and yet read with the long ones.
    file = zoo.write("llama-longrope-far", tmp_path / "far.gguf")
    found = {}
    for context in (256, 1024):
        model = load_llama(file, "far", replace(FLOAT32, context=context))
        sizes = [len(IDS), *(size for size in (257, 1024) if size <= context)]
        found[context] = torch.from_numpy(Plain(file, context).logits(IDS))
        for size in sizes:
            session: Any = model.open_session(size)
            assert session.context == size
            session.prefill(IDS[:-1])
            torch.testing.assert_close(session.evaluate(IDS[-1:], (ROOT,)).logits[0], found[context], atol=1e-4, rtol=1e-4)
            session.close()
        model.close()
    assert (found[256] - found[1024]).abs().max() > 1


def test_logits_of_a_token_that_is_decoded_alone(tmp_path: Path) -> None:
    # CogVLM's graph does not pick the rows that are asked for, so a pass of several gives those of its first tokens.
    file = zoo.write("cogvlm", tmp_path / "cogvlm.gguf")
    model = load_llama(file, "cogvlm", FLOAT32)
    model.info = replace(model.info, eos_ids=())
    generation = Generation(Conversation(model), IDS[:14], max_tokens=8)
    assert [token for step in generation for token in step.tokens] == Plain(file, 64).writes(IDS[:14], 8)
    model.close()
