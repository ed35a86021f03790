"""Input from the terminal, before it becomes keys."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.tui.app import FRAME_SECONDS, LONGEST_WAIT, Frames
from specchat.app.tui.driver import PASTE, PASTE_SECONDS, PASTED, REPLY_SECONDS, TerminalParser

from ...cases import cases

PIECES = ["a", "\r", "\n", "\x1b", "\x1b[31m", "\x1b[A", "\x1b[200", PASTE, "\x1b]0;title\x07", "\x1b[2J", " lamp", "[201~"]
"""Parts of what may be pasted: colours, keys, the beginning of another paste."""


def came(*parts: str) -> list[str]:
    """Keys and pastes out of what came in these parts."""
    parser = TerminalParser()
    messages = [message for part in parts for message in parser.feed(part)]
    events = [message for message in messages if isinstance(message, Paste | Key)]
    return [message.text if isinstance(message, Paste) else f"<{message.key}>" for message in events]


def test_a_paste_with_colours_presses_no_key() -> None:
    log = "\x1b[31mred\x1b[0m\rrm -rf x\rand more, \x1b[99;99z and an end that is far away"
    assert came(f"x{PASTE}{log}{PASTED}y\r") == ["<x>", log, "<y>", "<enter>"]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.lists(st.integers(0, 80), max_size=5))
@cases(2000, 150)
def test_what_is_pasted_arrives_whole_however_it_comes(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    if PASTED in text + PASTED[:-1]:
        return
    data = f"x{PASTE}{text}{PASTED}y{PASTE}z{PASTED}\x1b[A"
    ends = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    parts = [data[a:b] for a, b in pairwise(ends)]
    assert came(*parts) == ["<x>", text, "<y>", "z", "<up>"]


REPLIES = [
    "\x1b]11;rgb:1010/1212/1818\x1b\\", "\x1b]10;rgb:d9/dc/e6\x07", "\x1bP>|XTerm(388)\x1b\\", "\x1b[?62;22c",
    "\x1b[>41;388;0c", "\x1b[0n", "\x1b[?997;1n", "\x1b[8;24;80t", "\x1b[?0u", "\x1b_Gi=1;OK\x1b\\",
    "\x1bP1+r544e=787465726d\x1b\\",
]  # fmt: skip


@given(st.lists(st.sampled_from([*REPLIES, "a", "\x1b[A", "ü"]), min_size=1, max_size=8), st.lists(st.integers(0, 90)))
@cases(2000, 100)
def test_what_the_terminal_replies_is_not_typed(pieces: list[str], cuts: list[int]) -> None:
    data = "".join(pieces)
    # An escape that comes alone is the key, until what follows it is known.
    ends = sorted({min(cut, len(data)) for cut in cuts if data[cut - 1 : cut] != "\x1b"} | {0, len(data)})
    keys = {"a": "<a>", "\x1b[A": "<up>", "ü": "<ü>"}
    typed_keys = came(*(data[a:b] for a, b in pairwise(ends)))
    assert typed_keys == [keys[piece] for piece in pieces if piece in keys]


def test_a_reply_that_was_cut_off_hides_nothing_for_long() -> None:
    parser = TerminalParser()
    assert not [*parser.feed("\x1b]11;rgb:10")]
    parser._reply_at -= REPLY_SECONDS
    assert [message.key for message in parser.feed("x") if isinstance(message, Key)] == ["x"]


def test_lines_that_come_at_once_are_pasted() -> None:
    assert came("one\rtwo\r") == ["one\rtwo\r"]
    assert came("hello\r") == ["<h>", "<e>", "<l>", "<l>", "<o>", "<enter>"]
    assert came("\r", "x") == ["<enter>", "<x>"]
    assert came("\r\x1b[A") == ["<enter>", "<up>"]


@pytest.mark.parametrize(
    "data", ["def f():\r\treturn 1\r", "one\r\x1b[31mred", "one\ttwo", "one\r\x0ctwo", "one\r\x0e", "one\n\x1b[15~"]
)
def test_what_comes_at_once_is_one_paste_whatever_it_holds(data: str) -> None:
    assert came(data) == [data]
    assert came(f"one{data}\x1b[<35;3;4M") == [f"one{data}"]  # the mouse moved over it


def test_a_paste_without_an_end_hides_nothing_for_long() -> None:
    parser = TerminalParser()
    assert not [*parser.feed(f"{PASTE}one"), *parser.feed("two\x03"), *parser.tick()]
    parser._fed_at -= 2 * PASTE_SECONDS  # its clock: a test does not wait
    assert [message.text for message in parser.tick() if isinstance(message, Paste)] == ["onetwo\x03"]
    assert [message.key for message in parser.feed("\x03") if isinstance(message, Key)] == ["ctrl+c"]


KITTY = {
    "\x1b[1089::99;5u": "ctrl+c",  # a Russian layout, with the base layout's key
    "\x1b[1081::113;5u": "ctrl+q",
    "\x1b[1089;5u": "ctrl+c",  # and without: by its place
    "\x1b[1513;3u": "alt+a",
    "\x1b[947;5u": "ctrl+g",
    "\x1b[1078::59;3u": "alt+semicolon",
    "\x1b[1092::97;;1092u": "ф",  # text stays what it is
    "\x1b[97:65;2;65u": "A",
    "\x1b[106;5u": "ctrl+j",
    "\x1b[127;2u": "backspace",
    "\x1b[3;2~": "delete",
    "\x1b[104;5u": "backspace",
}


@pytest.mark.parametrize("sequence", KITTY)
def test_shortcuts_by_the_kitty_protocol(sequence: str) -> None:
    assert came(sequence) == [f"<{KITTY[sequence]}>"]


def test_alt_with_a_sign_is_a_key_and_types_nothing() -> None:
    names = {"/": "slash", ",": "comma", ".": "full_stop", "-": "minus", "=": "equals_sign", "1": "1"}
    for sign, name in names.items():
        (key,) = (message for message in TerminalParser().feed(f"\x1b{sign}") if isinstance(message, Key))
        assert key.key == f"alt+{name}"


def test_frames_are_as_far_apart_as_a_write_takes() -> None:
    ticks: list[Callable[[], None]] = []
    app: Any = SimpleNamespace(is_running=True, set_interval=lambda seconds, tick: ticks.append(tick))
    now, write, looks = 100.0, 0.0, list[float]()
    frames = Frames(app, lambda: looks.append(now), lambda: write, lambda: now)
    frames.begin()

    def gaps(seconds: float, steps: int) -> list[float]:
        nonlocal now
        looks.clear()
        for _ in range(steps):
            now += seconds
            ticks[0]()
        return [after - before for before, after in pairwise(looks)]

    assert max(gaps(1.0, 5)) < 1.5
    write = 0.6  # a slow link
    assert min(gaps(FRAME_SECONDS, 100)) >= 0.6
    write = inf  # it takes nothing for now
    assert min(gaps(FRAME_SECONDS, 500)) >= LONGEST_WAIT
