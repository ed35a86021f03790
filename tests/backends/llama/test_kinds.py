"""Architectures whose caches are special: sliding windows, recurrent states, short tables of positions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, Model
from specchat.backends.llama.model import load_llama
from specchat.decoders import Conversation, Generation

from ...fakes.models.llama_tiny import FLOAT32, needs_llama
from ...zoo import gguf_files as zoo
from ...zoo.llama_zoo import Plain

pytestmark = needs_llama

IDS = [(31 * i + 7) % 2000 + 8 for i in range(40)]
REPEATING = IDS[:12] * 4


@pytest.fixture
def gemma2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every other layer sees WINDOW tokens only."""
    monkeypatch.setenv("SPECCHAT_CACHE", str(tmp_path))
    return zoo.write("gemma2", tmp_path / "gemma2.gguf")


def answer(model: Model, method: str, tokens: int = 60) -> list[int]:
    conversation = Conversation(model, draft_model=model)
    generation = Generation(conversation, REPEATING, method, max_tokens=tokens)
    generation._eos = frozenset()
    list(generation)
    conversation.close()
    return generation.answer


def test_sliding_windows_draft_and_rewind_like_any_other(gemma2: Path) -> None:
    model = load_llama(gemma2, "gemma2", FLOAT32)
    assert model.info.capabilities.tree
    plain = answer(model, "greedy")
    for method in ("recompute", "lookup", "lookahead", "draft", "tree"):
        assert answer(model, method) == plain, method
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


def fresh(model: Model, ids: list[int]) -> torch.Tensor:
    """Logits after ids, evaluated one after the other in a new session."""
    session: Any = model.open_session(len(ids))
    session.prefill(ids[:-1])
    logits: torch.Tensor = session.evaluate(ids[-1:], (ROOT,)).logits[0].clone()
    return logits


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
