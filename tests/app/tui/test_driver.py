"""What comes from the terminal, before it is a key."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from specchat.app.tui.driver import PASTE, PASTED, PasteParser

from ...cases import cases

PIECES = ["a", "\r", "\n", "\x1b", "\x1b[31m", "\x1b[A", "\x1b[200", PASTE, "\x1b]0;title\x07", "\x1b[2J", " lamp", "[201~"]
"""Of what may be pasted: colours, keys, the beginning of another paste."""


def came(*parts: str) -> list[str]:
    """Keys and pastes out of what came in these parts."""
    parser = PasteParser()
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
