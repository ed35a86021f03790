"""The task `answer`: one answer to one prompt, timed; by a method of ours or by another implementation (peers.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...backends.base import Model
from ...backends.grammars.constraint import constraint_of
from ...backends.info import flops
from ...decoders.conversation import Conversation
from ...decoders.loop import Generation
from ..drafts import conversation_of
from ..messages import Generate
from ..requests import prompt_of
from .work import Job, Timed

if TYPE_CHECKING:  # NumPy: only who drafts from past answers waits for it
    from ...decoders.past.index import Past

SPARE = 320
"""Slots of the cache beyond prompt and answer: room for the broadest tree."""

SMALLEST = 1024
"""Slots of the smallest cache."""

COUNTED = ("steps", "drafted", "accepted", "nodes", "grammar", "draft_seconds", "forward_seconds", "other_seconds")
"""What is told of an answer's totals."""

_open: WeakKeyDictionary[Model, Conversation] = WeakKeyDictionary()
"""One for the loaded model: a chat has its cache in memory too when a prompt comes."""


def _conversation(job: Job, size: int) -> Conversation:
    """An empty conversation with room for `size` tokens, or as many as the model takes."""
    model = job.model
    wanted = min(model.info.context, max(size, SMALLEST))
    conversation = _open.get(model)
    if conversation is not None and conversation.session.context >= wanted:
        conversation.forget()
        return conversation
    if conversation is not None:
        conversation.close()
        del _open[model]
    # Twice what is needed: the next prompt may be a little longer.
    room = min(model.info.context, 2 * wanted)
    conversation = conversation_of(model, job.drafts, room)
    _open[model] = conversation
    return conversation


_past: WeakKeyDictionary[Model, Past] = WeakKeyDictionary()
"""What `open_past` has read."""


def open_past(job: Job, files: Sequence[str]) -> dict[str, Any]:
    """Read answers that `measure_answer` may draft from, as the loaded model's tokens.

    Args:
        job: with the model.
        files: JSONL of recorded answers.

    Returns:
        answers and tokens: how many there are.

    Raises:
        UserError: a file cannot be read, or has none.
    """
    from ...decoders.past.index import Past
    from .replaying import earlier_answers

    past = _past[job.model] = Past(vocabulary=job.model.info.vocabulary)
    past.add(earlier_answers(files, None, job.model))
    return {"answers": len(past.keys), "tokens": len(past)}


def measure_answer(
    job: Job,
    method: str = "greedy",
    settings: Mapping[str, Any] | None = None,
    prompt: str | None = None,
    messages: list[dict[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
    past: bool = False,
    constraint: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Answer a prompt greedily, with an empty cache and empty pools, so that no method profits from an earlier answer of this
    measurement.

    Args:
        job: with the model.
        method: one of ours, or `transformers/NAME`, `llama-cpp/NAME`.
        settings: of the method.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.
        past: draft from the answers that `open_past` has read too.
        constraint: what the answer must match, as `Generate.constraint`.

    Returns:
        tokens (ids, EOS included), prompt_ids, text, prompt_tokens, seconds and cpu_seconds of the whole answer (prefill
        included), prefill_seconds, steps, drafted, accepted, nodes, grammar (tokens that the constraint left no choice about),
        draft_seconds, forward_seconds, other_seconds, flops, and thought and answer, the shares of both (as `Totals`).

    Raises:
        UserError: the prompt does not fit, or the method cannot run here.
    """
    model = job.model
    ids = prompt_of(model, Generate(0, prompt=prompt, messages=messages, raw=raw), job.cancelled)
    if "/" in method:
        from .peers import answer

        return answer(job, method, ids, dict(settings or {}), max_tokens)
    conversation = _conversation(job, len(ids) + max_tokens + SPARE)
    conversation.past = _past.get(model) if past else None
    asked = constraint_of(constraint)
    generation = Generation(conversation, ids, method, settings=settings, max_tokens=max_tokens, constraint=asked)
    with Timed() as took:
        while generation.finish_reason is None:
            job.check()
            generation.run_pass()
    totals, answer_ids = generation.totals, generation.answer
    return {
        "tokens": answer_ids,
        "prompt_ids": list(ids),
        "text": model.decode(answer_ids),
        "prompt_tokens": len(ids),
        "seconds": took.seconds,
        "cpu_seconds": took.cpu_seconds,
        "prefill_seconds": generation.prefill_seconds,
        **{name: getattr(totals, name) for name in COUNTED},
        "flops": flops(model.info.weights, totals.nodes),
        "thought": asdict(totals.thought),
        "answer": asdict(totals.answer),
    }
