"""Tokens per step of prompt lookup on recorded answers, as published and ours by node budget.

    python benchmarks/methods/replay_lookup.py DATA_FOLDER TOKENIZER_FOLDER [--nodes 10,16,32,64] [--set name=value …]

DATA_FOLDER holds JSONL files of {"prompt", "response"}; every file is a set. A figure is the mean over a set's records.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean

from specchat.backends.transcripts import FileTokenizer, encode_transcript, read_transcripts
from specchat.decoders.base import parse_params
from specchat.decoders.methods.lookup import Lookup
from specchat.decoders.replay import replay


def main() -> None:
    """Print one row for the published method and one for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--nodes", default="10,16,32,64", help="budgets, the pending token included")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="settings of ours")
    options = parser.parse_args()
    tokenizer = FileTokenizer(options.tokenizer)
    sets = {
        path.stem: [encode_transcript(tokenizer, record) for record in read_transcripts(path)]
        for path in sorted(options.data.glob("*.jsonl"))
    }
    settings = dict(pair.split("=", 1) for pair in options.set)
    rows = {"reference": parse_params(Lookup, {"variant": "reference"})}
    for nodes in options.nodes.split(","):
        rows[f"ours, {nodes} nodes"] = parse_params(Lookup, {"nodes": nodes, **settings})
    print(f"{'':16}" + "".join(f"{name:>24}" for name in sets) + f"{'mean':>8}{'nodes/pass':>12}{'µs/draft':>10}{'s':>6}")
    reference: dict[str, float] = {}
    for name, params in rows.items():
        start, cells, ratios = time.perf_counter(), [], []
        passes = nodes = 0
        seconds = 0.0
        for label, records in sets.items():
            totals = [
                replay(prompt, [*response, tokenizer.eos_id], Lookup(params), eos_ids=(tokenizer.eos_id,))
                for prompt, response in records
            ]
            figure = mean(t.tokens_per_step for t in totals)
            ratios.append(figure / reference.setdefault(label, figure))
            cells.append(f"{figure:15.4f} (×{ratios[-1]:.3f})")
            passes += sum(t.steps - 1 for t in totals)
            nodes += sum(t.drafted + t.steps - 1 for t in totals)
            seconds += sum(t.draft_seconds for t in totals)
        print(
            f"{name:16}" + "".join(f"{cell:>24}" for cell in cells) + f"{mean(ratios):8.3f}{nodes / passes:12.1f}"
            f"{seconds / passes * 1e6:10.1f}{time.perf_counter() - start:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
