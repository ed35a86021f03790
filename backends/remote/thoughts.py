"""A server's thoughts: which part of its answer each run belongs to."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from ..info import Thinking
from ..thinking.form import Marks
from ..thinking.split import ANSWER, PAIRS, THOUGHT, Rules, Splitter, compile_rules

INFO = Thinking(
    words=("off", "on", "low", "medium", "high"),
    sentence="Thoughts come as its server tells them apart; --think is passed on, and the server does with it what it can.",
)
"""The description of thoughts for any model on a server."""

OPEN, CLOSE = 0, 1
"""Atoms in place of the marks around a thought that comes in a field of its own."""


def _rules(opening: str, close: str, atoms: dict[str, int]) -> Rules:
    return compile_rules(Marks(opening, close, before="\n", after="\n", gap="\n\n"), atoms)


FIELD = _rules("<open>", "<close>", {"<open>": OPEN, "<close>": CLOSE})
"""Rules for thoughts in a field of their own."""
TAGS = {opening: _rules(opening, close, {}) for opening, close in PAIRS}
"""Rules for thoughts between tags in the content, by the opening tag."""
START = replace(
    FIELD,
    rows={**FIELD.rows, "start": [*FIELD.rows["start"], *(rule for tags in TAGS.values() for rule in tags.rows["start"])]},
    firsts={**FIELD.firsts, "start": FIELD.firsts["start"].union(*(tags.firsts["start"] for tags in TAGS.values()))},
)
"""Rules for an answer that has not begun: a thought may come in a field, or between tags that the server left in."""


class Parts:
    """Tells thought and answer apart, in the stream and in the runs that are cut of it."""

    def __init__(self) -> None:
        self.answer = ""
        """The answer so far, without its thought."""
        self.part = ANSWER
        """The part of the last run."""
        self._splitter = Splitter(START)
        self._in_field = False
        """Whether the last text came in the thought's field."""
        self._any_thought = False
        self._waiting: deque[tuple[int, int]] = deque()
        """A part and its characters that were returned by `push` and are not in a run yet."""

    def push(self, thought: str, text: str, *, over: bool = False) -> str:
        """Add a thought and text behind it; return what is certain now, without the white space that templates write next to
        marks.

        Args:
            thought: text from the thought's field.
            text: of the content.
            over: nothing follows.
        """
        splitter, pieces = self._splitter, list[tuple[int, str]]()
        if thought:
            splitter.rules = FIELD
            if not self._in_field:
                pieces += splitter.push("", OPEN)
            pieces += splitter.push(thought)
            self._in_field = self._any_thought = True
        if text and self._in_field:
            pieces += splitter.push("", CLOSE)
            self._in_field = False
        if text and splitter.rules is START and splitter.state == "start":
            start = (splitter.waiting + text).lstrip()
            splitter.rules = next((rules for opening, rules in TAGS.items() if start.startswith(opening)), START)
        pieces += splitter.push(text)
        if over:
            pieces += splitter.finish()
        for part, piece in pieces:
            self._any_thought |= part == THOUGHT
            self.answer += piece if part == ANSWER else ""
            self._waiting.append((part, len(piece)))
        return "".join(piece for _, piece in pieces)

    def spans(self, characters: int, tokens: int) -> list[list[int]]:
        """Return the rows of a run, as in `StepRecord.spans`. Tokens of a run with both parts are divided by characters; a run
        without text belongs to the part in force."""
        rows: list[list[int]] = []
        left = characters
        while left and self._waiting:
            part, size = self._waiting.popleft()
            if not rows or rows[-1][0] != part:
                rows.append([part, 0, 0])
            rows[-1][1] += min(left, size)
            if size > left:
                self._waiting.appendleft((part, size - left))
            left -= min(left, size)
        rows = rows or [[self.part, 0, 0]]
        self.part = rows[-1][0]
        for row in rows[:-1]:
            row[2] = min(tokens, round(tokens * row[1] / characters))
        rows[-1][2] = tokens - sum(row[2] for row in rows[:-1])
        return rows if self._any_thought else []
