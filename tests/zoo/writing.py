"""What a model writes under every method, compared with what its own library writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

from specchat.backends import Model, Sampling, base

from ..decoders.talk import ROUNDS, Talk, World
from ..fakes.answers import one_by_one
from .architectures import CONTEXT

ANSWER = 24
"""Tokens of an answer."""

CHUNK = 40
"""Tokens of a prompt per pass, so that short ones take several."""

TIE = 1e-4
"""Two logits as close as this are a near tie, which float32 may decide either way."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the model's own library does with it."""

    writes: Callable[[Sequence[int], int], list[int]]
    """Its greedy answer of so many tokens to a prompt."""
    gap: Callable[[Sequence[int], int, int], float]
    """How far apart two tokens' logits are after a text."""


def compare(
    reference: Reference, model: Model, draft: Model, prompts: Sequence[Sequence[int]], only: Iterable[str] = ()
) -> list[str]:
    """Fail where plain decoding is not the library's, or a method not plain decoding.

    Args:
        reference: the library that the model is from.
        model: the target.
        draft: a draft model of the same vocabulary.
        prompts: each is asked of plain decoding, and some of every method.
        only: methods to try; all if there are none.

    Returns:
        the methods that were tried.
    """
    model.info = replace(model.info, eos_ids=())  # random weights may end anywhere
    with patch.object(base, "PREFILL_CHUNK", CHUNK):
        for prompt in prompts:
            room = min(ANSWER, model.info.context - len(prompt))
            found, wanted = one_by_one(model, prompt, Sampling(), room), reference.writes(prompt, room)
            if found != wanted:
                at = next(i for i, (one, other) in enumerate(zip(found, wanted, strict=True)) if one != other)
                gap = reference.gap([*prompt, *wanted[:at]], found[at], wanted[at])
                assert gap < TIE, f"{len(prompt)} tokens, at {at}, by {gap:.2g} logits"
        world = World(model, (draft,), prompts=[prompt for prompt in prompts if len(prompt) < CONTEXT - 2 * ANSWER])
        ways = [(name, settings) for name, settings in world.ways() if not only or name in only]
        talk = Talk(world, len(prompts))
        for _ in range(ROUNDS):
            for name, _ in ways:
                talk.ask((name, {}), [(name, {}) for name, _ in ways])
        talk.conversation.close()
    return [name for name, _ in ways]
