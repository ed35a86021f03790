"""Fusion: one probability model over all evidence for the next tokens, one tree grown best first under a node budget.

The model is a variable-order n-gram model of the context (ppm.py; after prediction by partial matching, Cleary and Witten
1984), to which the model's own recycled successors add their votes. Related: SuffixDecoding (Oliaro 2024, arXiv:2411.04975)
grows trees from suffix trees greedily by frequency; REST (He 2023, arXiv:2311.08252) retrieves from a datastore; SAM-Decoding
(Hu 2024, arXiv:2411.10666) drafts the longest match from a suffix automaton.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from operator import itemgetter

from ...option import option
from ..base import Context, Drafter, Verified
from ..parts.drafting import node_budget
from ..parts.elsewhere import chain_length, ngram_tree, speculative
from ..parts.ngrams import ORDERS
from ..parts.ppm import ESCAPE, FREQUENT, KIND, KINDS, PAST, RANKS, SUREST, ContextModel, EvidenceWeights, Occurrence
from ..tree import Tree

OCCURRENCES = 32
"""Most occurrences that vote on the first draft token."""

PAST_LINES = 32
"""Most occurrences in past answers that vote, and tokens that followed each."""

SETTLED = 8
"""Length of an inherited match from which on shorter ones and other evidence are left out: they would hardly weigh."""

DECIDING = 8
"""Most votes at such a match."""

LESSONS = 16
"""Most nodes of an accepted path to learn from: a long copy teaches no more than its start."""

RATE = 0.1
"""Step of learning: a kind of evidence that is always wrong halves its weight in some ten tokens."""


@dataclass(frozen=True, slots=True)
class FusionParams:
    nodes: int = option(16, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    floor: float = option(
        -1.0, "Lowest probability of a draft token's path; -1 drafts what pays by the cost of passes", low=-1, high=1
    )
    frequent: int = option(
        FREQUENT, "Number of the text's most frequent tokens to try where there is no other evidence", low=0, high=FREQUENT
    )
    past: bool = option(True, "Draft from past answers too, where there are any")


@dataclass(slots=True)
class Expansion:
    """The evidence on a node's children."""

    votes: list[Occurrence]
    """The occurrences that vote, those of each length of match together."""
    cast: list[float]
    """The weight of each vote."""
    guesses: list[tuple[int, float]]
    """(token, weight) of the recycled successors."""
    weights: dict[int, float]
    """Weight of all votes and guesses for each token."""
    escape: float
    """Weight left to all other tokens."""
    total: float
    """All weight, the escape included."""


Stream = Sequence[tuple[int, float]]
"""A node's children as (token, weight), by falling weight."""

Entry = tuple[float, int, int, float, Stream | None, int, Collection[int]]
"""(−probability, order, node, scale, stream, at, but): the next child of `node` is `stream[at]`, its path's probability is
scale · weight. Tokens in `but` are skipped. Of equally probable ones the stream that was opened first comes first. Without a
stream: the node has yet to be expanded, and the probability is a bound on its children's."""

WEIGHT = LENGTH = itemgetter(1)

NOTHING: frozenset[int] = frozenset()

LATER = len(RANKS) - 1
"""Last index of RANKS."""

MANY = len(ESCAPE) - 1
"""Last index of ESCAPE."""


Guesses = Sequence[tuple[int, float]]
"""(token, probability) pairs whose probabilities sum to at most 1."""


class Recycled:
    """The model's most probable successors of each token, from its last evaluation.

    Token recycling, Luo 2024, https://arxiv.org/abs/2408.08696.
    """

    KEPT = 8192
    """Tokens remembered, the least recently renewed forgotten first: about 4 MB."""
    SUCCESSORS = 8
    """Successors of each."""

    def __init__(self) -> None:
        self._successors: dict[int, Guesses] = {}

    def guess(self, tail: Sequence[int]) -> Guesses:
        """Guess the next token. Called for every node that is expanded: it must take a microsecond or two."""
        return self._successors.get(tail[-1], ())

    def learn(self, verified: Verified) -> None:
        successors, tokens = self._successors, verified.tree.tokens
        rows = verified.scores.top(self.SUCCESSORS)
        # The accepted path last: of a token that occurs twice, its successors in the text stay.
        for node in (*range(len(tokens)), *verified.path):
            token = tokens[node]
            successors.pop(token, None)  # so that it becomes the newest entry
            successors[token] = [(successor, math.exp(log)) for successor, log in rows[node]]
        while len(successors) > self.KEPT:
            del successors[next(iter(successors))]


class Fusion(Drafter):
    """Best-first growth of the most probable paths.

    The evidence on a node's children: occurrences of its parent's context that continue with its token, and occurrences of its
    last tokens elsewhere in the text. A path's probability is the product of its tokens'; `probabilities` has those of the last
    tree, and they sum to the number of draft tokens expected to be accepted.

    Example:
        text     one two three. two three four! one two
        guess    three, and below it both "." and "four", which have followed "two three"
        verdict  three four ✓ → five
    """

    name = "fusion"
    group = "text"
    reads_cache = False
    summary = "Combines all evidence in one probability model and drafts its most probable tree."
    pays = "Where prompt lookup does, and on other text where a pass over many nodes costs little more than a pass over one."
    explains = (
        "All evidence votes on the next token: matches of every length in the text and in earlier answers, and tokens that the "
        "model found probable before. The votes become probabilities, and one tree is grown best first, each node where it is "
        "most likely to be accepted. The weight of each kind of evidence is learned from accepted tokens."
    )
    paper = (
        "After PPM, Cleary 1984, https://doi.org/10.1109/TCOM.1984.1096090; compare SuffixDecoding, Oliaro 2024, "
        "https://arxiv.org/abs/2411.04975, REST, He 2023, https://arxiv.org/abs/2311.08252, and SAM-Decoding, Hu 2024, "
        "https://arxiv.org/abs/2411.10666"
    )
    Params = FusionParams
    params: FusionParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("4", "8", "16", "32", "64")]

    @classmethod
    def elsewhere(cls, params: FusionParams, draft_model: str) -> Mapping[str, str]:
        suffix = speculative("suffix", num_speculative_tokens=chain_length(params.nodes))
        return {**ngram_tree(params.nodes), "vLLM": suffix}

    def __init__(self, params: FusionParams | None = None) -> None:
        super().__init__(params)
        self.model = ContextModel()
        self.weights = EvidenceWeights()
        self.probabilities: list[float] = []
        """For each node of the last tree, the probability of its path; it never rises from one node to the next."""
        self._recycled = Recycled()
        self._tree: Tree | None = None
        self._expansions: dict[int, Expansion] = {}
        self._text = self.model.tokens
        """The text, and behind it the lines that followed its last tokens in past answers: -1, a line, -1, a line … -1."""
        self._past: list[Occurrence] = []
        """The starts of these lines."""

    def draft(self, context: Context) -> Tree:
        self.model.follow(context.tokens)
        self._look_back(context)
        self._tree = self._grow(context)
        return self._tree

    def _look_back(self, context: Context) -> None:
        """Append the lines of past answers to the text, so that they vote as the text does."""
        self._text = self.model.tokens
        self._past = []
        if context.past is None or not self.params.past:
            return
        lines = context.past.lines(context.tokens, PAST_LINES, PAST_LINES)
        if lines:
            behind = array("i", [-1])
            for line, match in lines:
                self._past.append((len(self._text) + len(behind), match, -1))
                behind.extend(line)
                behind.append(-1)
            self._text = self._text + behind

    def learn(self, verified: Verified) -> None:
        self._recycled.learn(verified)
        drafted, path = verified.tree.as_drafted(verified.path)
        if drafted is self._tree:
            for node, drafted_node in list(zip(verified.path, path, strict=True))[:LESSONS]:
                expansion = self._expansions.get(drafted_node)
                if expansion is not None and expansion.weights:
                    self._learn_choice(expansion, verified.chosen[node])
            self.weights.refresh()

    def _grow(self, context: Context) -> Tree:
        eos, max_depth, branching = context.eos_ids, context.max_depth, context.branching
        floor = self.sizes.least(context, self.params.floor)
        budget = node_budget(context, self.params.nodes)
        tree = Tree.root(context.pending)
        tokens, parents = tree.tokens, tree.parents
        reached = self.probabilities = [1.0]
        if self.params.floor < 0:
            tree.reached = reached
        self._expansions = {}
        frequent = self.model.frequent(self.params.frequent)
        rare = len(frequent)
        depths, tails = [0], [self.model.tokens[-ORDERS:].tolist()]
        heap: list[Entry] = [(-1.0, 0, 0, 1.0, None, 0, NOTHING)] if max_depth > 0 else []
        opened = 1
        while heap and len(tokens) < budget:
            key, order, parent, scale, stream, at, but = heap[0]
            if -key < floor and (len(tokens) > 1 or self.params.floor >= 0):  # whether the very first pays is decided later
                break
            if stream is None:  # the node's turn to be expanded
                expansion = self._expand(parent, parents[parent], tails[parent], reached[parent])
                weights = expansion.weights
                at, scale = 0, reached[parent] / expansion.total
                while at < rare and frequent[at][0] in weights:
                    at += 1
                rest = scale * expansion.escape
                bottom = (max(key, -rest * frequent[at][1]), opened, parent, rest, frequent, at, weights) if at < rare else None
                opened += 1
                if weights:
                    votes = sorted(weights.items(), key=WEIGHT, reverse=True) if len(weights) > 1 else [*weights.items()]
                    top = (max(key, -scale * votes[0][1]), order, parent, scale, votes, 0, NOTHING)
                    heapreplace(heap, top)
                    if bottom is not None:
                        if branching:
                            heappush(heap, bottom)
                        elif bottom[0] < top[0]:
                            heapreplace(heap, bottom)
                elif bottom is not None:
                    heapreplace(heap, bottom)
                else:
                    heappop(heap)
                continue
            token = stream[at][0]
            at += 1
            while at < len(stream) and stream[at][0] in but:
                at += 1
            if at < len(stream) and branching:
                heapreplace(heap, (max(key, -scale * stream[at][1]), order, parent, scale, stream, at, but))
            else:
                heappop(heap)
            node = len(tokens)
            tokens.append(token)
            parents.append(parent)
            reached.append(-key)
            depths.append(depths[parent] + 1)
            tails.append([*tails[parent][1 - ORDERS :], token])
            if depths[node] < max_depth and token not in eos:
                # Its best child is expected to be nearer to certain by half.
                heappush(heap, (key * (1 - key / reached[parent]) / 2, opened, node, 1.0, None, 0, NOTHING))
                opened += 1
        return tree

    def _expand(self, node: int, parent: int, tail: list[int], reached: float) -> Expansion:
        """Collect the votes on the next token after a node."""
        model, worth, past = self.model, self.weights.match, self.weights.past
        text, end = self._text, len(model.tokens)
        votes: list[Occurrence]
        settled = False
        if node == 0:
            votes = [(follows, match, follows) for follows, match in model.matches(OCCURRENCES)]
            if self._past:
                votes = sorted(votes + self._past, key=LENGTH, reverse=True)
        else:
            votes = []
            token = tail[-1]
            for follows, match, start in self._expansions[parent].votes:
                if text[follows] == token:
                    follows += 1
                    if follows == end:
                        if start < 0:
                            continue
                        follows = start
                    elif follows > end and text[follows] < 0:
                        continue
                    votes.append((follows, match + 1 if match < SUREST else SUREST, start))
            if votes and votes[0][1] >= SETTLED:
                settled = True
                del votes[DECIDING:]
            else:
                # More effort for probable paths: on recorded answers 24 everywhere gave 0.3% more tokens per step.
                limit = 4
                if reached >= 0.02:
                    limit = 16 if reached >= 0.1 else 8
                if len(votes) < limit:
                    model.after(tail, votes, limit)
                    if self._past:
                        votes.sort(key=LENGTH, reverse=True)
        weights: dict[int, float] = {}
        cast: list[float] = []
        total, successors = 0.0, 0
        longest = last = votes[0][1] if votes else 0
        rank, fraction = -1, 1.0
        for follows, match, _ in votes:
            if match == last:
                if rank < LATER:
                    rank += 1
            else:
                rank, last = 0, match
                if match < longest and not successors:
                    successors, fraction = len(weights), 1 / (longest + 1)
            token = text[follows]
            weight = (worth if follows < end else past)[match] * RANKS[rank] * fraction
            cast.append(weight)
            total += weight
            weights[token] = weights[token] + weight if token in weights else weight
        escape = ESCAPE[min(successors or len(weights), MANY)]
        guesses: list[tuple[int, float]] = []
        if not settled:
            # A successor of one token: longer matches leave it a fraction of its weight, as shorter ones.
            factor = self.weights.recycled if longest <= 1 else self.weights.recycled / (longest + 1)
            for token, probability in self._recycled.guess(tail):
                weight = factor * probability
                guesses.append((token, weight))
                total += weight
                weights[token] = weights.get(token, 0.0) + weight
        expansion = self._expansions[node] = Expansion(votes, cast, guesses, weights, escape, total + escape)
        return expansion

    def _learn_choice(self, expansion: Expansion, chosen: int) -> None:
        text, end = self._text, len(self.model.tokens)
        right, total = [0.0] * KINDS, [0.0] * KINDS
        for (follows, match, _), weight in zip(expansion.votes, expansion.cast, strict=True):
            kind = KIND[match] if follows < end else KIND[match] + PAST
            total[kind] += weight
            if text[follows] == chosen:
                right[kind] += weight
        for token, weight in expansion.guesses:
            total[0] += weight
            if token == chosen:
                right[0] += weight
        self.weights.learn(right, total, expansion.total, RATE)
