"""Beam search: the B most probable texts side by side, and the best of them at the end.

Graves, "Sequence Transduction with Recurrent Neural Networks" (2012), arXiv:1211.3711; the length penalty is that of Wu et al.,
"Google's Neural Machine Translation System" (2016), arXiv:1609.08144, in the form of transformers' `generate`: the sum of
log-probabilities divided by length ** penalty. Bookkeeping of finished texts and the ways to stop are transformers' too, but
for one more: once no open text can become better than the best finished one, that is the answer, and nobody reads the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, inf

from ...backends.base import ROOT, Scores, Session
from .. import needs
from ..base import Context, Drafter, Elsewhere, Outcome, param
from ..tree import Tree

EARLY = ("guess", "full", "never")

LEVELS = 64
"""How many last tokens of the open texts are drawn: texts that part early share nothing for as long as they last."""


@dataclass(frozen=True, slots=True)
class BeamParams:
    """Settings of beam search."""

    beams: int = param(4, "How many texts B to follow side by side; 1 is greedy decoding", low=1, high=64)
    length_penalty: float = param(1.0, "Exponent of the length in a text's score; above 0 favours long texts", low=-8, high=8)
    early_stopping: str = param(
        "guess",
        "Once B texts are finished, stop when the best open one scores no better at its current length (guess), at once "
        "(full), or when it cannot score better at any length (never)",
        choices=EARLY,
    )


@dataclass(eq=False, slots=True)
class Link:
    """One token of a beam; beams share the links of their common beginning."""

    token: int
    above: Link | None
    length: int
    """Tokens since the search began, this one included; 0 for the token that was pending then."""
    prob: float = 1.0
    """The model's probability of it after what is above."""
    node: int = ROOT
    """Its node in the session while that is alive; ROOT as well once it is committed."""

    def up(self, length: int) -> Link:
        """Itself or the link above it of this length."""
        link = self
        while link.length > length:
            assert link.above is not None
            link = link.above
        return link

    def tokens(self, start: int = 0) -> list[int]:
        """The tokens after the first `start`."""
        out = []
        link = self
        while link.length > start and link.above is not None:
            out.append(link.token)
            link = link.above
        return out[::-1]


def meeting(links: Iterable[Link]) -> Link:
    """The last link that all of these share."""
    first, *others = links
    for other in others:
        length = min(first.length, other.length)
        first, other = first.up(length), other.up(length)
        while first is not other:
            assert first.above is not None
            assert other.above is not None
            first, other = first.above, other.above
    return first


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished text."""

    end: Link
    score: float
    """Sum of its tokens' natural log-probabilities divided by length ** length_penalty."""


@dataclass(slots=True)
class Search:
    """The state of one search, from the step in which the method came into force."""

    session: Session
    tokens: Sequence[int]
    """The conversation's live list, which tells whether a step still belongs to this search."""
    limit: int
    """Most tokens of a text."""
    seen: frozenset[int]
    """Token ids before the search began."""
    tail: Link
    """The last token that is certain; what is above it is committed, itself not."""
    running: list[tuple[Link, float]]
    """Open texts, best first, with the sums of their log-probabilities; their last tokens are not evaluated."""
    finished: list[Hypothesis] = field(default_factory=list)
    """The best B, best first."""
    alive: list[Link] = field(default_factory=list)
    """Links with a node in the session, parents first."""
    length: int = 0
    """Tokens of each open text."""


class Beam(Drafter):
    """The texts' common beginning is certain, and streams; the rest of them hang below it as a tree of living nodes, so that a
    step is one pass over B nodes. A finished text also holds the stream back: it may turn out the best.

    Probabilities are the model's own: temperature, top-k, top-p and min-p play no part. A repetition penalty multiplies the
    log-probabilities of tokens that were there before, as it does in transformers.

    Example:
        text     It, and open below it: is, was
        guess    is late 0.3, was late 0.2, is so 0.1; with two beams the last one goes
        verdict  It; "is" or "was" stays open, "is late" is shown faintly
    """

    name = "beam"
    group = "plain"
    label = "lossy"
    summary = (
        "Beam search: follows the B most probable texts at once and takes the best, which may not be plain decoding's text."
    )
    pays = (
        "When there is one short, right answer (translation, extraction). Open-ended text comes out dull. Never faster than "
        "greedy."
    )
    explains = (
        "Several beginnings of the answer are kept side by side and grow by one token in each pass; only the most probable "
        "ones stay. What all of them share is certain, often many tokens at a time, though each took a pass; what only the "
        "best one has so far is faint, and may change. The answer is the most probable complete text that was found, often "
        "not what greedy or sampling would write."
    )
    undrafted = "each pass follows several texts, and the best one is the answer"
    compared = False
    searches = True
    paper = "Sequence Transduction with Recurrent Neural Networks, Graves 2012, arXiv:1211.3711"
    requires = (needs.Trees(),)
    Params = BeamParams
    params: BeamParams

    @classmethod
    def elsewhere(cls, params: BeamParams, draft_model: str) -> Elsewhere:
        return {
            "transformers": (f"model.generate(**inputs, num_beams={params.beams})", ""),
            "llama-server": ("", "It has no beam search."),
            "vLLM": ("", "Beam search is a method of its LLM class (`beam_search`), not a server setting."),
        }

    def __init__(self, params: BeamParams | None = None) -> None:
        super().__init__(params)
        self._search: Search | None = None
        self._note = ""
        self.hypotheses: list[tuple[list[int], float]] = []
        """The finished texts of the last search (token ids, score), best first: transformers' `sequences_scores`."""

    @property
    def note(self) -> str:
        return self._note

    def draft(self, context: Context) -> Tree:
        """Where nothing calls `step`: plain decoding."""
        return Tree.root(context.pending)

    def horizon(self, session: Session) -> int:
        """What it has read it keeps until the search is over."""
        return session.context

    def step(self, context: Context, verify: Callable[[Drafter, Context], Outcome]) -> Outcome:
        search = self._search
        if search is None or search.tokens is not context.tokens or search.session is not context.session:
            search = self._search = self._begin(context)
        self._note = ""
        self._make_room(search)
        links = [link for link, _ in search.running]
        scores = search.session.evaluate([link.token for link in links], [_parent(link) for link in links])
        if (matcher := context.matcher) is not None:
            scores = scores.masked(range(len(links)), [matcher.mask(link.tokens(search.tail.length)) for link in links])
        for link, node in zip(links, scores.nodes, strict=True):
            link.node = node
        search.alive += links
        tail = search.tail
        over = self._advance(search, scores, context)
        open_texts = [link for link, _ in search.running]
        ends = [*open_texts, *(found.end for found in search.finished if found.end.length == search.length)]
        if over:
            self._search = None
            best = search.finished[0].end
            self.hypotheses = [(found.end.tokens(), found.score) for found in search.finished]
            tree, path, probs = _drawn(tail, best, [*ends, *links])
            settled = _settle(search, best)
            earlier = len(settled) - (best.length == search.length)
            return Outcome(settled, tree, path, done=True, earlier=earlier, probs=probs)
        # A finished text that is not the best will never be the answer.
        certain = meeting([*open_texts, *(found.end for found in search.finished[:1])])
        tree, path, probs = _drawn(tail, certain, [*ends, *links])
        tokens = self._emit(search, certain)
        # Only a token that no open text has left behind was found in this very pass.
        earlier = len(tokens) - (bool(tokens) and certain.length == search.length)
        return Outcome(tokens, tree, path, earlier=earlier, probs=probs)

    def leave(self, context: Context) -> Sequence[int]:
        search, self._search = self._search, None
        if search is None or search.tokens is not context.tokens:
            return ()
        best = self._leading(search)
        # The session may have been opened anew for the next method: what it lacks of the text is read again.
        return _settle(search, best) if search.session is context.session else best.tokens(search.tail.length)

    def _leading(self, search: Search) -> Link:
        """The best text so far, finished or open."""
        choices = search.finished[:1]
        if search.running:
            link, total = search.running[0]
            choices.append(Hypothesis(link, _score(total, link.length, self.params.length_penalty)))
        return max(choices, key=lambda found: found.score).end

    def _begin(self, context: Context) -> Search:
        """A search from the pending token on. What other methods left alive in the session goes."""
        context.session.commit(())
        pending = Link(context.pending, None, 0)
        return Search(
            context.session, context.tokens, context.max_depth + 1, frozenset(context.tokens), pending, [(pending, 0.0)]
        )

    def _make_room(self, search: Search) -> None:
        """Drop beams that are too many: since a change of settings, or where their tails do not fit in the context beside each
        other, as at its very end; then the best one goes on alone."""
        free = search.session.context - search.session.length - len(search.alive)
        beams = self.params.beams
        if len(search.running) > free:
            beams = 1
            self._note = "The context is nearly full, so the best beam continues alone."
        if len(search.running) > beams:
            del search.running[beams:]
            _keep(search, search.tail, ())

    def _advance(self, search: Search, scores: Scores, context: Context) -> bool:
        """Take the best continuations of all beams; whether the search is over."""
        beams, penalty = self.params.beams, self.params.length_penalty
        # Enough that B of them are open even if every EOS token of every beam is among them.
        count = max(2, 1 + len(context.eos_ids)) * beams
        before, search.running = search.running, []
        continuations = self._best([link for link, _ in before], search, scores, count, context)
        found = [
            (total + log, row, token, exp(log)) for row, (_, total) in enumerate(before) for token, log in continuations[row]
        ]
        found.sort(key=lambda entry: (-entry[0], *entry[1:]))
        search.length += 1
        ended = search.length >= search.limit
        for rank, (total, row, token, prob) in enumerate(found[:count]):
            if token in context.eos_ids or ended:
                if rank < beams:
                    link = Link(token, before[row][0], search.length, prob)
                    search.finished.append(Hypothesis(link, _score(total, search.length, penalty)))
            elif len(search.running) < beams:
                search.running.append((Link(token, before[row][0], search.length, prob), total))
        search.finished.sort(key=lambda hypothesis: -hypothesis.score)
        del search.finished[beams:]
        return ended or not search.running or self._settled(search) or self._enough(search)

    def _best(
        self, links: Sequence[Link], search: Search, scores: Scores, count: int, context: Context
    ) -> list[list[tuple[int, float]]]:
        """For each beam its `count` most probable continuations (token, log-probability), after the repetition penalty."""
        penalty = context.sampling.repetition_penalty
        if penalty == 1:
            return [[(token, log) for token, log in row if log > -inf] for row in scores.top(count)]
        import numpy as np  # here alone: listing the methods needs no arrays

        out = []
        for row, link in enumerate(links):
            with np.errstate(divide="ignore"):
                logs = np.log(scores.probs(row).astype(np.float64))
            seen = [token for token in search.seen.union(link.tokens()) if token < len(logs)]
            logs[seen] *= penalty
            best = np.argsort(-logs, kind="stable")[:count]
            out.append([(token, log) for token, log in zip(best.tolist(), logs[best].tolist(), strict=True) if log > -inf])
        return out

    def _settled(self, search: Search) -> bool:
        """Whether no open text can become better than the best finished one, at any length."""
        return bool(search.finished) and self._reach(search) <= search.finished[0].score

    def _reach(self, search: Search) -> float:
        """The best score that an open text may come to: as if all further tokens were certain. A positive penalty divides by
        more the longer a text gets, so that is its score at the limit; any other divides by least at its length now."""
        penalty = self.params.length_penalty
        return _score(search.running[0][1], search.limit if penalty > 0 else search.length, penalty)

    def _enough(self, search: Search) -> bool:
        """Whether the finished texts are the answer, though others are open."""
        params = self.params
        if len(search.finished) < params.beams:
            return False
        if params.early_stopping == "full" or params.beams == 1:
            return True
        now = _score(search.running[0][1], search.length, params.length_penalty)
        return (self._reach(search) if params.early_stopping == "never" else now) <= search.finished[-1].score

    def _emit(self, search: Search, certain: Link) -> list[int]:
        """The tokens up to `certain`, which becomes the pending one; nodes of beams that were dropped are freed."""
        path = _line(search.tail, certain)[:-1]
        tokens = certain.tokens(search.tail.length)
        _keep(search, certain, path)
        search.tail = certain
        return tokens


def _score(total: float, length: int, penalty: float) -> float:
    return total / length**penalty if length else 0.0


def _parent(link: Link) -> int:
    """The node above; the committed tail where that is committed."""
    return ROOT if link.above is None else link.above.node


def _line(start: Link, end: Link) -> list[Link]:
    """The links from `start` down to `end`."""
    out = []
    link: Link | None = end
    while link is not None and link.length >= start.length:
        out.append(link)
        link = link.above
    return out[::-1]


def _drawn(tail: Link, certain: Link, ends: Iterable[Link]) -> tuple[Tree, list[int], tuple[float, ...]]:
    """The texts that were open in a step, as a tree.

    Args:
        tail: the last certain token before the step, node 0.
        certain: the last one after it.
        ends: the last tokens of the texts.

    Returns:
        The tree; its nodes from `tail` to `certain`; the probability of each node after node 0, with that of the tokens left
        out before it; then of `certain`.
    """
    tree, indices, probs = Tree.root(tail.token), {id(tail): 0}, list[float]()
    floor = max(end.length for end in (certain, *ends)) - LEVELS
    lines = [_line(tail, certain), *(_line(tail, end) for end in ends)]
    for at, line in enumerate(lines):
        parent, left_out = 0, 1.0
        for link in line[1:]:
            index = indices.get(id(link))
            if index is None:
                if at and link.length < floor:
                    left_out *= link.prob
                    continue
                index = indices[id(link)] = tree.add(link.token, parent)
                probs.append(left_out * link.prob)
            parent, left_out = index, 1.0
    return tree, [indices[id(link)] for link in lines[0]], (*probs, certain.prob)


def _keep(search: Search, tail: Link, path: Sequence[Link]) -> None:
    """Commit `path`; below it only what the running texts share with the tree stays alive, from `tail` on."""
    wanted = {id(link): link for end, _ in search.running for link in _line(tail, end)}
    kept = [link for link in search.alive if id(link) in wanted]
    search.session.commit([link.node for link in path], [link.node for link in kept])
    for link in path:
        link.node = ROOT
    search.alive = kept


def _settle(search: Search, best: Link) -> list[int]:
    """Commit what has been evaluated of the best text, free everything else; the tokens that are certain now."""
    alive = {id(link) for link in search.alive}
    path = []
    for link in _line(search.tail, best)[:-1]:
        if id(link) not in alive:
            break  # nodes of a finished text are not kept; the answer ends with it
        path.append(link.node)
    search.session.commit(path)
    return best.tokens(search.tail.length)
