"""The loop guard ends an answer that repeats itself far more than ordinary text does.

It reads the answer's tokens one by one, in the order of plain decoding, so it stops every method at the same token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .detokenize import Decode

LAGS = 512
"""Longest period that is recognised, in tokens: a long paragraph."""
WORDS = (12, 256)
"""Least repeats and tokens after which text with words in it is a loop: "Repeat this ten times" is no loop yet."""
REST = (40, 480)
"""The same for digits, signs and spaces alone, which tables, figures and drawings repeat, and for words with a number that
counts up, as in lists: only far more of them is a loop."""
DIGITS = 9
"""Most digits that are read as one number: endless ones are a loop of digits."""

_EMPTY = -1
"""The element of a place without a token."""


class Loop(NamedTuple):
    """The repetition at an answer's end."""

    period: int
    """Length of the repeated text, in tokens."""
    repeats: int
    """Number of times that it came, the first included."""


def _needed(rule: tuple[int, int]) -> np.ndarray:
    """Compute, for each lag, how many tokens must equal the one so far before them."""
    repeats, tokens = rule
    lags = np.arange(1, LAGS + 1)
    return np.asarray(np.maximum(tokens, repeats * lags) - lags, np.int32)


_WORDS, _REST = _needed(WORDS), _needed(REST)
_FEWEST = int(_WORDS.min())
"""No loop has fewer matches than this."""


class _Repeats:
    """The repetitions at the end of a growing sequence, by lag."""

    def __init__(self) -> None:
        self.matches = np.zeros(LAGS, np.int32)
        """[lag − 1] number of last elements in a row that equal the one that far before them."""
        self.wordless = LAGS
        """Number of elements since the last with a word in it."""
        self._matching = 0
        """Number of last elements in a row that equal any one before them."""
        self._past = np.full(16 * LAGS, _EMPTY, np.int64)
        self._end = LAGS

    def push(self, element: int, *, word: bool, near: int = _EMPTY) -> None:
        """Add an element. It equals earlier ones of the same value, and of `near`."""
        if self._end == len(self._past):
            self._past[:LAGS] = self._past[-LAGS:]
            self._end = LAGS
        past = self._past[self._end - LAGS : self._end][::-1]
        same = past == element
        if near != _EMPTY:
            same |= past == near
        self._matching = self._matching + 1 if same.any() else 0
        self.matches += 1
        self.matches *= same
        self._past[self._end] = element
        self._end += 1
        self.wordless = 0 if word else self.wordless + 1

    def find(self, needed: np.ndarray, shortest: int = 1) -> Loop | None:
        """Find the shortest period, from `shortest` on, that has come often enough."""
        if self._matching < _FEWEST:
            return None
        over = self.matches[shortest - 1 :] >= needed[shortest - 1 :]
        if not over.any():
            return None
        lag = int(over.argmax()) + shortest
        return Loop(lag, (int(self.matches[lag - 1]) + lag) // lag)


class LoopGuard:
    """Watches an answer for loops.

    Args:
        decode: token ids to text, called once for each different token of the answer.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._texts: dict[int, str] = {}
        self._tokens = _Repeats()
        self._counting = _Repeats()
        """The same sequence with each number as one element, equal to itself and the number before: a list that counts."""
        self._number = ""
        """Digits that the next token may continue."""

    def push(self, token: int) -> Loop | None:
        """Add the answer's next token; return the loop that it closes, if any. Not to be called after a loop."""
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = self._decode([token])
        word = any(map(str.isalpha, text))
        self._tokens.push(token, word=word)
        if text.strip().isdecimal():
            if text[0].isspace() or len(self._number) + len(text) > DIGITS:
                self._count()
            self._number += text.strip()
        else:
            self._count()
            self._counting.push(token, word=word)
        return (
            self._tokens.find(_WORDS, self._tokens.wordless + 1)
            or self._tokens.find(_REST)
            or self._counting.find(_REST, self._counting.wordless + 1)
        )

    def _count(self) -> None:
        """End the number so far, if there is one."""
        if self._number:
            element = _EMPTY - 1 - int(self._number)
            self._counting.push(element, word=False, near=element + 1)
            self._number = ""
