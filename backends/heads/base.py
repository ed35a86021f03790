"""Loaded drafters and the base classes of their sessions. Imports no runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...errors import ContextFull, UserError
from ..base import Scores

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["eagle", "medusa", "dflash", "mtp"]
"""The method that a trained drafter is for."""


@dataclass(frozen=True, slots=True)
class HeadName:
    """A trained drafter's name and kind, known before it is loaded."""

    name: str
    """The drafter's name, as the user gave it."""
    kind: Kind
    title: str
    """The usual name of its kind, such as EAGLE-3."""


@dataclass(frozen=True, slots=True)
class HeadInfo(HeadName):
    """Facts about a loaded drafter that the interface shows. Plain data, like `ModelInfo`."""

    parameters: int
    """Number of weights, without those that it shares with the target."""
    dtype: str
    taps: tuple[int, ...]
    """Places at which it reads the target's hidden states (see `Model.open_session`)."""
    path: str


class Head:
    """A loaded drafter. Several conversations may share its weights.

    Args:
        info: facts for the interface.
        weights: the only reference to the object that drafts with the weights.
    """

    def __init__(self, info: HeadInfo, weights: Any) -> None:
        self.info = info
        self._weights = weights

    def loaded(self) -> Any:
        """Return the weights.

        Raises:
            UserError: they have been freed.
        """
        if self._weights is None:
            raise UserError(f"{self.info.name} is no longer loaded. Load it again.")
        return self._weights

    def open(self, context: int) -> Any:
        """Open a new, empty session for a conversation of at most `context` tokens: a `HeadSession` or a `BlockSession`.

        Raises:
            UserError: there is not enough memory.
        """
        return self.loaded()(context)

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed."""
        self._weights = None


class PathHead(Head):
    """A drafter that drafts token by token, each from the one before. `weights` opens its session, a `HeadSession`."""


class PositionHead(Head):
    """A drafter that guesses several positions at once, independently of each other. It keeps no state. `weights` scores
    positions; `positions` is the most that it guesses."""

    def __init__(self, info: HeadInfo, weights: Callable[[Tensor, int, int], Scores], positions: int) -> None:
        super().__init__(info, weights)
        self.positions = positions

    def guess(self, state: Tensor, position: int, count: int) -> Scores:
        """Guess what follows the pending token.

        Args:
            state: the target's at the last evaluated token, which chose the pending one [1, taps × width].
            position: of the first token to guess.
            count: number of positions to guess.

        Returns:
            scores of these positions, a row each.
        """
        scores: Scores = self.loaded()(state, position, count)
        return scores


class BlockHead(Head):
    """A drafter that guesses a block of positions in one pass and keeps the text. The positions are independent of each other,
    except in a `PathBlockSession`. `weights` opens its session; `positions` is the most that it guesses."""

    def __init__(self, info: HeadInfo, weights: Callable[[int], BlockSession], positions: int) -> None:
        super().__init__(info, weights)
        self.positions = positions


class DrafterMemory:
    """A trained drafter's cache of one conversation. Not thread-safe.

    Args:
        context: most tokens that it can hold.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self.length = 0
        """Number of tokens or pairs in the cache."""

    def check_room(self, more: int) -> None:
        """Check that `more` tokens fit.

        Raises:
            ContextFull: they do not.
        """
        if self.length + more > self.context:
            raise ContextFull(f"{self.length + more:,} tokens do not fit in a context of {self.context:,}. Start a new chat.")

    def rewind(self, length: int) -> None:
        """Remove everything after the first `length` tokens or pairs."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length} of {self.length} tokens")
        self._cut(length)
        self.length = length

    def _cut(self, length: int) -> None:
        """Remove the rows after `length` from a cache that does not overwrite them anyway."""

    def close(self) -> None:
        """Free the cache."""
        self.rewind(0)


class BlockSession(DrafterMemory, ABC):
    """A block drafter's session, which holds the target's states of the text."""

    branching: ClassVar[bool] = False
    """Whether its guesses depend on the token before, so that it is a `PathBlockSession`."""

    @abstractmethod
    def extend(self, states: Tensor) -> None:
        """Take in the target's states at the positions from `length` on [n, taps × width].

        Raises:
            UserError: there is not enough memory; nothing has been taken in.
        """

    @abstractmethod
    def guess(self, token: int, count: int) -> Scores:
        """Guess what follows a token.

        Args:
            token: the pending one, at the position `length`.
            count: how many positions after it to guess.

        Returns:
            scores of these positions, a row each.

        Raises:
            UserError: there is not enough memory.
        """
