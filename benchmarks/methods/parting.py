"""How many answers part from plain decoding, with and without what keeps them together, and what that costs.

    python -m specchat.benchmarks.methods.parting --dtype bfloat16 [--prompts 200] [--tokens 128]
    python -m specchat.benchmarks.methods.parting --gguf target-Q4_0.gguf

The built-in model's held-out prompts, greedy. "With" is specchat as it is, "without" is `--exact off --guard off`, passes as
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

from specchat.backends import LoadOptions, Model, load_model
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
    parser.add_argument("--guard", default="on")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.gguf:
        kind: dict[str, Any] = {"backend": "llama.cpp"}
        target, small = str(builtin_gguf().with_name(options.gguf)), "builtin-draft"
    else:
        kind = {"backend": "transformers", "dtype": options.dtype}
        target, small = "builtin", "builtin-draft"
    load = LoadOptions(threads=options.threads, device="cpu", exact=options.exact, guard=options.guard, **kind)
    off = replace(load, exact="off", guard="off")
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
