"""A constraint's state along one answer: the tokens that may, or must, follow it and a line of further tokens."""

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
"""Most tokens that are forced at a time, so that a constant text of a megabyte takes several steps."""

SLOW_SECONDS = 2.0
"""Time limit of a mask; a slower one ends the answer, as the next would be slow too. Most take 20 µs, the slowest with a large
vocabulary 3 ms."""


class Matcher:
    """A matcher that follows an answer. A single llguidance matcher is kept somewhere behind the answer's end; for another
    place it rolls back to the common beginning and goes on from there, 2 µs a token, so a walk through a tree copies nothing.

    Tokens that end an answer are never fed to it, as it would count them in some states and not in others.

    Args:
        tokenizer: the model's.
        constraint: what to match.
        ends: the tokens that end an answer; None for llguidance's own.

    Raises:
        UserError: the constraint cannot be used; says which part.
    """

    def __init__(self, tokenizer: LLTokenizer, constraint: Constraint, ends: Collection[int] | None = None) -> None:
        from llguidance import LLMatcher

        self.constraint = constraint
        self.ends = frozenset(tokenizer.eos_tokens if ends is None else ends)
        self.before: Callable[[int], bool] | None = None
        """Whether the model may choose a token regardless, because it leads to a thought before the answer; None if no thought
        may come."""
        self._words = (tokenizer.vocab_size + 31) // 32
        self._matcher = LLMatcher(tokenizer, constraint.compiled(), log_level=0)
        self._taken = 0
        """Number of the answer's tokens that it has consumed."""
        self._line: list[int] = []
        """Further tokens that it has consumed."""
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
        """Tell whether these tokens may follow the answer. The matcher stays behind the last that may."""
        held, matcher = self._line, self._matcher
        same = next(
            (i for i, (mine, its) in enumerate(zip(held, line, strict=False)) if mine != its), min(len(held), len(line))
        )
        if same < len(held):
            matcher.rollback(len(held) - same)
            del held[same:]
        for token in line[same:]:
            # Where a token is forced, the matcher would also consume other tokens with the same bytes; the mask does not.
            forced = matcher.compute_ff_tokens()
            if (forced and forced[0] != token) or token in self.ends or matcher.try_consume_tokens([token]) != 1:
                return False
            held.append(token)
        return True

    def may_follow(self, line: Sequence[int], token: int) -> bool:
        """Tell whether a token may follow these, which may follow the answer. A token that ends the answer may if the whole
        matches."""
        if not self.allows(line):
            return False
        if token in self.ends:
            return self._matcher.is_accepting()
        forced = self._matcher.compute_ff_tokens()
        return bool(forced[0] == token if forced else self._matcher.validate_tokens([token]) == 1)

    def forced(self, line: Sequence[int] = ()) -> list[int]:
        """List the tokens that must follow these, each the only one allowed in its place. If only the end can follow, that is
        the end token, provided there is just one."""
        if not self.allows(line):
            return []
        if self._matcher.is_stopped():
            if self._matcher.is_error():
                raise self._trouble()
            return list(self.ends) if len(self.ends) == 1 else []
        tokens = [int(token) for token in self._matcher.compute_ff_tokens()[:MOST_FORCED]]
        if tokens and len(self.ends) == 1 and self.allows([*line, *tokens]) and self.stopped:
            tokens += self.ends
        return tokens

    @property
    def matches(self) -> bool:
        """Whether the answer matches as it is."""
        self.allows(())
        return bool(self._matcher.is_accepting())

    @property
    def stopped(self) -> bool:
        """Whether only the end can follow."""
        return bool(self._matcher.is_stopped())

    def mask(self, line: Sequence[int]) -> Mask:
        """Compute the tokens that may follow a line, which may follow the answer.

        Raises:
            UserError: the grammar has become too large to follow.
        """
        out: Mask = np.empty(self._words, dtype=np.int32)
        self.allows(line)
        start = time.perf_counter()
        self._matcher.unsafe_compute_mask_ptr(out.ctypes.data, out.nbytes)
        # A matcher with an error allows only the end: the answer would stop silently.
        if self._matcher.is_error():
            raise self._trouble()
        if (seconds := time.perf_counter() - start) > SLOW_SECONDS:
            raise UserError(
                f"{NAMES[self.constraint.kind]} took {seconds:.1f} s for one token, so it cannot be followed. Simplify it: "
                "long repetitions in patterns cost most."
            )
        return out

    def _trouble(self) -> UserError:
        return self.constraint.refused(self._matcher.get_error() or "the answer has left it")
