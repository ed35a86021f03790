"""A server's thoughts: which part of its answer each run is of, what it is asked for, and what it gets of earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from ...errors import UserError
from ..info import Thinking
from ..thinking.form import Marks
from ..thinking.split import ANSWER, THOUGHT, Rules, Splitter, compile_rules
from ..thinking.thoughts import PAIRS
from .dialects import DIALECTS

INFO = Thinking(
    words=("off", "on", "low", "medium", "high"),
    sentence="Thoughts come as its server tells them apart; --think is passed on, and the server does with it what it can.",
)
"""What is known of any model on a server."""


class Parts:
    """Follows what is thought and what is answer through the runs that are cut of both together. Tags at the very beginning of
    the content mark a thought, too, where the server has not taken it out."""

    def __init__(self) -> None:
        self.seen = False
        """Whether there was any thought."""
        self.part = ANSWER
        """The part in force."""
        self._waiting: deque[list[int]] = deque()
        """Rows of a part and how many characters of it were pushed and not handed out yet."""
        self._start: str | None = ""
        """The content's beginning, while it may be a tag."""
        self._splitter: Splitter | None = None
        self._late = ""
        """A line break at a thought's end: it is the template's, unless more of the thought follows."""
        self._gap = 0
        """Line breaks, at most, that the template writes between the thought and the answer that begins."""

    def push(self, thought: str, text: str, *, over: bool = False) -> str:
        """Take what came, and return what is to be shown of it."""
        pieces = [(THOUGHT, self._thought(thought))] if thought else []
        pieces += self._content(self._behind(text))
        if over and self._late:
            pieces, self._late = [*pieces, (THOUGHT, self._late)], ""
        if over and self._splitter is not None:
            pieces += self._splitter.finish()
        elif over and self._start:
            pieces, self._start = [*pieces, (ANSWER, self._start)], None
        for part, new in pieces:
            self.seen = self.seen or part == THOUGHT
            self._waiting.append([part, len(new)])
        return "".join(new for _, new in pieces)

    def _thought(self, thought: str) -> str:
        """A thought that came in a field of its own, without the line breaks that templates write next to marks."""
        if not self.seen:
            thought = thought.removeprefix("\n")
        thought = self._late + thought
        kept = thought.removesuffix("\n")
        self.seen, self._start, self._late, self._gap = True, None, thought[len(kept) :], 2
        return kept

    def _behind(self, text: str) -> str:
        if not text or not self._gap:
            return text
        rest = text[:2].lstrip("\n") + text[2:] if self._gap == 2 else text.removeprefix("\n")
        self._late, self._gap = "", 0 if rest else self._gap - len(text)
        return rest

    def _content(self, text: str) -> list[tuple[int, str]]:
        if self._splitter is not None:
            return self._splitter.push(text)
        if self._start is None or not text:
            return [(ANSWER, text)] if text else []
        self._start += text
        begins = self._start.lstrip()
        for opening, close in PAIRS:
            if begins.startswith(opening):
                self._splitter = Splitter(_rules(opening, close))
                return self._splitter.push(self._start)
        if any(opening.startswith(begins) for opening, _ in PAIRS):
            return []
        start, self._start = self._start, None
        return [(ANSWER, start)]

    def spans(self, characters: int, tokens: int) -> list[list[int]]:
        """Rows of a run, as `StepRecord.spans`. Of a run of both parts, tokens are shared out by characters; without text it is
        of the part in force."""
        rows: list[list[int]] = []
        left = characters
        while left and self._waiting:
            first = self._waiting[0]
            took = min(left, first[1])
            if took and (not rows or rows[-1][0] != first[0]):
                rows.append([first[0], 0, 0])
            if took:
                rows[-1][1] += took
            left, first[1] = left - took, first[1] - took
            if not first[1]:
                self._waiting.popleft()
        rows = rows or [[self.part, 0, 0]]
        self.part = rows[-1][0]
        for row in rows[:-1]:
            row[2] = min(tokens, round(tokens * row[1] / characters))
        rows[-1][2] = tokens - sum(row[2] for row in rows[:-1])
        return rows if self.seen else []


def _rules(opening: str, close: str) -> Rules:
    return compile_rules(Marks(opening, close, before="\n", after="\n", gap="\n\n"), {})


def asked(engine: str, think: str, budget: int | None, variables: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that switch thinking.

    Raises:
        UserError: the engine has no such setting.
    """
    dialect, body, given = DIALECTS[engine], dict[str, Any](), dict(variables)
    if given and not dialect.templates:
        raise UserError(f"{engine} takes no variables for the chat template. Leave out {', '.join(given)}.")
    if budget is not None and not dialect.budget:
        raise UserError(f"{engine} takes no budget for thoughts. Leave out think_budget.")
    if budget is not None:
        body[dialect.budget] = budget
    if think in ("on", "off") and dialect.templates:
        given = {"enable_thinking": think == "on", "thinking": think == "on", **given}
    elif think and dialect.effort:
        given = {"reasoning_effort": think, **given}
    elif think:
        body["reasoning_effort"] = {"off": "none", "on": "medium"}.get(think, think)
    return body | ({"chat_template_kwargs": given} if given else {})


def with_thought(engine: str, message: dict[str, Any], under: str) -> dict[str, Any]:
    """A message for a server, with its thought where that takes one: under the engine's own field, else under the one that
    thoughts have come under. A strict API refuses fields that it does not know, so without either it stays out."""
    thought = message.pop("thought", "")
    name = DIALECTS[engine].thought or under
    return {**message, name: thought} if thought and name else message
