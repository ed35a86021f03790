"""A constraint beside one answer: which tokens may follow the answer and a line of further tokens, and which must."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UserError
from .constraint import NAMES, Constraint

if TYPE_CHECKING:
    from llguidance import LLTokenizer

Mask = np.ndarray[Any, np.dtype[np.int32]]
"""A bit for each token [words of 32], the lowest first."""

MOST_FORCED = 256
"""Most tokens that are forced at a time: a constant text of a megabyte does not come in one step."""

SLOW_SECONDS = 2.0
"""A mask that takes longer ends the answer: the next ones would as well. Usual ones take some 20 µs, the dearest of a large
vocabulary 3 ms."""


class Matcher:
    """Follows an answer. One llguidance matcher stands somewhere behind the answer's end; where another place is asked about,
    it goes back to what the two share and on from there, some 2 µs a token, so that a walk through a tree copies nothing.

    Tokens that end an answer are never fed to it: it would count them in one state and not in another.

    Args:
        tokenizer: the model's.
        constraint: what to match.
        ends: the tokens that end an answer; None for those that llguidance has.

    Raises:
        UserError: the constraint cannot be used; says which part.
    """

    def __init__(self, tokenizer: LLTokenizer, constraint: Constraint, ends: Collection[int] | None = None) -> None:
        from llguidance import LLMatcher

        self.constraint = constraint
        self.ends = frozenset(tokenizer.eos_tokens if ends is None else ends)
        self.before: Callable[[int], bool] | None = None
        """Whether the model may choose a token all the same, as it leads to a thought before the answer; None where none may
        come."""
        self._words = (tokenizer.vocab_size + 31) // 32
        self._matcher = LLMatcher(tokenizer, constraint.compiled(), log_level=0)
        self._taken = 0
        """Tokens of the answer that are behind it."""
        self._line: list[int] = []
        """Tokens that it has consumed beyond these."""
        if self._matcher.is_error():
            raise constraint.refused(self._matcher.get_error())
        if not self.matches and not self.mask(()).any():
            raise UserError(f"{NAMES[constraint.kind]} matches no text at all. Correct it.")

    def follow(self, tokens: Sequence[int], begin: int) -> None:
        """Go to the end of an answer, which begins at `begin`. Between two calls it only grows."""
        new = [*takewhile(lambda token: token not in self.ends, tokens[begin + self._taken :])]
        if not self.allows(new):
            raise self._trouble()
        self._taken += len(new)
        self._line.clear()

    def allows(self, line: Sequence[int]) -> bool:
        """Whether these tokens may follow the answer. The matcher then stands behind them, else behind those that may."""
        held, matcher = self._line, self._matcher
        same = next(
            (i for i, (mine, its) in enumerate(zip(held, line, strict=False)) if mine != its), min(len(held), len(line))
        )
        if same < len(held):
            matcher.rollback(len(held) - same)
            del held[same:]
        for token in line[same:]:
            # Where a token is forced the matcher would take the same bytes cut otherwise; the mask does not.
            forced = matcher.compute_ff_tokens()
            if (forced and forced[0] != token) or token in self.ends or matcher.try_consume_tokens([token]) != 1:
                return False
            held.append(token)
        return True

    def may_follow(self, line: Sequence[int], token: int) -> bool:
        """Whether a token may follow these, which may follow the answer. One that ends the answer may where all of it
        matches."""
        if not self.allows(line):
            return False
        if token in self.ends:
            return self._matcher.is_accepting()
        forced = self._matcher.compute_ff_tokens()
        return bool(forced[0] == token if forced else self._matcher.validate_tokens([token]) == 1)

    def forced(self, line: Sequence[int] = ()) -> list[int]:
        """The tokens that must follow these, whatever the model says: each of them is the only one allowed in its turn. Where
        only the end can follow, that is the end, if one token alone means it."""
        if not self.allows(line):
            return []
        if self._matcher.is_stopped():
            if self._matcher.is_error():
                raise self._trouble()
            return list(self.ends) if len(self.ends) == 1 else []
        found = [int(token) for token in self._matcher.compute_ff_tokens()[:MOST_FORCED]]
        if found and len(self.ends) == 1 and self.allows([*line, *found]) and self.stopped:
            found += self.ends
        return found

    @property
    def matches(self) -> bool:
        """Whether the answer matches as it is."""
        self.allows(())
        return bool(self._matcher.is_accepting())

    @property
    def stopped(self) -> bool:
        """Whether nothing can follow there but the end."""
        return bool(self._matcher.is_stopped())

    def mask(self, line: Sequence[int]) -> Mask:
        """The tokens that may follow a line, which may follow the answer.

        Raises:
            UserError: the grammar grew beyond what can be followed.
        """
        out: Mask = np.empty(self._words, dtype=np.int32)
        self.allows(line)
        begun = time.perf_counter()
        self._matcher.unsafe_compute_mask_ptr(out.ctypes.data, out.nbytes)
        # A matcher with an error allows the end alone: the answer would stop in silence.
        if self._matcher.is_error():
            raise self._trouble()
        if (taken := time.perf_counter() - begun) > SLOW_SECONDS:
            raise UserError(
                f"{NAMES[self.constraint.kind]} took {taken:.1f} s for one token, so it cannot be followed. Simplify it: long "
                "repetitions in patterns cost most."
            )
        return out

    def _trouble(self) -> UserError:
        return self.constraint.refused(self._matcher.get_error() or "the answer has left it")
