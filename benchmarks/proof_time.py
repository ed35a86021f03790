"""What the proof at load takes, beside another checkout's.

    python -m specchat.benchmarks.proof_time CHECKOUT [--model builtin|FOLDER] [--dtype float32] [--pairs 20]

Each checkout loads the model in a process of its own, in turn, on one thread. What counts are the seconds between the last
weight and the end of the load: CPU seconds, which other programs lengthen less, and the clock's. Prints medians, and the median
ratio of the pairs, this checkout to the other, with its 95 % interval (order statistics).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .step_cost import interval

LOADS = """
import json, sys, time
from specchat.backends import LoadOptions, load_model

name, dtype = sys.argv[1:]
options = LoadOptions(backend="transformers", device="cpu", dtype=dtype, threads=1)
for _ in sys.stdin:
    begun = [0.0, 0.0]

    def told(stage, done, total):
        if stage == "weights":
            begun[:] = time.process_time(), time.perf_counter()

    model = load_model(name, options, progress=told)
    print(json.dumps([time.process_time() - begun[0], time.perf_counter() - begun[1]]), flush=True)
    model.close()
    del model
"""
"""Loads the model once for each line that it reads, and writes the seconds."""


class Checkout:
    """A process that loads a model with one checkout's code.

    Args:
        path: its folder.
        room: where a folder is made in which it is called specchat.
        model: what to load.
        dtype: its type.
    """

    def __init__(self, path: Path, room: Path, model: str, dtype: str) -> None:
        room.mkdir()
        (room / "specchat").symlink_to(path.resolve())
        environment = {**os.environ, "PYTHONPATH": str(room)}
        command = [sys.executable, "-c", LOADS, model, dtype]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
        )

    def load(self) -> list[float]:
        """CPU seconds and the clock's of a proof."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        return [float(seconds) for seconds in json.loads(process.stdout.readline())]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="the other one's folder")
    parser.add_argument("--model", default="builtin")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--pairs", type=int, default=20)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        places = (Path(__file__).parents[1], told.checkout)
        pair = [Checkout(path, Path(room, str(i)), told.model, told.dtype) for i, path in enumerate(places)]
        for checkout in pair:
            checkout.load()
        taken: list[list[list[float]]] = [[], []]
        for turn in range(told.pairs):
            for side in (turn % 2, 1 - turn % 2):
                taken[side].append(pair[side].load())
        for checkout in pair:
            checkout.close()
    for kind, what in enumerate(("CPU seconds", "seconds")):
        here, there = ([seconds[kind] for seconds in side] for side in taken)
        ratios = [one / other for one, other in zip(here, there, strict=True)]
        medians = f"{statistics.median(here):.3f}, there {statistics.median(there):.3f}"
        print(f"{what}: here {medians}; ratio {interval(ratios)} of {told.pairs} pairs")


if __name__ == "__main__":
    main()
