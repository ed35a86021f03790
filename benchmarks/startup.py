"""How long a start takes: first painted frame, first token, `--help`. Run: `python -m benchmarks.startup [--runs N]`."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from specchat.tests.fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")


def chat(prompt: str) -> tuple[float, float]:
    """Seconds from the start of the process to the first painted frame and to the first token of an answer.

    The prompt is typed as soon as the frame is there, while the model still loads.
    """
    with tempfile.TemporaryDirectory() as data, Terminal([SPECCHAT], env={"SPECCHAT_DATA": data}) as terminal:
        frame = terminal.wait("specchat", 20)
        terminal.send(prompt + "\r")
        terminal.wait(lambda text: "tok/s" in text or "tokens/s" in text, 60)
        token = time.monotonic() - terminal.started
        return frame, token


def help_seconds() -> float:
    """Seconds of `specchat --help`."""
    start = time.monotonic()
    subprocess.run([SPECCHAT, "--help"], check=True, capture_output=True)
    return time.monotonic() - start


def main() -> None:
    """Print median and worst of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
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
