"""Both zoos as one: an architecture's name tells its library."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO

import torch
import transformers

from . import llama_zoo, transformers_zoo
from .compare import SEEDS, Outcome


def everything() -> list[str]:
    """Every architecture of transformers, then every one of llama.cpp."""
    return [*transformers_zoo.names(), *llama_zoo.names()]


def outcomes(
    name: str, only: Sequence[str] | None = None, counts: Sequence[int] | None = None, seeds: Sequence[int] = SEEDS
) -> list[Outcome]:
    """What comes of one architecture (see `transformers_zoo.outcomes`)."""
    zoo = llama_zoo if name.endswith(llama_zoo.SUFFIX) else transformers_zoo
    return list(zoo.outcomes(name, only, counts, seeds))


def timed(name: str, only: Sequence[str] | None = None) -> tuple[list[Outcome], float]:
    """The same in silence, on one thread, and the seconds that it took."""
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(1)
    begun = time.monotonic()
    with redirect_stdout(StringIO()):  # Reformer's `generate` prints warnings
        return outcomes(name, only), time.monotonic() - begun
