"""How near a tie two answers part at: one plain pass over the text that they share."""

from __future__ import annotations

import math

from ..backends.base import ROOT, Model
from ..backends.noise import gumbel_of
from ..decoders.loop import Generation
from ..errors import UserError
from .messages import Judge, Judged


def judged(request: Judge, model: Model, answer: Generation) -> Judged:
    """The gap between the answer's token at a position and another one there.

    The session is one of its own: the answer may still be running in the lane's.

    Raises:
        UserError: the answer has no such position, or a token does not exist.
    """
    tokens = answer.answer
    if not 0 <= request.position < len(tokens):
        raise UserError(f"The answer has {len(tokens):,} tokens, so there is none at {request.position:,} to compare.")
    token = tokens[request.position]
    for each in (token, request.other):
        if not 0 <= each < model.info.vocabulary:
            raise UserError(f"The model has no token {each}: its vocabulary ends at {model.info.vocabulary - 1:,}.")
    before = answer.tokens[: answer.prompt_tokens + request.position]
    sampling = answer.sampling
    session = model.open_session(min(model.info.context, len(before) + 1))
    try:
        session.prefill(before[:-1])
        scores = session.evaluate([before[-1]], [ROOT])
        if sampling.greedy and not sampling.uses_history:
            gap = abs(scores.gap(0, token) - scores.gap(0, request.other))
        else:
            probs = scores.probs(0, None if sampling.greedy else sampling, before if sampling.uses_history else None)
            noise = [0.0 if sampling.greedy else gumbel_of(sampling.seed, len(before), t) for t in (token, request.other)]
            scored = [
                math.log(float(probs[t])) + n if probs[t] > 0 else -math.inf
                for t, n in zip((token, request.other), noise, strict=True)
            ]
            # Where a filter took one of them away no small error of the logits can explain the difference.
            gap = abs(scored[0] - scored[1]) if math.isfinite(min(scored)) else math.inf
    finally:
        session.close()
    return Judged(request.id, request.lane, request.position, token, request.other, gap if math.isfinite(gap) else 1e9)
