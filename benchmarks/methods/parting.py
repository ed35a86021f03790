"""How many answers part from plain decoding, with and without what keeps them together, and what that costs.

    python -m specchat.benchmarks.methods.parting --dtype bfloat16 [--prompts 200] [--tokens 128]
    python -m specchat.benchmarks.methods.parting --gguf target-Q4_0.gguf
    python -m specchat.benchmarks.methods.parting --quality int8,target-Q8_0.gguf

The last one tells how far other weights are from those of `--dtype`: at each token of its plain answers the divergence
KL(its ‖ theirs) in nats, and how often both choose the same next token.

The built-in model's held-out prompts, greedy. "With" is specchat as it is, "without" is `--exact off`, passes as
they come. Each is held against its own plain decoding. Both answer every prompt, one right after the other in turns, and the
cost is the median over all pairs of their tokens per second of processor time, with a 95% interval.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch

from specchat.backends import ROOT, LoadOptions, Model, load_model
from specchat.backends.loading import builtin_gguf
from specchat.builtin.recipe.corpus import TASKS
from specchat.builtin.recipe.evaluate import examples
from specchat.decoders import Conversation, Generation
from specchat.decoders.registry import get, unavailable

METHODS = ("lookup", "draft", "tree", "fusion", "early-exit", "auto")
FAMILIES = ("copy", "edit", "extract", "fact", "passage", "story")


def prompts_of(model: Model, count: int) -> list[list[int]]:
    """Token ids of `count` prompts, the families in turn."""
    found: dict[str, list[list[int]]] = defaultdict(list)
    each = -(-count // len(FAMILIES))
    for name, messages in examples(count * 40):
        family = TASKS[name].family
        if family in FAMILIES and len(found[family]) < each:
            found[family].append(
                model.encode_chat([{"role": str(m["role"]), "content": str(m["content"])} for m in messages[:-1]])
            )
    return [ids for row in zip_longest(*found.values()) for ids in row if ids][:count]


def answer(model: Model, draft: Model, prompt: list[int], method: str, tokens: int) -> tuple[list[int], float, int]:
    """The answer's tokens, processor seconds, and near ties checked."""
    conversation = Conversation(model, draft_model=draft)
    start = time.process_time()
    generation = Generation(conversation, prompt, method, max_tokens=tokens)
    for _ in generation:
        pass
    seconds = time.process_time() - start
    conversation.close()
    return generation.answer, seconds, generation.totals.checked


def rows_of(model: Model, prompt: list[int], found: list[int]) -> torch.Tensor:
    """Log-probabilities of what follows the prompt and each token of an answer but its last [tokens, vocab]."""
    session = model.open_session()
    session.prefill(prompt[:-1])
    tokens = [prompt[-1], *found[:-1]]
    scores: Any = session.evaluate(tokens, range(ROOT, len(tokens) - 1))
    rows = scores.logits.float().log_softmax(-1)
    session.close()
    return rows  # type: ignore[no-any-return]


def quality(model: Model, others: dict[str, Model], prompts: list[list[int]], tokens: int) -> None:
    """Print a row for each of the others."""
    apart: dict[str, list[torch.Tensor]] = {name: [] for name in others}
    same: dict[str, list[torch.Tensor]] = {name: [] for name in others}
    for prompt in prompts:
        found = answer(model, model, prompt, "greedy", tokens)[0]
        own = rows_of(model, prompt, found)
        for name, other in others.items():
            rows = rows_of(other, prompt, found)
            apart[name].append((own.exp() * (own - rows)).sum(-1))
            same[name].append(own.argmax(-1) == rows.argmax(-1))
    for name in others:
        divergence, equal = torch.cat(apart[name]), torch.cat(same[name]).double()
        print(f"{name:18} mean KL {divergence.mean():.2e}, the same token {equal.mean():.2%} of {len(equal)}")


def loaded(name: str, options: LoadOptions) -> Model:
    """The built-in model in a dtype, or one of its GGUF files."""
    if name.endswith(".gguf"):
        return load_model(str(builtin_gguf().with_name(name)), replace(options, backend="llama.cpp", dtype="auto"))
    return load_model("builtin", replace(options, backend="transformers", dtype=name))


def interval(ratios: list[float]) -> tuple[float, float]:
    """A 95% interval of the median, by resampling."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(500))
    return medians[12], medians[487]


def main() -> None:
    """Print a row for each method as it is done."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--gguf", default="", help="a quantized file of the built-in model, for llama.cpp")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--exact", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quality", default="", help="dtypes and GGUF files to hold against --dtype, nothing else is done")
    options = parser.parse_args()
    if options.quality:
        how = LoadOptions(threads=options.threads, device="cpu")
        model, others = loaded(options.dtype, how), {name: loaded(name, how) for name in options.quality.split(",")}
        quality(model, others, prompts_of(model, options.prompts), options.tokens)
        return
    if options.gguf:
        kind: dict[str, Any] = {"backend": "llama.cpp"}
        target, small = str(builtin_gguf().with_name(options.gguf)), "builtin-draft"
    else:
        kind = {"backend": "transformers", "dtype": options.dtype}
        target, small = "builtin", "builtin-draft"
    load = LoadOptions(threads=options.threads, device="cpu", exact=options.exact, **kind)
    off = replace(load, exact="off")
    models, draft = (load_model(target, load), load_model(target, off)), load_model(small, load)
    model = models[0]
    prompts = prompts_of(model, options.prompts)
    print(f"{target} {model.info.dtype}, {len(prompts)} prompts of up to {options.tokens} tokens: {model.info.capabilities}")
    plain = [[answer(model, draft, prompt, "greedy", options.tokens)[0] for prompt in prompts] for model in models]
    for method in options.methods.split(","):
        if reason := unavailable(get(method), model.info.capabilities, draft_model=True):
            print(f"{method:11} not available: {reason}")
            continue
        parted, ratios, seconds = [0, 0], [], [0.0, 0.0]
        checks = length = 0
        for i, prompt in enumerate(prompts):
            speeds = [0.0, 0.0]
            for which in (0, 1) if i % 2 else (1, 0):
                found, spent, checked = answer(models[which], draft, prompt, method, options.tokens)
                parted[which] += found != plain[which][i]
                seconds[which] += spent
                speeds[which] = len(found) / spent
                checks += checked
                length += len(found) * (which == 0)
            ratios.append(speeds[0] / speeds[1])
        low, high = interval(ratios)
        print(
            f"{method:11} parted: {parted[0]} with, {parted[1]} without; {checks} checks in {length} tokens; tokens/s "
            f"{statistics.median(ratios):.3f} ({low:.3f}-{high:.3f}), all together {seconds[1] / seconds[0]:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
