"""Batches: chats drawn on the fly, from short to long, grouped by length so that little is padding."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from tokenizers import Tokenizer

from .corpus import chat
from .tokenizer import PAD, encode_chat

CHUNK = 1024
"""Chats that are drawn together and sorted by length: enough for batches of nearly equal lengths."""

IGNORED = -100

Encoded = tuple[list[int], list[bool]]
"""Token ids, and for each whether the assistant produces it."""


class Batch(NamedTuple):
    """One training step's tokens, and the position in the data after it."""

    tokens: torch.Tensor  # [chats, length] int64, padded at the end
    labels: torch.Tensor  # [chats, length] the next token where the assistant produces it, else IGNORED
    chunk: int
    position: int  # batches of this chunk that are used up by all processes, this one included


class Curriculum(NamedTuple):
    """The growth of chats during training.

    Long copies are learnt much sooner when short ones come first: an induction head forms on a few tokens and stretches.
    """

    ramp: int = 24_000  # chats until texts reach their full length
    start: float = 0.05
    longest: int = 1024  # tokens; longer chats are left out

    def reach(self, index: int) -> float:
        """The reach of chat `index`."""
        return min(1.0, self.start + index / self.ramp) if self.ramp else 1.0


def grouped(encoded: list[Encoded], size: int, order: str) -> list[list[Encoded]]:
    """Group chats of nearly equal lengths into batches of at most `size` tokens, padding included, in random order."""
    groups: list[list[Encoded]] = []
    for pair in sorted(encoded, key=lambda pair: len(pair[0])):
        # Ascending lengths: the newest is the longest of its batch.
        if not groups or (len(groups[-1]) + 1) * len(pair[0]) > size:
            groups.append([])
        groups[-1].append(pair)
    random.Random(f"order/{order}").shuffle(groups)
    return groups


def padded(group: Sequence[Encoded], chunk: int, position: int) -> Batch:
    """Make a batch of a group, padded at the end."""
    length = max(len(ids) for ids, _ in group)
    tokens = torch.full((len(group), length), PAD)
    labels = torch.full((len(group), length), IGNORED)
    for row, (ids, produced) in enumerate(group):
        tokens[row, : len(ids)] = torch.tensor(ids)
        following = [token if is_label else IGNORED for token, is_label in zip(ids[1:], produced[1:], strict=True)]
        labels[row, : len(following)] = torch.tensor(following)
    return Batch(tokens, labels, chunk, position)


def _chunk(tokenizer: Tokenizer, seed: int, number: int, size: int, curriculum: Curriculum) -> list[list[Encoded]]:
    numbers = range(number * CHUNK, (number + 1) * CHUNK)
    encoded = (encode_chat(tokenizer, chat(seed, index, curriculum.reach(index))["messages"]) for index in numbers)
    return grouped([pair for pair in encoded if len(pair[0]) <= curriculum.longest], size, f"{seed}/{number}")


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
    """Yield endless batches of at most `size` tokens (padding included), from any point of the data on.

    Args:
        chunk: number of the chunk to start in.
        position: batches of that chunk to pass over; a `Batch` carries both numbers for the checkpoint.
        rank: number of this process among `world`, which take turns; batches that do not fill a round are left out.
    """
    while True:
        groups = _chunk(tokenizer, seed, chunk, size, curriculum)
        for first in range(position, len(groups) - world + 1, world):
            yield padded(groups[first + rank], chunk, first + world)
        chunk, position = chunk + 1, 0
