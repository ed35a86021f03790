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
from specchat.backends.llama.library import last_error, library
from specchat.backends.llama.model import load_llama

from .architectures import CONTEXT, VOCAB, WINDOW, NotCovered
from .build import Reference, compare, prompts_around, tokens
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
    """llama.cpp's own greedy completion, one token a pass, each in a fresh context."""

    def __init__(self, file: Path, context: int) -> None:
        self._lib: Any = library()
        params = self._lib.llama_model_default_params()
        params.n_gpu_layers = 0
        self._model = self._lib.llama_model_load_from_file(str(file).encode(), params)
        if not self._model:
            raise RuntimeError(last_error())
        self._context = context

    def _written(self, text: Sequence[int], count: int) -> tuple[list[int], Any]:
        """Read a text and write `count` tokens after it; these, and the last logits."""
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_ctx = self._context
        params.n_batch = 1
        params.n_ubatch = 1
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = 0  # GGML_TYPE_F32
        params.flash_attn_type = 0
        context = lib.llama_init_from_model(self._model, params)
        text, batch = list(text), lib.llama_batch_init(1, 0, 1)
        begin = len(text)
        at = 0
        while True:
            batch.n_tokens, batch.token[0], batch.pos[0], batch.n_seq_id[0], batch.seq_id[0][0] = 1, text[at], at, 1, 0
            batch.logits[0] = at >= begin - 1
            if lib.llama_decode(context, batch):
                raise RuntimeError(f"llama_decode failed at {at}")
            at += 1
            if at < len(text):
                continue
            logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, 0), (VOCAB,)).copy()
            if len(text) == begin + count:
                break
            text.append(int(logits.argmax()))
            if len(text) == begin + count:
                break
        lib.llama_batch_free(batch)
        lib.llama_free(context)
        return text[begin:], logits

    def logits(self, text: Sequence[int]) -> Any:
        return self._written(text, 0)[1]

    def finite(self, text: Sequence[int]) -> bool:
        """Whether it gives logits that differ from each other."""
        logits = self.logits(text)
        return bool(np.isfinite(logits).all() and logits.std() > 0)

    def writes(self, prompt: Sequence[int], count: int) -> list[int]:
        return self._written(prompt, count)[0]

    def gap(self, text: Sequence[int], one: int, other: int) -> float:
        logits = self.logits(text)
        return abs(float(logits[one] - logits[other]))


def run(name: str, only: Sequence[str] = (), counts: Sequence[int] = ()) -> list[str]:
    """Compare one architecture's text (see `on_transformers`), in a new process: where something is wrong,
    llama.cpp may end it."""
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
        finite = Plain(file, CONTEXT).finite(tokens(14, seed=1))
    except (RuntimeError, ValueError) as error:
        raise NotCovered(f"llama.cpp does not decode with it: {error}") from error
    if not finite:
        raise NotCovered("it gives no logits, or none that are finite")


def _run(name: str, folder: Path, only: Sequence[str], counts: Sequence[int]) -> list[str]:
    file = folder / MODEL
    model, draft = load_llama(file, name, FLOAT32), load_llama(folder / NOISY, f"{name}-noisy", FLOAT32)
    plain = Plain(file, model.info.context)
    around = (WINDOW, *filter(None, (model.header.number(ORIGINAL_LENGTH),)))
    prompts = prompts_around(around, model.info.context, counts)
    return compare(Reference(plain.writes, plain.gap), model, draft, prompts, only)
