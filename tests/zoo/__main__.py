"""Runs the zoo and prints what came of each architecture, method and prompt.

    python -m specchat.tests.zoo [--jobs N] [--all] [NAME…]

Without names it runs everything: transformers' architectures, then llama.cpp's.
"""

import argparse
import multiprocessing
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from .compare import WRONG, Outcome, totals
from .either import everything, timed


def main() -> int:
    """Run what the command line says; 1 if a text differs or something crashes."""
    parser = argparse.ArgumentParser(prog="python -m specchat.tests.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an architecture; with .gguf at its end llama.cpp's")
    parser.add_argument("--jobs", type=int, default=2, help="processes, a gigabyte each (2)")
    parser.add_argument("--all", action="store_true", help="print what is equal, too")
    parser.add_argument("--methods", nargs="*", help="only these")
    told = parser.parse_args()
    names = told.names or everything()
    found: list[Outcome] = []
    with ProcessPoolExecutor(told.jobs, multiprocessing.get_context("spawn")) as pool:
        for name, (new, seconds) in zip(names, pool.map(partial(timed, only=told.methods), names), strict=True):
            for outcome in new:
                if told.all or outcome.verdict in (*WRONG, "near tie"):
                    print(outcome, flush=True)
            print(f"{name:24} {totals(new)}, {seconds:.0f} s", flush=True)
            found += new
    print(*_reasons(found), sep="\n")
    ran = [outcome for outcome in found if outcome.method not in ("build", "load")]
    numbers = [len({getattr(outcome, part) for outcome in ran}) for part in ("model", "method")]
    print(f"\n{numbers[0]} of {len(names)} architectures ran, {numbers[1]} methods: {totals(found)}")
    return any(outcome.verdict in WRONG for outcome in found)


def _reasons(found: Iterable[Outcome]) -> list[str]:
    """Why methods or whole models are missing: each reason with whom it concerns."""
    concerned: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for outcome in found:
        if outcome.verdict in ("plain", "unavailable", "refused", "not covered"):
            concerned[outcome.verdict, outcome.detail][outcome.model].append(outcome.method)
    lines = []
    for (verdict, reason), models in sorted(concerned.items()):
        names = (name if verdict != "unavailable" else f"{name} ({', '.join(methods)})" for name, methods in models.items())
        lines.append(f"\n{verdict}: {reason}\n    {', '.join(names)}")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
