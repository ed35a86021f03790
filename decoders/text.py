"""The part of an answer that may be shown: whole grapheme clusters, never half of a stop string; thought and answer apart."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import chain

import regex

from ..backends.thinking.split import ANSWER, THOUGHT, Splitter
from ..errors import UserError
from .detokenize import Decode, Detokenizer

CLUSTER = 64
"""The most characters of a grapheme cluster to hold back (the longest emoji sequence in Unicode 16 has 10): endless combining
marks must not hold up the text for ever."""
STOP = 1024
"""The most characters to hold back because a stop regex such as `a.*z` may match them; longer matches are missed."""
CONTEXT = 64
"""Number of characters of the text already shown that a stop regex can look back at."""
LONGEST = STOP
"""The most characters in a stop string or regex: a longer one could never be held back whole."""
MOST_STOPS = 100
"""The most strings and regexes for one answer: each is searched for at every token."""
MOST_COPIES = 100_000
"""The most characters that a regex may expand to: `a{1000000000}` is compiled into 10^9."""
REGEX_SECONDS = 1.0
"""Processor time that one search for a stop may take; a regex that exceeds it (by endless backtracking) is refused."""
SECONDS_A_LOOK = 0.002
"""Processor time that searches may take on average per token, so that slow ones do not add up. Most take microseconds."""
PROBE = 64
"""Length of the repeated character that a new regex is tried on: 2^64 ways to match are too many, 64^3 are not."""
LEAD = 4
"""The most blank lines and spaces before a thought."""
_GRAPHEME = regex.compile(r"\X")
_SENTINELS = "a0 \n."
"""Continuations tried to see whether a match depends on being at the end of the text; the regex's own characters besides."""


class Stops:
    """Strings and regexes that end an answer, besides EOS: it ends at the earliest match, which is not shown.

    Args:
        strings: stop strings, matched literally.
        patterns: stop regexes, in the syntax of the `regex` module.

    Raises:
        UserError: there are too many, one is too long, a string is empty, or a regex is malformed, matches nothing at all
            (""), runs backwards, or takes too long.
    """

    def __init__(self, strings: Sequence[str] = (), patterns: Sequence[str] = ()) -> None:
        if "" in strings:
            raise UserError("A stop string is empty. Give the text to stop at.")
        if (count := len(strings) + len(patterns)) > MOST_STOPS:
            raise UserError(f"There are {count:,} stop strings and regexes; the limit is {MOST_STOPS}. Remove some.")
        for kind, texts in (("string", strings), ("regex", patterns)):
            if (longest := max(map(len, texts), default=0)) > LONGEST:
                raise UserError(f"A stop {kind} has {longest:,} characters; the limit is {LONGEST:,}. Shorten it.")
        self._patterns = [_Pattern(regex.compile(regex.escape(s)), f"string {s!r:.60}") for s in strings]
        self._patterns += map(_checked, patterns)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def find(self, text: str, start: int, final: bool = False) -> tuple[int | None, int]:
        """Look for a stop in text that is still growing.

        Args:
            text: some text shown already, as context, and the text in question.
            start: where the text in question starts; no stop starts before it.
            final: the text will not grow any more.

        Returns:
            where the earliest stop starts, None if there is none or an earlier one may yet come;
            where the first possible start of a stop is: the text before it is safe to show.

        Raises:
            UserError: a stop takes too long to look for.
        """
        earliest, hold = len(text), len(text)
        stopped = False
        for pattern in self._patterns:
            # `regex` reports a partial match only where there is no full match anywhere in the text.
            pattern.seconds_left = min(REGEX_SECONDS, pattern.seconds_left + SECONDS_A_LOOK)
            match = pattern.search(text, start, not final)
            if match is None:
                continue
            if match.partial:
                hold = min(hold, match.start())
                continue
            if final or pattern.settled(text, match.start()):
                stopped = True
                earliest = min(earliest, match.start())
            else:
                hold = min(hold, match.start())
            if not final:
                before = (i for i in range(start, match.start()) if pattern.search(text, i, partial=True, anchored=True))
                hold = min(hold, next(before, hold))
        hold = max(hold, len(text) - STOP)
        if stopped and earliest <= hold:
            return earliest, earliest
        return None, hold


class _Pattern:
    """A compiled stop, and the processor time that searching for it may still take."""

    def __init__(self, compiled: regex.Pattern[str], name: str) -> None:
        self.compiled = compiled
        self.name = name
        self.seconds_left = REGEX_SECONDS

    def search(self, text: str, start: int, partial: bool = False, anchored: bool = False) -> regex.Match[str] | None:
        """Search from `start` on, or match exactly there if `anchored`.

        Raises:
            UserError: that takes too long.
        """
        method = self.compiled.match if anchored else self.compiled.search
        before = time.thread_time()
        try:
            if self.seconds_left <= 0:
                raise TimeoutError
            return method(text, start, partial=partial, timeout=self.seconds_left)
        except (TimeoutError, MemoryError):
            raise UserError(
                f"The stop {self.name} takes too long to search for. Write it without repeats inside repeats."
            ) from None
        finally:
            self.seconds_left -= time.thread_time() - before

    def settled(self, text: str, start: int) -> bool:
        """Return whether the match at `start` stays one whatever follows (`end$`, `end\\b` and `a(?!b)` may not)."""
        return all(self.search(text + char, start, anchored=True) for char in {*_SENTINELS, *self.compiled.pattern})


def _checked(pattern: str) -> _Pattern:
    name = f"regex {pattern!r:.60}"
    copies = len(pattern)
    for group, count in re.findall(r"(\)\s*)?\{(\d+)", pattern):
        # A count behind a group multiplies the group; one behind a character adds up.
        copies = copies * max(1, int(count)) if group else copies + int(count)
    if copies > MOST_COPIES:
        raise UserError(f"The stop {name} repeats too often. Use counts below 1,000.")
    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise UserError(
            f"The stop {name} is malformed: {error}. Correct it; a character that stands for itself may need a \\ before it."
        ) from None
    except RecursionError:
        raise UserError(f"The stop {name} is nested too deeply. Write it with fewer groups inside groups.") from None
    if compiled.flags & regex.REVERSE:
        raise UserError(f"The stop {name} searches backwards, which does not work on a growing text. Leave out (?r).")
    checked = _Pattern(compiled, name)
    if checked.search("", 0):
        raise UserError(f"The stop {name} matches the empty text, so it would stop at once. Make it match something.")
    for char in {*_SENTINELS, *pattern}:
        checked.search(char * PROBE + "\0", 0)
        checked.search(char * PROBE, 0, partial=True)
    checked.seconds_left = REGEX_SECONDS
    return checked


class TextStream:
    """Turns an answer's tokens into pieces of text that are safe to show.

    Joined, the pieces are decode(all tokens), cut at the earliest stop. A piece ends between grapheme clusters. As a combining
    mark may follow any character, the last cluster is held back until the next one begins.

    Args:
        decode: token ids to text (`Model.decode`).
        stops: stop strings and regexes, besides EOS. They end an answer, not a thought.
        splitter: separates thought and answer, of a model that thinks: each is cut as a separate text, without the marks.
        behind: tokens whose text the answer continues; none for a new text.
    """

    def __init__(
        self, decode: Decode, stops: Stops | None = None, splitter: Splitter | None = None, behind: Sequence[int] = ()
    ) -> None:
        self.stopped = False
        """Whether a stop has matched: the text ends before it, and further tokens add nothing."""
        self.trouble: UserError | None = None
        """The error of a stop that took too long to search for. No stop is searched for any more, and no text held back."""
        self._decode = decode
        self._detokenizer = Detokenizer(decode, behind)
        self._stops = stops or None
        self._text = ""
        """The end of the shown text, and the text held back."""
        self._pos = 0
        """Index in it of the text held back."""
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
    def begun(self) -> bool:
        """Whether the first word of the answer is there, so that no thought can come before it."""
        splitter = self._splitter
        return splitter is None or splitter.bound or splitter.state not in ("start", "gap") or not self._marks(splitter)

    def leads(self, token: int) -> bool:
        """Whether a token may begin a thought before the first word of the answer, or is a blank line ahead of one."""
        splitter = self._splitter
        if splitter is None or self.begun:
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
        return self._text[self._pos :]

    @property
    def waiting(self) -> str:
        """The last cluster of the held text, which may yet grow but can be shown meanwhile. Never part of a stop."""
        return self._text[self._pos : self._safe]

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
        new = self._detokenizer.push(token)
        return self._release(new, final=False) if new else ""

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
        self._hold("", 0, 0)
        return text

    def _hold(self, text: str, pos: int, safe: int) -> None:
        self._text = text
        self._pos = pos
        self._safe = safe

    def _count(self, part: int, characters: int, tokens: int) -> None:
        if not characters + tokens:
            return
        if not self._spans or self._spans[-1][0] != part:
            self._spans.append([part, 0, 0])
        self._spans[-1][1] += characters
        self._spans[-1][2] += tokens

    def _release(self, new: str, final: bool) -> str:
        self._text += new
        start, end = self._pos, len(self._text)
        if self._stops and self._part == ANSWER:
            try:
                stop, end = self._stops.find(self._text, start, final)
                self.stopped = stop is not None
            except UserError as error:
                self.trouble = error
                self._stops = None
        if self.stopped:
            piece = self._text[start:end]
            self._hold("", 0, 0)
            return piece
        safe = len(self._text) if final else end
        end = safe if final else self._boundary(start, end)
        piece = self._text[start:end]
        cut = max(0, end - CONTEXT) if end > 8 * CONTEXT else 0  # seldom, as it copies
        self._hold(self._text[cut:], end - cut, safe - cut)
        return piece

    def _boundary(self, start: int, end: int) -> int:
        """Find the last end of a finished grapheme cluster in the text from `start` to `end`."""
        rest = self._text[start:]  # a slice: flags pair up from its start, however much of the shown text is still there
        last = 0
        for cluster in _GRAPHEME.finditer(rest):
            unfinished = cluster.end() == len(rest) and rest[-1] != "\n" and len(cluster[0]) < CLUSTER
            if start + cluster.end() > end or unfinished:
                break
            last = cluster.end()
        return start + last


def joined(*spans: Sequence[Sequence[int]]) -> list[list[int]]:
    """Join consecutive spans."""
    rows: list[list[int]] = []
    for part, characters, tokens in chain(*spans):
        if not rows or (rows[-1][0] != part and characters + tokens):
            rows.append([part, 0, 0])
        rows[-1][1] += characters
        rows[-1][2] += tokens
    return rows
