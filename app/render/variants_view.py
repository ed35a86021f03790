"""Variants in the transcript's view: the sign at a message, the table below an answer, and what a click on the sign does."""

from __future__ import annotations

from ..chat.compare import badge
from ..chat.entries import Answer
from ..chat.transcript import Transcript
from .blocks import Block


def block_of(transcript: Transcript, index: int, cells: int) -> Block:
    """The entry at `index`, wrapped at `cells`, with what tells of its variants."""
    entries, variants = transcript.entries, transcript.variants
    fork = variants.of(entries, index) if variants else None
    if fork is None or len(fork.ends) < 2:
        return Block(entries[index], cells)
    if isinstance(entries[index], Answer):
        return Block(entries[index], cells, answers=variants.answers(entries, index))
    return Block(entries[index], cells, badge(fork.at, len(fork.ends)))


def step_at(block: Block, row: int, cell: int) -> int:
    """Where a click on a row of a block leads: −1 on the left half of the sign, 1 on the right one, 0 beside it."""
    found = block.row(row)
    if found.kind == "variants" and found.first:
        start, sign = 0, found.pieces[0].text
    else:
        start, sign = block.cells - len(found.badge), found.badge
    if not sign or not start <= cell < start + len(sign):
        return 0
    return -1 if cell < start + len(sign) // 2 else 1
