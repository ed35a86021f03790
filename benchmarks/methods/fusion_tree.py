"""Time and memory of fusion at a long context: µs per tree, per appended token and per `learn`, bytes per token.

    python -m benchmarks.methods.fusion_tree [--length 32768] [--drafts 1000] [--nodes 16,64]

Each text is indexed up to `length` less `drafts` tokens, then grows by one token before each timed draft. Seconds are those
of this thread, so that other processes on the machine do not count. Memory is what tracemalloc counts, the text itself not
included.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable
from statistics import mean, median, quantiles

from specchat.backends.base import Sampling
from specchat.backends.recorded import RecordedModel
from specchat.decoders.acceptance import walk
from specchat.decoders.base import Context, Verified
from specchat.decoders.methods.fusion import Fusion, FusionParams

from .lookup_index import VOCABULARY, binary, markov, one_token, random_text, twice


def measure(text: list[int], drafts: int, params: FusionParams) -> tuple[list[float], list[float], float, float]:
    """Seconds of each draft and of each learning, seconds per token of the first catch-up, bytes per token."""
    model = RecordedModel([(text[:1], text[1:])])
    session = model.open_session()
    tokens = text[:-drafts]
    context = Context(tokens, session, Sampling(), room=1000, eos_ids=frozenset({VOCABULARY}))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    drafter = Fusion(params)
    drafter.draft(context)
    gc.collect()
    used = (tracemalloc.get_traced_memory()[0] - before) / len(tokens)
    tracemalloc.stop()

    drafter = Fusion(params)
    start = time.thread_time()
    drafter.draft(context)
    append = (time.thread_time() - start) / len(tokens)
    session.prefill(tokens[:-1])
    drafting, learning = [], []
    for token in text[-drafts:]:
        start = time.thread_time()
        tree = drafter.draft(context)
        drafting.append(time.thread_time() - start)
        # The choice after each node is the text's; off it, nothing that the text holds.
        scores = session.evaluate(tree.tokens, tree.parents)
        chosen = scores.choose(context.sampling)
        path = walk(tree, chosen)
        session.commit(path[:1])
        start = time.thread_time()
        drafter.learn(Verified(tree, chosen, path, scores))
        learning.append(time.thread_time() - start)
        tokens.append(token)
    return drafting, learning, append, used


def main() -> None:
    """Print one row for each text and budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=32_768)
    parser.add_argument("--drafts", type=int, default=1000)
    parser.add_argument("--nodes", default="16,64")
    options = parser.parse_args()
    texts: tuple[Callable[[int], list[int]], ...] = (random_text, one_token, binary, twice, markov)
    print(f"{options.length:,} tokens of context, {options.drafts} drafts")
    columns = {"median µs": 11, "mean µs": 9, "p99 µs": 8, "learn µs": 10, "append µs": 11, "bytes/token": 13}
    print(f"{'text':14}{'nodes':>6}" + "".join(f"{name:>{width}}" for name, width in columns.items()))
    for make in texts:
        text = make(options.length)
        for nodes in options.nodes.split(","):
            # Recycling is timed with a real model: here there is none whose successors could be kept.
            drafting, learning, append, used = measure(text, options.drafts, FusionParams(nodes=int(nodes), recycle=0))
            p99 = quantiles(drafting, n=100)[98]
            print(
                f"{make.__name__:14}{nodes:>6}{median(drafting) * 1e6:11.1f}{mean(drafting) * 1e6:9.1f}{p99 * 1e6:8.1f}"
                f"{mean(learning) * 1e6:10.1f}{append * 1e6:11.2f}{used:13.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
