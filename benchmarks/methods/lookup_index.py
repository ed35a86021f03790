"""Time and memory of prompt lookup at a long context: µs per draft and per appended token, bytes per token.

    python -m specchat.benchmarks.methods.lookup_index [--length 131072] [--drafts 2000] [--nodes 16]

Each text is indexed up to `length` less `drafts` tokens, then grows by one token before each timed draft. Memory is what
tracemalloc counts after that, the text itself (8 bytes a token in the caller's list) not included.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from statistics import median, quantiles

from specchat.backends.base import Sampling
from specchat.backends.recorded import RecordedModel
from specchat.decoders.base import Context
from specchat.decoders.methods.lookup import Lookup, LookupParams

VOCABULARY = 32_000


def random_text(n: int) -> list[int]:
    """Nothing repeats but single tokens."""
    rng = random.Random(1)
    return [rng.randrange(VOCABULARY) for _ in range(n)]


def one_token(n: int) -> list[int]:
    """Everything matches everywhere."""
    return [7] * n


def binary(n: int) -> list[int]:
    """Two tokens at random: every short n-gram has thousands of occurrences, which go on differently."""
    rng = random.Random(2)
    return [rng.randrange(2) for _ in range(n)]


def twice(n: int) -> list[int]:
    """Random text and its copy: all n-grams occur twice, which fills every order of the index."""
    return random_text(n // 2) * 2


def markov(n: int) -> list[int]:
    """Like text: each pair of tokens has a few successors with falling probability; about 4 bits a token."""
    rng = random.Random(3)
    out = [1, 2]
    while len(out) < n:
        # The state picks its successors by a hash; popular tokens (a cube of a uniform draw) come up most.
        choice = random.Random(out[-2] % 50 * VOCABULARY + out[-1])
        successors = [int(VOCABULARY * choice.random() ** 3) for _ in range(24)]
        out.append(successors[int(24 * rng.random() ** 1.5)])
    return out


def measure(text: list[int], drafts: int, params: LookupParams) -> tuple[list[float], float, float]:
    """Seconds of each draft, seconds per token of the first catch-up, bytes per token."""
    session = RecordedModel([((0,), (0,))]).open_session()
    tokens = text[:-drafts]
    context = Context(tokens, session, Sampling(), room=1000, eos_ids=frozenset({VOCABULARY}))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    drafter = Lookup(params)
    drafter.draft(context)
    gc.collect()
    used = (tracemalloc.get_traced_memory()[0] - before) / len(tokens)
    tracemalloc.stop()

    drafter = Lookup(params)
    start = time.thread_time()
    drafter.draft(context)
    append = (time.thread_time() - start) / len(tokens)
    seconds = []
    for token in text[-drafts:]:
        tokens.append(token)
        start = time.thread_time()
        drafter.draft(context)
        seconds.append(time.thread_time() - start)
    return seconds, append, used


def main() -> None:
    """Print one row for each text and variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=131_072)
    parser.add_argument("--drafts", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=LookupParams().nodes)
    options = parser.parse_args()
    texts: tuple[Callable[[int], list[int]], ...] = (random_text, one_token, binary, twice, markov)
    print(f"{options.length:,} tokens of context, {options.drafts} drafts, {options.nodes} nodes")
    print(f"{'text':14}{'variant':11}{'median µs':>10}{'p99 µs':>8}{'append µs':>11}{'bytes/token':>13}")
    for make in texts:
        text = make(options.length)
        for params in (LookupParams(nodes=options.nodes), LookupParams(variant="reference")):
            seconds, append, used = measure(text, options.drafts, params)
            p99 = quantiles(seconds, n=100)[98]
            print(
                f"{make.__name__:14}{params.variant:11}{median(seconds) * 1e6:10.1f}{p99 * 1e6:8.1f}"
                f"{append * 1e6:11.2f}{used:13.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
