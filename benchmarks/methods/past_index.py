"""What an index of past answers costs: building, opening, a search, removing, bytes.

    python -m specchat.benchmarks.methods.past_index [--tokens 10_000_000]

The answers are random: 499 tokens each, word frequencies as in language (Zipf, exponent 1.3, 32,000 words). Half of the
searches are for a context that occurs, half for one of which only the last three tokens do.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np

from specchat.decoders.past.index import Past

ANSWER = 499
SEARCHES = 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    words = random.zipf(1.3, options.tokens) % 32_000
    answers = [(i, words[i * ANSWER : (i + 1) * ANSWER]) for i in range(options.tokens // ANSWER)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        begun = perf_counter()
        Past(folder).add(answers)
        print(f"built in {perf_counter() - begun:.1f} s")
        size = sum(file.stat().st_size for file in folder.iterdir())
        begun = perf_counter()
        past = Past(folder)
        print(f"opened in {(perf_counter() - begun) * 1e3:.1f} ms; {len(past):,} tokens, {size / len(past):.2f} bytes each")
        seconds = []
        for i in range(SEARCHES):
            at = int(random.integers(64, len(words) - 64))
            text = words[at - 64 : at].tolist()
            if i % 2:
                text[:-3] = random.integers(0, 32_000, 61).tolist()
            begun = perf_counter()
            past.lines(text, 32, 32)
            seconds.append(perf_counter() - begun)
        print(f"a search: {median(seconds) * 1e6:.0f} µs (median of {SEARCHES})")
        begun, cpu = perf_counter(), process_time()
        past.forget(range(100, 110))
        took = process_time() - cpu
        print(f"ten answers removed in {perf_counter() - begun:.2f} s, {took:.2f} s of processor time")


if __name__ == "__main__":
    main()
