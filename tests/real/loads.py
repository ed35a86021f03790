"""Measure a load in a process of its own: `python -m specchat.tests.real.loads RUNTIME MODEL CONTEXT THREADS`.

RUNTIME is specchat, or the library that it stands on (llama.cpp, transformers). Prints CPU seconds, the imports left out, and
resident memory as JSON, once a token has been computed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import psutil


def specchat(path: str, context: int, threads: int) -> Any:
    """Load as the chat does, and compute a token."""
    from specchat.backends import LoadOptions, load_model

    yield
    model = load_model(path, LoadOptions(context=context or None, threads=threads or None))
    session = model.open_session()
    session.prefill(model.encode("Hello"))
    yield model, session


def llama(path: str, context: int, threads: int) -> Any:
    """Load through llama-cpp-python, and compute a token."""
    import llama_cpp

    yield
    model = llama_cpp.Llama(path, n_ctx=context, n_threads=threads or None, verbose=False)
    model.eval(model.tokenize(b"Hello"))
    yield model


def transformers(path: str, context: int, threads: int) -> Any:
    """Load through transformers in the file's own type, and compute a token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if threads:
        torch.set_num_threads(threads)
    yield
    loader: Any = AutoModelForCausalLM
    model = loader.from_pretrained(path, dtype="auto", local_files_only=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    with torch.inference_mode():
        model(torch.tensor([tokenizer("Hello").input_ids]))
    yield model, tokenizer


def main() -> None:
    runtime, path, context, threads = sys.argv[1:]
    loading = {"specchat": specchat, "llama.cpp": llama, "transformers": transformers}[runtime]
    stages = loading(path, int(context), int(threads))
    next(stages)  # the imports
    start = time.process_time()
    stage = next(stages)
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "megabytes": psutil.Process().memory_info().rss / 1e6}))
    del stage


if __name__ == "__main__":
    main()
