"""Keys, pastes, clicks and resizes at random, as close together as a hand or a script sends them: nothing ends the chat."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
import time
from pathlib import Path
from random import Random

import pytest

from ..cases import FULL
from ..fakes.terminal import Terminal
from .conftest import SPECCHAT

SEEDS, CHORDS = (20, 300) if FULL else (1, 150)

LEAVES = "\x03\x11\x1a"
"""ctrl+c (twice), ctrl+q and ctrl+z leave the chat as they should."""

KEYS = [
    *(chr(code) for code in range(1, 27) if chr(code) not in LEAVES),
    "\r", "\x1b", "\t", "\x1b[Z", "\x7f", "\x0f\x0f",
    *(f"\x1b[{final}" for final in "ABCDHF"),
    *(f"\x1b[{number}~" for number in (2, 3, 5, 6, 15, 17, 18, 19, 20)),
    *(f"\x1bO{final}" for final in "PQRS"),
    *(f"\x1b{sign}" for sign in "mxvayuwrgzeshnp/-=,."),
    *"abcdefghijklmnopqrstuvwxyz0123456789?/ ",
]  # fmt: skip
PASTES = ["hello\nworld", "/help", "x" * 300, "def f():\n\treturn 1\n"]
SIZES = [(80, 24), (120, 32), (200, 55), (44, 14)]
GAPS = [0.0, 0.0, 0.004, 0.02, 0.06, 0.12]

MODES = (1000, 1003, 1006, 1004, 2004, 1049)
"""Modes of the terminal that are on in the chat."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_ends_the_chat(seed: int, env: dict[str, str], model: str, tmp_path: Path) -> None:
    """A screen hears keys behind the one that closed it; a widget may be gone before the click on it is heard."""
    random = Random(seed)
    env |= {"VISUAL": "true", "EDITOR": "true"}
    columns, lines = random.choice(SIZES)
    with Terminal(["env", "-C", str(tmp_path), SPECCHAT, "--model", model], columns=columns, lines=lines, env=env) as terminal:
        before = termios.tcgetattr(terminal.master)
        terminal.wait("identical")
        sent: list[str] = []
        for _ in range(CHORDS):
            x, y = random.randint(1, columns), random.randint(1, lines)
            key = random.choices(
                [
                    random.choice(KEYS),
                    f"\x1b[200~{random.choice(PASTES)}\x1b[201~",
                    f"\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m",
                    f"\x1b[<35;{x};{y}M\x1b[<{random.choice((64, 65))};{x};{y}M",
                    "hello\r",
                    "",
                ],
                [80, 5, 8, 3, 2, 2],
            )[0]
            if sent and sent[-1].endswith("\x0f") and key == "q":  # the leader key's way to leave
                key = "x"
            if not key:
                columns, lines = random.choice(SIZES)
                fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
                os.kill(terminal.process.pid, signal.SIGWINCH)
            terminal.send(key)
            sent.append(key)
            pump(terminal, random.choice(GAPS))
            assert terminal.process.poll() is None, f"ended after {sent[-6:]}: {terminal.text[-2000:]}"
        for key in "\x1b\x11" * 8:  # back to the chat, then out of it
            if terminal.process.poll() is None:
                terminal.send(key)
                pump(terminal, 0.3)
        assert terminal.exit_code() == 0, terminal.text[-6000:]
        assert [
            mode for mode in MODES if terminal.raw.rfind(b"\x1b[?%dh" % mode) > terminal.raw.rfind(b"\x1b[?%dl" % mode)
        ] == []
        assert termios.tcgetattr(terminal.master) == before


def pump(terminal: Terminal, seconds: float) -> None:
    """Read what is drawn for so long."""
    end = time.monotonic() + seconds
    while terminal.pump(max(0.0, end - time.monotonic())) and time.monotonic() < end:
        pass
