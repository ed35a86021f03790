"""The chat under a synthetic engine that streams 10,000 tokens/s, in a real pseudo-terminal.

    python -m specchat.benchmarks.interface.interface_load [--seconds 60] [--rate 10000] [--nodes 16]

Prints JSON: tokens sent and shown (no event may be lost), milliseconds from a key press to its echo (median, 99th percentile),
the drawing process's CPU milliseconds per frame when the transcript had 2,000 and 200,000 tokens and their ratio, bytes of
memory per token, and the lines painted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

WORDS = "the lamp on a northern rock was lit each evening by Ana who wrote down what the weather had been like that day".split()
TICK = 0.015
"""Seconds between two messages, as from the real engine."""

ID = 1
"""A placeholder in the messages made ahead."""

ECHO = "жщюяэъыфцчшдгйлп"
"""Letters that are not in the stream."""


class Synthetic:
    """The client's calls; answers stream at a steady rate, through the wire format, as the real one's do."""

    def __init__(self, rate: int, seconds: float, nodes: int) -> None:
        self.rate = rate
        self.seconds = seconds
        self.nodes = nodes
        self.sent = 0
        self._ids = 0
        # Made before the clock runs: the real engine makes its messages in another process.
        pick = random.Random(1)
        self._pool = [self._message(pick) for _ in range(64)]
        self._events: deque[Any] = deque()
        self._lock = threading.Lock()

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def load(self, selection: Any) -> int:
        from specchat.engine.messages import Loaded, ModelInfo

        info = ModelInfo("synthetic", "none", "cpu", "float32", context=10**7)
        self._put(Loaded(self.next_id(), info))
        return self._ids

    def send(self, command: Any) -> None:
        from specchat.engine.messages import Generate

        if isinstance(command, Generate):
            threading.Thread(target=self._stream, args=(command.id,), daemon=True).start()

    def drain(self) -> list[Any]:
        with self._lock:
            events = list(self._events)
            self._events.clear()
        return events

    def _put(self, event: Any) -> None:
        with self._lock:
            self._events.append(event)

    def _message(self, pick: random.Random) -> tuple[bytes, int]:
        """Make a message of 15 ms; return it with its number of tokens."""
        from specchat.engine.messages import Steps
        from specchat.engine.wire import dump

        counts: list[int] = []
        while sum(counts) < self.rate * TICK:
            counts.append(pick.choice((1, 1, 2, 3, 6)))
        return dump(Steps(ID, [self._step(pick, count) for count in counts])), sum(counts)

    def _stream(self, id: int) -> None:
        from specchat.engine.messages import Finished, Started
        from specchat.engine.wire import parse

        self._put(Started(id, "main", "lookup", "identical", 20, 0))
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < self.seconds:
            while self.sent < elapsed * self.rate:
                line, tokens = self._pool[self.sent % len(self._pool)]
                event = parse(line)
                event.id = id
                self._put(event)
                self.sent += tokens
            time.sleep(TICK)
        self._put(Finished(id, "length", "", 0.01, self.seconds))

    def _step(self, pick: random.Random, count: int) -> Any:
        from specchat.engine.messages import StepRecord

        text = "".join(pick.choice(WORDS) + (" " if pick.random() < 0.97 else "\n") for _ in range(count))
        size = self.nodes
        return StepRecord(
            method="lookup",
            tokens=[pick.randrange(2000) for _ in range(count)],
            text=text,
            drafted=size - 1,
            accepted=count - 1,
            nodes=size,
            forward_seconds=count / self.rate,
            tree_tokens=[pick.randrange(2000) for _ in range(size)],
            tree_parents=list(range(-1, size - 1)),
            path=list(range(count)),
        )


def chat(rate: int, seconds: float, nodes: int, report: Path) -> None:
    """Run the chat in the pseudo-terminal, and write the report."""
    import psutil

    from specchat.app.settings.fields import Settings
    from specchat.app.tui.app import SpecchatApp

    engine = Synthetic(rate, seconds, nodes)
    engine.load("synthetic")
    os.environ["SPECCHAT_DATA"] = str(report.parent)  # kept, as every chat is
    app = SpecchatApp(Settings(), engine, keep=True)
    me = psutil.Process()
    costs: dict[str, list[float]] = {"2000": [], "200000": []}
    memory: dict[int, int] = {}
    last = [time.process_time(), 0]

    def take_events() -> None:
        original()
        answer = next(iter(app.dialogue.transcript.answers()), None)
        tokens = answer.figures.tokens if answer else 0
        now = time.process_time()
        if tokens != last[1]:
            for name, at in (("2000", 2000), ("200000", 200_000)):
                if at <= tokens < at + rate * 2:
                    costs[name].append((now - last[0]) * 1e3)
        for mark in (20_000, 500_000):
            if tokens >= mark and mark not in memory:
                memory[mark] = me.memory_info().rss
        last[0], last[1] = now, tokens
        if answer is not None and answer.done and not report.exists():
            figures = {
                "tokens_sent": engine.sent,
                "tokens_shown": tokens,
                "frame_ms_at_2000": statistics.median(costs["2000"]) if costs["2000"] else None,
                "frame_ms_at_200000": statistics.median(costs["200000"]) if costs["200000"] else None,
                "bytes_per_token": (memory[500_000] - memory[20_000]) / 480_000 if len(memory) == 2 else None,
            }
            report.write_text(json.dumps(figures))

    original = app.take_events
    app.take_events = take_events  # type: ignore[method-assign]
    app.run()


def main() -> None:
    """Run the chat in a pseudo-terminal and type into it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.report:
        chat(arguments.rate, arguments.seconds, arguments.nodes, arguments.report)
        return
    from specchat.tests.fakes.terminal import Terminal

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "specchat.benchmarks.interface.interface_load", "--report", str(report)]
        for name in ("seconds", "rate", "nodes"):
            command += [f"--{name}", str(getattr(arguments, name))]
        environment = {"HOME": folder, "XDG_CONFIG_HOME": folder, "PYTHONPATH": os.getcwd()}
        with Terminal(command, columns=120, lines=40, env=environment) as terminal:
            terminal.wait("ready", 30)
            terminal.send("go\r")
            terminal.wait_raw(b"northern", 30)  # keys that come with the line's end would be a paste
            echoes, start, n = [], time.monotonic(), 0
            while time.monotonic() - start < arguments.seconds - 1:
                letter = ECHO[n % len(ECHO)]
                n += 1
                pressed = time.monotonic()
                terminal.send(letter)
                terminal.wait_raw(letter.encode(), 10)
                echoes.append((time.monotonic() - pressed) * 1e3)
                pause = time.monotonic() + 0.1
                while time.monotonic() < pause:
                    terminal.pump(0.01)
                if n % 40 == 0:
                    terminal.send("\x15")  # an empty input box again
            deadline = time.monotonic() + 60
            while not report.exists() and time.monotonic() < deadline:
                terminal.pump(0.05)
            terminal.settle(0.5)
            figures = json.loads(report.read_text())
            terminal.send("\x11")
            terminal.exit_code()
    echoes.sort()
    one, other = figures["frame_ms_at_2000"], figures["frame_ms_at_200000"]
    figures |= {
        "frame_cost_ratio": other / one if one and other else None,
        "keys": len(echoes),
        "key_ms_median": statistics.median(echoes),
        "key_ms_99th": echoes[int(0.99 * (len(echoes) - 1))],
        "bytes_written": len(terminal.raw),
    }
    print(json.dumps({name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}))


if __name__ == "__main__":
    main()
