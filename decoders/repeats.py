"""The loop guard: when an answer repeats itself far beyond what text does.

It sees the answer's tokens one by one, in order, as plain decoding would give them: it stops every method at the same token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .detokenize import Decode

LAGS = 512
"""Longest period that is seen, in tokens: a long paragraph."""
WORDS = (12, 256)
"""Text with words in it is a loop once its period has come this many times, over this many tokens: "Repeat this ten times" is
no loop yet."""
REST = (40, 480)
"""The same for digits, signs and spaces alone, which tables, figures and drawings repeat, and for words with a number that
counts up, as in lists: only far more of them is a loop."""
DIGITS = 9
"""Most digits that are read as one number: endless ones are a loop of digits."""

_EMPTY = -1
"""Stands where there is no token yet."""


class Loop(NamedTuple):
    """What an answer repeats at its end."""

    period: int
    """Tokens."""
    repeats: int
    """How often they came, the first time included."""


def _needed(rule: tuple[int, int]) -> np.ndarray:
    """How many tokens, for each lag, must equal the one so far before them."""
    repeats, tokens = rule
    lags = np.arange(1, LAGS + 1)
    return np.asarray(np.maximum(tokens, repeats * lags) - lags, np.int32)


_WORDS, _REST = _needed(WORDS), _needed(REST)
_FEWEST = int(_WORDS.min())
"""No loop has fewer matches than this."""


class _Repeats:
    """How far back a growing sequence repeats itself, at each lag."""

    def __init__(self) -> None:
        self.matches = np.zeros(LAGS, np.int32)
        """[lag − 1] how many of the last elements each equal the one that far before them."""
        self.wordless = LAGS
        """Elements since the last with a word in it."""
        self._matching = 0
        """Elements in a row that equal one before them, whichever."""
        self._past = np.full(16 * LAGS, _EMPTY, np.int64)
        self._end = LAGS

    def push(self, element: int, *, word: bool, near: int = _EMPTY) -> None:
        """Take an element. It equals earlier ones of its own value, and of `near`."""
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

    def found(self, needed: np.ndarray, shortest: int = 1) -> Loop | None:
        """The shortest period, from `shortest` on, that has come often enough."""
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
        decode: token ids to text, called once for each token that the answer has.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._texts: dict[int, str] = {}
        self._tokens = _Repeats()
        self._counting = _Repeats()
        """The same with each number for one element, which equals itself and the number before it: a list that counts."""
        self._number = ""
        """Digits that the next token may go on."""

    def push(self, token: int) -> Loop | None:
        """Take the answer's next token; the loop that it closes, if any. What follows a loop is of no interest."""
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
            self._tokens.found(_WORDS, self._tokens.wordless + 1)
            or self._tokens.found(_REST)
            or self._counting.found(_REST, self._counting.wordless + 1)
        )

    def _count(self) -> None:
        """The number so far has ended."""
        if self._number:
            element = _EMPTY - 1 - int(self._number)
            self._counting.push(element, word=False, near=element + 1)
            self._number = ""
