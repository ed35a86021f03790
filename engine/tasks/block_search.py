"""The task `blocks`: which attention and MLP blocks early exit can leave out, found by leaving out the cheapest one by one.

Zhang et al. (arXiv:2309.08168) search these sets by Bayesian optimisation over whole answers. Here a set is scored by one pass:
the model's own greedy answers hang in the cache as a tree, and below each of their tokens a draft node is evaluated without the
blocks. So every draft sees what it sees in decoding, the whole model's keys and values, and the share of nodes that choose the
answer's next token is the acceptance of a first draft token.
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
from ..requests import prompt_of
from .work import Job

Unit = frozenset[tuple[int, str]]
"""Blocks by (layer, a or m)."""

ROOM = 1024
"""Most tokens of the answers and their prompts in the cache while sets are scored."""
POSITIONS = 160
"""Most draft nodes of a scoring pass."""
FEWEST = 16
"""Draft nodes below which an agreement means nothing."""
NEAR = 3
"""Blocks that are tried at each step: those that cost least when they were last tried."""
LEAST = 0.25
"""Agreement below which no more is left out."""
LONGEST = 8
"""Most draft tokens that are considered."""
TIMINGS = 4
"""Rounds of timed passes; the first warms up."""


class Spent(Exception):
    """No passes or no time are left."""


@dataclass(frozen=True, slots=True)
class Found:
    """A set of blocks and how a draft without them did."""

    left_out: Unit
    agreement: float
    """Share of the answers' tokens that it chooses too."""
    likelihood: float
    """Mean log-probability that it gives them: tells equals apart."""

    @property
    def rank(self) -> tuple[float, float]:
        """The greater the better."""
        return self.agreement, self.likelihood


@dataclass(slots=True)
class Walk:
    """The search: scores sets of blocks, and keeps those that it went through.

    Args:
        score: a set's agreement and likelihood, by a pass.
        told: after each.
    """

    score: Callable[[Unit], tuple[float, float]]
    told: Callable[[Found], None] = lambda found: None
    known: dict[Unit, Found] = field(default_factory=dict)
    path: dict[Unit, Found] = field(default_factory=dict)
    """The sets that it went through."""

    def look(self, left_out: Unit) -> Found:
        """Score a set once.

        Raises:
            Spent: the passes or the time are over.
        """
        found = self.known.get(left_out)
        if found is None:
            found = self.known[left_out] = Found(left_out, *self.score(left_out))
            self.told(found)
        return found

    def go(self, start: Unit, units: Sequence[Unit]) -> None:
        """From `start` on leave out one more unit at a time: of the NEAR that cost least when last tried, the one that costs
        least now; at first all are tried. The last is never left out.

        Raises:
            Spent: the passes or the time are over.
        """
        at, rest = start, [unit for unit in units if not unit & start]
        cost: dict[Unit, tuple[float, float]] = {}
        near = list(rest)
        base = self.known.get(start)
        while len(rest) > 1:
            looks = {unit: self.look(at | unit) for unit in near}
            best = max(near, key=lambda unit: looks[unit].rank)
            # Of the whole model itself nothing is known but that it agrees with itself.
            whole, likelihood = base.rank if base else (1.0, looks[best].likelihood)
            for unit, found in looks.items():
                cost[unit] = (whole - found.agreement, likelihood - found.likelihood)
            at |= best
            rest.remove(best)
            base = self.path[at] = looks[best]
            if base.agreement < LEAST:
                return
            near = sorted(rest, key=cost.__getitem__)[:NEAR]


@dataclass(frozen=True, slots=True)
class Seconds:
    """What passes take."""

    full: float
    """A pass of the whole model over one node."""
    node: float
    """More for each further node."""
    attention: float
    """One attention block within `full`."""
    mlp: float

    def draft(self, left_out: Unit) -> float:
        """Time of a draft pass over one node."""
        saved = sum(self.attention if kind == "a" else self.mlp for _, kind in left_out)
        return max(self.full - saved, self.full * 0.02)

    def best(self, found: Found, layers: int) -> tuple[float, int]:
        """(expected speedup, draft tokens K that give it) with a constant K."""
        agreed, draft = min(found.agreement, 0.995), self.draft(found.left_out)
        # What the first layers kept does not run again.
        again = 1 - min((layer for layer, _ in found.left_out), default=layers) / layers
        return max(
            (
                (1 - agreed ** (length + 1))
                / (1 - agreed)
                * self.full
                / (length * draft + self.full + length * self.node * again),
                length,
            )
            for length in range(1, LONGEST + 1)
        )


class Counted:
    """A session whose passes are counted and end with the budget."""

    def __init__(self, job: Job, session: Session, most: int, deadline: float) -> None:
        self.job, self.session, self.most, self.deadline = job, session, most, deadline
        self.passes = 0

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """`Session.evaluate`.

        Raises:
            Spent: the passes or the time are over.
        """
        self.job.check()
        if self.passes >= self.most or time.monotonic() > self.deadline:
            raise Spent
        self.passes += 1
        return self.session.evaluate(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Text:
    """A greedy answer."""

    ids: Sequence[int]
    """Prompt and answer."""
    prompt: int
    """Tokens of the prompt."""

    @property
    def positions(self) -> range:
        """The tokens after which a token of the answer was chosen."""
        return range(self.prompt - 1, len(self.ids) - 1)


class Scorer:
    """Texts in a session, and draft nodes below them.

    Args:
        counted: the session, empty.
        texts: what fits in it.
        tree: whether the model takes trees; else the drafts are a chain, which sees its own keys and values.
    """

    def __init__(self, counted: Counted, texts: Sequence[Text], tree: bool) -> None:
        self._counted, self._tree = counted, tree
        texts = texts if tree else texts[:1]
        limit = min(text.prompt for text in texts) - 1
        first = texts[0].ids
        shared = next((i for i in range(limit) if any(text.ids[i] != first[i] for text in texts)), limit)
        shared = shared if tree else limit
        tokens: list[int] = []
        parents: list[int] = []
        self._drafts: list[int] = []
        self._below: list[int] = []
        self._wanted: list[int] = []
        for text in texts:
            offset = len(tokens) - shared
            places = text.positions
            end = places[-1] if tree else shared
            tokens += text.ids[shared:end]
            parents += [ROOT if i == shared else offset + i - 1 for i in range(shared, end)]
            for i in places:
                self._drafts.append(text.ids[i])
                self._below.append((offset + i - 1 if i > shared else ROOT) if tree else len(self._drafts) - 2)
                self._wanted.append(text.ids[i + 1])
        for start in range(0, shared, PREFILL_CHUNK):
            chunk = first[start : min(start + PREFILL_CHUNK, shared)]
            counted.evaluate(chunk, range(ROOT, len(chunk) - 1), rows=())
            counted.session.commit(range(len(chunk)))
        for start in range(0, len(tokens), PREFILL_CHUNK):
            counted.evaluate(tokens[start : start + PREFILL_CHUNK], parents[start : start + PREFILL_CHUNK], rows=())

    @property
    def positions(self) -> int:
        """Draft nodes of a pass."""
        return len(self._drafts)

    def score(self, layers: Layers) -> tuple[float, float]:
        """(agreement, likelihood) of a draft that runs these layers."""
        scores = self._counted.evaluate(self._drafts, self._below, layers=layers)
        agreed, likelihood = 0, 0.0
        for row, (wanted, [(chosen, logp)]) in enumerate(zip(self._wanted, scores.top(1), strict=True)):
            agreed += chosen == wanted
            likelihood += logp if chosen == wanted else logp - scores.gap(row, wanted)
        self._counted.session.drop(scores.nodes)
        if not self._tree:  # numbers start again
            self._counted.session.commit(())
        return agreed / len(self._wanted), likelihood / len(self._wanted)


def write(
    job: Job, prompts: Sequence[Mapping[str, Any]], answer_tokens: int, most: int, deadline: float
) -> tuple[list[Text], int]:
    """Greedy answers, as many as `most` passes and ROOM allow, and the passes that they took. Where trees work, fusion drafts:
    the tokens are greedy's, in fewer passes."""
    model = job.model
    trees = model.info.capabilities.tree
    texts: list[Text] = []
    passes = room = 0
    for prompt in prompts:
        ids = prompt_of(model, Generate(0, prompt=prompt.get("prompt"), messages=prompt.get("messages")), job.cancelled)
        wanted = min(answer_tokens, POSITIONS - sum(len(text.positions) for text in texts))
        if passes >= most or wanted < FEWEST or time.monotonic() > deadline:
            break
        # Answers are in the cache once, and once more as draft nodes.
        need = room + len(ids) + 2 * wanted
        if len(ids) < 2 or need > model.info.context or (texts and need > ROOM):
            continue
        conversation = Conversation(model, context=min(model.info.context, len(ids) + wanted + ROOM))
        try:
            generation = Generation(conversation, ids, "fusion" if trees else "greedy", max_tokens=wanted)
            while generation.finish_reason is None and passes + generation.totals.steps < most:
                job.check()
                generation.run_pass()
        finally:
            conversation.close()
        passes += generation.totals.steps
        if generation.answer:
            texts.append(Text([*ids, *generation.answer], len(ids)))
            room += len(ids) + 2 * len(generation.answer)
        if not trees:
            break
    return texts, passes


def timed(counted: Counted, text: Text, layers: int, cuts: Mapping[str, Layers], clock: Callable[[], float]) -> Seconds:
    """What passes of the whole model over one node and five, and of drafts, take after a text."""
    session = counted.session
    session.rewind(0)
    session.prefill(text.ids[:-1])
    counted.passes += -(-len(text.ids) // PREFILL_CHUNK)
    runs: dict[str, tuple[int, Layers | None]] = {"one": (1, None), "five": (5, None)}
    runs |= {name: (1, cut) for name, cut in cuts.items()}
    least = dict.fromkeys(runs, float("inf"))
    for turn in range(TIMINGS):
        for name, (nodes, cut) in runs.items():
            started = clock()
            scores = counted.evaluate([text.ids[-1]] * nodes, range(ROOT, nodes - 1), layers=cut)
            scores.choose(Sampling())
            if turn:
                least[name] = min(least[name], clock() - started)
            session.commit(())
    one = least["one"]
    if "attention" in cuts:
        attention, mlp = (one - least["mlp"]) / layers, (one - least["attention"]) / layers
    else:
        attention = mlp = (one - least["half"]) / (layers - layers // 2) / 2
    return Seconds(one, max(0.0, least["five"] - one) / 4, max(0.0, attention), max(0.0, mlp))


def find_blocks(
    job: Job,
    prompts: Sequence[Mapping[str, Any]],
    most: int = 400,
    seconds: float = 120.0,
    answer_tokens: int = 48,
    clock: str = "wall",
) -> dict[str, Any]:
    """Search the attention and MLP blocks that early exit of the loaded model can do without.

    Args:
        job: with the model; each set that is tried is reported.
        prompts: each with `prompt` or `messages`; answers to the first of them are the text.
        most: forward passes, those that write the text and those that are timed included.
        seconds: time.
        answer_tokens: of each answer.
        clock: wall, or cpu for processor seconds.

    Returns:
        passes; positions (tokens that a score is of); answers; seconds of a pass over one node; found: the sets that the
        search went through, the greatest expected speedup first, each with `skip` (what is left out, as early-exit.skip takes
        it; whole layers at the end as `layers`, the number of those that are left), blocks (that run), agreement, cost (of a
        draft pass, of the whole model's), speedup (expected) and tokens (K that gives it).

    Raises:
        UserError: no prompt fits, or the model cannot stop after some of its layers.
    """
    model = job.model
    layers, tree = model.info.layers, model.info.capabilities.tree
    if not model.info.capabilities.layers:
        raise UserError(model.info.capabilities.reasons.get("layers", "This model cannot skip layers."))
    deadline = time.monotonic() + seconds
    texts, written = write(job, prompts, answer_tokens, most // 3, time.monotonic() + seconds / 3)
    result: dict[str, Any] = {"passes": written, "positions": 0, "answers": len(texts), "seconds": 0.0, "found": []}
    if sum(len(text.positions) for text in texts) < FEWEST:
        return result
    session = model.open_session(min(model.info.context, sum(len(text.ids) for text in texts) + POSITIONS + PREFILL_CHUNK))
    counted = Counted(job, session, most - written, deadline)
    walk = Walk(lambda left_out: (0.0, 0.0))
    costs: Seconds | None = None
    try:
        cuts = _cuts(counted, layers)
        costs = timed(counted, texts[0], layers, cuts, time.process_time if clock == "cpu" else time.perf_counter)
        session.rewind(0)
        scorer = Scorer(counted, texts, tree)
        result["positions"] = scorer.positions

        def told(found: Found) -> None:
            left_out, agreement = skip_text(found.left_out), found.agreement
            job.report({"passes": written + counted.passes, "most": most, "skip": left_out, "agreement": agreement})

        walk.score = lambda left_out: scorer.score(parse_skip(skip_text(left_out), layers))
        walk.told = told
        _walk(walk, costs, layers, _units(layers, single="attention" in cuts))
    except Spent:
        pass
    finally:
        session.close()
    result["passes"] += counted.passes
    if costs is not None:
        result["seconds"] = costs.full
        rows = [_row(found, costs, layers) for found in walk.path.values()]
        result["found"] = sorted(rows, key=lambda row: (-row["speedup"], row["blocks"]))
    return result


def _cuts(counted: Counted, layers: int) -> dict[str, Layers]:
    """The drafts whose seconds tell what blocks cost; single blocks only where the model keeps them apart."""
    session = counted.session
    every = f"0-{layers - 1}"
    cuts: dict[str, Layers] = {"attention": parse_skip(f"{every}m", layers), "mlp": parse_skip(f"{every}a", layers)}
    try:
        for cut in cuts.values():
            counted.evaluate([0], [ROOT], rows=(), layers=cut)
            session.commit(())
    except UserError as error:
        if "memory" in str(error):
            raise
        session.commit(())
        return {"half": layers // 2}
    return cuts


def _units(layers: int, *, single: bool) -> list[Unit]:
    """What is left out at once: a block, or a whole layer."""
    if single:
        return [frozenset({(layer, kind)}) for layer in range(layers) for kind in "am"]
    return [frozenset({(layer, "a"), (layer, "m")}) for layer in range(layers)]


def _walk(walk: Walk, costs: Seconds, layers: int, units: Sequence[Unit]) -> None:
    """Every number of first layers; then on from the best of these; then from the whole model."""
    for depth in range(1, layers):
        tail: Unit = frozenset((layer, kind) for layer in range(depth, layers) for kind in "am")
        walk.path[tail] = walk.look(tail)
    best = max(walk.path.values(), key=lambda found: costs.best(found, layers), default=None)
    if best is not None:
        walk.go(best.left_out, units)
    walk.go(frozenset(), units)


def _row(found: Found, costs: Seconds, layers: int) -> dict[str, Any]:
    skip = skip_text(found.left_out)
    speedup, tokens = costs.best(found, layers)
    first = min(layer for layer, _ in found.left_out)
    whole = len(found.left_out) == 2 * (layers - first)
    return {
        **({"layers": first} if whole else {"skip": skip}),
        "blocks": 2 * layers - len(found.left_out),
        "agreement": found.agreement,
        "cost": costs.draft(found.left_out) / costs.full,
        "speedup": speedup,
        "tokens": tokens,
    }
