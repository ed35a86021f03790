"""Whether sampled answers copy more of their prompt where drafts come from it: shares of n-grams, with lookup and without.

    python -m specchat.benchmarks.methods.copying [--answers 2000] [--temperature 1.5] [--tokens 32] [--n 3]

The built-in model answers questions about a text, and requests to edit or to copy one, which training never saw. Each prompt is
answered once without drafts (seed i), once with prompt lookup under each rule, and once more without drafts, which tells how
far apart two samples of one distribution are. Under the exact rule seed i must give the same text; the others have seeds of
their own. `soft:0.9` is lossy: it shows that the measure finds a rule that copies more.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from math import sqrt
from operator import eq
from statistics import mean, stdev

import torch

from specchat.backends import LoadOptions, Model, Sampling, load_model
from specchat.builtin.recipe.corpus import TASKS, draw_task
from specchat.builtin.recipe.generators.draw import Draw
from specchat.decoders import Conversation, Generation
from specchat.decoders.acceptance import Acceptance

FAMILIES = ("copy", "edit", "extract", "passage")
"""Families whose prompts have a text to copy from."""

ARMS = (("lookup", "exact"), ("lookup", "rejection"), ("greedy", "exact"), ("lookup", "soft:0.9"))
"""(method, rule), each compared with plain sampling."""


def prompts(model: Model) -> Iterator[list[int]]:
    """Held-out prompts without end, the tasks in turn."""
    names = [name for name, task in TASKS.items() if task.family in FAMILIES]
    for i in count():
        for name in names:
            messages = draw_task(name, Draw(f"copying/{name}/{i}", held_out=True))[:-1]
            yield model.encode_chat([{"role": message["role"], "content": message["content"]} for message in messages])


@dataclass(frozen=True, slots=True)
class Sampled:
    """Answers to some prompts."""

    texts: list[list[int]]
    shares: list[float]
    """Share of each answer's n-grams that stand in its prompt (0 … 1)."""
    drafted: float
    """The share of their tokens that were drafted."""


def sample(
    model: Model, asked: Sequence[list[int]], method: str, rule: str, sampling: Sampling, tokens: int, n: int
) -> Sampled:
    """Answer each prompt once, with seeds from the one in `sampling` on; at most `tokens` each."""
    texts, accepted = [], 0
    for number, prompt in enumerate(asked):
        conversation = Conversation(model)
        seeded = replace(sampling, seed=sampling.seed + number)
        rules = Acceptance.parse(rule)
        generation = Generation(conversation, prompt, method, sampling=seeded, max_tokens=tokens, acceptance=rules)
        for _ in generation:
            pass
        conversation.close()
        texts.append(generation.answer)
        accepted += generation.totals.accepted
    shares = [copied(prompt, text, n) for prompt, text in zip(asked, texts, strict=True)]
    return Sampled(texts, shares, accepted / sum(map(len, texts)))


def copied(prompt: Sequence[int], tokens: Sequence[int], n: int) -> float:
    """The share of an answer's n-grams that stand in its prompt; 0 where it has none."""
    there = {tuple(prompt[i : i + n]) for i in range(len(prompt) - n + 1)}
    own = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return sum(gram in there for gram in own) / len(own) if own else 0.0


def difference(some: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The mean difference of pairs, and half of its 95% interval."""
    pairs = [one - other for one, other in zip(some, others, strict=True)]
    return mean(pairs), 1.96 * stdev(pairs) / sqrt(len(pairs))


def main() -> None:
    """Print a row for each way of decoding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--temperature", type=float, default=1.5)
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of an answer")
    parser.add_argument("--n", type=int, default=3, help="tokens of an n-gram")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model("builtin", LoadOptions(device="cpu", dtype="float32"))
    asked = list(islice(prompts(model), options.answers))

    sampling = Sampling(options.temperature)
    plain = sample(model, asked, "greedy", "exact", sampling, options.tokens, options.n)
    total = sum(map(len, plain.texts))
    print(f"{len(asked)} answers, {total:,} tokens, temperature {options.temperature:g}, {options.n}-grams")
    print(f"{'plain sampling':28}{mean(plain.shares):8.4f}", flush=True)
    for number, (method, rule) in enumerate(ARMS):
        same = method != "greedy" and rule == "exact"
        seeded = sampling if same else replace(sampling, seed=number * len(asked))
        found = sample(model, asked, method, rule, seeded, options.tokens, options.n)
        apart, half = difference(found.shares, plain.shares)
        name = "plain sampling, other seeds" if method == "greedy" else f"{method}, {rule}"
        told = f"; {sum(map(eq, found.texts, plain.texts))} texts the same" if same else ""
        share = f"{mean(found.shares):8.4f}  {apart:+.4f} ± {half:.4f}"
        print(f"{name:28}{share}  drafted {found.drafted:.2f} of the tokens{told}", flush=True)


if __name__ == "__main__":
    main()
