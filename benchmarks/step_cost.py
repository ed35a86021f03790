"""What a plain step costs beside transformers' own `generate`, and what a pass over n nodes costs beside one over 1.

    python -m specchat.benchmarks.step_cost [--model builtin|tiny|FOLDER] [--dtype float32] [--tokens 128] [--pairs 15]

Both decode the same prompt greedily, turn by turn, so that whatever else the machine does falls on both alike; what counts is
the ratio within a pair. Prints the median of the ratios with a 95 % interval (order statistics). With one thread, seconds are
CPU seconds, which other programs lengthen less; with several they are the clock's.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specchat.backends import ROOT, LoadOptions, Model, Sampling, load_model
from specchat.backends.loading import builtin_path

GREEDY = Sampling()
clock = time.process_time


def tiny(folder: Path) -> Path:
    """An 8-layer Llama of width 256 (7.9 M parameters) with random weights, and the built-in model's tokenizer."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    auto: Any = AutoModelForCausalLM
    auto.from_config(config).save_pretrained(folder)
    for file in builtin_path().glob("*token*"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def ours(model: Model, prompt: Sequence[int], count: int) -> tuple[list[int], float]:
    """Tokens and seconds of our loop of one-node steps, prefill not counted."""
    session = model.open_session()
    session.prefill(prompt[:-1])
    out = [prompt[-1]]
    begun = clock()
    for _ in range(count):
        scores = session.evaluate(out[-1:], (ROOT,))
        out += scores.choose(GREEDY)
        session.commit((0,))
    return out[1:], clock() - begun


def theirs(module: Any, prompt: Sequence[int], count: int, **how: Any) -> tuple[list[int], float]:
    """Tokens and seconds of `generate`, which takes the other arguments; the time to the first token is not counted."""
    from transformers.generation.streamers import BaseStreamer

    class Clock(BaseStreamer):
        begun = 0.0
        calls = 0

        def put(self, value: Any) -> None:
            # The prompt, then each token.
            self.calls += 1
            if self.calls == 2:
                self.begun = clock()

        def end(self) -> None:
            pass

    watch: Any = Clock()
    ids = torch.tensor([list(prompt)], device=module.device)
    length = {**how, "max_new_tokens": count + 1, "min_new_tokens": count + 1, "eos_token_id": None, "pad_token_id": 0}
    out = module.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, streamer=watch, **length)
    return out[0, len(prompt) :].tolist(), clock() - watch.begun


def interval(values: Sequence[float]) -> str:
    """Median and its 95 % interval by order statistics."""
    values = sorted(values)
    n = len(values)
    reach = round(0.98 * n**0.5)
    return f"{statistics.median(values):.2f} ({values[max(0, n // 2 - reach)]:.2f} to {values[min(n - 1, n // 2 + reach)]:.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    options = parser.parse_args()
    if options.threads > 1:
        global clock
        clock = time.perf_counter

    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as room:
        folder = {"builtin": builtin_path(), "tiny": Path(room)}.get(options.model, Path(options.model))
        if options.model == "tiny":
            tiny(folder)
        model = load_model(str(folder), LoadOptions(device="cpu", dtype=options.dtype, threads=options.threads))
        module: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, options.dtype))
        module.eval()
    prompt = [(97 * i) % (model.info.vocabulary - 8) + 4 for i in range(options.prompt)]
    ours(model, prompt, 16)
    theirs(module, prompt, 16)

    ratios, mine, other, same = [], [], [], True
    for turn in range(options.pairs):
        if turn % 2:
            (b, tb), (a, ta) = theirs(module, prompt, options.tokens), ours(model, prompt, options.tokens)
        else:
            (a, ta), (b, tb) = ours(model, prompt, options.tokens), theirs(module, prompt, options.tokens)
        same &= a == b[: len(a)]
        ratios.append(tb / ta)
        mine.append(ta / options.tokens * 1e3)
        other.append(tb / options.tokens * 1e3)
    print(f"{options.model}: {model.info.parameters / 1e6:.1f} M parameters, {options.threads} threads, {torch.__version__}")
    print(f"the same {options.tokens} tokens: {same}")
    print(f"ms per token: ours {statistics.median(mine):.2f}, generate {statistics.median(other):.2f}")
    print(f"speed, ours : generate = {interval(ratios)}")

    session = model.open_session()
    session.prefill(prompt)
    costs: dict[int, list[float]] = {n: [] for n in (1, 2, 4, 8, 16, 32)}
    for _ in range(options.pairs):
        for n, seconds in costs.items():
            begun = clock()
            session.evaluate(prompt[:n], range(ROOT, n - 1)).choose(GREEDY)
            seconds.append(clock() - begun)
            session.commit(())
    one = statistics.median(costs[1])
    print("l_t(n) / l_t(1):", ", ".join(f"{n}: {statistics.median(c) / one:.2f}" for n, c in costs.items()))


if __name__ == "__main__":
    main()
