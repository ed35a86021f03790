"""The contract between trained drafters and the methods that draft with them: Head, HeadSession. Imports no runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ContextFull, UserError
from ..base import Scores, Session

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
    notes: tuple[str, ...] = ()
    """Sentences worth showing: a reading of its configuration that was measured."""


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

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed."""
        self._weights = None


class PathHead(Head):
    """A drafter that drafts token by token, each from the one before. `weights` opens its session."""

    def __init__(self, info: HeadInfo, weights: Callable[[int], HeadSession]) -> None:
        super().__init__(info, weights)

    def open(self, context: int) -> HeadSession:
        """Open a new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """
        session: HeadSession = self.loaded()(context)
        return session


class PositionHead(Head, ABC):
    """A drafter that guesses several positions at once, independently of each other. It keeps no state."""

    positions: int
    """Most positions that it guesses."""

    @abstractmethod
    def guess(self, state: Tensor, position: int, count: int) -> Scores:
        """Guess what follows the pending token.

        Args:
            state: the target's at the last evaluated token, which chose the pending one [1, taps × width].
            position: of the first token to guess.
            count: how many positions to guess.

        Returns:
            scores of these positions, a row each.
        """


class BlockHead(Head):
    """A drafter that guesses a block of positions in one pass and keeps the text. The positions are independent of each other,
    except in a `PathBlockSession`. `weights` opens its session; `positions` is the most that it guesses."""

    def __init__(self, info: HeadInfo, weights: Callable[[int], BlockSession], positions: int) -> None:
        super().__init__(info, weights)
        self.positions = positions

    def open(self, context: int) -> BlockSession:
        """Open a new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """
        session: BlockSession = self.loaded()(context)
        return session


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
        """Remove everything behind the first `length` tokens or pairs."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length} of {self.length} tokens")
        self._cut(length)
        self.length = length

    def _cut(self, length: int) -> None:
        """Remove the rows behind `length` from a cache that does not overwrite them anyway."""

    def close(self) -> None:
        """Free the cache."""
        self.rewind(0)


class BlockSession(DrafterMemory, ABC):
    """A block drafter's session, which holds the target's states of the text."""

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
            count: how many positions behind it to guess.

        Returns:
            scores of these positions, a row each.

        Raises:
            UserError: there is not enough memory.
        """


class PathBlockSession(BlockSession):
    """A block session whose guesses also depend on the token before. *Nodes* hang below the pending token, node 0; the layers
    run once per block, regardless of its nodes."""

    @abstractmethod
    def begin(self, token: int, count: int) -> Scores:
        """Guess what follows a token, and free the nodes of the block before.

        Args:
            token: the pending one, at the position `length`; it becomes node 0.
            count: how many positions behind it nodes may ask for.

        Returns:
            scores of the next position, one row.

        Raises:
            UserError: there is not enough memory.
        """

    @abstractmethod
    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores:
        """Add nodes less than `count` tokens deep, and score what follows each.

        Args:
            tokens: token id of each new node [n].
            parents: for each a node that is there, counted from 0 in the order of adding [n].

        Raises:
            UserError: there is not enough memory; nothing has been added.
        """

    @abstractmethod
    def drop(self, first: int) -> None:
        """Free the nodes from number `first` on."""


class HeadSession(DrafterMemory, ABC):
    """The session of a drafter that drafts token by token.

    It takes in *pairs*: pair i is the token at position i + 1 with the target's hidden states at position i, and predicts the
    token at position i + 2. Below the last pair hang *nodes*: drafted tokens, each with its parent's output in place of the
    target's states. So pairs are always computed from the target's own states.
    """

    branches: int | None = None
    """Most leaves that its nodes may have; None for no limit."""

    def follow(self, target: Session) -> None:
        """Set the target's session, for a drafter that reads its keys and values. Call it before `extend`."""

    @abstractmethod
    def extend(self, tokens: Sequence[int], states: Tensor) -> Scores:
        """Take in the next pairs, at least one; frees every node.

        Args:
            tokens: `tokens[i]` is the token at position `length` + 1 + i [n].
            states: the target's states at the positions `length` + i [n, taps × width].

        Returns:
            scores after the last pair, one row.

        Raises:
            UserError: there is not enough memory; nothing has been taken in.
        """

    @abstractmethod
    def grow(self, tokens: Sequence[int], parents: Sequence[int]) -> Scores:
        """Add nodes in one pass, and score each.

        Args:
            tokens: token id of each new node [n].
            parents: for each a node of an earlier call, counted from 0 in the order of adding, or ROOT: the last pair [n].

        Raises:
            UserError: there is not enough memory; nothing has been added.
        """

    @abstractmethod
    def drop(self, first: int) -> None:
        """Free the nodes from number `first` on."""
