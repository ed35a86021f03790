"""Tokens per step of every identical method on the built-in model's evaluation prompts, as a Markdown table.

    python -m specchat.benchmarks.methods.tokens_per_step [--prompts 8] [--nodes 16] > tokens_per_step.md

Greedy, float32. Counts do not depend on the machine, its load or its speed (but for `auto` and the schedules that measure time,
which are left out). A family's figure is tokens / steps over all its answers.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from typing import Any

import torch

from specchat.backends import LoadOptions, load_model
from specchat.backends.loading import find_model
from specchat.builtin.recipe.corpus import TASKS
from specchat.builtin.recipe.evaluate import examples
from specchat.decoders import Conversation, Generation

FAMILIES = ("copy", "edit", "extract", "fact", "passage", "story")


def rows(nodes: int) -> list[tuple[str, str, dict[str, Any]]]:
    """List the rows as (name shown, method, settings); trees have `nodes` nodes."""
    return [
        ("greedy", "greedy", {}),
        ("jacobi", "jacobi", {}),
        ("lookahead", "lookahead", {}),
        ("ngram", "ngram", {}),
        (f"recycle, {nodes} nodes", "recycle", {"nodes": nodes}),
        ("lookup as published", "lookup", {"variant": "reference"}),
        (f"lookup, {nodes} nodes", "lookup", {"nodes": nodes, "floor": 0.0}),
        (f"fusion, {nodes} nodes", "fusion", {"nodes": nodes, "floor": 0.0}),
        ("early-exit, 4 of 8 layers, K = 4", "early-exit", {"layers": 4, "tokens": 4, "schedule": "constant"}),
        ("draft, K = 4", "draft", {"tokens": 4, "schedule": "constant"}),
        (f"tree, depth 4, {nodes} nodes", "tree", {"depth": 4, "nodes": nodes}),
        ("pard, K = 8, a chain", "pard", {"tokens": 8, "nodes": 9, "width": 1, "floor": 0.0}),
        (f"pard, K = 8, {nodes} nodes", "pard", {"tokens": 8, "nodes": nodes, "floor": 0.0}),
        ("eagle, depth 6, a chain", "eagle", {"depth": 6, "width": 1, "nodes": 7, "floor": 0.0, "cascade": False}),
        (f"eagle, depth 6, {nodes} nodes", "eagle", {"depth": 6, "nodes": nodes, "floor": 0.0, "cascade": False}),
        ("eagle as it comes", "eagle", {}),
    ]


def main() -> None:
    """Print the table; progress goes to standard error."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--prompts", type=int, default=8, help="prompts of each family")
    parser.add_argument("--nodes", type=int, default=16, help="most nodes of a tree")
    parser.add_argument("--tokens", type=int, default=160, help="most tokens of an answer")
    parser.add_argument("--draft", default="builtin-draft", help="draft model; '' leaves its methods out")
    parser.add_argument("--pard", default="builtin-draft", help="PARD draft model; '' leaves it out")
    parser.add_argument("--head", default="builtin-eagle", help="EAGLE head; '' leaves it out")
    parser.add_argument("--only", action="append", help="only this method (may be repeated)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = load_model("builtin", LoadOptions(device="cpu", dtype="float32"))
    loading = LoadOptions(device="cpu", dtype="float32")
    draft, pard = (load_model(name, loading) if name else None for name in (options.draft, options.pard))
    drafts = {"draft": draft, "tree": draft, "pard": pard}
    heads = {"eagle": find_model(options.head, loading).beside(options.head, target) if options.head else None}
    prompts: dict[str, list[list[int]]] = defaultdict(list)
    for name, messages in examples(options.prompts * 20):
        family = TASKS[name].family
        if family in FAMILIES and len(prompts[family]) < options.prompts:
            prompts[family].append(
                target.encode_chat([{"role": message["role"], "content": message["content"]} for message in messages[:-1]])
            )
    print(f"| | {' | '.join(FAMILIES)} | all |\n|---|{'---|' * (len(FAMILIES) + 1)}")
    plain: dict[tuple[str, int], list[int]] = {}
    for name_shown, method, settings in rows(options.nodes):
        lacking = method in {**drafts, **heads} and drafts.get(method) is None and heads.get(method) is None
        if lacking or (options.only and method not in options.only):
            continue
        start = time.monotonic()
        cells, all_tokens, all_steps = [], 0, 0
        for family in FAMILIES:
            tokens = steps = 0
            for i, prompt in enumerate(prompts[family]):
                conversation = Conversation(target, draft_model=drafts.get(method), head=heads.get(method))
                generation = Generation(conversation, prompt, method, settings=settings, max_tokens=options.tokens)
                for _ in generation:
                    pass
                conversation.close()
                if generation.answer != plain.setdefault((family, i), generation.answer):
                    sys.exit(f"{name_shown} gave other tokens than greedy on prompt {i} of {family}.")
                tokens, steps = tokens + generation.totals.tokens, steps + generation.totals.steps
            cells.append(f"{tokens / steps:.2f}")
            all_tokens, all_steps = all_tokens + tokens, all_steps + steps
        print(f"| {name_shown} | {' | '.join(cells)} | {all_tokens / all_steps:.2f} |", flush=True)
        print(f"{name_shown}: {time.monotonic() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
