"""What comes from the terminal, before it is a key."""

from __future__ import annotations

from itertools import pairwise

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.tui.driver import PASTE, PASTED, TerminalParser, steady

from ...cases import cases

PIECES = ["a", "\r", "\n", "\x1b", "\x1b[31m", "\x1b[A", "\x1b[200", PASTE, "\x1b]0;title\x07", "\x1b[2J", " lamp", "[201~"]
"""Parts of what may be pasted: colours, keys, the beginning of another paste."""


def came(*parts: str) -> list[str]:
    """Keys and pastes out of what came in these parts."""
    parser = TerminalParser()
    messages = [message for part in parts for message in parser.feed(part)]
    found = [message for message in messages if isinstance(message, Paste | Key)]
    return [message.text if isinstance(message, Paste) else f"<{message.key}>" for message in found]


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


def test_lines_that_come_at_once_are_pasted() -> None:
    assert came("one\rtwo\r") == ["one\rtwo\r"]
    assert came("hello\r") == ["<h>", "<e>", "<l>", "<l>", "<o>", "<enter>"]
    assert came("\r", "x") == ["<enter>", "<x>"]
    assert came("\r\x1b[A") == ["<enter>", "<up>"]


def test_alt_with_a_sign_is_a_key_and_types_nothing() -> None:
    names = {"/": "slash", ",": "comma", ".": "full_stop", "-": "minus", "=": "equals_sign", "1": "1"}
    for sign, name in names.items():
        (key,) = (message for message in TerminalParser().feed(f"\x1b{sign}") if isinstance(message, Key))
        assert key.key == f"alt+{name}"


@pytest.mark.parametrize("picture", ["\u26a0\ufe0f", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd"], ids=["sign", "keycap", "skin"])
def test_what_stands_behind_a_picture_is_in_its_place_however_wide_the_terminal_takes_it_to_be(picture: str) -> None:
    screen = pyte.Screen(12, 1)  # takes the first two for one cell, the last for four
    screen.reset_mode(7, private=True)  # the end of a row is no way into the next
    stream = pyte.Stream(screen)
    stream.feed(steady("\x1b[1;1H" + "x" * 12))
    stream.feed(steady(f"\x1b[1;1Hab{picture}c{picture}\x1b[1m|\x1b[0m" + "y" * 4))
    assert "".join(screen.buffer[0][x].data for x in (0, 1, 4, *range(7, 12))) == "abc|yyyy"
