"""What the interface costs the generator: tokens/s in the chat beside `specchat run`, one thread, in interleaved pairs.

    python -m specchat.benchmarks.interface.chat_speed [--pairs 20]

Also prints the drawing process's CPU seconds per 1,000 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil

from specchat.tests.fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")
PROMPT = "Repeat this text exactly: " + " ".join(
    f"On {day} {name} took the {thing} to the market and sold {count} of them before noon."
    for day, name, thing, count in zip(
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday") * 2,
        ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jonas", "Klara", "Leo", "Mara", "Nils"),
        ("lanterns", "apples", "kites", "baskets", "notebooks", "lamps", "plums") * 2,
        range(11, 25),
        strict=True,
    )
)
"""Some 300 tokens to copy: an answer long enough for the stream to run steadily."""
F4 = "\x1bOS"
ARGUMENTS = ["--threads", "1", "--method", "greedy"]


def headless() -> float:
    """Tokens/s of `specchat run`."""
    out = subprocess.run([SPECCHAT, "run", PROMPT, *ARGUMENTS, "--json"], check=True, capture_output=True, text=True)
    return float(json.loads(out.stdout)["tokens_per_second"])


class Chat:
    """An open chat."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.tokens = 0
        terminal.wait("parameters", 60)
        self.process = psutil.Process(terminal.process.pid)
        self.cpu_seconds = 0.0

    def answer(self) -> float:
        """Tokens/s of one answer in a new chat, as its figures say."""
        terminal = self.terminal
        terminal.send(PROMPT)
        terminal.settle(0.5)  # a thousand key presses are no part of what an answer costs
        before = sum(self.process.cpu_times()[:2])
        terminal.send("\r")
        terminal.wait_raw(b"first token after", 60)
        terminal.settle(0.5)
        self.cpu_seconds += sum(self.process.cpu_times()[:2]) - before
        terminal.send(F4)
        terminal.settle(0.5)
        found = re.search(r"([\d,]+) tokens/s\s[^▏]*▏?\s*([\d,]+) tokens\b", terminal.text)  # on one line or two
        assert found, terminal.text
        self.tokens += int(found[2].replace(",", ""))
        terminal.send(F4 * 4)  # the panel's other pages, then none
        terminal.send("\x0c")  # a new chat
        terminal.wait(lambda text: "first token after" not in text, 10)
        return float(found[1].replace(",", ""))


def interval(ratios: list[float], rounds: int = 2000) -> tuple[float, float]:
    """95% bootstrap interval of the median."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds)]


def main() -> None:
    """Print the ratio and its interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    with (
        tempfile.TemporaryDirectory() as data,
        Terminal([SPECCHAT, *ARGUMENTS], columns=110, lines=32, env={"SPECCHAT_DATA": data}) as terminal,
    ):
        chat = Chat(terminal)
        chat.answer()
        ratios = []
        for number in range(pairs):
            ours, plain = chat.answer(), headless()
            ratios.append(ours / plain)
            print(f"\r{number + 1}/{pairs} pairs: chat {ours:.0f}, run {plain:.0f} tokens/s", end="", file=sys.stderr)
        print(file=sys.stderr)
    low, high = interval(ratios)
    print(
        f"chat / run, tokens/s: median {statistics.median(ratios):.3f} (95% interval {low:.3f} to {high:.3f}) of {pairs} pairs"
    )
    print(f"drawing process: {chat.cpu_seconds / chat.tokens * 1000:.2f} CPU seconds per 1,000 tokens ({chat.tokens} tokens)")


if __name__ == "__main__":
    main()
