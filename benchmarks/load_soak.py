"""Loads the built-in model in engine after engine on a busy machine: no load may lose trees, chains or early layers. Or gives
many answers in one process, with what drafts for the model: its memory may not grow.

python -m specchat.benchmarks.load_soak --loads 500 --busy 6
python -m specchat.benchmarks.load_soak --answers 1000 --backend llama.cpp
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import multiprocessing
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..engine.client import EngineClient
from ..engine.messages import Failed, Loaded

KINDS = [(kind, threads, draft) for draft in (None, "builtin-draft") for threads in (1, 2) for kind in ("float32", "bfloat16")]


def spin() -> None:
    """Keep a core busy."""
    while True:
        pass


def start(number: int, loads: int, log: Path, until: float) -> list[str]:
    """One engine's loads, each in a line that begins with `lost` if it lost something."""
    out = []
    with EngineClient(log=log) as client:
        for i in range(number, number + loads):
            if time.monotonic() > until:
                break
            dtype, threads, draft = KINDS[i % len(KINDS)]
            id = client.load("builtin", backend="transformers", dtype=dtype, threads=threads, draft_model=draft)
            end = next(event for event in client.stream(id) if isinstance(event, Loaded | Failed))
            found = [info["capabilities"] for info in (end.info, *end.drafts)] if isinstance(end, Loaded) else []
            whole = len(found) == 1 + bool(draft) and all(able["tree"] and able["chain"] and able["layers"] for able in found)
            out.append(f"{'whole' if whole else 'lost'}: {dtype}, {threads} threads, draft {draft}: {found or end}")
    return out


METHODS = ("eagle", "greedy", "draft", "lookup")
SETTLED = 200
"""Answers after which memory may not grow any more."""
LONG = 200
"""Tokens of a prompt."""
GROWTH = 2.0
"""MiB that it may differ by."""


def answers(count: int, backend: str) -> bool:
    """Answer so many prompts with the built-in model, its draft model and its head, switching methods in mid-answer.

    Prints the process's memory and its Python objects now and then.

    Args:
        backend: transformers or llama.cpp.

    Returns:
        whether memory stayed within GROWTH after SETTLED answers.
    """
    import psutil

    from ..backends import LoadOptions, load_model
    from ..backends.loading import find_model
    from ..builtin.recipe.evaluate import examples
    from ..decoders import Conversation, Generation

    options = LoadOptions(device="cpu", backend=backend, threads=1)
    target, draft = load_model("builtin", options), load_model("builtin-draft", options)
    head = find_model("builtin-eagle", options).beside("builtin-eagle", target)
    talk, rng = Conversation(target, draft_model=draft, head=head), random.Random(3)
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    asked = [
        target.encode_chat([{"role": each["role"], "content": each["content"]} for each in messages[:-1]])
        for _, messages in examples(count + 100)  # about as many
    ]
    rng.shuffle(asked)
    # The longest come first: buffers have their size from then on.
    asked.sort(key=lambda prompt: len(prompt) < LONG)
    held = settled = 0.0
    for number, prompt in enumerate(asked[:count], 1):
        generation = Generation(talk, prompt, rng.choice(METHODS), max_tokens=32)
        for _ in generation:
            if rng.random() < 0.2:
                generation.switch(rng.choice(METHODS))
        del generation
        if number % max(1, count // 10) and number != SETTLED:
            continue
        gc.collect()
        trim(0)
        held = psutil.Process().memory_info().rss / 2**20
        settled = held if number == SETTLED else settled
        print(f"{number} answers: {held:.1f} MiB, {len(gc.get_objects()):,} objects", flush=True)
    return count <= SETTLED or held - settled <= GROWTH


def main() -> None:
    """Count the loads that lose something; print those, and what the engines' log says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=500)
    parser.add_argument("--per-start", type=int, default=5, help="loads of each engine")
    parser.add_argument("--at-once", type=int, default=1, help="engines beside each other")
    parser.add_argument("--busy", type=int, default=6, help="processes that spin meanwhile")
    parser.add_argument("--minutes", type=float, default=600, help="start no load after this long")
    parser.add_argument("--answers", type=int, help="instead of loads: answers in one process, for its memory")
    parser.add_argument("--backend", default="transformers", choices=("transformers", "llama.cpp"), help="for --answers")
    options = parser.parse_args()
    if options.answers:
        sys.exit(not answers(options.answers, options.backend))
    begun = time.monotonic()
    busy = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(options.busy)]
    for process in busy:
        process.start()
    done, lost = 0, 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.at_once) as pool:
        log = Path(folder) / "engine.log"
        until = begun + 60 * options.minutes
        firsts = range(0, options.loads, options.per_start)
        runs = [pool.submit(start, at, min(options.per_start, options.loads - at), log, until) for at in firsts]
        for run in runs:
            for line in run.result():
                done += 1
                if line.startswith("lost"):
                    lost += 1
                    print(line)
            print(f"{done} loads, {lost} lost, {time.monotonic() - begun:.0f} s", flush=True)
        print(log.read_text()[-20_000:] or "The engines' log is empty.")
    for process in busy:
        process.kill()
    sys.exit(bool(lost) or done < options.loads)


if __name__ == "__main__":
    main()
