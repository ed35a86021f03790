"""Whether a chat fits in the context, and what may be left out of it."""

from __future__ import annotations

from .entries import Prompt
from .transcript import Transcript

PER_MESSAGE = 40
"""Bytes that stand for a chat template's own tokens around a message."""
MOST_CUTS = 12
"""Places for a cut that are counted, spread over the chat."""


def cuts(transcript: Transcript) -> list[int]:
    """Where what the model sees may begin: as it does now, then at later prompts, then (the last) after all there is."""
    prompts = [i for i, entry in enumerate(transcript.entries) if isinstance(entry, Prompt) and i > transcript.start]
    every = max(1, -(-len(prompts) // MOST_CUTS))
    return [transcript.start, *prompts[every - 1 :: every], len(transcript.entries)]


def chat_from(transcript: Transcript, start: int, text: str) -> list[dict[str, str]]:
    """The chat as it would be sent with one more message, its beginning left out."""
    return Transcript([*transcript.entries[start:], Prompt(text)], transcript.system).messages()


def surely_fits(messages: list[dict[str, str]], context: int) -> bool:
    """Whether a chat fits without being counted: a token is a byte at least."""
    return sum(len(message["content"].encode("utf-8", "replace")) + PER_MESSAGE for message in messages) <= context - room(
        context
    )


def room(context: int) -> int:
    """Tokens that are kept free for the answer's beginning."""
    return min(64, context // 8)
