"""Tokens per step of the model-free methods on recorded answers: one row for each method and node budget.

    python -m specchat.benchmarks.methods.replay_methods DATA_FOLDER TOKENIZER_FOLDER [--nodes 16,64] [--part 0/1]
        [--methods lookup,fusion]

DATA_FOLDER holds JSONL files of {"prompt", "response"}; every file is a set. A figure is the mean over a set's records, in
brackets its ratio to prompt lookup as published. `--part 1/2` takes every second record, from the second one on. A record tells
nothing of the model's other choices, so the successors that methods would recycle are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import mean

from specchat.backends.transcripts import FileTokenizer, encode_transcript, read_transcripts
from specchat.decoders import registry
from specchat.decoders.base import Drafter, parse_params
from specchat.decoders.replay import replay
from specchat.decoders.stats import Totals

CONTEXT_ONLY = {"fusion": {"recycle": "0"}}
"""Settings that leave out what a record cannot tell."""

Records = Sequence[tuple[list[int], list[int]]]


def score(method: type[Drafter], settings: Mapping[str, str], records: Records, eos: int) -> list[Totals]:
    """The totals of each record."""
    params = parse_params(method, dict(settings))
    return [replay(prompt, [*response, eos], method(params), eos_ids=(eos,)) for prompt, response in records]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--nodes", default="16,64", help="budgets, the pending token included")
    parser.add_argument("--methods", default="lookup,ngram,fusion", help="those without a node budget get one row")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every Nth record from the Ith on")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    tokenizer = FileTokenizer(options.tokenizer)
    sets: dict[str, Records] = {
        path.stem: [encode_transcript(tokenizer, record) for record in read_transcripts(path)[first::step]]
        for path in sorted(options.data.glob("*.jsonl"))
    }
    rows: list[tuple[str, str, dict[str, str]]] = [("reference", "lookup", {"variant": "reference"})]
    for name in options.methods.split(","):
        method = registry.get(name)
        settings = CONTEXT_ONLY.get(name, {})
        if any(field.name == "nodes" for field in fields(method.Params)):
            rows += [(f"{name}, {nodes} nodes", name, {**settings, "nodes": nodes}) for nodes in options.nodes.split(",")]
        else:
            rows.append((name, name, settings))
    print(f"{'':18}" + "".join(f"{name:>18}" for name in sets) + f"{'mean':>8}{'nodes/pass':>12}{'µs/draft':>10}")
    reference: dict[str, float] = {}
    for label, name, settings in rows:
        cells, ratios, everything = [], [], list[Totals]()
        for key, records in sets.items():
            totals = score(registry.get(name), settings, records, tokenizer.eos_id)
            everything += totals
            figure = mean(t.tokens_per_step for t in totals)
            ratios.append(figure / reference.setdefault(key, figure))
            cells.append(f"{figure:.3f} (×{ratios[-1]:.3f})")
        passes = sum(t.steps - 1 for t in everything)
        nodes = sum(t.drafted for t in everything) + passes
        seconds = sum(t.draft_seconds for t in everything)
        print(
            f"{label:18}" + "".join(f"{cell:>18}" for cell in cells) + f"{mean(ratios):8.3f}{nodes / passes:12.1f}"
            f"{seconds / passes * 1e6:10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
