"""Whole answers, each in a conversation of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specchat.backends import Model, Sampling
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation, encode_prompt
from specchat.decoders.loop import Step


def answered(
    model: Model,
    prompt: str | Sequence[int],
    method: str = "greedy",
    settings: dict[str, Any] | None = None,
    *,
    draft: Model | Sequence[Model] | None = None,
    head: Head | None = None,
    context: int | None = None,
    **options: Any,
) -> tuple[Generation, list[Step]]:
    """An answer, gone through to its end, and its steps.

    Args:
        prompt: a message or token ids.
        options: of `Generation`.
    """
    conversation = Conversation(model, draft_model=draft, head=head, context=context)
    ids = encode_prompt(model, prompt) if isinstance(prompt, str) else prompt
    generation = Generation(conversation, ids, method, settings=settings, **options)
    steps = list(generation)
    conversation.close()
    return generation, steps


def plain(
    model: Model, prompt: str | Sequence[int], max_tokens: int | None = None, sampling: Sampling | None = None, **options: Any
) -> list[int]:
    """The plain method's tokens."""
    return answered(model, prompt, max_tokens=max_tokens, sampling=sampling, **options)[0].answer
