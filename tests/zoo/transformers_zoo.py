"""The zoo of transformers: each architecture as specchat runs it, against transformers' own `generate`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.options import LoadOptions

from .architectures import VARIANTS, kinds, lengths
from .build import Tiny, prompts_around
from .writing import Reference, compare

NOISE = 0.05
"""Noise on a draft model's weights, in units of their own spread: enough that it is wrong now and then."""


def names() -> list[str]:
    """Every architecture, and the variants."""
    return [*kinds(), *VARIANTS]


def run(name: str, only: Sequence[str] = (), counts: Sequence[int] = ()) -> list[str]:
    """Compare one architecture's text; the methods that were tried.

    Args:
        name: of `names`.
        only: methods to try; all if there are none.
        counts: lengths of the prompts to try; all that its configuration asks for if there are none.

    Raises:
        NotCovered: transformers cannot build it, or cannot write with it.
        UserError: it is refused.
    """
    tiny = Tiny(name)
    with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder:
        tiny.save(Path(folder))
        model, draft = _load(folder, name), _load(folder, f"{name}-noisy")
        _disturb(draft)
        prompts = prompts_around(lengths(tiny.config), model.info.context, counts)
        found = compare(Reference(tiny.writes, tiny.gap), model, draft, prompts, only)
        model.close()
        draft.close()
    return found


def _load(folder: str, name: str) -> TransformersModel:
    return load_transformers(Path(folder), name, LoadOptions(device="cpu", dtype="float32", threads=1))


def _disturb(model: TransformersModel) -> None:
    """Make a draft model of it that is right and wrong."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.module.parameters():
            if weight.ndim > 1:
                weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)
