"""N-grams of a growing text: earlier occurrences of the last n tokens, and a pool of continuations.

The index takes O(1) per token, amortised, and is exact: an n-gram is known by the position where it first ended, and the
(n+1)-gram by that name and the token in front of it, so there are no hash collisions to check for. Positions are indices into
the text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence

ORDERS = 8
"""Longest n-gram indexed. Longer matches are measured by comparing; on recorded answers 16 orders found what 8 find."""

STRIDE = 8
"""Tokens compared at a time when a match longer than ORDERS is measured."""

LONGEST = 32
"""Longest match that is measured: longer ones are no surer."""

KEYS = 65_536
"""Most keys in a pool; the least recently used one goes. 10-grams under keys of 1, 2 and 3 tokens take 36 MB then."""

Tokens = tuple[int, ...]


class TokenIndex(ABC):
    """An index of a text of token ids that grows at its end."""

    def __init__(self) -> None:
        self.tokens = array("i")
        """The text as indexed so far."""
        self.source: Sequence[int] | None = None
        """The text itself."""

    def __len__(self) -> int:
        return len(self.tokens)

    @abstractmethod
    def append(self, token: int) -> None:
        """Index the next token."""

    def clear(self) -> None:
        """Forget the text."""
        self.tokens = array("i")

    def followed(self, tokens: Sequence[int]) -> bool:
        """Return whether this is the text that was followed last, and has only grown."""
        length = len(self.tokens)
        return tokens is self.source and len(tokens) >= length and (not length or tokens[length - 1] == self.tokens[-1])

    def follow(self, tokens: Sequence[int]) -> None:
        """Catch up with a text.

        The same sequence object is taken to have only grown, as `Context.tokens` does. Another one (a new turn) is compared
        once; where it differs the index is built again, O(n).
        """
        length = len(self.tokens)
        if not self.followed(tokens):
            self.source = tokens
            if array("i", tokens[:length]) != self.tokens:
                self.clear()
                length = 0
        for token in tokens[length:]:
            self.append(token)


class NgramIndex(TokenIndex):
    """Every earlier occurrence of the text's last 1 … ORDERS tokens, latest first: a context tree.

    A context is extended by the token in front of it only once it has occurred twice, so texts that never repeat take the
    least memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self._blank = array("i", [-1] * ORDERS)
        self.clear()

    def clear(self) -> None:
        super().clear()
        # [ORDERS] of {name of the context's last n - 1 tokens << 32 | token in front of them: its first end}.
        self._first: list[dict[int, int]] = [{} for _ in range(ORDERS)]
        # [len(self) * ORDERS], by an n-gram's end: its end the time before; -1 for none.
        self._before = array("i")
        # [len(self) * ORDERS], by an n-gram's first end: its last end; -1 where it occurred once.
        self._last = array("i")
        self.latest: tuple[int, int] = (-1, 0)
        """The last occurrence of the longest run of the text's last tokens (at most ORDERS): index of the token that followed,
        length of the run; (-1, 0) where the last token is new."""

    def append(self, token: int) -> None:
        tokens, before, last = self.tokens, self._before, self._last
        end = len(tokens)
        tokens.append(token)
        before.extend(self._blank)
        last.extend(self._blank)
        name, previous = 0, -1
        for n in range(min(ORDERS, end + 1)):
            contexts = self._first[n]
            key = name << 32 | tokens[end - n]
            first = contexts.get(key)
            if first is None:
                contexts[key] = end
                self.latest = previous + 1 or -1, n
                return
            previous = last[first * ORDERS + n]
            if previous < 0:  # its second time: from now on longer contexts tell the two apart
                previous = first
                if n + 1 < ORDERS and first > n:
                    self._first[n + 1][first << 32 | tokens[first - n - 1]] = first
            before[end * ORDERS + n] = previous
            last[first * ORDERS + n] = end
            name = first
        self.latest = previous + 1, min(ORDERS, end + 1)

    def matches(self, limit: int, longest: int = ORDERS, shortest: int = 1) -> list[tuple[int, int]]:
        """List earlier occurrences of the text's last tokens: the longest match first, among equals the latest.

        Args:
            limit: most occurrences, at least 1.
            longest: the n-gram to begin with, at most ORDERS.
            shortest: the n-gram to end with, at least 1.

        Returns:
            (index of the token that followed, length of the match); a match longer than ORDERS is measured in steps of
            STRIDE up to LONGEST.
        """
        out: list[tuple[int, int]] = []
        if not self.tokens:
            return out
        before, visited = self._before, set()
        end = len(self.tokens) - 1
        for n in range(min(longest, ORDERS) - 1, shortest - 2, -1):
            at = before[end * ORDERS + n]
            while at >= 0:
                if at not in visited:  # else it is part of a longer match
                    visited.add(at)
                    out.append((at + 1, n + 1))
                    if len(out) >= limit:
                        break
                at = before[at * ORDERS + n]
            if n == ORDERS - 1:
                out = [(follows, self._measure(follows)) for follows, _ in out]
                out.sort(key=lambda match: -match[1])  # stable: the latest stays first among equals
            if len(out) >= limit:
                break
        return out

    def _measure(self, follows: int) -> int:
        """Measure a match of at least ORDERS tokens whose next token is at `follows`, rounded down."""
        tokens, length = self.tokens, ORDERS
        while length < LONGEST and follows - length >= STRIDE:
            new, old = len(tokens) - length, follows - length
            if tokens[new - STRIDE : new] != tokens[old - STRIDE : old]:
                break
            length += STRIDE
        return length


class NgramPool:
    """Key tokens → the tokens that followed them, the latest `most` different ones. The least recently used key goes first."""

    def __init__(self, keys: int = KEYS) -> None:
        self._keys = keys
        # Completions of a key: oldest first, none twice.
        self._pool: OrderedDict[Tokens, list[Tokens]] = OrderedDict()

    def __iter__(self) -> Iterator[Tokens]:
        """Yield the n-grams, key and completion together."""
        for key, completions in self._pool.items():
            for completion in completions:
                yield key + completion

    def add(self, key: Tokens, completion: Tokens, most: int) -> None:
        """Note that `completion` followed `key`; keep the latest `most` of this key."""
        completions = self._pool.get(key)
        if completions is None:
            self._pool[key] = [completion]
            if len(self._pool) > self._keys:
                self._pool.popitem(last=False)
            return
        self._pool.move_to_end(key)
        if completions[-1] == completion:
            return
        if completion in completions:
            completions.remove(completion)
        completions.append(completion)
        if len(completions) > most:
            del completions[:-most]

    def get(self, key: Tokens, most: int) -> list[Tokens]:
        """List the latest `most` completions of a key, latest first."""
        completions = self._pool.get(key)
        if completions is None:
            return []
        self._pool.move_to_end(key)
        return completions[: -most - 1 : -1]


class TextNgrams(TokenIndex):
    """Adds each n-gram of a text to a pool while the text grows. Another text adds to the pool; nothing is forgotten."""

    def __init__(self, pool: NgramPool, n: int, key: int, most: int) -> None:
        """`n` tokens make an n-gram, which is kept under its first 1 … `key` tokens; `most` completions for each of them."""
        super().__init__()
        self.pool = pool
        self.n = n
        self.key = key
        self.most = most

    def append(self, token: int) -> None:
        self.tokens.append(token)
        if len(self.tokens) >= self.n:
            ngram = tuple(self.tokens[-self.n :])
            for key in range(1, self.key + 1):
                self.pool.add(ngram[:key], ngram[key:], self.most)
