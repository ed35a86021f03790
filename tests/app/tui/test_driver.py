"""Input from the terminal, before it becomes keys."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.tui.driver import PASTE, PASTED, TerminalParser

from ...cases import cases

PIECES = ["a", "\r", "\n", "\x1b", "\x1b[31m", "\x1b[A", "\x1b[200", PASTE, "\x1b]0;title\x07", "\x1b[2J", " lamp", "[201~"]
"""Parts of a paste: colours, keys, the beginning of another paste."""


def parsed(*parts: str) -> list[str]:
    """Parse input that comes in parts to keys and pastes."""
    parser = TerminalParser()
    messages = [message for part in parts for message in parser.feed(part)]
    events = [message for message in messages if isinstance(message, Paste | Key)]
    return [message.text if isinstance(message, Paste) else f"<{message.key}>" for message in events]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.lists(st.integers(0, 80), max_size=5))
@cases(1000, 80)
def test_a_paste_arrives_whole_and_presses_no_key(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    if PASTED in text + PASTED[:-1]:
        return
    data = f"{text}{PASTED}y{PASTE}z{PASTED}\x1b[A"
    ends = sorted({min(cut, len(data.partition("y")[0])) for cut in cuts} | {0, len(data)})
    assert parsed(f"x{PASTE}", *(data[a:b] for a, b in pairwise(ends))) == ["<x>", text, "<y>", "z", "<up>"]


KEYS = {
    "\x1b[1089;5u": "ctrl+c",  # the kitty protocol: a letter of another layout, by its place
    "\x1b[1513;3u": "alt+a",
    "\x1b[947;5u": "ctrl+g",
    "\x1b[1092;;1092u": "ф",  # text stays what it is
    "\x1b[97;2;65u": "A",
    "\x1b[106;5u": "ctrl+j",
    "\x1b[127;2u": "backspace",
    "\x1b[3;2~": "delete",
    "\x1b[104;5u": "backspace",
}


@pytest.mark.parametrize("sequence", KEYS)
def test_shortcuts_go_by_place_on_any_layout(sequence: str) -> None:
    assert parsed(sequence) == [f"<{KEYS[sequence]}>"]
