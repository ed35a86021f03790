"""The task `blocks`: searches the attention and MLP blocks that early exit can leave out, the cheapest ones first.

Zhang et al. (arXiv:2309.08168) search these sets by Bayesian optimisation over whole answers. Here a set is scored by one pass:
the model's own greedy answers hang in the cache as a tree, and below each of their tokens a draft node is evaluated without the
blocks. So every draft reads the whole model's keys and values, as in decoding, and the share of nodes that choose the answer's
next token is the acceptance of a first draft token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...backends.base import PREFILL_CHUNK, ROOT, Layers, Sampling, Session
from ...decoders.conversation import Conversation
from ...decoders.loop import Generation
from ...decoders.methods.early_exit import parse_skip, skip_text
from ...errors import UserError
from ..messages import Generate
from ..requests import encode_request
from .work import TaskContext

Unit = frozenset[tuple[int, str]]
"""Blocks by (layer, a or m)."""

MOST_TOKENS = 1024
"""Most tokens of the answers and their prompts in the cache while sets are scored."""
POSITIONS = 160
"""Most draft nodes of a scoring pass."""
FEWEST_NODES = 16
"""Fewest draft nodes for a meaningful agreement."""
TRIED_UNITS = 3
"""Blocks that are tried at each step: those that cost least when they were last tried."""
LEAST_AGREEMENT = 0.25
"""Least agreement at which more is left out."""
LONGEST_DRAFT = 8
"""Most draft tokens that are considered."""
TIMINGS = 4
"""Rounds of timed passes; the first warms up."""


class BudgetSpent(Exception):
    """No passes or no time are left."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A set of blocks, with the score of a draft without them."""

    left_out: Unit
    agreement: float
    """Share of the answers' tokens that it chooses too."""
    likelihood: float
    """Mean log-probability that it gives them, to rank equal agreements."""

    @property
    def rank(self) -> tuple[float, float]:
        """The greater the better."""
        return self.agreement, self.likelihood


@dataclass(frozen=True, slots=True)
class ScoredBlocks:
    """Blocks that early exit may leave out."""

    skip: str | None
    """The blocks, as in early-exit.skip; None if they are all behind the first `layers`."""
    layers: int | None
    blocks: int
    """Number of blocks that run."""
    agreement: float
    cost: float
    """Time of a draft pass, as a share of the whole model's."""
    speedup: float
    """Expected speedup."""
    tokens: int
    """The K that it takes."""


@dataclass(slots=True)
class FoundBlocks:
    """The result of a search."""

    passes: int
    answers: int
    positions: int = 0
    """Tokens of a score."""
    found: Sequence[ScoredBlocks] = ()
    """The sets on the search's path, the greatest expected speedup first."""


@dataclass(slots=True)
class Walk:
    """The search: scores sets of blocks, and keeps those on its path.

    Args:
        score: computes a set's agreement and likelihood, by a pass.
        report: called after each.
    """

    score: Callable[[Unit], tuple[float, float]]
    report: Callable[[Candidate], None] = lambda candidate: None
    scored: dict[Unit, Candidate] = field(default_factory=dict)
    path: dict[Unit, Candidate] = field(default_factory=dict)

    def look(self, left_out: Unit) -> Candidate:
        """Score a set once.

        Raises:
            BudgetSpent: the passes or the time are over.
        """
        candidate = self.scored.get(left_out)
        if candidate is None:
            candidate = self.scored[left_out] = Candidate(left_out, *self.score(left_out))
            self.report(candidate)
        return candidate

    def go(self, start: Unit, units: Sequence[Unit]) -> None:
        """Leave out one more unit at a time, from `start` on: of the TRIED_UNITS that cost least when last tried, the one that
        costs least now; at first all are tried. The last is never left out.

        Raises:
            BudgetSpent: the passes or the time are over.
        """
        at, rest = start, [unit for unit in units if not unit & start]
        cost: dict[Unit, tuple[float, float]] = {}
        near = list(rest)
        base = self.scored.get(start)
        while len(rest) > 1:
            looks = {unit: self.look(at | unit) for unit in near}
            best = max(near, key=lambda unit: looks[unit].rank)
            # The whole model is not scored; it agrees with itself.
            whole, likelihood = base.rank if base else (1.0, looks[best].likelihood)
            for unit, candidate in looks.items():
                cost[unit] = (whole - candidate.agreement, likelihood - candidate.likelihood)
            at |= best
            rest.remove(best)
            base = self.path[at] = looks[best]
            if base.agreement < LEAST_AGREEMENT:
                return
            near = sorted(rest, key=cost.__getitem__)[:TRIED_UNITS]


@dataclass(frozen=True, slots=True)
class Seconds:
    """The time of passes and their parts."""

    full: float
    """A pass of the whole model over one node."""
    node: float
    """Added by each further node."""
    attention: float
    """One attention block within `full`."""
    mlp: float

    def draft(self, left_out: Unit) -> float:
        """Estimate the time of a draft pass over one node."""
        saved = sum(self.attention if kind == "a" else self.mlp for _, kind in left_out)
        return max(self.full - saved, self.full * 0.02)

    def best(self, candidate: Candidate, layers: int) -> tuple[float, int]:
        """Find the constant K of the greatest expected speedup; return (speedup, K)."""
        agreed, draft = min(candidate.agreement, 0.995), self.draft(candidate.left_out)
        # The layers before the first gap do not run again.
        repeated = 1 - min((layer for layer, _ in candidate.left_out), default=layers) / layers
        speedups = []
        for length in range(1, LONGEST_DRAFT + 1):
            tokens = (1 - agreed ** (length + 1)) / (1 - agreed)
            seconds = length * draft + self.full + length * self.node * repeated
            speedups.append((tokens * self.full / seconds, length))
        return max(speedups)


class BudgetedSession:
    """A session whose passes are counted and end with the budget."""

    def __init__(self, job: TaskContext, session: Session, most: int, deadline: float) -> None:
        self.job = job
        self.session = session
        self.most = most
        self.deadline = deadline
        self.passes = 0

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Call `Session.evaluate`.

        Raises:
            BudgetSpent: the passes or the time are over.
        """
        self.job.check()
        if self.passes >= self.most or time.monotonic() > self.deadline:
            raise BudgetSpent
        self.passes += 1
        return self.session.evaluate(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class GreedyText:
    """A prompt with its greedy answer."""

    ids: Sequence[int]
    prompt: int
    """Number of the prompt's tokens."""

    @property
    def positions(self) -> range:
        """The tokens after which a token of the answer was chosen."""
        return range(self.prompt - 1, len(self.ids) - 1)


class Scorer:
    """Texts in a session, and draft nodes below them.

    Args:
        budgeted: the session, empty.
        texts: those that fit in it.
    """

    def __init__(self, budgeted: BudgetedSession, texts: Sequence[GreedyText]) -> None:
        self._budgeted = budgeted
        limit = min(text.prompt for text in texts) - 1
        first = texts[0].ids
        shared = next((i for i in range(limit) if any(text.ids[i] != first[i] for text in texts)), limit)
        tokens: list[int] = []
        parents: list[int] = []
        self._drafts: list[int] = []
        self._below: list[int] = []
        self._answers: list[int] = []
        for text in texts:
            offset = len(tokens) - shared
            end = text.positions[-1]
            tokens += text.ids[shared:end]
            parents += [ROOT if i == shared else offset + i - 1 for i in range(shared, end)]
            for i in text.positions:
                self._below.append(offset + i - 1 if i > shared else ROOT)
                self._drafts.append(text.ids[i])
                self._answers.append(text.ids[i + 1])
        for start in range(0, shared, PREFILL_CHUNK):
            chunk = first[start : min(start + PREFILL_CHUNK, shared)]
            budgeted.evaluate(chunk, range(ROOT, len(chunk) - 1), rows=())
            budgeted.session.commit(range(len(chunk)))
        for start in range(0, len(tokens), PREFILL_CHUNK):
            budgeted.evaluate(tokens[start : start + PREFILL_CHUNK], parents[start : start + PREFILL_CHUNK], rows=())

    @property
    def positions(self) -> int:
        """Draft nodes of a pass."""
        return len(self._drafts)

    def score(self, layers: Layers) -> tuple[float, float]:
        """Compute (agreement, likelihood) of a draft that runs these layers."""
        scores = self._budgeted.evaluate(self._drafts, self._below, layers=layers)
        agreed, likelihood = 0, 0.0
        for row, (token, [(chosen, logp)]) in enumerate(zip(self._answers, scores.top(1), strict=True)):
            agreed += chosen == token
            likelihood += logp if chosen == token else logp - scores.gap(row, token)
        self._budgeted.session.drop(scores.nodes)
        return agreed / len(self._answers), likelihood / len(self._answers)


def write_answers(
    job: TaskContext, prompts: Sequence[Mapping[str, Any]], answer_tokens: int, most: int, deadline: float
) -> tuple[list[GreedyText], int]:
    """Write as many greedy answers as `most` passes and MOST_TOKENS allow; return them and the number of passes. Fusion drafts:
    the tokens are greedy's, in fewer passes."""
    model = job.model
    texts: list[GreedyText] = []
    passes = room = 0
    for prompt in prompts:
        ids = encode_request(model, Generate(0, prompt=prompt.get("prompt"), messages=prompt.get("messages")))
        length = min(answer_tokens, POSITIONS - sum(len(text.positions) for text in texts))
        if passes >= most or length < FEWEST_NODES or time.monotonic() > deadline:
            break
        # Answers are in the cache once, and once more as draft nodes.
        need = room + len(ids) + 2 * length
        if len(ids) < 2 or need > model.info.context or (texts and need > MOST_TOKENS):
            continue
        conversation = Conversation(model, context=min(model.info.context, len(ids) + length + MOST_TOKENS))
        try:
            generation = Generation(conversation, ids, "fusion", max_tokens=length)
            while generation.finish_reason is None and passes + generation.totals.steps < most:
                job.check()
                generation.advance()
        finally:
            conversation.close()
        passes += generation.totals.steps
        if generation.answer:
            texts.append(GreedyText([*ids, *generation.answer], len(ids)))
            room += len(ids) + 2 * len(generation.answer)
    return texts, passes


def measure(budgeted: BudgetedSession, text: GreedyText, layers: int, clock: Callable[[], float]) -> Seconds:
    """Time passes after a text: of the whole model over one node and five, and of drafts."""
    session = budgeted.session
    session.rewind(0)
    session.prefill(text.ids[:-1])
    budgeted.passes += -(-len(text.ids) // PREFILL_CHUNK)
    every = f"0-{layers - 1}"
    runs: dict[str, tuple[int, Layers | None]] = {
        "one": (1, None),
        "five": (5, None),
        "attention": (1, parse_skip(f"{every}m", layers)),
        "mlp": (1, parse_skip(f"{every}a", layers)),
    }
    least = dict.fromkeys(runs, float("inf"))
    for turn in range(TIMINGS):
        for name, (nodes, cut) in runs.items():
            started = clock()
            scores = budgeted.evaluate([text.ids[-1]] * nodes, range(ROOT, nodes - 1), layers=cut)
            scores.choose(Sampling())
            if turn:
                least[name] = min(least[name], clock() - started)
            session.commit(())
    one = least["one"]
    attention, mlp = (max(0.0, one - least[name]) / layers for name in ("mlp", "attention"))
    return Seconds(one, max(0.0, least["five"] - one) / 4, attention, mlp)


def find_blocks(
    job: TaskContext,
    prompts: Sequence[Mapping[str, Any]],
    most: int = 400,
    seconds: float = 120.0,
    answer_tokens: int = 48,
    clock: str = "wall",
) -> FoundBlocks:
    """Search the attention and MLP blocks that early exit of the loaded model can do without.

    Args:
        job: with the model; each set that is tried is reported.
        prompts: each with `prompt` or `messages`; answers to the first of them are the text.
        most: forward passes, including those that write the text and those that are timed.
        seconds: time.
        answer_tokens: of each answer.
        clock: wall, or cpu for processor seconds.

    Raises:
        UserError: no prompt fits, or the model cannot leave blocks out or takes no trees.
    """
    model = job.model
    layers, able = model.info.layers, model.info.capabilities
    for what in ("layers", "tree"):
        if not getattr(able, what):
            raise UserError(able.reasons.get(what, "This model cannot skip layers."))
    deadline = time.monotonic() + seconds
    texts, written = write_answers(job, prompts, answer_tokens, most // 3, time.monotonic() + seconds / 3)
    result = FoundBlocks(passes=written, answers=len(texts))
    if sum(len(text.positions) for text in texts) < FEWEST_NODES:
        return result
    session = model.open_session(min(model.info.context, sum(len(text.ids) for text in texts) + POSITIONS + PREFILL_CHUNK))
    budgeted = BudgetedSession(job, session, most - written, deadline)
    walk = Walk(lambda left_out: (0.0, 0.0))
    costs: Seconds | None = None
    try:
        costs = measure(budgeted, texts[0], layers, time.process_time if clock == "cpu" else time.perf_counter)
        session.rewind(0)
        scorer = Scorer(budgeted, texts)
        result.positions = scorer.positions

        def report(candidate: Candidate) -> None:
            left_out, agreement = skip_text(candidate.left_out), candidate.agreement
            job.report({"passes": written + budgeted.passes, "most": most, "skip": left_out, "agreement": agreement})

        walk.score = lambda left_out: scorer.score(parse_skip(skip_text(left_out), layers))
        walk.report = report
        _walk(walk, costs, layers)
    except BudgetSpent:
        pass
    finally:
        session.close()
    result.passes += budgeted.passes
    if costs is not None:
        rows = [_row(candidate, costs, layers) for candidate in walk.path.values()]
        result.found = sorted(rows, key=lambda row: (-row.speedup, row.blocks))
    return result


def _walk(walk: Walk, costs: Seconds, layers: int) -> None:
    """Try every number of first layers; then continue from the best of these; then from the whole model."""
    units: list[Unit] = [frozenset({(layer, kind)}) for layer in range(layers) for kind in "am"]
    for depth in range(1, layers):
        tail: Unit = frozenset((layer, kind) for layer in range(depth, layers) for kind in "am")
        walk.path[tail] = walk.look(tail)
    best = max(walk.path.values(), key=lambda candidate: costs.best(candidate, layers), default=None)
    if best is not None:
        walk.go(best.left_out, units)
    walk.go(frozenset(), units)


def _row(candidate: Candidate, costs: Seconds, layers: int) -> ScoredBlocks:
    speedup, tokens = costs.best(candidate, layers)
    first = min(layer for layer, _ in candidate.left_out)
    whole = len(candidate.left_out) == 2 * (layers - first)
    return ScoredBlocks(
        layers=first if whole else None,
        skip=None if whole else skip_text(candidate.left_out),
        blocks=2 * layers - len(candidate.left_out),
        agreement=candidate.agreement,
        cost=costs.draft(candidate.left_out) / costs.full,
        speedup=speedup,
        tokens=tokens,
    )
