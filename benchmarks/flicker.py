"""Whether the chat flickers: what it paints during an answer, read back from a real pseudo-terminal.

    python -m specchat.benchmarks.flicker [--model recorded:FILE?pace=0.04] [--method lookup]

The terminal says that it knows synchronised output (mode 2026). Prints JSON: frames; bytes outside of synchronised output after
the first frame; how often the screen was cleared; painted lines, how many of them had not changed at all, and their share.
Frames that moved the transcript up paint all its lines and are counted apart.
"""

from __future__ import annotations

import argparse
import json

from specchat.tests.fakes.painting import measure, record


def main() -> None:
    """Record one answer and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="")
    parser.add_argument("--method", default="lookup")
    arguments = parser.parse_args()
    found = measure(*record(arguments.model, arguments.method))
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))


if __name__ == "__main__":
    main()
