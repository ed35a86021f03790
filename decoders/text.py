"""The part of an answer that may be shown: whole grapheme clusters, never half of a stop string; thought and answer apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import regex

from ..backends.thinking.split import ANSWER, THOUGHT, Splitter
from ..errors import UserError
from .detokenize import Decode, Detokenizer

CLUSTER = 64
"""The most characters of a grapheme cluster to hold back (the longest emoji sequence in Unicode 16 has 10): endless combining
marks must not hold up the text for ever."""
LONGEST = 1024
"""The most characters in a stop string: so many are held back while they may be one."""
MOST_STOPS = 100
"""The most strings for one answer: each is searched for at every token."""
LEAD = 4
"""The most blank lines and spaces before a thought."""
_GRAPHEME = regex.compile(r"\X")


class Stops:
    """Strings that end an answer, besides EOS: it ends at the earliest of them, which is not shown.

    Raises:
        UserError: there are too many, or a string is empty or too long.
    """

    def __init__(self, strings: Sequence[str] = ()) -> None:
        if len(strings) > MOST_STOPS or not all(1 <= len(string) <= LONGEST for string in strings):
            raise UserError(f"Stop strings have 1 to {LONGEST:,} characters, and there are at most {MOST_STOPS}. Change them.")
        self._strings = tuple(strings)

    def __bool__(self) -> bool:
        return bool(self._strings)

    def find(self, text: str, final: bool = False) -> tuple[int | None, int]:
        """Look for a stop in text that is still growing.

        Args:
            text: the text that is not shown yet.
            final: the text will not grow any more.

        Returns:
            index of the earliest stop, None if there is none or an earlier one may yet come;
            index of the first possible stop: the text before it is safe to show.
        """
        earliest = min((at for string in self._strings if (at := text.find(string)) >= 0), default=len(text))
        partial = len(text)
        for string in () if final else self._strings:
            sizes = range(min(len(string) - 1, len(text)), 0, -1)
            partial = min(partial, len(text) - next((size for size in sizes if text.endswith(string[:size])), 0))
        if earliest < len(text) and earliest <= partial:
            return earliest, earliest
        return None, partial


class TextStream:
    """Turns an answer's tokens into pieces of text that are safe to show.

    Joined, the pieces are decode(all tokens), cut at the earliest stop. A piece ends between grapheme clusters. As a combining
    mark may follow any character, the last cluster is held back until the next one begins.

    Args:
        decode: token ids to text (`Model.decode`).
        stops: strings that end an answer, besides EOS, and no thought.
        splitter: separates thought and answer, of a model that thinks: each is cut as a separate text, without the marks.
        behind: tokens whose text the answer continues; none for a new text.
    """

    def __init__(
        self, decode: Decode, stops: Stops | None = None, splitter: Splitter | None = None, behind: Sequence[int] = ()
    ) -> None:
        self.stopped = False
        """Whether a stop has matched: the text ends before it, and further tokens add nothing."""
        self._decode = decode
        self._detokenizer = Detokenizer(decode, behind)
        self._stops = stops or None
        self._text = ""
        """The text held back."""
        self._safe = 0
        """Index in it of the first possible start of a stop; its length if there is none."""
        self._splitter = splitter
        self._part = splitter.part if splitter is not None else ANSWER
        """The part, thought or answer, of the text held back."""
        self._spans: list[list[int]] = []
        self.thought = 0
        """Number of tokens inside thoughts so far, without the marks."""

    @property
    def undecided(self) -> str:
        """Text that may be half a mark, neither shown nor held."""
        return self._splitter.waiting if self._splitter is not None else ""

    @property
    def thinking(self) -> bool:
        """Whether a thought is open."""
        return self._splitter is not None and self._splitter.state == "thought"

    @property
    def free(self) -> bool:
        """Whether the next token is not yet part of the answer: a thought is open, or half of a mark has come."""
        return self._splitter is not None and (self.thinking or self._splitter.half)

    @property
    def answer_started(self) -> bool:
        """Whether the first word of the answer has come, so that no thought can come before it."""
        splitter = self._splitter
        return splitter is None or splitter.bound or splitter.state not in ("start", "gap") or not self._marks(splitter)

    def leads(self, token: int) -> bool:
        """Return whether a token may begin a thought before the answer's first word, or is a blank line ahead of one."""
        splitter = self._splitter
        if splitter is None or self.answer_started:
            return False
        blank = splitter.state == "start" and len(splitter.waiting) < LEAD and self._decode([token]).isspace()
        return token in self._marks(splitter) or blank

    @staticmethod
    def _marks(splitter: Splitter) -> frozenset[int]:
        return frozenset(unit for unit in splitter.rules.firsts[splitter.state] if isinstance(unit, int))

    def ends_thought(self, token: int) -> bool:
        """Return whether a token ends the open thought: with some models it ends an answer, too."""
        return self.thinking and self._splitter is not None and token == self._splitter.rules.close

    def spans(self) -> list[list[int]]:
        """Return the spans of the text and the tokens since the last call, as `StepRecord.spans`."""
        if self._splitter is None:
            return []
        spans = self._spans or [[self._splitter.part, 0, 0]]
        self._spans = []
        return spans

    @property
    def held(self) -> str:
        """Decoded text that is held back. The next piece begins with it."""
        return self._text

    @property
    def waiting(self) -> str:
        """The last cluster of the held text, which may yet grow but can be shown meanwhile. Never part of a stop."""
        return self._text[: self._safe]

    def push(self, token: int, bound: bool = False) -> str:
        """Add a token and return the text that may be shown now, often "".

        Args:
            token: the next one.
            bound: a constraint asks for it, so that it is part of the answer, even where it spells the mark of a thought.
        """
        if self.stopped:
            return ""
        if self._splitter is not None:
            if bound and not self._splitter.bound:
                self._splitter.bind()
            return self._push_parted(self._splitter, token)
        return self._release(new, final=False) if (new := self._detokenizer.push(token)) else ""

    def flush(self) -> str:
        """Return the rest of the text at the end of the answer. A stop may still match (`stopped`)."""
        if self.stopped:
            return ""
        rest = self._detokenizer.flush()
        if self._splitter is None:
            return self._release(rest, final=True)
        pieces = [*self._splitter.push(rest), *self._splitter.finish()]
        return self._part_by_part(pieces) + self._end_part()

    def _push_parted(self, splitter: Splitter, token: int) -> str:
        before, thinking = splitter.part, self.thinking
        if token in splitter.atoms and not splitter.bound:
            pieces = splitter.push(self._detokenizer.flush(), token)
        else:
            pieces = splitter.push(self._detokenizer.push(token))
        text = self._part_by_part(pieces)
        if self._part == THOUGHT and not self.thinking:
            text += self._end_part()
        mark = before == THOUGHT and not splitter.waiting and all(part == THOUGHT for part, _ in pieces)
        self._count(THOUGHT if mark or splitter.part == THOUGHT else ANSWER, 0, 1)
        self.thought += thinking and self.thinking
        return text

    def _part_by_part(self, pieces: Sequence[tuple[int, str]]) -> str:
        """Release text of both parts; where one ends, none of it is held back."""
        text = ""
        for part, new in pieces:
            if part != self._part:
                text += self._end_part()
                self._part = part
            released = self._release(new, final=False)
            self._count(part, len(released), 0)
            text += released
            if self.stopped:
                break
        return text

    def _end_part(self) -> str:
        if self.stopped:
            return ""
        text = self._release("", final=True)
        self._count(self._part, len(text), 0)
        self._hold("", 0)
        return text

    def _hold(self, text: str, safe: int) -> None:
        self._text = text
        self._safe = safe

    def _count(self, part: int, characters: int, tokens: int) -> None:
        if not characters + tokens:
            return
        if not self._spans or self._spans[-1][0] != part:
            self._spans.append([part, 0, 0])
        self._spans[-1][1] += characters
        self._spans[-1][2] += tokens

    def _release(self, new: str, final: bool) -> str:
        text = self._text + new
        safe = len(text)
        if self._stops and self._part == ANSWER:
            stop, safe = self._stops.find(text, final)
            self.stopped = stop is not None
        if self.stopped:
            self._hold("", 0)
            return text[:safe]
        end = safe if final else self._boundary(text, safe)
        self._hold(text[end:], safe - end)
        return text[:end]

    @staticmethod
    def _boundary(text: str, end: int) -> int:
        """Find the last end of a finished grapheme cluster before `end`."""
        last = 0
        for cluster in _GRAPHEME.finditer(text):
            unfinished = cluster.end() == len(text) and text[-1] != "\n" and len(cluster[0]) < CLUSTER
            if cluster.end() > end or unfinished:
                break
            last = cluster.end()
        return last


def joined(*spans: Sequence[Sequence[int]]) -> list[list[int]]:
    """Join consecutive spans."""
    rows: list[list[int]] = []
    for part, characters, tokens in chain(*spans):
        if not rows or (rows[-1][0] != part and characters + tokens):
            rows.append([part, 0, 0])
        rows[-1][1] += characters
        rows[-1][2] += tokens
    return rows
