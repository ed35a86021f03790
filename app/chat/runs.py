"""Runs: what each pass of an answer wrote, which tone it has, and what of it is thought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...engine.catalog import Share
from ...engine.messages import StepRecord

SHADES = 2
"""Weights that runs take turns in where they touch, so that neighbours differ."""

WRITTEN = -3
"""The shade of what a constraint wrote without a pass."""


class Shades:
    """The shade of each run of an answer, in the chat, in files and in the shell: a run is coloured where one pass gave
    several tokens together. Blanks show where most runs begin; one that touches the run before it has another shade."""

    def __init__(self) -> None:
        self._shade, self._plain = -1, -2
        self._end = " "  # the last character that is shown

    def next(self, step: StepRecord) -> int:
        """The shade of a step's run, as `Run.shade` has it."""
        shown = step.text + step.held
        before = shown[step.carried - 1 : step.carried] or self._end
        begin = shown[step.carried : step.carried + 1] or " "
        self._end = shown[-1:] or self._end
        if step.grammar and not step.nodes:
            shade = WRITTEN
        elif len(step.tokens) - step.earlier > 1:
            touches = self._shade >= 0 and not (before.isspace() or begin.isspace())
            shade = (self._shade + 1) % SHADES if touches else 0
        else:
            shade = self._plain = -3 - self._plain
        if shown:  # else it leaves its place to the next
            self._shade = shade
        return shade


Spans = tuple[tuple[int, int, int], ...]
"""Rows of whether it is thought (0 or 1), characters and tokens, as a step's `spans`; empty: all of it is answer."""


@dataclass(slots=True)
class Run:
    """The tokens of one step: those that a forward pass produced together, or (beam search) those that it made certain."""

    text: str
    tokens: int
    method: str
    shade: int
    """From 0; −1 and −2 take turns where no pass produced several tokens, WRITTEN is for those that
    took none."""
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    carried: int = 0
    """Characters at the start of `text` that belong to the run before (they had been held back)."""
    earlier: int = 0
    """How many of the tokens earlier passes had found."""
    spans: Spans = ()
    """What of it is thought."""

    @property
    def together(self) -> int:
        return self.tokens - self.earlier

    @property
    def thinking(self) -> bool:
        """Whether it ends in a thought."""
        return bool(self.spans) and self.spans[-1][0] > 0

    @property
    def thought_tokens(self) -> int:
        return sum(tokens for thought, _, tokens in self.spans if thought)

    def pieces(self) -> Iterator[tuple[bool, bool, str]]:
        """Pieces of the run's text: for each, whether it is thought, whether the run before had held it back, and the text."""
        start = 0
        for thought, length, _ in self.spans or ((0, len(self.text), 0),):
            end = start + length
            seam = min(max(start, self.carried), end)
            for late, text in ((True, self.text[start:seam]), (False, self.text[seam:end])):
                if text:
                    yield thought > 0, late, text
            start = end


def thought_of(run: Run) -> Share:
    """Return the share of a run that belongs to a thought."""
    return Share().plus(Share(run.tokens, 1, run.seconds, run.drafted, run.accepted), run.thought_tokens / run.tokens)


def spelled(runs: Iterable[Run], thought: bool = False) -> str:
    """The answers in some runs, or the thoughts."""
    out: list[str] = []
    for run in runs:
        if len(run.spans) > 1:
            out += [text for is_thought, _, text in run.pieces() if is_thought == thought]
        elif run.thinking == thought:  # all of it is the one or the other
            out.append(run.text)
    return "".join(out)
