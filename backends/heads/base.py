"""The contract between trained drafters and the methods that draft with them: Head, HeadSession. Imports no runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ...errors import ContextFull, UserError
from ..base import ROOT, Scores, Session

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["eagle", "medusa", "dflash", "mtp"]
"""How a trained drafter drafts, so which method it is for."""


@dataclass(frozen=True, slots=True)
class HeadName:
    """What is known of a trained drafter before it is loaded."""

    name: str
    """The drafter's name, as the user gave it."""
    kind: Kind
    title: str
    """What people call this kind, such as EAGLE-3."""


@dataclass(frozen=True, slots=True)
class HeadInfo(HeadName):
    """What the interface shows about a trained drafter. Plain data, like `ModelInfo`."""

    parameters: int
    """Its own; what it shares with the target is not counted."""
    dtype: str
    taps: tuple[int, ...]
    """Where it reads the target's hidden states (see `Model.open_session`)."""
    path: str
    notes: tuple[str, ...] = ()
    """Sentences worth showing: a reading of its configuration that was measured."""


class Head:
    """A trained drafter's weights, beside the target that it was trained for. Several conversations may share them.

    Args:
        info: what the interface shows.
        weights: what drafts with them and alone holds them.
    """

    def __init__(self, info: HeadInfo, weights: Any) -> None:
        self.info = info
        self._weights = weights

    def loaded(self) -> Any:
        """The weights.

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
    """One that drafts token by token, each from the one before. `weights` opens its session."""

    def __init__(self, info: HeadInfo, weights: Callable[[int], HeadSession]) -> None:
        super().__init__(info, weights)

    def open(self, context: int) -> HeadSession:
        """A new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """
        session: HeadSession = self.loaded()(context)
        return session


class PositionHead(Head, ABC):
    """One that guesses several positions at once, none knowing the others' tokens. It remembers nothing."""

    positions: int
    """The most that it guesses."""

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
    """One that guesses a block of positions in one pass and remembers the text. None knows the others' tokens, but in a
    `PathBlockSession`. `weights` opens its session; `positions` is the most that it guesses."""

    def __init__(self, info: HeadInfo, weights: Callable[[int], BlockSession], positions: int) -> None:
        super().__init__(info, weights)
        self.positions = positions

    def open(self, context: int) -> BlockSession:
        """A new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """
        session: BlockSession = self.loaded()(context)
        return session


class DrafterMemory:
    """What a trained drafter remembers of a conversation, in a cache. Not thread-safe.

    Args:
        context: the most that it can remember.
    """

    def __init__(self, context: int) -> None:
        self.context = context
        self.length = 0
        """How much of the text it has taken in."""

    def check_room(self, more: int) -> None:
        """Check that so much more fits.

        Raises:
            ContextFull: it does not.
        """
        if self.length + more > self.context:
            raise ContextFull(f"{self.length + more:,} tokens do not fit in a context of {self.context:,}. Start a new chat.")

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` of what it has taken in."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length} of {self.length} tokens")
        self._cut(length)
        self.length = length

    def _cut(self, length: int) -> None:
        """Remove from the cache what is forgotten, if it must be told."""

    def close(self) -> None:
        """Free the cache."""
        self.rewind(0)


class BlockSession(DrafterMemory, ABC):
    """What a drafter of blocks remembers of one conversation: the target's states, which are true ones."""

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
    """One whose guesses go by the token before them too: below the pending token, node 0, hang *nodes*. The layers run once for
    the block, whatever its nodes are."""

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
    """What a drafter that writes token by token remembers of one conversation.

    It takes in *pairs*: pair i is the token at position i + 1 with the target's hidden states at position i, and predicts the
    token at position i + 2. Below the last pair hang *nodes*: drafted tokens, each with its parent's output in place of the
    target's states. So what is remembered for good comes from true states only.
    """

    branches: int | None = None
    """The most leaves that its nodes may have; None for any number."""

    def __init__(self, context: int) -> None:
        super().__init__(context)
        self._depths: list[int] = []
        """The depth of each node; a child of the last pair has 1."""

    def _check_pairs(self, tokens: Sequence[int], states: Tensor) -> None:
        """Check pairs that are to be taken in: at least one, as many states as tokens, and room for them."""
        if not len(tokens) == len(states) > 0:
            raise ValueError(f"{len(tokens)} tokens with {len(states)} states")
        self.check_room(len(tokens))

    def _hang(self, parents: Sequence[int]) -> list[int]:
        """The depths of new nodes, once it is known that they hang below earlier ones and fit."""
        living = len(self._depths)
        if any(not ROOT <= parent < living for parent in parents) or not self.length:
            raise ValueError(f"parents {list(parents)} are not all among {living} nodes")
        self.check_room(living + len(parents))
        return [1 + (self._depths[parent] if parent != ROOT else 0) for parent in parents]

    def follow(self, target: Session) -> None:
        """Say whose text this is, for a drafter that reads the target's keys and values too; before `extend`."""

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

    def drop(self, first: int) -> None:
        """Free the nodes from number `first` on."""
        del self._depths[first:]

    def rewind(self, length: int) -> None:
        self.drop(0)
        super().rewind(length)
