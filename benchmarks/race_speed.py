"""What a race costs its lanes: busy-time tokens/s of each of two lanes beside the same method alone, in interleaved pairs.

Run: `python -m benchmarks.race_speed [--pairs 20] [--methods greedy,lookup]`. The built-in model, one thread; the lanes' clocks
count their own compute alone, so that a ratio of 1 means that a race tells of a method what it does by itself.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import Entry
from specchat.app.race.lane import Racer
from specchat.app.race.race import Race
from specchat.engine.client import EngineClient
from specchat.engine.messages import CloseLane, Finished, Generate, Steps

from .chat_speed import PROMPT

MESSAGES = [{"role": "user", "content": PROMPT}]
PAUSE = 1 / 30
"""Seconds between two looks at what the engine says, as in the app."""


class Bench:
    """An engine with the built-in model."""

    def __init__(self, client: EngineClient, tokens: int) -> None:
        self.client, self.tokens = client, tokens
        self.dialogue = Dialogue(client, "builtin", known_methods(), "greedy", max_tokens=tokens)
        client.load("builtin", device="cpu", dtype="float32", threads=1)
        while self.dialogue.phase != "ready":
            self.dialogue.drain()
            time.sleep(PAUSE)

    def alone(self, method: str) -> float:
        """Tokens per busy second of a lane that has the device to itself."""
        tokens, busy = 0, None
        self.client.send(CloseLane("solo"))
        id = self.client.next_id()
        self.client.send(Generate(id, lane="solo", messages=MESSAGES, method=method, max_tokens=self.tokens))
        while busy is None:
            time.sleep(PAUSE)
            for event in self.client.drain():
                if isinstance(event, Steps):
                    tokens += sum(len(step.tokens) for step in event.steps)
                elif isinstance(event, Finished):
                    busy = event.busy_seconds
        self.client.send(CloseLane("solo"))
        return tokens / busy

    def together(self, methods: list[str]) -> list[float]:
        """The same of each lane of a race."""
        race = Race(self.dialogue, PROMPT, MESSAGES, [Entry(method) for method in methods])
        self.dialogue.listener = race.handle
        race.start()
        while race.running:
            self.dialogue.drain()
            time.sleep(PAUSE)
        race.close()
        return [speed(racer) for racer in race.racers]


def speed(racer: Racer) -> float:
    """Tokens per busy second."""
    return len(racer.tokens) / racer.seconds


def interval(values: list[float], rounds: int = 2000, seed: int = 1) -> tuple[float, float]:
    """95% of the medians of samples drawn from the values with replacement."""
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    return medians[round(0.025 * rounds)], medians[round(0.975 * rounds) - 1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--methods", default="greedy,lookup")
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    methods = arguments.methods.split(",")
    with EngineClient() as client:
        bench = Bench(client, arguments.tokens)
        for method in methods:  # not counted: the first passes are slower
            bench.alone(method)
        ratios: dict[int, list[float]] = {i: [] for i in range(len(methods))}
        solo: dict[int, list[float]] = {i: [] for i in range(len(methods))}
        for pair in range(arguments.pairs):
            # Every other pair the other way round, so that a machine that grows slower favours neither.
            if pair % 2:
                raced = bench.together(methods)
                single = [bench.alone(method) for method in methods]
            else:
                single = [bench.alone(method) for method in methods]
                raced = bench.together(methods)
            for i in ratios:
                ratios[i].append(raced[i] / single[i])
                solo[i].append(single[i])
    for i, method in enumerate(methods):
        low, high = interval(ratios[i])
        median = statistics.median(ratios[i])
        print(
            f"{method}: in a race {median:.3f} × alone (median of {arguments.pairs} pairs, 95% {low:.3f}–{high:.3f}); "
            f"alone {statistics.median(solo[i]):,.0f} tokens/s"
        )


if __name__ == "__main__":
    main()
