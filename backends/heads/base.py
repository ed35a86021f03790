"""The contract between trained drafters and the methods that draft with them: Head, HeadSession. Imports no runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...errors import ContextFull
from ..base import Scores

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["eagle", "medusa", "dflash", "mtp"]
"""How a trained drafter drafts, so which method it is for."""


@dataclass(frozen=True, slots=True)
class HeadName:
    """What is known of a trained drafter before it is loaded."""

    name: str
    """As the user named it."""
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


class Head(ABC):
    """A trained drafter's weights, beside the target that it was trained for. Several conversations may share them."""

    info: HeadInfo

    @abstractmethod
    def close(self) -> None:
        """Free the weights."""


class PathHead(Head):
    """One that drafts token by token, each from the one before."""

    @abstractmethod
    def open(self, context: int) -> HeadSession:
        """A new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """


class PositionHead(Head):
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
    """One that guesses a block of positions in one pass, none knowing the others' tokens, and remembers the text."""

    positions: int
    """The most that it guesses."""

    @abstractmethod
    def open(self, context: int) -> BlockSession:
        """A new, empty cache for a conversation of at most `context` tokens.

        Raises:
            UserError: there is not enough memory.
        """


class BlockSession(ABC):
    """What a drafter of blocks remembers of one conversation: the target's states, which are true ones. Not thread-safe."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many tokens' states it has taken in."""

    @property
    @abstractmethod
    def context(self) -> int:
        """The most of them."""

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

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Forget all but the first `length` tokens."""

    @abstractmethod
    def close(self) -> None:
        """Free the cache."""


class HeadSession(ABC):
    """What a drafter that writes token by token remembers of one conversation. Not thread-safe.

    It takes in *pairs*: pair i is the token at position i + 1 with the target's hidden states at position i, and predicts the
    token at position i + 2. Below the last pair hang *nodes*: drafted tokens, each with its parent's output in place of the
    target's states. So what is remembered for good comes from true states only.
    """

    branches: int | None = None
    """The most leaves that its nodes may have; None for any number."""

    @property
    @abstractmethod
    def length(self) -> int:
        """How many pairs it has taken in."""

    @property
    @abstractmethod
    def context(self) -> int:
        """The most pairs and nodes together."""

    def check(self, tokens: Sequence[int], states: Tensor) -> None:
        """Refuse pairs that `extend` cannot take in.

        Raises:
            ValueError: there are none, or not as many states as tokens.
            ContextFull: there is no room for them.
        """
        if not len(tokens) == len(states) > 0:
            raise ValueError(f"{len(tokens)} tokens with {len(states)} states")
        if self.length + len(tokens) > self.context:
            raise ContextFull(f"{self.length + len(tokens):,} tokens do not fit in a context of {self.context:,}.")

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

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Forget every node, and all pairs after the first `length`."""

    @abstractmethod
    def close(self) -> None:
        """Free the cache."""
