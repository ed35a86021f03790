"""What somebody meets in the first minute: each starter's first answer, and who wins the race that is suggested.

    python -m specchat.benchmarks.interface.first_minute [--backend transformers] [--runs 20]

The built-in model, and a new engine for each starter, so that every answer is a first one, with the method that the chat
starts with (or `--methods`; `none` skips this). Then so many races of the methods that F5 suggests in an empty chat, on its
prompt; `--all` goes through all starters. Exit code 1 where a starter gives fewer than ENOUGH tokens a step or plain
decoding wins a race.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from specchat.app.chat.choosing import PLAIN, Speeds, first_method
from specchat.app.chat.dialogue import Dialogue
from specchat.app.chat.methods import known_methods
from specchat.app.race.entry import RaceEntry
from specchat.app.race.race import Race
from specchat.app.race.subject import suggested, talk
from specchat.app.tui.chat.welcome import STARTERS
from specchat.engine.client import EngineClient

ENOUGH = 2.5
"""Tokens a step from which runs of colour can be seen at a glance."""

PAUSE = 1 / 30
"""Seconds between two looks at what the engine says, as in the app."""


@contextmanager
def chat(backend: str, method: str = "") -> Iterator[Dialogue]:
    """A new chat with the built-in model, loaded by an engine of its own."""
    known = known_methods()
    with EngineClient() as client:
        made = Dialogue(
            client,
            "builtin",
            known,
            method or first_method(known, (), "builtin", None, {"backend": backend}),
            load={"backend": backend},
            chosen=bool(method),
        )
        client.load("builtin", backend=backend)
        until(made, lambda: made.phase == "ready")
        yield made


def until(dialogue: Dialogue, enough: Callable[[], bool]) -> None:
    """Take in what the engine says until something has come about."""
    while not enough():
        if not dialogue.drain():
            time.sleep(PAUSE)


def answers(backend: str, method: str) -> list[float]:
    """Print a row for each starter's first answer; returns their tokens a step."""
    found = []
    for starter in STARTERS:
        with chat(backend, method) as dialogue:
            begun = time.perf_counter()
            dialogue.submit(starter.prompt)
            until(dialogue, lambda: dialogue.phase == "ready")
            waited = time.perf_counter() - begun
            (answer,) = dialogue.transcript.answers()
        figures = answer.figures
        found.append(figures.tokens_per_step)
        print(
            f"{starter.title:32} {answer.method:10} {figures.tokens:4} tokens {figures.steps:4} steps "
            f"{figures.tokens_per_step:6.2f} a step {figures.tokens_per_second:8,.0f} tokens/s {1000 * waited:6.0f} ms in all",
            flush=True,
        )
    return found


def race(dialogue: Dialogue, prompt: str) -> tuple[str, str]:
    """The winner of a race of the suggested methods, and how each did."""
    found = talk(dialogue, prompt)
    assert found is not None
    dialogue.speeds = Speeds()  # each suggestion is a first one
    run = Race(dialogue, *found, [RaceEntry(name) for name in suggested(dialogue)])
    dialogue.listener = run.handle
    run.start()
    until(dialogue, lambda: not run.running)
    record = run.record()
    run.close()
    said = ", ".join(f"{lane.method} {record.speedup(lane):.2f}×" for lane in record.ranking())
    return record.ranking()[0].method, said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--methods", default="", help="instead of the one that the chat starts with; commas between them")
    parser.add_argument("--runs", type=int, default=20, help="races")
    parser.add_argument("--all", action="store_true", help="race on every starter in turn")
    options = parser.parse_args()
    failed = False
    for method in options.methods.split(",") if options.methods != "none" else ():
        steps = answers(options.backend, method)
        failed = failed or min(steps) < ENOUGH
        print(f"{method or 'as it starts'}: at least {min(steps):.2f} tokens a step, median {statistics.median(steps):.2f}\n")
    winners: Counter[str] = Counter()
    with chat(options.backend) as dialogue:
        for number in range(options.runs):
            starter = STARTERS[number % len(STARTERS) if options.all else 0]
            winner, said = race(dialogue, starter.prompt)
            winners[winner] += 1
            print(f"{starter.title:32} {said}; load {os.getloadavg()[0]:.1f}", flush=True)
    print(", ".join(f"{name} won {count}" for name, count in winners.most_common()))
    sys.exit(failed or PLAIN in winners)


if __name__ == "__main__":
    main()
