"""Tokens per second on llama.cpp, each pair in turns in one run.

    python -m specchat.benchmarks.llama_speed [--threads N] [--pairs N] [--tokens N] [--model FILE.gguf]

Ratios with 95% intervals of their medians: our greedy to llama-cpp-python's `create_completion`, our lookup to its
`LlamaPromptLookupDecoding(num_pred_tokens=10)`, and our lookup and our auto to our greedy for each family of tasks. All run the
same model on the same number of threads without an end token; the processor's time counts, so that other load matters less.
Needs the packages gguf and llama-cpp-python.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import torch
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from specchat.backends import LoadOptions, Model
from specchat.backends.llama.library import library
from specchat.backends.llama.model import load_llama
from specchat.backends.loading import builtin_path
from specchat.builtin.recipe.gguf_export import export
from specchat.decoders import Conversation, Generation, encode_prompt

CONTEXT = 2048
FAMILIES = {
    "copy": "Repeat this text exactly: Anna bought 12 apples and a red kite for $4.50. The train from Vienna to Rome leaves at "
    "10:15 in the morning. Ben mended the lantern near the harbour before Clara sold 40 notebooks at the market.",
    "edit": "Fix the spelling: I has two appels and three banannas in the kichen. The train leeves at ten in the morning and "
    "the childern are late.",
    "question": "What is a KV cache?",
    "story": "Write a story about a lighthouse.",
    "list": "List the months of the year.",
}
"""One prompt for each family of tasks."""

RESAMPLES = 2000
"""Resamples of the bootstrap."""

Timed = Callable[[list[int]], float]
"""Answers a prompt; returns tokens per second of processor time."""


def their_model(file: Path, threads: int, draft: Any = None) -> Any:
    """Load llama-cpp-python's own class, with our way around AMX (see `Weights`)."""
    lib = library()
    defaults = lib.llama_model_default_params

    def same() -> Any:
        params = defaults()
        params.use_extra_bufts = b"AMX_INT8 = 1" not in lib.llama_print_system_info()
        return params

    lib.llama_model_default_params = same
    try:
        return llama_cpp.Llama(
            str(file),
            n_ctx=CONTEXT,
            n_threads=threads,
            n_threads_batch=threads,
            draft_model=draft,
            logits_all=draft is not None,
            verbose=False,
        )
    finally:
        lib.llama_model_default_params = defaults


def ours(model: Model, method: str, tokens: int) -> Timed:
    """Measure a method of ours, with one cache that is emptied before each answer, like `reset` there, and new drafters."""
    conversation = Conversation(model)

    def answer(prompt: list[int]) -> float:
        conversation.session.rewind(0)
        conversation._drafters.clear()
        start = time.process_time()
        generation = Generation(conversation, prompt, method, max_tokens=tokens)
        generation.output.eos_ids = frozenset()
        count = sum(len(step.tokens) for step in generation)
        return count / (time.process_time() - start)

    return answer


def theirs(model: Any, tokens: int, eos: Sequence[int]) -> Timed:
    """Measure `create_completion` at temperature 0."""
    bias = dict.fromkeys(eos, -1e9)

    def answer(prompt: list[int]) -> float:
        model.reset()
        start = time.process_time()
        completion = model.create_completion(prompt, max_tokens=tokens, temperature=0, logit_bias=bias)
        return float(completion["usage"]["completion_tokens"] / (time.process_time() - start))

    return answer


def compare(one: Timed, other: Timed, prompts: Sequence[list[int]], pairs: int) -> dict[str, Any]:
    """Compare two measurements in turns: the median ratio, with its 95% interval by bootstrap."""
    ratios, speeds, other_speeds = [], [], []
    for pair in range(-1, pairs):
        prompt = prompts[pair % len(prompts)]
        if pair % 2:
            a = one(prompt)
            b = other(prompt)
        else:
            b = other(prompt)
            a = one(prompt)
        if pair >= 0:  # the first of each warms up
            ratios.append(a / b)
            speeds.append(a)
            other_speeds.append(b)
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=pairs)) for _ in range(RESAMPLES))
    low, high = medians[RESAMPLES // 40], medians[-RESAMPLES // 40]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "interval": [round(low, 3), round(high, 3)],
        "tokens_per_second": [round(statistics.median(speeds)), round(statistics.median(other_speeds))],
        "pairs": pairs,
    }


def main() -> None:
    """Print one JSON line for each ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the built-in model in Q8_0 if not given")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as room:
        file = options.model or Path(room) / "builtin.gguf"
        if options.model is None:
            export(builtin_path(), file, "Q8_0")
        model = load_llama(file, "model", LoadOptions(device="cpu", threads=options.threads, context=CONTEXT))
        prompts = {family: encode_prompt(model, text) for family, text in FAMILIES.items()}
        every, count, eos = list(prompts.values()), options.tokens, model.info.eos_ids
        greedy, lookup, auto = (ours(model, method, count) for method in ("greedy", "lookup", "auto"))

        def tell(name: str, one: Timed, other: Timed, on: Sequence[list[int]]) -> None:
            print(json.dumps({name: compare(one, other, on, options.pairs)}), flush=True)

        plain = their_model(file, options.threads)
        tell("greedy / create_completion", greedy, theirs(plain, count, eos), every)
        plain.close()
        drafting = their_model(file, options.threads, LlamaPromptLookupDecoding(num_pred_tokens=10))
        tell("lookup / LlamaPromptLookupDecoding", lookup, theirs(drafting, count, eos), every)
        drafting.close()
        for family, prompt in prompts.items():
            tell(f"lookup / greedy, {family}", lookup, greedy, [prompt])
            tell(f"auto / greedy, {family}", auto, greedy, [prompt])


if __name__ == "__main__":
    main()
