"""Replay: scores a drafter on a recorded answer, without running a model.

The record takes the target's place: at each node of the drafter's tree, the choice is the recorded next token. So any
model-free method, including those of other packages, can be scored on answers from anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..backends.base import ROOT, Layers, Model, Sampling, Scores, Session
from ..backends.sessions.tree import Node, TreeSession
from .acceptance import walk
from .base import Context, Drafter
from .needs import DraftModel, EarlyStop, TrainedDrafter
from .registry import methods
from .stats import Totals
from .step import StepRecord
from .verify import Pass, StepClock, verify

if TYPE_CHECKING:  # NumPy, which listing the methods should not import
    from .past.index import Past

SLACK = 1024
"""Room for draft tokens, always the same: a drafter must not see where the record ends."""

NEEDS_CHOICES = ("recompute", "jacobi", "lookahead", "recycle", "auto")
"""Built-in methods that need a real model: its choices at nodes off the record, or the seconds of its passes."""


def model_free() -> dict[str, type[Drafter]]:
    """List the methods that a record alone can score, by name, including other packages' methods."""
    return {name: method for name, method in methods().items() if not why_not(method)}


def why_not(method: type[Drafter], *, over_model: bool = False, forced: bool = False) -> str:
    """Say why a method cannot be replayed, as the end of a sentence; "" if it can.

    Args:
        over_model: a model runs the passes (`replay(over=…)`) and chooses where the record has no token.
        forced: only its seconds count (`replay(forced=True)`).
    """
    if method.needs(DraftModel, EarlyStop, TrainedDrafter):
        return "drafts with a model"
    if method.step is not Drafter.step:
        return "does not draft and verify"
    if method.name == "recompute":
        return "cannot learn from a record"
    if forced and method.name == "auto":
        return ""  # the seconds of its passes are all it needs
    if method.name in NEEDS_CHOICES and (forced or not over_model):
        return "needs the model's other choices, which a record does not contain"
    return ""


def replaying(
    prompt: Sequence[int],
    response: Sequence[int],
    drafter: Drafter,
    *,
    eos_ids: Sequence[int] = (),
    branching: bool = True,
    over: Model | None = None,
    forced: bool = False,
    past: Past | None = None,
) -> Iterator[Totals]:
    """Decode a recorded answer with a drafter, pass by pass.

    Counting, which reproduces the published measurements of prompt lookup: the prefill is the first pass and produces the
    first token without a draft; EOS counts as a token if the response ends in one. Tokens per step is then
    len(response) / (1 + verification passes).

    Args:
        prompt: token ids, at least one.
        response: token ids, with EOS at the end unless it was cut off.
        drafter: a new one, or one that has been through the answers before this one; it sees the settings of greedy decoding.
        eos_ids: none of them is drafted past, and the record ends with the first one in it.
        branching: whether the target is taken to verify branching trees.
        over: a model that really evaluates every pass, so that the seconds are true. The record still decides; off the record
            the model's choices count, and drafters learn from its scores.
        forced: the model's choices do not count off the record either: only its seconds do. Any model will do that knows the
            record's token ids.
        past: past answers to draft from as well.

    Yields:
        the totals so far, after each pass, the prefill first: always the same object.

    Raises:
        UserError: the record does not fit in the context of `over`, or there is no memory for it.
    """
    ends = frozenset(eos_ids)
    length = next((i + 1 for i, token in enumerate(response) if token in ends), len(response))
    totals = Totals()
    if not length:
        yield totals
        return
    record = [*prompt, *response[:length]]
    size = len(record) + SLACK
    blank = BlankSession(size, max(256, 1 + max(record)))
    session = blank if over is None else over.open_session(min(over.info.context, size))
    start = len(prompt)
    unchosen = blank if over is not None and forced else None
    try:
        forward = session.forward_seconds
        session.align(record[:start], start)
        session.prefill(record[:start])
        prefill = session.forward_seconds - forward if over is not None else 0.0
        totals.add(StepRecord(drafter.name, record[start : start + 1], nodes=start, forward_seconds=prefill))
        yield totals
        tokens = record[: start + 1]
        while (left := len(record) - len(tokens)) > 0:
            depth = SLACK if over is None else min(SLACK, session.context - session.length - 1)
            clock = ReplayClock(session, over is not None)
            guard = partial(follow_record, record, unchosen, clock)
            context = Context(tokens, session, Sampling(), depth, ends, branching, model=over, past=past)
            outcome = verify(drafter, context, clock, guard=guard).first(left)
            tokens.extend(outcome.tokens)
            totals.add(StepRecord(drafter.name, **outcome.record(), **clock.stop()))
            yield totals
    finally:
        session.close()


def replay(*record: Any, **options: Any) -> Totals:
    """Return the totals at the end of `replaying`: `draft_seconds` is measured (drafting and learning), `forward_seconds` is 0
    unless `over` is given."""
    *_, totals = replaying(*record, **options)
    return totals


class BlankSession(TreeSession[Node]):
    """A target without a model: it chooses a token that is in no text, so that no method can draft it.

    Args:
        context: most tokens.
        token: its choice.
    """

    def __init__(self, context: int, token: int) -> None:
        super().__init__(context)
        self._token = token

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> BlankScores:
        """Add nodes without computing anything (see `Session.evaluate`)."""
        self._check(tokens, parents)
        nodes = self._rows(len(tokens), rows)
        self._add([Node(token, parent, self.length, True) for token, parent in zip(tokens, parents, strict=True)])
        return self.scores(nodes)

    def scores(self, nodes: Sequence[int]) -> BlankScores:
        """Return the scores after some nodes."""
        return BlankScores(nodes, self._token)

    def _settle(self, *_: object) -> None:
        pass

    def _free(self, *_: object) -> None:
        pass

    def _cut(self, *_: object) -> None:
        pass

    def close(self) -> None:
        self.rewind(0)


class BlankScores(Scores):
    """Scores with a single choice, always the same token."""

    def __init__(self, nodes: Sequence[int], token: int) -> None:
        self.nodes = tuple(nodes)
        self._token = token

    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        return [self._token] * len(self.nodes)

    def top(self, k: int) -> list[list[tuple[int, float]]]:
        return [[] for _ in self.nodes]

    def candidates(self, count: int, *_: Any, **__: Any) -> list[list[tuple[int, float]]]:
        return self.top(count)

    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        raise NotImplementedError("no model runs")

    def gap(self, row: int, token: int) -> float:
        return 0.0


class ReplayClock(StepClock):
    """A clock that counts learning as drafting, and the passes' seconds only if a model runs them (`real`)."""

    def __init__(self, session: Session, real: bool) -> None:
        super().__init__(session)
        self._real = real

    def verified(self, running: Pass) -> tuple[float, float]:
        drafting, passed = super().verified(running)
        return drafting, passed if self._real else 0.0

    def stop(self) -> dict[str, Any]:
        spent = super().stop()
        every = spent["draft_seconds"] + spent["forward_seconds"] + spent["other_seconds"]
        real = self.verify_seconds if self._real else 0.0
        return spent | {"draft_seconds": every - self.verify_seconds, "forward_seconds": real, "other_seconds": 0.0}


def follow_record(
    record: Sequence[int], unchosen: BlankSession | None, clock: StepClock, running: Pass, chosen: list[int], path: list[int]
) -> list[int]:
    """Choose the record's next token at every node whose path is on the record, and follow these choices: a `Guard`.

    Args:
        record: prompt and answer.
        unchosen: takes the model's place at the other nodes, and for the drafters' learning.
        clock: of the step, which does not count this.
        running, chosen, path: those of a guard.
    """
    started = time.perf_counter()
    tree, position = running.tree, len(running.context.tokens) - 1
    if unchosen is not None:
        running.scores = unchosen.scores(range(len(tree)))
        chosen[:] = running.scores.choose(running.context.sampling)
    on_record: list[bool] = []
    for node, (parent, depth) in enumerate(zip(tree.parents, tree.depths(), strict=True)):
        at = position + depth
        above = parent == ROOT or on_record[parent]
        on_record.append(at + 1 < len(record) and above and tree.tokens[node] == record[at])
        if on_record[node]:
            chosen[node] = record[at + 1]
    path = walk(tree, chosen)
    clock.excluded += time.perf_counter() - started
    return path
