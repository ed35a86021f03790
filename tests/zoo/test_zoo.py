"""Identical methods write a model's own text on every architecture of transformers, and on those of llama.cpp with a cache or
positions of another kind."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from specchat.backends import LoadOptions, UserError
from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.hf.prove import NEITHER, UNFIT
from specchat.backends.llama.model import load_llama

from ..cases import FULL
from . import gguf_files
from .architectures import VARIANTS, WINDOW, NotCovered, kinds, lengths
from .build import Tiny, compare, prompts_around

NOISE = 0.05
"""Noise on a draft model's weights, in units of their own spread: enough that it is wrong now and then."""


def on_transformers(name: str, only: Sequence[str] = (), counts: Sequence[int] = ()) -> list[str]:
    """Compare one architecture's text; the methods that were tried."""
    tiny = Tiny(name)
    with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder:
        tiny.save(Path(folder))
        options = LoadOptions(device="cpu", dtype="float32", threads=1)
        model, draft = (load_transformers(Path(folder), model_name, options) for model_name in (name, f"{name}-noisy"))
        _disturb(draft)
        prompts = prompts_around(lengths(tiny.config), model.info.context, counts)
        differences = compare(tiny, model, draft, prompts, only)
        model.close()
        draft.close()
    return differences


def _disturb(model: TransformersModel) -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.module.parameters():
            if weight.ndim > 1:
                weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)


SAMPLE = {"gemma4_text": [19], "bamba": [11], "mllama": [14], "llama-dense.gguf": [14]}
"""One architecture of each kind of attention or cache, and the lengths of the prompts to try. Layers of mllama that only images
need leave trees to the others."""


def on_llama(name: str, only: Sequence[str] = (), counts: Sequence[int] = ()) -> list[str]:
    """The same on llama.cpp, beside its own greedy completion."""
    with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder:
        file = gguf_files.write(name, Path(folder) / "model.gguf")
        noisy = gguf_files.write(name, Path(folder) / "noisy.gguf", noise=NOISE)
        options = LoadOptions(device="cpu", dtype="float32", threads=1)
        model, draft = load_llama(file, name, options), load_llama(noisy, "noisy", options)
        around = (WINDOW, *filter(None, (model.header.number(gguf_files.ORIGINAL_LENGTH),)))
        plain = gguf_files.Plain(file, model.info.context)
        return compare(plain, model, draft, prompts_around(around, model.info.context, counts), only)


def run(name: str, *arguments: Any) -> list[str]:
    """Compare one architecture's text, or skip it with the reason; an architecture's name tells its library."""
    try:
        if name.endswith(".gguf"):
            return on_llama(name.removesuffix(".gguf"), *arguments)
        return on_transformers(name, *arguments)
    except NotCovered as reason:
        pytest.skip(str(reason))


ALL = [*kinds(), *VARIANTS, *(f"{name}.gguf" for name in gguf_files.names())]


@pytest.mark.parametrize("name", ALL if FULL else SAMPLE)
def test_writes_what_its_own_library_writes(name: str) -> None:
    """`-k NAME` runs one of them, `-rs` tells why others are skipped, `--sw` goes on with one that failed."""
    if not FULL:
        assert run(name, ("greedy", "tree"), SAMPLE[name]) == ["greedy", "tree"][: 1 + (name != "bamba")]
        return
    try:
        run(name)
    except UserError as refusal:
        pytest.skip(f"refused: {refusal}")


@pytest.mark.parametrize("name", ["cpmant", "reformer", "xlnet", "openai-gpt"] if FULL else ["xlnet"])
def test_an_architecture_that_does_not_write_token_after_token_is_refused(name: str) -> None:
    with pytest.raises(UserError) as refused:
        run(name)
    assert str(refused.value) == UNFIT


def test_a_cache_of_another_kind_gives_a_note(tmp_path: Path) -> None:
    model = load_transformers(Tiny("deepseek_v32").save(tmp_path), "model", LoadOptions(device="cpu", threads=1))
    assert not model.info.capabilities.chain
    assert NEITHER in model.info.notes
