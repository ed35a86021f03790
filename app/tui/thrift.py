"""What is written on the terminal: in fewer bytes than Rich makes of it, for slow links, and each character in its own place.

Rich begins and ends each piece of text with its whole style. Here a style is written only where text has another one than the
text before it, and then only what changes of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from ..text.cells import cluster_width, graphemes

STYLE = re.compile(r"\x1b\[([\d;]*)m")
"""A style from Rich: all of it, after an end of the one before; empty or 0 for that end."""

PLACE = re.compile(r"(?:\x1b\[\d+;\d+H|\r|\n)*")
"""Goes somewhere else, which has no style."""

DISPUTED = re.compile("[\u200d\u20e3\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f]")
"""Code points of characters whose width terminals disagree on: pictures, above all those of several code points."""

COMMAND = "\x1b]"
"""Begins what is no text on the screen: a title, a notification, what is copied."""

Colours: TypeAlias = tuple[str, str, str]
"""A style in three parts, each as parameters of a sequence: the text's colour, the one behind it, all else (bold, italic …)."""

_COLOUR = re.compile(r"[34]8;(?:5;\d+|2;\d+;\d+;\d+)|\d+")


@lru_cache(4096)
def _parted(style: str) -> Colours:
    text = behind = ""
    rest = []
    for part in _COLOUR.findall(style):
        number = int(part.partition(";")[0])
        if 30 <= number <= 39 or 90 <= number <= 97:
            text = part
        elif 40 <= number <= 49 or 100 <= number <= 107:
            behind = part
        else:
            rest.append(part)
    return text, behind, ";".join(rest)


@lru_cache(4096)
def _change(before: str, after: str) -> str:
    """The sequence that makes one style of another."""
    if not after:
        return "\x1b[0m"
    old, new = _parted(before), _parted(after)
    # What the new style lacks only a reset takes away; of bold and the like nothing is taken away one by one.
    if before and old[2] == new[2] and all(there or not was for was, there in zip(old, new, strict=True)):
        return f"\x1b[{';'.join(now for was, now in zip(old[:2], new[:2], strict=True) if was != now)}m"
    return f"\x1b[0;{after}m" if before else f"\x1b[{after}m"


@lru_cache(4096)
def _placed(cluster: str) -> str:
    """A character, and the cursor where it was laid out to be behind it, however wide the terminal takes it to be: saved before
    it (ESC 7), the cursor goes on from there (ESC 8). Where it is narrower, its other cell is blank.

    Some terminals restore what they saved only once.
    """
    cells = cluster_width(cluster)
    if not cells or not DISPUTED.search(cluster):
        return cluster
    return f"\x1b7{' ' * cells}\x1b8\x1b7{cluster}\x1b8\x1b[{cells}C"


def _steady(text: str) -> str:
    """Text whose characters all stand where they were laid out."""
    if text.isascii() or COMMAND in text or not DISPUTED.search(text):
        return text
    return "".join(_placed(text[start:end]) for start, end in graphemes(text))


class Thrift:
    """Leaves out what the terminal knows. It is told everything that is written on it."""

    def __init__(self) -> None:
        self._is = ""  # the style that the terminal has
        self._wanted = ""

    def lighter(self, data: str) -> str:
        """The same on the screen, in fewer bytes."""
        out = []
        text = True
        for part in STYLE.split(data):
            if text:
                place = PLACE.match(part)
                if place is not None and place.end() < len(part):
                    out.append(place[0])
                    part = part[place.end() :]
                    if self._wanted != self._is:
                        out.append(_change(self._is, self._wanted))
                        self._is = self._wanted
                out.append(_steady(part))
            else:
                self._wanted = "" if part in ("", "0") else part
            text = not text
        return "".join(out)
