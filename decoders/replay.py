"""Computes what a drafter would have drafted, and how much would have been accepted, for a recorded answer. No model runs.

The record takes the target's place: at each node of the drafter's tree, the choice is the recorded next token. So any
model-free method, including those of other packages, can be scored on answers from anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..backends.base import ROOT, Layers, Model, Sampling, Scores, Session
from ..backends.sessions.tree import Node, TreeSession
from .acceptance import walk
from .base import Context, Drafter
from .needs import DraftModel, EarlyStop, TrainedDrafter
from .registry import methods
from .stats import Totals
from .step import StepRecord
from .tree import Tree
from .verifying.clock import StepClock, Watch
from .verifying.guard import Guard
from .verifying.passes import Pass
from .verifying.verify import verify

if TYPE_CHECKING:  # NumPy: who lists the methods does not wait for it
    from .past.index import Past

SLACK = 1024
"""Room for draft tokens, always the same: a drafter must not see where the record ends."""

NEEDS_CHOICES = ("recompute", "jacobi", "lookahead", "recycle", "auto")
"""Methods of ours that live on what a real model gives: its choices beside the answer, or the seconds of its passes."""


def model_free() -> dict[str, type[Drafter]]:
    """The methods that a record alone can score, by name; other packages' methods among them."""
    return {name: method for name, method in methods().items() if not why_not(method)}


def why_not(method: type[Drafter], *, over_model: bool = False, forced: bool = False) -> str:
    """Why a method cannot be replayed, as the end of a sentence; empty if it can.

    Args:
        over_model: a model runs the passes (`replay(over=…)`), and its choices are there where the record has none.
        forced: only its seconds count (`replay(forced=True)`).
    """
    if method.needs(DraftModel, EarlyStop, TrainedDrafter):
        return "drafts with a model"
    if method.step is not Drafter.step:
        return "does not draft and verify"
    if method.name == "recompute":
        return "cannot learn from a record"
    if forced and method.name == "auto":
        return ""  # it lives on the seconds of its passes
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
        over: a model that really evaluates every pass, so that the seconds are true. The record still decides; beside it the
            model's own choices count, and it is the model's scores that drafters learn from.
        forced: none of its choices count, beside the record neither: only the seconds are the model's. So any model will do
            that knows the record's token ids, whoever wrote the answer.
        past: answers from before to draft from beside the text.

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
    whole = blank if over is not None and forced else None
    try:
        for _ in _decode(record, len(prompt), drafter, session, ends, branching, totals, over, whole, past):
            yield totals
    finally:
        session.close()


def replay(*record: Any, **options: Any) -> Totals:
    """The totals at the end of `replaying`: `draft_seconds` is measured (drafting and learning), `forward_seconds` is 0 unless
    `over` is given."""
    *_, totals = replaying(*record, **options)
    return totals


def _decode(
    record: list[int],
    start: int,
    drafter: Drafter,
    session: Session,
    ends: frozenset[int],
    branching: bool,
    totals: Totals,
    over: Model | None,
    forced: BlankSession | None,
    past: Past | None,
) -> Iterator[None]:
    """Every pass over one record, one at a time, counted in `totals`; the answer begins at index `start` of it. Over a model
    the record decides, or `forced` if that is there."""
    watch = Watch()
    recorded = Recorded(record, forced, watch)
    forward = session.forward_seconds
    session.align(record[:start], start)
    session.prefill(record[:start])
    tokens = record[: start + 1]
    took = session.forward_seconds - forward if over is not None else 0.0
    totals.add(StepRecord(drafter.name, record[start : start + 1], nodes=start, forward_seconds=took))
    yield
    while (left := len(record) - len(tokens)) > 0:
        room = SLACK if over is None else min(SLACK, session.context - session.length - 1)
        clock = ReplayClock(session, watch, over is not None)
        context = Context(tokens, session, Sampling(), room, ends, branching, model=over, past=past)
        kept = verify(drafter, context, clock, watch, recorded).first(left)
        tokens.extend(kept.tokens)
        totals.add(StepRecord(drafter.name, **kept.record(), **clock.stop()))
        yield


class BlankSession(TreeSession[Node]):
    """The target where no model runs: it chooses a token that is in no text, so that nothing can draft it.

    Args:
        context: most tokens.
        token: what it chooses.
    """

    def __init__(self, context: int, token: int) -> None:
        super().__init__(context)
        self._token = token

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> BlankScores:
        """Add nodes; nothing is computed (see `Session.evaluate`)."""
        self._check(tokens, parents)
        wanted = self._rows(len(tokens), rows)
        self._add([Node(token, parent, self.length, True) for token, parent in zip(tokens, parents, strict=True)])
        return self.scores(wanted)

    def scores(self, nodes: Sequence[int]) -> BlankScores:
        """What it says after some nodes."""
        return BlankScores(nodes, self._token)

    def _settle(self, path: Sequence[int], kept: dict[int, Node]) -> None:
        pass

    def _free(self, gone: set[int]) -> None:
        pass

    def _cut(self, length: int) -> None:
        pass

    def close(self) -> None:
        self.rewind(0)


class BlankScores(Scores):
    """Always the same choice, and no other token."""

    def __init__(self, nodes: Sequence[int], token: int) -> None:
        self.nodes, self._token = tuple(nodes), token

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
    """Counts learning as drafting, and the passes' seconds only if a model runs them (`real`)."""

    def __init__(self, session: Session, watch: Watch, real: bool) -> None:
        super().__init__(session, watch)
        self._real = real

    def verified(self, running: Pass) -> tuple[float, float]:
        drafting, passed = super().verified(running)
        return drafting, passed if self._real else 0.0

    def stop(self) -> dict[str, Any]:
        spent = super().stop()
        every = spent["draft_seconds"] + spent["forward_seconds"] + spent["other_seconds"]
        real = self.verify_seconds if self._real else 0.0
        return spent | {"draft_seconds": every - self.verify_seconds, "forward_seconds": real, "other_seconds": 0.0}


class Recorded(Guard):
    """Puts the record's next token in place of the model's choice at every node whose path is on the record.

    Args:
        record: prompt and answer.
        forced: takes the model's place at the other nodes, and in what drafters learn from.
        watch: counts the seconds that this takes.
    """

    def __init__(self, record: Sequence[int], forced: BlankSession | None, watch: Watch) -> None:
        self._record, self._forced, self._watch = record, forced, watch

    def checked(self, running: Pass, chosen: list[int], path: list[int]) -> list[int]:
        begun, tree = time.perf_counter(), running.tree
        if self._forced is not None:
            running.scores = self._forced.scores(range(len(tree)))
            chosen[:] = running.scores.choose(running.context.sampling)
        _correct(chosen, tree, self._record, len(running.context.tokens) - 1)
        path = walk(tree, chosen)
        self._watch.seconds += time.perf_counter() - begun
        return path


def _correct(chosen: list[int], tree: Tree, record: Sequence[int], position: int) -> None:
    """Put the record's next token in place of the model's choice at every node whose path is on the record."""
    on: list[bool] = []
    for node, (parent, depth) in enumerate(zip(tree.parents, tree.depths(), strict=True)):
        at = position + depth
        on.append(at + 1 < len(record) and (parent == ROOT or on[parent]) and tree.tokens[node] == record[at])
        if on[node]:
            chosen[node] = record[at + 1]
