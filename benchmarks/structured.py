"""Cost and gain of constrained answers: masks by vocabulary, and tokens a pass including those that the grammar writes.

    python -m specchat.benchmarks.structured [--model MODEL] [--prompts N] [--pairs N] [--vocabulary FILE.gguf|FOLDER …]

For each vocabulary (from a GGUF file, or a folder with a tokenizer.json) prints microseconds of
processor time for a mask, for a look whether one token may follow, and for putting a mask on a row of scores: median and 99th
percentile over the places of valid answers, each walked twice. For the model prints, by schema, tokens a pass and tokens per
second of processor time of greedy decoding: one token a pass under a full mask; with what the grammar writes; and lookup.
With `--pairs` prints tokens/s of greedy answers under each constraint ÷ those of a free answer, in turn, and the same of the
seconds of a pass; by the clock, on `--threads`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from specchat.backends import LoadOptions, Sampling, load_model
from specchat.backends.grammars.matcher import Matcher
from specchat.backends.scores import TorchScores
from specchat.benchmarks.timing import interval
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.tests.decoders.constrained.cases import CONSTRAINTS, SCHEMAS, prompts
from specchat.tests.fakes.answers import one_by_one
from specchat.tests.fakes.constraints import json_schema

ANSWERS: dict[str, list[Any]] = {
    "flat": [
        {"name": "Anna Miller", "age": 31, "city": "Paris"},
        {"name": "Ben", "age": 7, "city": "Oslo"},
        {"name": "Zoë Ångström", "age": 120, "city": "Vienna"},
    ],
    "nested": [
        {"people": [{"name": "Carla Ruiz", "role": "cook"}, {"name": "David", "role": "pilot"}], "done": True},
        {"people": [{"name": "Elena", "role": "teacher"}], "done": False},
    ],
    "array": [["apples", "pears", "plums"], ["tea", "rye bread"]],
}


def vocabulary(path: Path) -> Any:
    """Load llguidance's tokenizer of a vocabulary."""
    if path.is_dir():
        from llguidance import LLTokenizer

        return LLTokenizer((path / "tokenizer.json").read_text(encoding="utf-8"))
    import llama_cpp
    from llguidance.llamacpp import lltokenizer_from_vocab

    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    tokenizer = lltokenizer_from_vocab(llama_cpp.llama_model_get_vocab(model.model))
    _kept.append(model)
    return tokenizer


_kept: list[Any] = []
"""Models whose vocabulary is in use."""


def costs(tokenizer: Any) -> dict[str, list[float]]:
    """Measure the processor seconds of each operation, at each place of the answers."""
    seconds: dict[str, list[float]] = {"mask": [], "look": [], "row": []}

    def timed(what: str, work: Callable[[], Any]) -> Any:
        start = time.thread_time()
        out = work()
        seconds[what].append(time.thread_time() - start)
        return out

    logits = torch.randn(1, tokenizer.vocab_size)
    scores = TorchScores(logits, (0,), (1,))
    for name, answers in ANSWERS.items():
        for answer in answers:
            tokens = tokenizer.tokenize_str(json.dumps(answer, ensure_ascii=False))
            for _ in range(2):
                matcher = Matcher(tokenizer, json_schema(SCHEMAS[name]))
                for at, token in enumerate(tokens):
                    matcher.follow(tokens[:at], 0)
                    mask = timed("mask", partial(matcher.mask, ()))
                    timed("look", partial(matcher.may_follow, (), token))
                    timed("row", partial(scores.masked, (0,), (mask,)))
    return seconds


def gain(spec: str, count: int) -> None:
    model = load_model(spec, LoadOptions(threads=1))
    print(f"\n{model.info.name}, {model.info.backend}, {count} prompts:")
    print("tokens a pass (without what the grammar wrote), tokens/s of processor time")
    for name, constraint in CONSTRAINTS.items():
        line = [f"{name:8}"]
        for method in ("mask alone", "greedy", "lookup"):
            tokens = passes = written = 0
            start = time.process_time()
            for text in prompts(count):
                prompt = encode_prompt(model, text)
                if method == "mask alone":
                    answer = one_by_one(model, prompt, Sampling(), 120, constraint)
                    tokens, passes = tokens + len(answer), passes + len(answer)
                    continue
                conversation = Conversation(model)
                generation = Generation(conversation, prompt, method, constraint=constraint, max_tokens=120)
                for _ in generation:
                    pass
                totals = generation.totals
                tokens, passes, written = tokens + totals.tokens, passes + totals.steps, written + totals.grammar
                conversation.close()
            seconds = time.process_time() - start
            by_model = f" ({(tokens - written) / passes:.2f})" if written else ""
            line.append(f"{method} {tokens / passes:.2f}{by_model} {tokens / seconds:.0f}/s")
        print(" · ".join(line), flush=True)


def beside_plain(spec: str, pairs: int, threads: int) -> None:
    """Print the speed of constrained answers ÷ that of free ones, by the clock, without prefill."""
    model = load_model(spec, LoadOptions(threads=threads))
    prompt = encode_prompt(model, prompts(1)[0])

    def timed(constraint: Any) -> tuple[float, float]:
        """Measure tokens per second, and seconds of a pass, after the first step."""
        conversation = Conversation(model)
        generation = Generation(conversation, prompt, "greedy", constraint=constraint, max_tokens=32)
        first, start = next(generation), time.perf_counter()
        for _ in generation:
            pass
        seconds, totals = time.perf_counter() - start, generation.totals
        conversation.close()
        if totals.steps < 2:
            return 0.0, 0.0
        return (totals.tokens - len(first.tokens)) / seconds, seconds / (totals.steps - 1)

    print(f"\n{model.info.name}, {model.info.backend}, {threads} threads, constrained ÷ free, {pairs} pairs (95% intervals):")
    for name, constraint in CONSTRAINTS.items():
        pairs_measured = [(timed(None), timed(constraint)) for _ in range(pairs)]
        if not pairs_measured[0][1][0]:
            print(f"{name:8} · one pass")
            continue
        speeds = interval([ours[0] / free[0] for free, ours in pairs_measured])
        print(
            f"{name:8} · tokens/s {speeds} · a pass {interval([ours[1] / free[1] for free, ours in pairs_measured])}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--vocabulary", type=Path, action="append", default=[])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for path in options.vocabulary:
        tokenizer = vocabulary(path)
        figures = []
        for what, seconds in costs(tokenizer).items():
            ordered = sorted(seconds)
            figures.append(f"{what} {median(ordered) * 1e6:.0f} / {ordered[int(0.99 * len(ordered))] * 1e6:.0f} µs")
        print(f"{path.name}: {tokenizer.vocab_size:,} tokens: {', '.join(figures)} (median / 99th percentile)", flush=True)
    if options.prompts:
        gain(options.model, options.prompts)
    if options.pairs:
        beside_plain(options.model, options.pairs, options.threads)


if __name__ == "__main__":
    main()
