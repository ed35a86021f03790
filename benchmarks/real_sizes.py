"""What passes cost on a model of a size that people run, on either runtime; one table.

    python -m specchat.benchmarks.real_sizes MODEL [--backend llama.cpp] [--dtype bfloat16] [--rows passes,reading,busy,lookup]

- passes: over n nodes ÷ over one, all sizes in turn.
- reading: bytes of the weights that a one-node pass reads ÷ its seconds, as a share of the bandwidth at which this machine
  reads memory (the sum of a gigabyte, on as many threads), both in turn.
- busy: a one-node pass beside one spinning process per core ÷ without them, in turn. The machine is given a few passes each
  time to notice.
- lookup: tokens per second with `lookup` at its defaults ÷ with plain decoding, sampled at temperature 1 from the same seed, so
  that a model with random weights says nothing twice: there is nothing to copy.

Medians of pairs with 95% intervals (order statistics). `python -m specchat.benchmarks.shapes` makes the models.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from specchat.backends import ROOT, LoadOptions, Model, Sampling, Session, load_model
from specchat.benchmarks.step_cost import interval
from specchat.decoders import Conversation, Generation

SIZES = (2, 4, 8, 16)
NOTICED = 12
"""Passes that a machine is given to notice that it is busy, or no more."""


def ordinary(count: int, start: int = 0) -> list[int]:
    """Some tokens, the same ones again after 2,000."""
    return [(97 * i) % 2000 + 8 for i in range(start, start + count)]


def opened(model: Model) -> Session:
    """A session with a short text in it."""
    session = model.open_session()
    session.prefill(ordinary(64))
    return session


def seconds(session: Session, nodes: int = 1) -> float:
    """Time one pass."""
    begun = time.perf_counter()
    session.evaluate(ordinary(nodes), range(ROOT, nodes - 1)).choose(Sampling())
    taken = time.perf_counter() - begun
    session.commit(())
    return taken


def passes(model: Model, pairs: int) -> Iterator[str]:
    """Passes by nodes."""
    session = opened(model)
    ratios: dict[int, list[float]] = {nodes: [] for nodes in SIZES}
    ones = []
    for _ in range(pairs):
        for nodes in SIZES:
            one = seconds(session)
            ratios[nodes].append(seconds(session, nodes) / one)
            ones.append(one)
    session.close()
    yield f"a pass over one node: {statistics.median(ones) * 1e3:.1f} ms"
    for nodes, found in ratios.items():
        yield f"over {nodes} nodes ÷ one: {interval(found)}"


def weights_read(model: Model) -> int:
    """Bytes of weights in a one-node pass: all but the table of embeddings, of which it reads one row."""
    if model.info.backend == "llama.cpp":
        import gguf

        reader = gguf.GGUFReader(model.info.path)
        names = {tensor.name for tensor in reader.tensors}
        return sum(int(t.n_bytes) for t in reader.tensors if t.name != "token_embd.weight" or "output.weight" not in names)
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model.info.path)
    table = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    size: int = getattr(torch, model.info.dtype).itemsize
    return ((model.info.parameters or 0) - table) * size


def reading(model: Model, pairs: int) -> Iterator[str]:
    """The share of the memory's bandwidth."""
    session, memory, weights = opened(model), torch.ones(1 << 28), weights_read(model)
    memory.sum()
    shares, rates = [], []
    for _ in range(pairs):
        begun = time.perf_counter()
        memory.sum()
        rate = memory.nbytes / (time.perf_counter() - begun)
        seconds(session)  # the first behind something else is slower
        shares.append(weights / seconds(session) / rate)
        rates.append(rate)
    session.close()
    yield f"memory is read at {statistics.median(rates) / 1e9:.1f} GB/s, weights at {interval(shares)} of that"


def _spin() -> None:
    while True:
        pass


@contextmanager
def spinning() -> Iterator[Callable[[bool], None]]:
    """One process per core that computes without end; what is given makes them go on or wait."""
    cores = len(os.sched_getaffinity(0))
    made = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(cores)]
    for process in made:
        process.start()
    time.sleep(3)

    def go(on: bool) -> None:
        for process in made:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGCONT if on else signal.SIGSTOP)

    go(False)
    try:
        yield go
    finally:
        for process in made:
            process.kill()


def busy(model: Model, pairs: int) -> Iterator[str]:
    """Beside spinning processes."""
    session = opened(model)
    ratios, threads = [], []
    with spinning() as go:
        for _ in range(pairs):
            taken = []
            for on in (False, True):
                go(on)
                for _ in range(NOTICED):
                    seconds(session)
                taken.append(statistics.fmean(seconds(session) for _ in range(NOTICED)))
                threads.append(torch.get_num_threads())
            ratios.append(taken[1] / taken[0])
    session.close()
    yield f"beside a spinning process per core ÷ alone: {interval(ratios)}; torch threads seen {sorted(set(threads))}"


def lookup(model: Model, pairs: int) -> Iterator[str]:
    """`lookup` where there is nothing to copy."""
    kept = {name: Conversation(model) for name in ("greedy", "lookup")}
    ratios, drafted = [], 0
    for turn in range(pairs):
        taken = {}
        for name in list(kept) if turn % 2 else reversed(kept):
            prompt = ordinary(128, 31 * turn)
            generation = Generation(kept[name], prompt, name, sampling=Sampling(temperature=1.0, seed=turn), max_tokens=40)
            steps = iter(generation)
            next(steps)
            begun, tokens = time.perf_counter(), 0
            for step in steps:
                tokens += len(step.tokens)
                drafted += step.drafted
            taken[name] = tokens / (time.perf_counter() - begun)
        ratios.append(taken["lookup"] / taken["greedy"])
    yield f"lookup ÷ plain where there is nothing to copy: {interval(ratios)}; {drafted} tokens drafted"


ROWS = {"passes": passes, "reading": reading, "busy": busy, "lookup": lookup}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--backend", default="transformers", choices=("transformers", "llama.cpp"))
    parser.add_argument("--dtype")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rows", default=",".join(ROWS))
    options = parser.parse_args(arguments)
    kind = options.dtype or "auto"
    model = load_model(options.model, LoadOptions(backend=options.backend, device="cpu", dtype=kind, threads=options.threads))
    print(f"{options.model}: {(model.info.parameters or 0) / 1e6:.0f} M parameters, {model.info.dtype}, {options.backend}")
    for name in options.rows.split(","):
        for line in ROWS[name](model, options.pairs):
            print(f"- {line}", flush=True)


if __name__ == "__main__":
    main()
