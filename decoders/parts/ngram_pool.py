"""A pool of n-grams: by their first tokens, the latest continuations. What lookahead decoding and its kin draft from."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from .ngram_index import TokenIndex

KEYS = 65_536
"""Most keys that are kept; the least recently used one goes. 10-grams under keys of 1, 2 and 3 tokens take 36 MB then."""

Tokens = tuple[int, ...]


class NgramPool:
    """Key tokens → the tokens that followed them, the latest `most` different ones. Least recently used goes first."""

    def __init__(self, keys: int = KEYS) -> None:
        self._keys = keys
        # Completions of a key: oldest first, none twice.
        self._pool: OrderedDict[Tokens, list[Tokens]] = OrderedDict()

    def __len__(self) -> int:
        """How many n-grams there are."""
        return sum(map(len, self._pool.values()))

    def __iter__(self) -> Iterator[Tokens]:
        """All n-grams, key and completion together."""
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
        """The latest `most` completions of a key, latest first."""
        completions = self._pool.get(key)
        if completions is None:
            return []
        self._pool.move_to_end(key)
        return completions[: -most - 1 : -1]


class TextNgrams(TokenIndex):
    """Puts each n-gram of a text into a pool while the text grows. Another text adds to the pool, nothing is forgotten."""

    def __init__(self, pool: NgramPool, n: int, key: int, most: int) -> None:
        """`n` tokens make an n-gram, which is kept under its first 1 … `key` tokens; `most` completions for each of them."""
        super().__init__()
        self.pool = pool
        self.n = n
        self.key = key
        self.most = most

    def clear(self) -> None:
        self.tokens = array("i")

    def append(self, token: int) -> None:
        self.tokens.append(token)
        self.keep(self.tokens[-self.n :])

    def keep(self, line: Sequence[int]) -> None:
        """Put the n-gram at the end of a line into the pool, if the line has as many tokens."""
        if len(line) >= self.n:
            ngram = tuple(line[-self.n :])
            for key in range(1, self.key + 1):
                self.pool.add(ngram[:key], ngram[key:], self.most)
