"""The zoo of transformers: each architecture as specchat runs it, against transformers' own `generate`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from specchat.backends.hf.model import TransformersModel, load_transformers
from specchat.backends.options import LoadOptions
from specchat.errors import UserError

from .architectures import VARIANTS, NotCovered, kinds, lengths, line
from .build import Tiny, prompts_around
from .compare import SEEDS, Outcome, Reference, compare

NOISE = 0.05
"""Noise on a draft model's weights, in units of their own spread: enough that it is wrong now and then."""


def names() -> list[str]:
    """Every architecture, and the variants."""
    return [*kinds(), *VARIANTS]


def outcomes(
    name: str, only: Sequence[str] | None = None, counts: Sequence[int] | None = None, seeds: Sequence[int] = SEEDS
) -> Iterator[Outcome]:
    """What comes of one architecture.

    Args:
        name: of `names`.
        only: methods to try; None for all.
        counts: lengths of the prompts to try; None for all that its configuration asks for.
        seeds: as of `compare`.
    """
    try:
        tiny = Tiny(name)
    except NotCovered as reason:
        yield Outcome(name, "build", "", "not covered", str(reason))
        return
    with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder:
        tiny.save(Path(folder))
        try:
            model, draft = _load(folder, name), _load(folder, f"{name}-noisy")
        except UserError as error:
            yield Outcome(name, "load", "", "refused", str(error))
            return
        except Exception as error:
            yield Outcome(name, "load", "", "crashed", line(error))
            return
        _disturb(draft)
        prompts = prompts_around(lengths(tiny.config), model.info.context)
        chosen = {at: prompt for at, prompt in prompts.items() if counts is None or len(prompt) in counts}
        yield from compare(Reference(name, tiny.writes, tiny.gap), model, draft, chosen, only=only, seeds=seeds)
        model.close()
        draft.close()


def _load(folder: str, name: str) -> TransformersModel:
    return load_transformers(Path(folder), name, LoadOptions(device="cpu", dtype="float32", threads=1))


def _disturb(model: TransformersModel) -> None:
    """Make a draft model of it that is right and wrong."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.module.parameters():
            if weight.ndim > 1:
                weight += NOISE * weight.std() * torch.randn(weight.shape, generator=generator)
