"""Whether the chat flickers: what it paints during an answer, read back from a real pseudo-terminal.

    python -m specchat.benchmarks.interface.flicker [--model recorded:FILE?pace=0.04] [--method lookup]

The terminal says that it knows synchronised output (mode 2026). Prints JSON: frames; bytes outside of synchronised output after
the first frame; how often the screen was cleared; painted lines, how many of them had not changed at all, and their share.
Frames that moved the transcript up paint all its lines and are counted apart.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import pyte

from specchat.tests.fakes.terminal import Terminal

SPECCHAT = str(Path(sys.executable).parent / "specchat")
SENTENCE = "The lighthouse keeper counted seven lanterns before the harbour woke. "
BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"


def record(model: str, method: str, pace: float = 0.04) -> tuple[bytes, int]:
    """What the chat wrote from the prompt on, and where in it the answer had ended. `pace`: seconds a step, without a model."""
    with tempfile.TemporaryDirectory() as home:
        if not model:
            path = Path(home) / "record.jsonl"
            path.write_text(json.dumps({"prompt": "keeper", "response": SENTENCE * 12}) + "\n")
            model = f"recorded:{path}?pace={pace}"
        environment = {"HOME": home, "XDG_CONFIG_HOME": home}
        with Terminal([SPECCHAT, "--model", model, "--method", method], env=environment) as terminal:
            deadline = time.monotonic() + 120
            while b"\x1b[?2026$p" not in terminal.raw and time.monotonic() < deadline:
                terminal.pump()
            terminal.send("\x1b[?2026;2$y")
            terminal.wait("ready")
            terminal.settle(2)  # a busy machine may draw the last of the start late
            before = len(terminal.raw)
            terminal.send("keeper\r")
            terminal.wait_raw(b"first token after")
            terminal.settle(0.5)
            raw = bytes(terminal.raw)
            terminal.send("\x11")
            terminal.exit_code()
    return raw, before


def measure(raw: bytes, before: int, columns: int = 100, lines: int = 30) -> dict[str, float]:
    """The figures of what was written from `before` on."""
    screen = pyte.Screen(columns, lines)
    stream = pyte.ByteStream(screen)
    stream.feed(raw[:before])
    frames = scrolled = painted = wasted = outside = 0
    position = before
    for match in re.finditer(re.escape(BEGIN) + b"(.*?)" + re.escape(END), raw[before:], re.DOTALL):
        outside += len(raw[position : before + match.start()])
        position = before + match.end()
        old = [row(screen, y) for y in range(lines)]
        screen.dirty.clear()
        stream.feed(match[1])
        new = [row(screen, y) for y in range(lines)]
        frames += 1
        moved = sum(old[y + 1] == new[y] != old[y] for y in range(lines - 1))
        if moved > 3:
            scrolled += 1
            continue
        dirty = [y for y in screen.dirty if y < lines]
        painted += len(dirty)
        wasted += sum(old[y] == new[y] for y in dirty)
    return {
        "frames": frames,
        "scrolled": scrolled,
        "bytes": len(raw) - before,
        "bytes_outside": outside,
        "cleared": raw[before:].count(b"\x1b[2J"),
        "painted_lines": painted,
        "unchanged_lines": wasted,
        "unchanged_share": wasted / painted if painted else 0.0,
    }


def row(screen: pyte.Screen, y: int) -> tuple[pyte.screens.Char, ...]:
    """One line's cells, colours and all."""
    return tuple(screen.buffer[y][x] for x in range(screen.columns))


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
