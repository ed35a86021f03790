"""Model text made safe to draw, and measured in terminal cells.

Text from a model is data: whatever could move the cursor, change colours or reorder a line is shown as visible characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:
    import regex

TAB = 4
"""Cells between tab stops, counted from the start of a line."""

HOSTILE = (
    "\x00-\x08\x0b-\x1f\x7f"  # C0 controls but tab and newline; escape starts ANSI and OSC sequences
    "\x80-\x9f"  # C1: single-character CSI, OSC and friends
    "\xad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u206f"  # soft hyphen, bidi marks, overrides and isolates
    "\u2028\u2029\ufeff\ufff9-\ufffb"  # separators that some terminals take as a newline; byte-order mark; annotations
    "\ud800-\udfff"  # lone surrogates cannot be encoded for the terminal
)
"""Characters that no terminal gets, as the inside of a regular expression's brackets."""

_HOSTILE = re.compile(f"[{HOSTILE}]")

_JOINER, _EMOJI = "\u200d", "\ufe0f"
_APART = "[\x00-\u05ff\u2000-\u218f\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
_STRAY = re.compile(f"{_JOINER}(?={_APART})|(?<={_APART}){_JOINER}")
"""A zero-width joiner before what nothing joins with: Textual takes both together for no cell at all, terminals do not. Behind
it too, as what follows may be sanitised apart."""
_PICTURE = f"[\u2190-\u2bff{_EMOJI}\U0001f000-\U0001faff][{_EMOJI}\U0001f3fb-\U0001f3ff]{{0,2}}"
_TOWER = re.compile(f"((?:{_JOINER}{_PICTURE}){{3}}){_JOINER}")
"""More joined pictures than there are, as a model that repeats itself may write them: Textual takes them for two cells, a
terminal that does not join them for many."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_BREAKS = re.compile("\r\n|[\r\x85\u2028\u2029]")


FOLDED = "[\u2063"
"""Begins what stands for a long text in the input box: a bracket, and a separator that no key types. It is never drawn."""


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures: ␛ for escape
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def sanitise(text: str) -> str:
    """`text` with control characters, bidi controls and lone surrogates as visible text; tabs and newlines stay."""
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    text = _HOSTILE.sub(_visible, text.replace(FOLDED, "["))
    return _TOWER.sub(r"\1\\u200d", _STRAY.sub(_visible, text)) if _JOINER in text else text


def enterable(text: str) -> str:
    """`text` for an input box: every line break a newline, other controls visible. Marks of direction stay, since some
    languages are written with them; they are left out where the box is drawn."""
    return _CONTROLS.sub(_visible, _BREAKS.sub("\n", text))


def one_line(text: str) -> str:
    """`text` for a label: sanitised, on one line."""
    return " ".join(sanitise(text).split())


def folded(text: str) -> str:
    """`text` as searches compare it: case, width, ligatures and the way of writing an accent make no difference."""
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", text).casefold())


def has_words(text: str, query: str) -> bool:
    """Whether `text` has every word of `query`, or a longer one that holds it."""
    whole = folded(text)
    return all(word in whole for word in folded(query).split())


def find_all(text: str, query: str) -> Iterator[tuple[int, int]]:
    """Start and end of each place where `text` has the words of `query`, with any white space between them."""
    pattern = re.compile(r"\s+".join(map(re.escape, folded(query).split())))
    if text.isascii():
        yield from (match.span() for match in pattern.finditer(text.lower()))
        return
    clusters = [(span, folded(text[slice(*span)])) for span in graphemes(text)]
    places = [span for span, part in clusters for _ in part]  # of each folded character
    for match in pattern.finditer("".join(part for _, part in clusters)):
        if match[0]:
            yield places[match.start()][0], places[match.end() - 1][1]


@lru_cache(1)
def _clusters() -> regex.Pattern[str]:
    # Imported at the first character outside ASCII: 10 ms that the first frame need not wait for.
    import regex

    return regex.compile(r"\X")


def graphemes(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each grapheme cluster (what a reader sees as one character)."""
    if text.isascii():
        return ((i, i + 1) for i in range(len(text)))
    spans = (match.span() for match in _clusters().finditer(text))
    return _measured(text, _joined(text, spans) if _JOINER in text or _EMOJI in text else spans)


def _joined(text: str, spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Clusters that Textual measures together as one: what follows a joiner, and a variation selector with what it changes."""
    start = end = 0
    for begin, stop in spans:
        joined = text[begin - 1] == _JOINER or (_EMOJI in text[begin:stop] and cluster_width(text[begin]) == 0)
        if begin and (not joined or text[begin - 1] == "\n"):  # a line ends whatever follows
            yield start, end
            start = begin
        end = stop
    if end:
        yield start, end


def _measured(text: str, spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Clusters of two cells at most, so that every line has room for one: towers of joined characters are taken apart."""
    for begin, stop in spans:
        if stop - begin == 1 or cluster_width(text[begin:stop]) <= 2:
            yield begin, stop
            continue
        start = at = begin
        used = 0
        while at < stop:
            cells = cluster_width(text[at])
            if used and cells:
                yield start, at
                start, used = at, 0
            used += cells
            at += 2 if text[at] == _JOINER else 1  # Textual takes no notice of what is joined
        yield start, stop


@lru_cache(8192)
def cluster_width(cluster: str) -> int:
    """Cells that one grapheme cluster takes, by the table that Textual lays out with."""
    from rich.cells import cell_len

    return cell_len(cluster)


def width(text: str) -> int:
    """Cells that `text` (one line, no tabs) takes."""
    if text.isascii():
        return len(text)
    return sum(cluster_width(text[start:end]) for start, end in graphemes(text))


def fit(text: str, cells: int) -> str:
    """`text` cut to at most `cells`, ending in an ellipsis if anything was left out."""
    if width(text) <= cells:
        return text
    used, end = 0, 0
    for start, stop in graphemes(text):
        used += cluster_width(text[start:stop])
        if used > cells - 1:
            break
        end = stop
    return text[:end] + "…" if cells > 0 else ""


def expand_tabs(text: str, column: int) -> str:
    """`text` with tabs as spaces up to the next tab stop; it starts at `column` of its line."""
    if "\t" not in text:
        return text
    parts = []
    for i, part in enumerate(text.split("\t")):
        if i:
            gap = TAB - column % TAB
            parts.append(" " * gap)
            column += gap
        parts.append(part)
        column += width(part)
    return "".join(parts)
