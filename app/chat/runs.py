"""Runs: the text of each pass of an answer, its shade, and its thoughts; and the text of single tokens."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from ...engine.catalog import Share
from ...engine.messages import StepRecord
from ..text.cells import sanitise

SHADES = 2
"""Weights that runs take turns in where they touch, so that neighbours differ."""

WRITTEN = -3
"""Shade of text that a constraint wrote without a pass."""


class Shades:
    """The shades of an answer's runs, in the chat, in files and in the shell: a run is coloured if one pass gave several tokens
    together. Blanks show where most runs begin; one that touches the run before it has another shade."""

    def __init__(self) -> None:
        self._shade = -1
        self._plain = -2
        self._end = " "  # the last visible character

    def next(self, step: StepRecord) -> int:
        """Return the shade of a step's run, as `Run.shade` has it."""
        text = step.text + step.held
        before = text[step.carried - 1 : step.carried] or self._end
        begin = text[step.carried : step.carried + 1] or " "
        self._end = text[-1:] or self._end
        if step.grammar and not step.nodes:
            shade = WRITTEN
        elif len(step.tokens) - step.earlier > 1:
            touches = self._shade >= 0 and not (before.isspace() or begin.isspace())
            shade = (self._shade + 1) % SHADES if touches else 0
        else:
            shade = self._plain = -3 - self._plain
        if text:  # else the next run takes its place
            self._shade = shade
        return shade


Spans = tuple[tuple[int, int, int], ...]
"""Rows of [1 for a thought or 0 for the answer, characters, tokens], as a step's `spans`; empty: all of it is answer."""


@dataclass(slots=True)
class Run:
    """The tokens of one step: those that a forward pass produced together, or (beam search) those that it made certain."""

    text: str
    tokens: int
    method: str
    shade: int
    """Number from 0; −1 and −2 take turns for single tokens, WRITTEN is for text without a pass."""
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    carried: int = 0
    """Characters at the start of `text` that belong to the run before (they had been held back)."""
    earlier: int = 0
    """Number of tokens that earlier passes had found."""
    spans: Spans = ()
    """Thoughts and answers in the text."""

    @property
    def together(self) -> int:
        return self.tokens - self.earlier

    @property
    def thinking(self) -> bool:
        """Whether the run ends in a thought."""
        return bool(self.spans) and self.spans[-1][0] > 0

    @property
    def thought_tokens(self) -> int:
        return sum(tokens for thought, _, tokens in self.spans if thought)

    def pieces(self) -> Iterator[tuple[bool, bool, str]]:
        """Yield the run's text in pieces: whether it is thought, whether the run before had held it back, and the text."""
        start = 0
        for thought, length, _ in self.spans or ((0, len(self.text), 0),):
            end = start + length
            seam = min(max(start, self.carried), end)
            for late, text in ((True, self.text[start:seam]), (False, self.text[seam:end])):
                if text:
                    yield thought > 0, late, text
            start = end


def thought_share(run: Run) -> Share:
    """Return the share of a run that belongs to a thought."""
    return Share().plus(Share(run.tokens, 1, run.seconds, run.drafted, run.accepted), run.thought_tokens / run.tokens)


def join_text(runs: Iterable[Run], thought: bool = False) -> str:
    """Return the text of the answers in some runs, or of the thoughts."""
    out: list[str] = []
    for run in runs:
        if len(run.spans) > 1:
            out += [text for is_thought, _, text in run.pieces() if is_thought == thought]
        elif run.thinking == thought:
            out.append(run.text)
    return "".join(out)


class Pieces:
    """Token id → its text. A vocabulary of 150,000 takes about 2 MB: one string and an array of offsets."""

    def __init__(self, pieces: Iterable[str] = ()) -> None:
        texts = list(pieces)
        self._ends = array("I", accumulate(map(len, texts)))
        self._text = "".join(texts)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        return map(self.raw, range(len(self)))

    def raw(self, token: int) -> str:
        """Return the tokenizer's own text, which may hold anything; empty if unknown."""
        if not 0 <= token < len(self._ends):
            return ""
        return self._text[self._ends[token - 1] if token else 0 : self._ends[token]]

    def text(self, token: int) -> str:
        """Return the text, safe to show on one line: line breaks and tabs as symbols, spaces as they are; `⟨id⟩` if unknown."""
        return sanitise(self.raw(token)).replace("\n", "⏎").replace("\t", "⇥") or f"⟨{token}⟩"


class SomePieces(Pieces):
    """The text of the tokens of a saved answer, by id."""

    def __init__(self, pieces: Mapping[int, str]) -> None:
        super().__init__()
        self._known = dict(pieces)

    def __len__(self) -> int:
        return len(self._known)

    def raw(self, token: int) -> str:
        return self._known.get(token, "")
