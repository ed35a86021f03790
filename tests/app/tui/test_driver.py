"""What comes from the terminal, before it is a key."""

from __future__ import annotations

from itertools import pairwise

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.tui.driver import HELD_BYTES, PASTE, PASTED, REPLY_SECONDS, Pace, TerminalParser
from specchat.app.tui.thrift import Thrift

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
    found = came(*(data[a:b] for a, b in pairwise(ends)))
    assert found == [keys[piece] for piece in pieces if piece in keys]


def test_a_reply_that_was_cut_off_hides_nothing_for_long() -> None:
    parser = TerminalParser()
    assert not [*parser.feed("\x1b]11;rgb:10")]
    parser._begun_at -= REPLY_SECONDS
    assert [message.key for message in parser.feed("x") if isinstance(message, Key)] == ["x"]


def test_lines_that_come_at_once_are_pasted() -> None:
    assert came("one\rtwo\r") == ["one\rtwo\r"]
    assert came("hello\r") == ["<h>", "<e>", "<l>", "<l>", "<o>", "<enter>"]
    assert came("\r", "x") == ["<enter>", "<x>"]
    assert came("\r\x1b[A") == ["<enter>", "<up>"]


@pytest.mark.parametrize("rate", [5_000, 20_000])
def test_a_slow_link_is_not_filled(rate: int) -> None:
    """Frames of 2,600 bytes whenever they may be drawn, over a kernel's 16 kB and a link behind it."""
    pace, now, held, late = Pace(), 0.0, 0.0, []
    frame = 2600
    while now < 60:
        if pace.behind(now):
            now, held = now + 0.03, max(0.0, held - 0.03 * rate)
            continue
        late.append((now, (held + frame) / rate))
        pace.begin(now)
        wait = max(0.0, (held + frame - HELD_BYTES) / rate)
        now, held = now + wait, max(0.0, held + frame - wait * rate)
        pace.end(frame, now)
        now, held = now + 0.03, max(0.0, held - 0.03 * rate)
    settled = sorted(seconds for at, seconds in late if at > 10)
    assert settled[len(settled) // 2] < 2 * frame / rate + 1
    assert len(settled) * frame > 0.5 * 50 * rate  # and it is used


def test_a_quick_terminal_never_waits() -> None:
    pace = Pace()
    for number in range(1000):
        pace.begin(number / 30)
        assert not pace.behind(number / 30 + 0.001)
        pace.end(9000, number / 30 + 0.002)
        assert not pace.behind(number / 30 + 0.003)


STYLES = ["", "1", "3;38;2;1;2;3", "38;2;1;2;3;48;2;9;9;9", "38;2;7;7;7;48;2;9;9;9", "31", "97;44", "38;5;9", "48;5;17", "4;7"]


def test_alt_with_a_sign_is_a_key_and_types_nothing() -> None:
    names = {"/": "slash", ",": "comma", ".": "full_stop", "-": "minus", "=": "equals_sign", "1": "1"}
    for sign, name in names.items():
        (key,) = (message for message in TerminalParser().feed(f"\x1b{sign}") if isinstance(message, Key))
        assert key.key == f"alt+{name}"


DRAWN = st.tuples(st.sampled_from(STYLES), st.sampled_from(["a", "  ", "wörd", "漢", "\x1b[2;3H", "\r\n", "\x1b[1;1H"]))


@given(st.lists(st.lists(DRAWN, max_size=12), min_size=1, max_size=4))
@cases(2000, 150)
def test_fewer_bytes_paint_the_same(writes: list[list[tuple[str, str]]]) -> None:
    heavy = ["".join(f"\x1b[{style}m{text}\x1b[0m" if style else text for style, text in write) for write in writes]
    thrift = Thrift()
    light = [thrift.lighter(text) for text in heavy]
    screens = []
    for texts in (heavy, light):
        screen = pyte.Screen(12, 4)
        stream = pyte.Stream(screen)
        for text in texts:
            stream.feed(text)
        screens.append([[screen.buffer[y][x] for x in range(12)] for y in range(4)])
    assert screens[0] == screens[1]
    assert sum(map(len, light)) <= sum(map(len, heavy)) + 4


@pytest.mark.parametrize("picture", ["\u26a0\ufe0f", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd"], ids=["sign", "keycap", "skin"])
def test_what_stands_behind_a_picture_is_in_its_place_however_wide_the_terminal_takes_it_to_be(picture: str) -> None:
    screen = pyte.Screen(12, 1)  # takes the first two for one cell, the last for four
    screen.reset_mode(7, private=True)  # the end of a row is no way into the next
    stream = pyte.Stream(screen)
    thrift = Thrift()
    stream.feed(thrift.lighter("\x1b[1;1H" + "x" * 12))
    stream.feed(thrift.lighter(f"\x1b[1;1Hab{picture}c{picture}\x1b[1m|\x1b[0m" + "y" * 4))
    assert "".join(screen.buffer[0][x].data for x in (0, 1, 4, *range(7, 12))) == "abc|yyyy"
