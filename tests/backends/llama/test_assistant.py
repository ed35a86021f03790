"""Gemma 4's assistants in GGUF, against the torch ones behind them; what llama.cpp would end the process over, or do wrong."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specchat.backends import UserError
from specchat.backends.base import ROOT
from specchat.backends.heads.assistant.network import AssistantSession
from specchat.backends.heads.base import PathHead
from specchat.backends.heads.formats import Reading

from ...fakes.drafters.gguf_heads import llama_target
from ...fakes.models.gemma import (
    VOCAB,
    WIDTH,
    WINDOW,
    gemma,
    gemma_file,
    gemma_llama,
    load_assistant,
    load_assistant_file,
    random_assistant_file,
    write_assistant,
)
from ...fakes.models.gguf_changes import changed
from ...fakes.models.llama_tiny import needs_llama

pytestmark = needs_llama

APART = 0.02
"""As in test_drafters.py; of the two targets the states are apart a little, too: llama.cpp looks GELU up in half precision."""


@pytest.mark.parametrize("ordered", [False, True])
def test_its_scores_are_those_of_torch(ordered: bool, tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant", ordered=ordered)
    ours, theirs, rng = load_assistant_file(gemma_file(folder, tmp_path / "a.gguf")), load_assistant(folder), random.Random(4)
    assert (ours.info.kind, ours.info.title, ours.info.taps) == ("eagle", "Gemma 4 assistant", (9,))
    network, _ = theirs.loaded().args
    theirs = PathHead(theirs.info, partial(AssistantSession, network, Reading((9,))))
    network.window = WINDOW - 2  # rows beside its own; llama.cpp's window is two rows shorter than transformers'
    text, ends = [rng.randrange(8, VOCAB) for _ in range(31)], (1, 4, WINDOW - 1, WINDOW, WINDOW + 2, 30)
    found: list[list[torch.Tensor]] = []
    pairs: tuple[tuple[Any, Any], ...] = ((gemma_llama(), ours), (gemma(), theirs))
    for model, head in pairs:
        target, rows = model.open_session(64, (9,)), []
        session: Any = head.open(64)
        session.follow(target)
        for end in ends:
            target.prefill(text[target.length : end])
            rows.append(session.extend(text[session.length + 1 : end + 1], target.states(session.length, end)).logits)
            rows += [session.grow(*nodes).logits for nodes in (([7, 9], [ROOT, ROOT]), ([11, 13, 15], [0, 0, 1]), ([17], [4]))]
        found.append(rows)
    for a, b in zip(*found, strict=True):
        drafted = b.isfinite()
        far = (a - b).where(drafted, 0.0).square().mean(-1).sqrt() / b[drafted].std()
        assert far.max() < APART


def test_in_the_middle_of_a_text_the_texts_cache_stays_what_it_was() -> None:
    """llama.cpp empties the target's cache when an assistant's context is made."""
    model, head, prompt = gemma_llama(), random_assistant_file(), list(range(30, 55))
    sessions: list[Any] = [model.open_session(128, (9,)) for _ in range(2)]
    session, fresh = sessions
    session.prefill(prompt)
    head.open(128).follow(session)
    fresh.prefill(prompt)
    found, wanted = (each.evaluate([9, 10], [ROOT, 0]).logits.clone() for each in (session, fresh))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    assert list(session.tokens) == prompt


AT = "gemma4-assistant."
WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "nan": ({}, {"output_norm.weight": np.full(16, np.nan, np.float32)}, "Cannot load a.gguf: .*invalid data"),
    "clusters": ({}, {"masked_embd_centroids.weight": np.ones((4, 16), np.float32)}, "a file without masked_embd_centroids"),
    "width": ({f"{AT}embedding_length_out": 48}, {}, f"hidden states 48 numbers wide, and those of gemma have {WIDTH}"),
    "no width": ({f"{AT}embedding_length_out": None}, {}, r"damaged \(embedding_length_out is None\)"),
    "vocabulary": ({"tokenizer.ggml.tokens": [b"a", b"b"]}, {}, "a vocabulary of 2 tokens, and gemma has 2,048"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_file_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    values, tensors, words = WRONG[case]
    whole = gemma_file(write_assistant(tmp_path / "assistant"), tmp_path / "whole.gguf")
    with pytest.raises(UserError, match=words) as caught:
        load_assistant_file(changed(whole, tmp_path / "a.gguf", values, tensors))
    assert "\n" not in str(caught.value)


def test_pairs_that_do_not_go_together(tmp_path: Path) -> None:
    folder = write_assistant(tmp_path / "assistant")
    from specchat.backends.loading import find_model

    file = gemma_file(folder, tmp_path / "a.gguf")
    with pytest.raises(UserError, match="hidden states 24 numbers wide, and those of heads-target have 64"):
        find_model(str(file)).beside("a", llama_target())
    with pytest.raises(UserError, match="gives to an assistant in GGUF only"):
        find_model(str(folder)).beside("a", gemma_llama())
    with pytest.raises(UserError, match="which drafts for models on llama"):
        find_model(str(file)).beside("a", gemma())
