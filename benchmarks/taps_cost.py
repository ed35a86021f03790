"""What hidden states cost: one-node passes of a session with taps beside the same passes without, in interleaved pairs.

    python -m specchat.benchmarks.taps_cost [--model builtin|FOLDER|FILE] [--backend transformers|llama.cpp] [--taps 2 4 5]
        [--pairs 24]

Both sessions take the same tokens, and which one goes first takes turns. CPU seconds of one thread, which other programs
lengthen less than the clock's. Prints the median of the ratios with a 95 % interval (order statistics).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from specchat.backends import ROOT, LoadOptions, Model, load_model

from .step_cost import interval

PROMPT = [10 + i % 500 for i in range(100)]


def passes(model: Model, taps: Sequence[int], count: int) -> float:
    """CPU seconds of one-node passes behind the prompt, with their commits."""
    session = model.open_session(len(PROMPT) + count, taps)
    session.prefill(PROMPT)
    begun = time.process_time()
    for token in range(10, 10 + count):
        session.evaluate((token,), (ROOT,))
        session.commit((0,))
    spent = time.process_time() - begun
    session.close()
    return spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--backend", default="transformers")
    parser.add_argument("--taps", type=int, nargs="+", default=[2, 4, 5])
    parser.add_argument("--tokens", type=int, default=64, help="passes of a session")
    parser.add_argument("--pairs", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(options.model, LoadOptions(device="cpu", threads=1, backend=options.backend))
    ratios, plain = [], []
    for number in range(-2, options.pairs):  # two pairs warm up
        ways = [(), options.taps] if number % 2 else [options.taps, ()]
        seconds = {bool(taps): passes(model, taps, options.tokens) for taps in ways}
        if number >= 0:
            ratios.append(seconds[True] / seconds[False])
            plain.append(seconds[False] / options.tokens)
    print(f"one-node pass without taps: {1000 * statistics.median(plain):.2f} ms")
    print(f"with taps {options.taps} : without = {interval(ratios)}")


if __name__ == "__main__":
    main()
