"""The duration of a start: first painted frame, first token, `--help`.

    python -m specchat.benchmarks.interface.startup [--runs N]
    python -m specchat.benchmarks.interface.startup --head [--backend llama.cpp] [--runs 10]

`--head` starts engines instead, in turn with and without the built-in EAGLE head, and tells what the head adds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from specchat.engine.client import EngineClient
from specchat.engine.messages import Failed, Loaded
from specchat.engine.options import ModelSelection
from specchat.tests.fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")


def chat(prompt: str) -> tuple[float, float]:
    """Measure the seconds from the start of the process to the first painted frame and to the first token of an answer.

    The prompt is typed as soon as the frame appears, while the model still loads.
    """
    with tempfile.TemporaryDirectory() as data, Terminal([SPECCHAT], env={"SPECCHAT_DATA": data}) as terminal:
        frame = terminal.wait("specchat", 20)
        terminal.send(prompt + "\r")
        terminal.wait(lambda text: "tok/s" in text or "tokens/s" in text, 60)
        token = time.monotonic() - terminal.started
        return frame, token


def help_seconds() -> float:
    """Measure the seconds of `specchat --help`."""
    start = time.monotonic()
    subprocess.run([SPECCHAT, "--help"], check=True, capture_output=True)
    return time.monotonic() - start


def engine_seconds(backend: str, *drafters: str) -> tuple[float, float]:
    """Measure the seconds until the built-in model is loaded in a new engine, by the clock, and the processor time until the
    engine has ended."""
    computed = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder, EngineClient(log=Path(folder) / "log") as client:
        start = time.monotonic()
        id = client.load(ModelSelection("builtin", backend=backend, device="cpu", threads=1, draft_model=drafters))
        end = next(event for event in client.stream(id) if isinstance(event, Loaded | Failed))
        seconds = time.monotonic() - start
    if isinstance(end, Failed):
        sys.exit(end.sentence)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - computed.ru_utime - computed.ru_stime


def compare_heads(backend: str, runs: int) -> None:
    """Print medians and quartiles of starts in turn without and with a head, and of the differences."""
    engine_seconds(backend, "builtin-eagle")  # files are in memory from here on
    rows: dict[str, list[tuple[float, float]]] = {"without": [], "with": [], "head adds": []}
    for run in range(runs):
        for name in ("without", "with") if run % 2 else ("with", "without"):
            rows[name].append(engine_seconds(backend, *(["builtin-eagle"] if name == "with" else [])))
        (clock, processor), (with_clock, with_processor) = rows["without"][-1], rows["with"][-1]
        rows["head adds"].append((with_clock - clock, with_processor - processor))
    for name, pairs in rows.items():
        for what, seconds in zip(("clock", "processor"), zip(*pairs, strict=True), strict=True):
            low, middle, high = statistics.quantiles(seconds, n=4)
            print(f"{backend}, {name:9} {what:9} median {middle:.2f} s (quartiles {low:.2f} to {high:.2f}) of {runs}")


def main() -> None:
    """Print median and worst of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--head", action="store_true", help="what the built-in EAGLE head adds to the start of an engine")
    parser.add_argument("--backend", default="transformers", choices=("transformers", "llama.cpp"), help="for --head")
    options = parser.parse_args()
    runs = options.runs
    if options.head:
        compare_heads(options.backend, runs)
        return
    chats = [chat("What is prompt lookup?") for _ in range(runs)]
    rows = {
        "first frame": [frame for frame, _ in chats],
        "first token": [token for _, token in chats],
        "--help": [help_seconds() for _ in range(runs)],
    }
    for name, seconds in rows.items():
        print(f"{name:12} median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s of {runs}")


if __name__ == "__main__":
    main()
