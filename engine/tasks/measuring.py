"""The task `answer`: one answer to one prompt, timed; by one of specchat's methods or another implementation (peers.py). The
task `prove`: which passes have plain decoding's bits, and how often others change a choice, on more text than a load reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ...backends.base import Model
from ...backends.grammars.constraint import parse_constraint
from ...backends.rounding import measure
from ...decoders.conversation import Conversation
from ...decoders.loop import Generation
from ...errors import UserError
from ..drafts import open_conversation
from ..messages import Generate
from ..requests import encode_request
from .work import Measured, TaskContext, Timer

if TYPE_CHECKING:  # NumPy, which only past answers need
    from ...decoders.past.index import Past

SPARE = 320
"""Slots of the cache beyond prompt and answer: room for the broadest tree."""

SMALLEST = 1024
"""Slots of the smallest cache."""

STEPS = 64
"""Tokens that are compared behind each text, in passes of every size."""

CONTEXTS = (16, 220, 480)
"""Lengths of the texts, in tokens."""

COUNTED = ("steps", "drafted", "accepted", "nodes", "grammar", "draft_seconds", "forward_seconds", "other_seconds")
"""The totals of an answer that are reported."""

_open: WeakKeyDictionary[Model, Conversation] = WeakKeyDictionary()
"""The conversation of the loaded model: in a chat the cache is allocated too when a prompt comes."""


def _conversation(job: TaskContext, size: int) -> Conversation:
    model = job.model
    size = min(model.info.context, max(size, SMALLEST))
    conversation = _open.get(model)
    if conversation is not None and conversation.session.context >= size:
        conversation.forget()
        return conversation
    if conversation is not None:
        conversation.close()
        del _open[model]
    # Twice the size: the next prompt may be a little longer.
    conversation = open_conversation(model, job.drafts, min(model.info.context, 2 * size))
    _open[model] = conversation
    return conversation


_past: WeakKeyDictionary[Model, Past] = WeakKeyDictionary()
"""The answers read by `open_past`."""


@dataclass(frozen=True)
class PastSize:
    """Numbers of answers and tokens to draft from."""

    answers: int
    tokens: int


def open_past(job: TaskContext, files: Sequence[str]) -> PastSize:
    """Read answers that `measure_answer` may draft from, as the loaded model's tokens.

    Args:
        job: with the model.
        files: JSONL of recorded answers.

    Raises:
        UserError: a file cannot be read, or has none.
    """
    from ...decoders.past.index import Past
    from .replaying import earlier_answers

    past = _past[job.model] = Past(vocabulary=job.model.info.vocabulary)
    past.add(earlier_answers(files, None, job.model))
    return PastSize(len(past.keys), len(past))


def measure_answer(
    job: TaskContext,
    method: str = "greedy",
    settings: Mapping[str, Any] | None = None,
    prompt: str | None = None,
    messages: list[dict[str, str]] | None = None,
    raw: bool = False,
    max_tokens: int = 256,
    past: bool = False,
    constraint: Mapping[str, str] | None = None,
) -> Measured:
    """Answer a prompt greedily, with an empty cache and empty pools, so that no method profits from an earlier answer of this
    measurement.

    Args:
        job: with the model.
        method: one of specchat's, or `transformers/NAME`, `llama-cpp/NAME`.
        settings: of the method, if it is ours.
        prompt: text, or
        messages: a chat.
        raw: continue the text as it is.
        max_tokens: most tokens of the answer.
        past: draft from the answers read by `open_past` too.
        constraint: as `Generate.constraint`.

    Raises:
        UserError: the prompt does not fit, or the model cannot run the method.
    """
    model = job.model
    ids = encode_request(model, Generate(0, prompt=prompt, messages=messages, raw=raw))
    if "/" in method:
        from .peers import answer

        if settings:
            raise UserError(f"{method} is compared with its own settings. Leave out {', '.join(settings)}.")
        return answer(job, method, ids, max_tokens)
    conversation = _conversation(job, len(ids) + max_tokens + SPARE)
    conversation.past = _past.get(model) if past else None
    generation = Generation(
        conversation,
        ids,
        method,
        settings=settings,
        max_tokens=max_tokens,
        constraint=parse_constraint(constraint),
    )
    with Timer() as timer:
        while generation.finish_reason is None:
            job.check()
            generation.advance()
    totals, answer_ids = generation.totals, generation.answer
    return Measured(
        tokens=answer_ids,
        prompt_ids=list(ids),
        text=model.decode(answer_ids),
        prompt_tokens=len(ids),
        seconds=timer.seconds,
        cpu_seconds=timer.cpu_seconds,
        prefill_seconds=generation.prefill_seconds,
        **{name: getattr(totals, name) for name in COUNTED},
    )


@dataclass(frozen=True)
class MeasuredRounding:
    """The rounding of a model's passes."""

    label: str
    """The label of exact methods."""
    equal: Sequence[int] = ()
    """Sizes of chains with equal bits."""
    measured: int = 0
    """Tokens compared."""
    turned: int = 0
    """Those of them whose choice changed."""
    broken: bool = False
    """Whether the load promised more than holds."""


def prove(job: TaskContext) -> MeasuredRounding:
    """Measure the rounding of the loaded model's passes."""
    model = job.model
    able = model.info.capabilities
    if not able.chain:
        return MeasuredRounding(able.identical)
    session = model.open_session(max(CONTEXTS) + 2 * STEPS)
    text = model.proof_ids(max(CONTEXTS) + STEPS + 1)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        job.check()
        job.report({"passes": done})

    try:
        rounding = measure(session, text, tick, tree=able.tree, contexts=CONTEXTS, steps=STEPS)
    finally:
        session.close()
    promised = bool(able.equal) and able.exact
    holds = rounding.exact if able.most is None else rounding.most >= able.most
    return MeasuredRounding(able.identical, rounding.equal, rounding.measured, rounding.turned, broken=promised and not holds)
