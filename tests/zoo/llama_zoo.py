"""The zoo of llama.cpp: each architecture as specchat runs it, against one token at a time in a context of llama.cpp's own."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

from specchat.backends import LoadOptions
from specchat.backends.llama.model import load_llama

from ..cases import FULL
from .architectures import CONTEXT, WINDOW, NotCovered
from .build import compare, prompts_around, tokens
from .gguf_files import ORIGINAL_LENGTH, write
from .gguf_files import names as names_in_files

NOISE = 0.05
"""Noise on a draft model's weights, in units of their own spread: enough that it is wrong now and then."""
SUFFIX = ".gguf"
"""Suffix of a name here: llama is transformers', llama.gguf llama.cpp's."""

MODEL, NOISY = "model.gguf", "noisy.gguf"

FLOAT32 = LoadOptions(device="cpu", dtype="float32", threads=1)

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def names() -> list[str]:
    return [f"{name}{SUFFIX}" for name in names_in_files()]


class Plain:
    """llama.cpp's own greedy completion, one token a pass."""

    def __init__(self, file: Path, context: int) -> None:
        from llama_cpp import Llama

        self._llama: Any = Llama(
            str(file), n_ctx=context, n_batch=1, n_ubatch=1, n_threads=1, n_threads_batch=1, n_gpu_layers=0, type_k=0, type_v=0,
            verbose=False,
        )  # fmt: skip

    def logits(self, text: Sequence[int]) -> Any:
        """Read a text from its start; return the logits after it."""
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()  # of states, which `reset` leaves
        return self._go_on(text)

    def _go_on(self, tokens: Sequence[int]) -> Any:
        self._llama.eval(list(tokens))
        return np.ctypeslib.as_array(self._llama._ctx.get_logits_ith(-1), (self._llama.n_vocab(),)).copy()

    def writes(self, prompt: Sequence[int], count: int) -> list[int]:
        logits, written = self.logits(prompt), list[int]()
        while True:
            written.append(int(logits.argmax()))
            if len(written) == count:
                return written
            logits = self._go_on(written[-1:])

    def gap(self, text: Sequence[int], one: int, other: int) -> float:
        logits = self.logits(text)
        return abs(float(logits[one] - logits[other]))


def run(name: str, only: Sequence[str] = (), counts: Sequence[int] = ()) -> list[str]:
    """Compare one architecture's text (see `on_transformers`). Of all architectures it takes a new process
    for each: where something is wrong, llama.cpp may end it."""
    if not FULL:
        with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder:
            _build(name, Path(folder))
            return _run(name, Path(folder), only, counts)
    with tempfile.TemporaryDirectory(prefix="specchat-zoo-") as folder, ProcessPoolExecutor(1, PROCESSES) as pool:
        try:
            pool.submit(_build, name, Path(folder)).result()
        except BrokenProcessPool:
            raise NotCovered("llama.cpp takes our metadata, then ends the process") from None
        return pool.submit(_run, name, Path(folder), only, counts).result()


def _build(name: str, folder: Path) -> None:
    """Write the model and its draft model, and see that llama.cpp writes with it."""
    file = write(name.removesuffix(SUFFIX), folder / MODEL)
    write(name.removesuffix(SUFFIX), folder / NOISY, noise=NOISE)
    try:
        logits = Plain(file, CONTEXT).logits(tokens(14, seed=1))
    except (RuntimeError, ValueError) as error:
        raise NotCovered(f"llama.cpp does not decode with it: {error}") from error
    if not np.isfinite(logits).all() or not logits.std():
        raise NotCovered("it gives no logits, or none that are finite")


def _run(name: str, folder: Path, only: Sequence[str], counts: Sequence[int]) -> list[str]:
    file = folder / MODEL
    model, draft = load_llama(file, name, FLOAT32), load_llama(folder / NOISY, f"{name}-noisy", FLOAT32)
    plain = Plain(file, model.info.context)
    around = (WINDOW, *filter(None, (model.header.number(ORIGINAL_LENGTH),)))
    prompts = prompts_around(around, model.info.context, counts)
    return compare(plain, model, draft, prompts, only)
