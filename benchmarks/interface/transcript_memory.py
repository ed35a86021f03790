"""Memory of a long answer: its runs, its step log and its wrapped lines, in bytes per token.

    python -m specchat.benchmarks.interface.transcript_memory [--tokens 600000] [--nodes 16] [--width 100] [--probs]

Steps of one to six tokens with token trees, made as they would come in and let go at once, so that only what the transcript
keeps is counted (`tracemalloc`). Prints JSON: bytes per token of everything and of each part.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tracemalloc
from collections.abc import Iterator

from specchat.app.chat.entries import Answer
from specchat.app.render.blocks import EntryBlock
from specchat.engine.messages import StepRecord

WORDS = "the lamp on a northern rock was lit each evening by Ana who wrote down what the weather had been like that day".split()
WRAP_EVERY = 20
"""Steps between two looks at the text, as with 20 steps a frame."""


def steps(tokens: int, nodes: int, *, probs: bool, seed: int = 1) -> Iterator[StepRecord]:
    """Make steps of one to six tokens, so many in all, each with a tree of `nodes` nodes."""
    pick = random.Random(seed)
    made = 0
    while made < tokens:
        count = min(pick.randint(1, 6), nodes, tokens - made)
        text = "".join(
            f" {pick.choice(WORDS)}" if pick.random() > 0.02 else pick.choice((".\n\n", ".", ",", "\n")) for _ in range(count)
        )
        yield StepRecord(
            "fusion",
            [pick.randrange(50_000) for _ in range(count)],
            text,
            nodes - 1,
            count - 1,
            nodes,
            0.0002 + pick.random() * 1e-4,
            0.0100 + pick.random() * 1e-3,
            0.0003,
            tree_tokens=[pick.randrange(50_000) for _ in range(nodes)],
            tree_parents=[-1, *(pick.randrange(node) for node in range(1, nodes))],
            path=list(range(count)),
            probs=[pick.random() for _ in range(nodes)] if probs else [],
        )
        made += count


def held() -> int:
    """Bytes in use, after a collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def measure(tokens: int, nodes: int, width: int, *, probs: bool) -> dict[str, float | int]:
    """Bytes per token of everything that an answer of `tokens` tokens keeps, and of its parts.

    Args:
        tokens: of the answer.
        nodes: of each step's tree.
        width: cells of a line.
        probs: whether every node has its probability, as while the tree is watched.
    """
    tracemalloc.start()
    before = held()
    answer = Answer("fusion", "identical")
    block = EntryBlock(answer, width)
    for number, step in enumerate(steps(tokens, nodes, probs=probs)):
        answer.add(step)
        if number % WRAP_EVERY == 0:
            block.update()
    answer.finish("eos")
    block.update()
    whole = held() - before
    del step
    runs, rows = len(answer.runs), len(block.flow.lines)
    sizes = {}
    # What is let go in this order is what each part held; what two of them share counts with the later one.
    for name, owner, parts in (("lines", block, ("sections",)), ("log", answer, ("log",)), ("runs", answer, ("runs",))):
        start = held()
        for part in parts:
            delattr(owner, part)
        sizes[name] = start - held()
    tracemalloc.stop()
    return {
        "tokens": tokens,
        "runs": runs,
        "rows": rows,
        "tree_nodes": nodes,
        "bytes_per_token": round(whole / tokens, 1),
        **{f"{name}_bytes_per_token": round(size / tokens, 1) for name, size in sizes.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=600_000)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--probs", action="store_true", help="as while the tree is watched")
    given = parser.parse_args()
    print(json.dumps(measure(given.tokens, given.nodes, given.width, probs=given.probs)))


if __name__ == "__main__":
    main()
