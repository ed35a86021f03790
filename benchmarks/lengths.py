"""The cost of passes behind texts of several lengths, compared with transformers and llama-cpp-python, as one table.

    python -m specchat.benchmarks.lengths FOLDER [--dtypes bfloat16,int8] [--gguf FILE] [--lengths 128,1024,4096,8192]

- prefill: transformers' pass over the whole text ÷ ours, both from nothing.
- a pass: over one node, with the choice of its token; transformers' `forward`, or `Llama.eval`, ÷ ours.
- 8 and 64 nodes: ours over so many ÷ ours over one.

Medians of pairs in turn with 95% intervals (order statistics); of prefills fewer pairs, where they are long. Beside int8,
transformers runs in bfloat16. Prefill on llama.cpp is left out. With one thread, seconds are those of the processor, with
several the clock's. `python -m specchat.benchmarks.shapes` makes models, `python -m specchat.builtin.recipe.gguf_export` GGUF
files of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from specchat.backends import ROOT, LoadOptions, Model, Sampling, Session, load_model
from specchat.benchmarks.timing import interval, ordinary

NODES = (8, 64)
FEWEST = 3
"""Fewest pairs of prefills."""
SHORT = 1024
"""Prefills of a longer text are measured in fewer pairs: all in about the same time."""
ROOM = 128
"""Tokens that have to fit behind a text."""

Timed = Callable[[], float]
"""Runs something once; returns the seconds."""


def timed(run: Callable[[], object], after: Callable[[], object], clock: Callable[[], float]) -> Timed:
    """Make a function that times `run`, and then undoes it with `after`."""

    def once() -> float:
        start = clock()
        run()
        seconds = clock() - start
        after()
        return seconds

    return once


class Transformers:
    """transformers' own module.

    Args:
        folder: the model's.
        dtype: of the weights.
    """

    def __init__(self, folder: Path, dtype: str) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        kind = "bfloat16" if dtype == "int8" else dtype
        auto: Any = AutoModelForCausalLM
        self._module = auto.from_pretrained(folder, dtype=getattr(torch, kind)).eval()
        self._cache: Any = None

    def read(self, tokens: Sequence[int]) -> None:
        """Read a text from nothing."""
        self._cache = None
        self.follow(tokens)

    def follow(self, tokens: Sequence[int]) -> int:
        """Read further tokens; return the likeliest next one."""
        with torch.inference_mode():
            ids = torch.tensor([list(tokens)])
            out = self._module(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = out.past_key_values
        return int(out.logits[0, -1].argmax())

    def back(self) -> None:
        """Forget the last token."""
        self._cache.crop(-1)


class LlamaCpp:
    """llama-cpp-python's own class.

    Args:
        file: a GGUF file.
        threads: number of threads.
        context: most tokens.
    """

    def __init__(self, file: Path, threads: int, context: int) -> None:
        import llama_cpp

        self._model: Any = llama_cpp.Llama(
            str(file), n_ctx=context, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False
        )

    def read(self, tokens: Sequence[int]) -> None:
        """Read a text from nothing."""
        self._model.reset()
        self._model.eval(list(tokens))

    def follow(self, tokens: Sequence[int]) -> int:
        """Read further tokens; return the likeliest next one."""
        self._model.eval(list(tokens))
        return int(self._model.sample(temp=0.0))

    def back(self) -> None:
        """Forget the last token, which `eval` does before its next."""
        self._model.n_tokens -= 1


def ours(session: Session, nodes: int, clock: Callable[[], float]) -> Timed:
    """Make the measurement of one of our passes."""
    tokens, parents = ordinary(nodes), range(ROOT, nodes - 1)
    return timed(lambda: session.evaluate(tokens, parents).choose(Sampling()), lambda: session.commit(()), clock)


def row(model: Model, peer: Transformers | LlamaCpp, length: int, pairs: int, clock: Callable[[], float]) -> list[str]:
    """Measure a line of the table."""
    text, token = ordinary(length), ordinary(1)
    session = model.open_session(length + ROOM)
    count = pairs if length <= SHORT else max(FEWEST, pairs * SHORT // length)
    both = isinstance(peer, Transformers)
    read = timed(lambda: session.prefill(text), lambda: None, clock)
    theirs = timed(lambda: peer.read(text), lambda: None, clock)
    prefills, prefill_seconds = [], []
    for _ in range(count if both else 1):
        session.rewind(0)
        prefill_seconds.append(read())
        prefills.append(theirs() / prefill_seconds[-1])
    passes = {nodes: ours(session, nodes, clock) for nodes in (1, *NODES)}
    follow = timed(lambda: peer.follow(token), peer.back, clock)
    for warm in (*passes.values(), follow):
        warm()
    single, ratios_to_peer, more = [], [], {nodes: list[float]() for nodes in NODES}
    for _ in range(pairs):
        single.append(passes[1]())
        ratios_to_peer.append(follow() / single[-1])
        for nodes, ratios in more.items():
            ratios.append(passes[nodes]() / single[-1])
    session.close()
    first = [f"{median(prefill_seconds):.2f} s", f"{interval(prefills)}, {count} pairs"] if both else ["", ""]
    return [*first, f"{median(single) * 1e3:.1f} ms", interval(ratios_to_peer), *map(interval, more.values())]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtypes", default="bfloat16,int8")
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--lengths", default="128,1024,4096,8192")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    clock = time.process_time if options.threads == 1 else time.perf_counter
    lengths = [int(length) for length in options.lengths.split(",")]
    print(f"{options.threads} threads, {options.pairs} pairs, torch {torch.__version__}\n")
    print("| | tokens before | prefill | peer ÷ ours | a pass | peer ÷ ours | 8 nodes ÷ 1 | 64 nodes ÷ 1 |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    kinds = [kind for kind in options.dtypes.split(",") if kind] + ["gguf"] * (options.gguf is not None)
    for kind in kinds:
        peer: Transformers | LlamaCpp
        if kind == "gguf":
            load_options = LoadOptions(backend="llama.cpp", device="cpu", threads=options.threads, context=max(lengths) + ROOM)
            model, peer = (
                load_model(str(options.gguf), load_options),
                LlamaCpp(options.gguf, options.threads, max(lengths) + ROOM),
            )
        else:
            load_options = LoadOptions(device="cpu", dtype=kind, threads=options.threads)
            model, peer = load_model(str(options.folder), load_options), Transformers(options.folder, kind)
        for length in lengths:
            cells = row(model, peer, length, options.pairs, clock)
            print("| " + " | ".join([f"{model.info.backend}, {model.info.dtype}", f"{length:,}", *cells]) + " |", flush=True)
        model.close()
        del model, peer


if __name__ == "__main__":
    main()
