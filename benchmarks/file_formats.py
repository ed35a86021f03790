"""The cost of passes over several nodes, in plain passes, by the format of a GGUF file: finds the one that drafts cheaply here.

    python -m specchat.benchmarks.file_formats FILE.gguf … [--threads 2] [--rounds 10]

Processor time of the thread that decodes, the least of some rounds over all sizes, behind 64 tokens of prose; so other programs
may run meanwhile, though an idle machine gives smoother figures. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from specchat.backends import LoadOptions
from specchat.backends.base import ROOT
from specchat.backends.files.gguf_file import read_header
from specchat.backends.llama.context import Weights
from specchat.backends.llama.library import library
from specchat.backends.llama.options import choose_runtime, even_runtime
from specchat.backends.llama.session import Contexts
from specchat.backends.llama.tokenizer import LlamaCodec
from specchat.backends.pass_times import BEHIND
from specchat.backends.proof_text import proof_text

SIZES = (1, 2, 4, 8, 16)


def least_seconds(file: Path, threads: int, rounds: int) -> tuple[str, dict[int, float]]:
    """Time passes of one file.

    Returns:
        the file's type, and the least seconds of a pass by its nodes.
    """
    options, header = LoadOptions(threads=threads, device="cpu"), read_header(file)
    library()
    runtime = choose_runtime(options, header)
    runtime = even_runtime(runtime, options) or runtime
    weights = Weights(file, runtime, lambda _: True)
    text = proof_text(LlamaCodec(weights), weights.vocabulary, BEHIND + max(SIZES))
    session = Contexts(weights, header).open_session(runtime, 256, alike=True)
    session.prefill(text[:BEHIND])
    least = dict.fromkeys(SIZES, float("inf"))
    for _ in range(rounds):
        for nodes in SIZES:
            start = time.thread_time()
            session.evaluate(text[BEHIND : BEHIND + nodes], range(ROOT, nodes - 1))
            least[nodes] = min(least[nodes], time.thread_time() - start)
            session.commit(())
    session.close()
    return weights.file_type, least


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    print("| file | plain pass, ms |", " | ".join(f"{nodes} nodes" for nodes in SIZES[1:]), "|")
    print("|---|---:|" + "---:|" * (len(SIZES) - 1))
    for file in options.files:
        kind, least = least_seconds(file, options.threads, options.rounds)
        costs = " | ".join(f"{least[nodes] / least[1]:.1f}" for nodes in SIZES[1:])
        print(f"| {kind} | {1000 * least[1]:.1f} | {costs} |", flush=True)


if __name__ == "__main__":
    main()
