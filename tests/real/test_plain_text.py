"""Plain decoding is llama.cpp's own, token by token: llama-cpp-python with the same settings, over the same prompt ids."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.base import PREFILL_CHUNK
from specchat.engine.tasks.peers import same_settings

from .models import THREADS, TOKENS, fresh, suite, texts
from .page import Page

pytestmark = suite

CONTEXT = 2048


@pytest.fixture(scope="module", params=["on", "off"])
def model(request: pytest.FixtureRequest, path: Path) -> Iterator[Model]:
    """A GGUF file with flash attention, or without, and keys and values in half floats."""
    if path.suffix != ".gguf":
        pytest.skip("llama-cpp-python reads GGUF files alone")
    options = LoadOptions(
        threads=THREADS, context=CONTEXT, device="cpu", exact="off", flash_attention=request.param, kv_type="f16"
    )
    model = load_model(str(path), options)
    yield model
    model.close()


def theirs(llama: Any, prompt: Sequence[int], ends: Sequence[int]) -> tuple[list[int], list[float]]:
    """The likeliest tokens after a prompt, read as here: all but its last token first; and how far each one led."""
    llama.reset()
    llama._ctx.kv_cache_clear()
    llama.eval(list(prompt[:-1]))
    tokens, leads = [int(prompt[-1])], []
    while len(tokens) <= TOKENS and tokens[-1] not in ends:
        llama.eval(tokens[-1:])
        logits = np.ctypeslib.as_array(llama._ctx.get_logits_ith(-1), (llama.n_vocab(),))
        second, first = np.partition(logits, -2)[-2:]
        leads.append(float(first - second))
        tokens.append(int(logits.argmax()))
    return tokens[1:], leads


def test_plain_text_is_llama_cpp_pythons(model: Model, path: Path, page: Page) -> None:
    from llama_cpp import Llama

    llama = Llama(str(path), n_ctx=CONTEXT, verbose=False, **same_settings(model))
    parted = []
    for kind, prompt in texts(model):
        assert len(prompt) <= PREFILL_CHUNK
        ours = fresh(model, prompt)
        wanted, leads = theirs(llama, prompt, model.info.eos_ids)
        if ours != wanted:
            at = next(i for i, (one, other) in enumerate(zip(ours, wanted, strict=False)) if one != other)
            parted.append(f"{kind}: at token {at}, which led by {leads[at]:.2f}")
    flash = "on" if same_settings(model)["flash_attn"] else "off"
    page.add(
        path.name, f"Plain text, flash attention {flash}: {len(parted)} of {len(texts(model))} differ from llama.cpp's.", ""
    )
    llama.close()
    del llama
    gc.collect()
    assert parted == []
