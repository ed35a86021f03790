"""Beam search: the B most probable texts side by side, and the best of them at the end.

Graves, "Sequence Transduction with Recurrent Neural Networks" (2012), arXiv:1211.3711; the length penalty is that of Wu et al.,
"Google's Neural Machine Translation System" (2016), arXiv:1609.08144, in the form of transformers' `generate`: the sum of
log-probabilities divided by length ** penalty. Finished texts and the stopping rule are transformers' too, with one more rule:
once no open text can become better than the best finished one, that is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, inf

from ...backends.base import ROOT, Scores, Session
from ...option import option
from .. import needs
from ..base import Context, Drafter, StepOutcome
from ..tree import Tree

LEVELS = 64
"""Number of the open texts' last tokens in a step's tree: texts that part early share none of theirs."""


@dataclass(frozen=True, slots=True)
class BeamParams:
    beams: int = option(4, "Number of texts B to follow side by side; 1 is greedy decoding", low=1, high=64)
    length_penalty: float = option(1.0, "Exponent of the length in a text's score; above 0 favours long texts", low=-8, high=8)


@dataclass(eq=False, slots=True)
class Link:
    """One token of a beam; beams share the links of their common beginning."""

    token: int
    above: Link | None
    length: int
    """Tokens since the search began, this one included; 0 for the token that was pending then."""
    prob: float = 1.0
    """The model's probability of it after the links above."""
    node: int = ROOT
    """Its node in the session while that is alive; ROOT as well once it is committed."""

    def up(self, length: int) -> Link:
        """Return the link of this length: this one or one above it."""
        link = self
        while link.length > length:
            assert link.above is not None
            link = link.above
        return link

    def tokens(self, start: int = 0) -> list[int]:
        """List the tokens after the first `start`."""
        out = []
        link = self
        while link.length > start and link.above is not None:
            out.append(link.token)
            link = link.above
        return out[::-1]


def last_common(links: Iterable[Link]) -> Link:
    """Find the last link that all of these share."""
    common, *remaining = links
    for link in remaining:
        length = min(common.length, link.length)
        common, link = common.up(length), link.up(length)
        while common is not link:
            assert common.above is not None
            assert link.above is not None
            common, link = common.above, link.above
    return common


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
    """The conversation's live list; a step with another list does not belong to this search."""
    limit: int
    """Most tokens of a text."""
    tail: Link
    """The last token that is certain; the links above it are committed, itself not."""
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

    Temperature, filters and the repetition penalty do not apply.

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
        "Several beginnings of the answer grow side by side by one token in each pass; only the most probable ones stay. Their "
        "common beginning is certain; the rest of the best one is faint, and may change. The answer is the most probable "
        "complete text, often not what greedy or sampling would write."
    )
    undrafted = "each pass follows several texts, and the best one is the answer"
    compared = False
    searches = True
    paper = "Sequence Transduction with Recurrent Neural Networks, Graves 2012, arXiv:1211.3711"
    requires = (needs.Trees(),)
    note = ""
    Params = BeamParams
    params: BeamParams

    @classmethod
    def elsewhere(cls, params: BeamParams, draft_model: str) -> Mapping[str, str]:
        return {"transformers": f"model.generate(**inputs, num_beams={params.beams})"}

    def __init__(self, params: BeamParams | None = None) -> None:
        super().__init__(params)
        self._search: Search | None = None
        self.hypotheses: list[tuple[list[int], float]] = []
        """The finished texts of the last search (token ids, score), best first: transformers' `sequences_scores`."""

    def draft(self, context: Context) -> Tree:
        """Fall back to plain decoding, for callers that do not use `step`."""
        return Tree.root(context.pending)

    def horizon(self, session: Session) -> int:
        """Return the context: a search never reads the text again, as it keeps its nodes."""
        return session.context

    def step(self, context: Context, verify: Callable[[Drafter, Context], StepOutcome]) -> StepOutcome:
        search = self._search
        if search is None or search.tokens is not context.tokens or search.session is not context.session:
            search = self._search = self._begin(context)
        self.note = ""
        self._make_room(search)
        links = [link for link, _ in search.running]
        scores = search.session.evaluate([link.token for link in links], [_parent(link) for link in links])
        if (matcher := context.matcher) is not None:
            scores = scores.masked(range(len(links)), [matcher.mask(link.tokens(search.tail.length)) for link in links])
        for link, node in zip(links, scores.nodes, strict=True):
            link.node = node
        search.alive += links
        tail = search.tail
        done = self._extend(search, scores, context)
        open_texts = [link for link, _ in search.running]
        ends = [*open_texts, *(text.end for text in search.finished if text.end.length == search.length)]
        if done:
            self._search = None
            certain = search.finished[0].end
            self.hypotheses = [(text.end.tokens(), text.score) for text in search.finished]
        else:  # a finished text that is not the best will never be the answer
            certain = last_common([*open_texts, *(text.end for text in search.finished[:1])])
        tree, path, probs = _drawn(tail, certain, [*ends, *links])
        tokens = _settle(search, certain) if done else self._emit(search, certain)
        # Only a token that no open text has passed was chosen in this very pass.
        earlier = len(tokens) - (bool(tokens) and certain.length == search.length)
        return StepOutcome(tokens, tree, path, earlier=earlier, done=done, probs=probs)

    def leave(self, context: Context) -> Sequence[int]:
        search = self._search
        self._search = None
        if search is None or search.tokens is not context.tokens:
            return ()
        best = self._leading(search)
        # The session may have been replaced for the next method: the tokens that it lacks are read again.
        return _settle(search, best) if search.session is context.session else best.tokens(search.tail.length)

    def _leading(self, search: Search) -> Link:
        """Return the end of the best text so far, finished or open."""
        choices = search.finished[:1]
        if search.running:
            link, total = search.running[0]
            choices.append(Hypothesis(link, _score(total, link.length, self.params.length_penalty)))
        return max(choices, key=lambda text: text.score).end

    def _begin(self, context: Context) -> Search:
        context.session.commit(())
        pending = Link(context.pending, None, 0)
        return Search(
            session=context.session,
            tokens=context.tokens,
            limit=context.max_depth + 1,
            tail=pending,
            running=[(pending, 0.0)],
        )

    def _make_room(self, search: Search) -> None:
        """Drop beams that are too many: after a change of settings, or at the very end of the context, where their tails do not
        fit side by side; then the best one continues alone."""
        free = search.session.context - search.session.length - len(search.alive)
        beams = self.params.beams
        if len(search.running) > free:
            beams = 1
            self.note = "The context is nearly full, so the best beam continues alone."
        if len(search.running) > beams:
            del search.running[beams:]
            _keep(search, search.tail, ())

    def _extend(self, search: Search, scores: Scores, context: Context) -> bool:
        """Extend the beams by their best continuations; return whether the search is over."""
        beams, penalty = self.params.beams, self.params.length_penalty
        # Enough that B of them are open even if every EOS token of every beam is among them.
        count = max(2, 1 + len(context.eos_ids)) * beams
        before = search.running
        search.running = []
        ranked = [
            (total + log, row, token, exp(log))
            for row, ((_, total), best) in enumerate(zip(before, scores.top(count), strict=True))
            for token, log in best
            if log > -inf
        ]
        ranked.sort(key=lambda entry: (-entry[0], *entry[1:]))
        search.length += 1
        ended = search.length >= search.limit
        for rank, (total, row, token, prob) in enumerate(ranked[:count]):
            if token in context.eos_ids or ended:
                if rank < beams:
                    link = Link(token, before[row][0], search.length, prob)
                    search.finished.append(Hypothesis(link, _score(total, search.length, penalty)))
            elif len(search.running) < beams:
                search.running.append((Link(token, before[row][0], search.length, prob), total))
        search.finished.sort(key=lambda hypothesis: -hypothesis.score)
        del search.finished[beams:]
        return ended or not search.running or self._settled(search) or self._enough(search)

    def _settled(self, search: Search) -> bool:
        """Return whether no open text can become better than the best finished one. A positive penalty divides by more the
        longer a text gets, so the bound is its score at the limit if all further tokens were certain; any other divides by
        least at its length now."""
        penalty = self.params.length_penalty
        length = search.limit if penalty > 0 else search.length
        return bool(search.finished) and _score(search.running[0][1], length, penalty) <= search.finished[0].score

    def _enough(self, search: Search) -> bool:
        """Return whether B texts are finished and the best open one scores no better at its length."""
        params = self.params
        now = _score(search.running[0][1], search.length, params.length_penalty)
        return len(search.finished) >= params.beams and (params.beams == 1 or now <= search.finished[-1].score)

    def _emit(self, search: Search, certain: Link) -> list[int]:
        """Return the tokens up to `certain`, which becomes the pending one; free the nodes of dropped beams."""
        path = _line(search.tail, certain)[:-1]
        tokens = certain.tokens(search.tail.length)
        _keep(search, certain, path)
        search.tail = certain
        return tokens


def _score(total: float, length: int, penalty: float) -> float:
    return total / length**penalty if length else 0.0


def _parent(link: Link) -> int:
    return ROOT if link.above is None else link.above.node


def _line(start: Link, end: Link) -> list[Link]:
    out = []
    link: Link | None = end
    while link is not None and link.length >= start.length:
        out.append(link)
        link = link.above
    return out[::-1]


def _drawn(tail: Link, certain: Link, ends: Iterable[Link]) -> tuple[Tree, list[int], tuple[float, ...]]:
    """Make a tree of the texts that were open in a step.

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
    """Commit `path`; below it keep the links of the running texts alive, from `tail` on."""
    running = {id(link) for end, _ in search.running for link in _line(tail, end)}
    alive = [link for link in search.alive if id(link) in running]
    search.session.commit([link.node for link in path], [link.node for link in alive])
    for link in path:
        link.node = ROOT
    search.alive = alive


def _settle(search: Search, best: Link) -> list[int]:
    """Commit the evaluated part of the best text and free all other nodes; return the tokens that are certain now."""
    alive = {id(link) for link in search.alive}
    path = []
    for link in _line(search.tail, best)[:-1]:
        if id(link) not in alive:
            break  # nodes of a finished text are not kept; the answer ends with it
        path.append(link.node)
    search.session.commit(path)
    return best.tokens(search.tail.length)
