"""What is said about a run, laid out in the rows of a strip. No styles and no screen."""

from __future__ import annotations

from collections.abc import Sequence

from ..text.cells import fit, width
from .inspection import DETAILS, Inspection, Parts, RolePart, costs, figures, length, milliseconds, tokens, verdict


def strip_rows(height: int) -> int:
    """Rows of the strip over a transcript of that many."""
    return max(2, min(4, height // 4))


def inspection_rows(run: Inspection, cells: int, rows: int, keys: str = "") -> list[Parts]:
    """Everything in at most `rows` rows of `cells` cells: figures, tokens, and why the run ended where it did."""
    full, short = figures(run), figures(run, brief=True)
    cost, total = costs(run), costs(run, brief=True)
    head, right = full, cost
    for left, beside in ((full, cost), (full, total), (short, total), (full, ()), (short, ())):
        head, right = left, beside
        if length(left) + length(beside) + 3 * bool(beside) <= cells:
            break
    out = [spread(head, right, cells)]
    # Whatever did not fit beside the figures goes beside the tokens.
    listed = tokens(run, cells)
    missing: Sequence[Parts] = ()
    if right != cost:
        missing = (_shares(run),) if right else (cost, total)
    chosen = next((parts for parts in missing if length(listed) + length(parts) + 3 <= cells), ())
    if not chosen and missing and not right:  # the milliseconds are worth more than the last tokens
        chosen = total
        listed = tokens(run, cells - length(chosen) - 3)
    if rows > 2 and (listed or chosen):
        out.append(spread(listed, chosen, cells))
    room = rows - len(out)
    said = _sentences(run, cells, room)
    out += said
    if keys and len(out) <= rows:
        out = _with_keys(out, (RolePart(keys, "label"),), cells, rows)
    return out[:rows]


def _shares(run: Inspection) -> Parts:
    if not run.nodes or not sum(run.seconds):
        return ()
    names = zip(("draft", "pass", "rest"), run.seconds, strict=True)
    return (RolePart(" + ".join(f"{name} {milliseconds(seconds)}" for name, seconds in names) + " ms", "label"),)


def _sentences(run: Inspection, cells: int, room: int) -> list[Parts]:
    """The verdict and the note in the rows that are left."""
    said = [list(ways) for ways in zip(*(verdict(run, detail) for detail in DETAILS), strict=True)]
    if run.note:
        said.append([(RolePart(run.note, "note"),)])
    out: list[Parts] = []
    for ways in said:
        left = room - len(out)
        if left < 1:
            break
        tries = [wrapped(parts, cells, left + 1) for parts in ways]
        fewest = min(map(len, tries[:2]))
        fits = (rows for rows in tries if len(rows) <= (fewest if fewest <= left else left))
        out += next(fits, wrapped(ways[-1], cells, left))
    return out


def _with_keys(out: list[Parts], keys: Parts, cells: int, rows: int) -> list[Parts]:
    """What the keys do, at the end of the last row if there is room."""
    out = out + [()] * (rows - len(out))
    if length(out[-1]) + length(keys) + 3 <= cells:
        out[-1] = spread(out[-1], keys, cells)
    return out


def spread(left: Parts, right: Parts, cells: int) -> Parts:
    """One at each end; the left alone, cut, where both do not fit."""
    gap = cells - length(left) - length(right)
    if right and gap >= 1:
        return (*left, RolePart(" " * gap, "label"), *right)
    return cut(left, cells)


def cut(parts: Parts, cells: int) -> Parts:
    out: list[RolePart] = []
    for part in parts:
        if width(part.text) > cells:
            if cells > 0:
                out.append(RolePart(fit(part.text, cells), part.role))
            break
        out.append(part)
        cells -= width(part.text)
    return tuple(out)


def wrapped(parts: Parts, cells: int, most: int) -> list[Parts]:
    """Parts on at most `most` rows, broken at blanks; what does not fit is cut with an ellipsis."""
    if most < 1:
        return []
    words: list[RolePart] = []  # each with the blanks before it
    for part in parts:
        if part.role not in ("label", "note"):
            words.append(part)
            continue
        words += [RolePart(word, part.role) for word in _words(part.text)]
    out: list[list[RolePart]] = [[]]
    used = 0
    for i, word in enumerate(words):
        text = word.text if used else word.text.lstrip(" ")
        # A word goes with what follows it without a blank, such as a comma after a quotation.
        follower = words[i + 1].text if i + 1 < len(words) else " "
        tail = 0 if follower.startswith(" ") or text.endswith(" ") else width(follower)
        if used and used + width(text) + tail > cells and len(out) < most and text.strip(" "):
            while out[-1] and not out[-1][-1].text.strip(" "):
                out[-1].pop()
            out.append([])
            used = 0
            text = word.text.lstrip(" ")
        out[-1].append(RolePart(text, word.role))
        used += width(text)
    return [cut(_joined(row), cells) for row in out]


def _words(text: str) -> list[str]:
    """Words with the blanks before them; blanks at the end stand alone."""
    out: list[str] = []
    word = ""
    for char in text:
        if char == " " and word.strip(" "):
            out.append(word)
            word = ""
        word += char
    return [*out, word] if word else out


def _joined(parts: Sequence[RolePart]) -> Parts:
    out: list[RolePart] = []
    for part in parts:
        if out and out[-1].role == part.role:
            out[-1] = RolePart(out[-1].text + part.text, part.role)
        elif part.text:
            out.append(part)
    return tuple(out)
