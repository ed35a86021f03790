"""Runs the zoo and prints what came of each architecture, method and prompt.

    python -m specchat.tests.zoo [--jobs N] [--all] [--table FILE] [NAME…]

Without names it runs everything: transformers' architectures, then llama.cpp's. A table keeps one architecture a line, so that
a run that was stopped goes on where it was; those that are named run again.
"""

import argparse
import json
import multiprocessing
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple
from functools import partial
from pathlib import Path

from .compare import WRONG, Outcome, totals
from .either import everything, timed


def main() -> int:
    """Run what the command line says; 1 if a text differs or something crashes."""
    parser = argparse.ArgumentParser(prog="python -m specchat.tests.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an architecture; with .gguf at its end llama.cpp's")
    parser.add_argument("--jobs", type=int, default=2, help="processes, a gigabyte each (2)")
    parser.add_argument("--all", action="store_true", help="print what is equal, too")
    parser.add_argument("--methods", nargs="*", help="only these")
    parser.add_argument("--table", type=Path, metavar="FILE", help="JSON lines to go on with")
    told = parser.parse_args()
    found = _read(told.table)
    names = told.names or [name for name in everything() if name not in found]
    with ProcessPoolExecutor(told.jobs, multiprocessing.get_context("spawn")) as pool:
        for name, (new, seconds) in zip(names, pool.map(partial(timed, only=told.methods), names), strict=True):
            for outcome in new:
                if told.all or outcome.verdict in (*WRONG, "near tie"):
                    print(outcome, flush=True)
            print(f"{name:24} {totals(new)}, {seconds:.0f} s", flush=True)
            found[name] = new
            if told.table:
                with told.table.open("a", encoding="utf-8") as table:
                    print(json.dumps({"name": name, "seconds": round(seconds), "outcomes": [*map(astuple, new)]}), file=table)
    print(*_summary([outcome for new in found.values() for outcome in new]), sep="\n")
    return any(outcome.verdict in WRONG for new in found.values() for outcome in new)


def _read(table: Path | None) -> dict[str, list[Outcome]]:
    """What a table says of each architecture; the last line of several holds."""
    if table is None or not table.exists():
        return {}
    lines = map(json.loads, table.read_text(encoding="utf-8").splitlines())
    return {line["name"]: [Outcome(*outcome) for outcome in line["outcomes"]] for line in lines}


def _summary(found: list[Outcome]) -> list[str]:
    """Why methods or whole models are missing, each reason with whom it concerns; what is wrong; how many there were."""
    concerned: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for outcome in found:
        if outcome.verdict in ("plain", "unavailable", "refused", "not covered"):
            concerned[outcome.verdict, outcome.detail][outcome.model].append(outcome.method)
    lines = []
    for (verdict, reason), models in sorted(concerned.items()):
        names = (name if verdict != "unavailable" else f"{name} ({', '.join(methods)})" for name, methods in models.items())
        lines.append(f"\n{verdict}: {reason}\n    {', '.join(names)}")
    if wrong := [str(outcome) for outcome in found if outcome.verdict in WRONG]:
        lines += ["", *wrong]
    for part in ("model", "method", "prompt"):
        lines.append(f"{part}s: {len({getattr(outcome, part) for outcome in found if outcome.verdict == 'equal'})}")
    return [*lines, totals(found)]


if __name__ == "__main__":
    raise SystemExit(main())
