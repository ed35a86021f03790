"""Batches: chats drawn on the fly, from short to long, grouped by length so that little is padding."""

import random
from collections.abc import Iterator
from typing import NamedTuple

import torch
from tokenizers import Tokenizer

from .corpus import chat
from .tokenizer import PAD, encode_chat

CHUNK = 1024
"""Chats that are drawn together and sorted by length: enough that a batch holds nearly equal lengths."""

IGNORED = -100


class Batch(NamedTuple):
    """One training step's tokens and where the data stands after it."""

    tokens: torch.Tensor  # [chats, length] int64, padded at the end
    labels: torch.Tensor  # [chats, length] the next token where the assistant produces it, else IGNORED
    chunk: int
    position: int  # batches of this chunk that are used up by all processes, this one included


class Curriculum(NamedTuple):
    """How long chats may be.

    Long copies are learnt much sooner when short ones come first: an induction head forms on a few tokens and stretches.
    """

    ramp: int = 24_000  # chats until texts reach their full length
    start: float = 0.05
    longest: int = 1024  # tokens; longer chats are left out

    def reach(self, index: int) -> float:
        """The reach of chat `index`."""
        return min(1.0, self.start + index / self.ramp) if self.ramp else 1.0


def _chunk(tokenizer: Tokenizer, seed: int, number: int, size: int, curriculum: Curriculum) -> list[list[tuple[list[int], list[bool]]]]:  # fmt: skip  # noqa: E501
    encoded = []
    for index in range(number * CHUNK, (number + 1) * CHUNK):
        ids, produced = encode_chat(tokenizer, chat(seed, index, curriculum.reach(index))["messages"])
        if len(ids) <= curriculum.longest:
            encoded.append((ids, produced))
    encoded.sort(key=lambda pair: len(pair[0]))
    groups: list[list[tuple[list[int], list[bool]]]] = [[]]
    for pair in encoded:
        # Ascending lengths: the newest chat is the longest of its batch.
        if groups[-1] and (len(groups[-1]) + 1) * len(pair[0]) > size:
            groups.append([])
        groups[-1].append(pair)
    random.Random(f"order/{seed}/{number}").shuffle(groups)
    return groups


def batches(
    tokenizer: Tokenizer,
    seed: int,
    size: int,
    curriculum: Curriculum,
    chunk: int = 0,
    position: int = 0,
    rank: int = 0,
    world: int = 1,
) -> Iterator[Batch]:
    """Endless batches of at most `size` tokens (padding included), from any point of the data on.

    Args:
        chunk: number of the chunk to start in.
        position: batches of that chunk to pass over; a `Batch` carries both numbers for the checkpoint.
        rank: which of `world` processes this is: they take turns, and what does not fill a round is left out.
    """
    while True:
        groups = _chunk(tokenizer, seed, chunk, size, curriculum)
        for first in range(position, len(groups) - world + 1, world):
            group = groups[first + rank]
            length = max(len(ids) for ids, _ in group)
            tokens = torch.full((len(group), length), PAD)
            labels = torch.full((len(group), length), IGNORED)
            for row, (ids, produced) in enumerate(group):
                tokens[row, : len(ids)] = torch.tensor(ids)
                following = [token if wanted else IGNORED for token, wanted in zip(ids[1:], produced[1:], strict=True)]
                labels[row, : len(following)] = torch.tensor(following)
            yield Batch(tokens, labels, chunk, first + world)
        chunk, position = chunk + 1, 0
