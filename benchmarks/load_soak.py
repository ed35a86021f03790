"""Loads the built-in model in engine after engine on a busy machine: no load may lose trees, chains or early layers.

python -m specchat.benchmarks.load_soak --loads 500 --busy 6
"""

from __future__ import annotations

import argparse
import multiprocessing
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


def main() -> None:
    """Count the loads that lose something; print those, and what the engines' log says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=int, default=500)
    parser.add_argument("--per-start", type=int, default=5, help="loads of each engine")
    parser.add_argument("--at-once", type=int, default=1, help="engines beside each other")
    parser.add_argument("--busy", type=int, default=6, help="processes that spin meanwhile")
    parser.add_argument("--minutes", type=float, default=600, help="start no load after this long")
    options = parser.parse_args()
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
