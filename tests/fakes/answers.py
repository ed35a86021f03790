"""Whole answers, each in a conversation of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from llguidance import LLMatcher

from specchat.backends import ROOT, Model, Sampling
from specchat.backends.choose import choose
from specchat.backends.grammars.constraint import Constraint
from specchat.backends.heads.base import Head
from specchat.decoders import Conversation, Generation, Step, encode_prompt


def answered(
    model: Model, prompt: str | Sequence[int], method: str = "greedy", settings: dict[str, Any] | None = None, *,
    draft: Model | Sequence[Model] | None = None, head: Head | None = None, context: int | None = None, **options: Any,
) -> tuple[Generation, list[Step]]:  # fmt: skip
    """An answer to a message or token ids, gone through to its end, and its steps."""
    conversation = Conversation(model, draft_model=draft, head=head, context=context)
    ids = encode_prompt(model, prompt) if isinstance(prompt, str) else prompt
    generation = Generation(conversation, ids, method, settings=settings, **options)
    steps = list(generation)
    conversation.close()
    return generation, steps


def plain(
    model: Model, prompt: str | Sequence[int], max_tokens: int | None = None, sampling: Sampling | None = None, **options: Any
) -> list[int]:
    return answered(model, prompt, max_tokens=max_tokens, sampling=sampling, **options)[0].answer


def one_by_one(
    model: Model, prompt: Sequence[int], sampling: Sampling, most: int, constraint: Constraint | None = None
) -> list[int]:
    """Plain decoding without the loop: one token a pass, each under a full mask."""
    session, tokens = model.open_session(len(prompt) + most + 1), list(prompt)
    matcher: Any = None
    if constraint is not None:
        matcher = LLMatcher(model.grammar_tokenizer(), constraint.compiled(), log_level=0)
    session.prefill(tokens[:-1])
    while len(tokens) < len(prompt) + most:
        scores: Any = session.evaluate(tokens[-1:], [ROOT])
        history = [tokens] if sampling.uses_history else None
        if matcher is None:
            tokens += scores.choose(sampling, history)
        else:
            bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
            off = torch.from_numpy(bits[: scores.logits.shape[-1]] == 0)
            tokens += choose(scores.logits.float().masked_fill(off, -torch.inf), sampling, scores.positions, history)
        session.commit(scores.nodes)
        if tokens[-1] in model.info.eos_ids:
            break
        assert matcher is None or matcher.consume_token(tokens[-1])
    session.close()
    return tokens[len(prompt) :]
