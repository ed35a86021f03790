"""Suffix decoding: drafts the tokens that followed the text's last ones most often, in this text and in past answers.

The paper counts every sequence of tokens in a suffix tree. Here it is a suffix automaton (Blumer et al.,
https://doi.org/10.1016/0304-3975(85)90157-4), with the same counts in at most two states a token.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush, nlargest
from itertools import groupby
from operator import itemgetter

from ...option import option
from ..base import Context, Drafter
from ..parts.drafting import LONGEST, Reliability, node_budget
from ..parts.elsewhere import ngram_tree, speculative
from ..parts.ngrams import TokenIndex
from ..tree import Tree

PAST_LINES = 32
"""Most occurrences in past answers to count: those with the longest matches."""

DEPTH = 64
"""Longest sequence counted, in tokens: a match and its draft together."""

USUALLY = [Reliability()[match] for match in range(LONGEST + 1)]
"""Probability that a text continues a match, by its length."""


@dataclass(frozen=True, slots=True)
class SuffixParams:
    """Settings of suffix decoding; the defaults are those of its authors' code."""

    factor: float = option(1.0, "Draft tokens for each token of the match", low=0, high=64)
    floor: float = option(0.1, "Lowest probability of a draft token's path, by its frequency", low=0, high=1)
    tree: bool = option(False, "Draft the most frequent continuations as a tree; off: only the most frequent one, as a chain")
    nodes: int = option(64, "Most nodes in the tree, including the last token", low=1, high=256, length=True)
    past: bool = option(True, "Draft from past answers too, where there are any")


@lru_cache(maxsize=8)
def lengths(factor: float) -> Sequence[int]:
    """List the most draft tokens after a match of 0 … DEPTH tokens."""
    return [min(int(factor * match), DEPTH - match) for match in range(DEPTH + 1)]


class SuffixAutomaton(TokenIndex):
    """Counts and successors of each sequence of up to `depth` tokens in a text.

    A state stands for all sequences that end at the same places. They are suffixes of one another: the longest has
    `length` tokens, and the next shorter suffix belongs to the state `link`.
    """

    def __init__(self, depth: int = DEPTH) -> None:
        super().__init__()
        self.depth = depth
        self.clear()

    def clear(self) -> None:
        super().clear()
        self.next: list[dict[int, int]] = [{}]
        """For each state: the token that follows → the state of the sequences with it at their end."""
        self.link = array("i", [-1])
        self.length = array("i", [0])
        self.count = array("i", [0])
        """For each state, the number of occurrences of its sequences, if they have at most `depth` tokens."""
        self._whole = 0
        self.end = 0, 0
        """The text's last `depth` tokens: their state and their number."""

    def append(self, token: int) -> None:
        self.tokens.append(token)
        following, link, length, whole = self.next, self.link, self.length, self._whole
        new = self._whole = self._add({}, length[whole] + 1, 0)
        while whole >= 0 and token not in following[whole]:
            following[whole][token] = new
            whole = link[whole]
        link[new] = self._exactly(whole, token) if whole >= 0 else 0
        self.end = self.step(self.end, token)
        state, count = self.end[0], self.count
        while state:
            count[state] += 1
            state = link[state]

    def step(self, match: tuple[int, int], token: int) -> tuple[int, int]:
        """Return the longest match of a text's last tokens, at most `depth`, after one more token.

        Args:
            match: of the text before: (state, length); (0, 0) for none.
            token: the new one.
        """
        state, matched = match
        following, link = self.next, self.link
        while state and token not in following[state]:
            state = link[state]
            matched = self.length[state]
        if token in following[state]:
            state = following[state][token]
            matched = min(matched + 1, self.depth)
            while self.length[link[state]] >= matched:
                state = link[state]
        return state, matched

    def suffixes(self, match: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        """Yield each state of a match's suffixes, the longest first, as (state, shortest, longest of its suffixes)."""
        state, longest = match
        while state:
            shortest = self.length[self.link[state]] + 1
            yield state, shortest, longest
            state, longest = self.link[state], shortest - 1

    def _add(self, following: dict[int, int], length: int, count: int) -> int:
        self.next.append(following)
        self.link.append(-1)
        self.length.append(length)
        self.count.append(count)
        return len(self.next) - 1

    def _exactly(self, state: int, token: int) -> int:
        """Return the state that a token leads to, split off from longer sequences that have ended at the same places so far."""
        following, link = self.next, self.link
        target = following[state][token]
        if self.length[target] == self.length[state] + 1:
            return target
        split = self._add(following[target].copy(), self.length[state] + 1, self.count[target])
        link[split] = link[target]
        link[target] = split
        while state >= 0 and following[state].get(token) == target:
            following[state][token] = split
            state = link[state]
        return split


class Continuations:
    """A trie of the lines that followed some occurrences, with `next` and `count` as in an automaton."""

    def __init__(self) -> None:
        self.next: list[dict[int, int]] = [{}]
        self.count = [0]

    def add(self, line: Sequence[int]) -> None:
        """Add a line."""
        state = 0
        self.count[0] += 1
        for token in line:
            after = self.next[state].get(token)
            if after is None:
                after = self.next[state][token] = len(self.next)
                self.next.append({})
                self.count.append(0)
            self.count[after] += 1
            state = after


class Suffix(Drafter):
    """Each suffix of the text, up to its longest match, proposes a draft: from there on the most frequent tokens.

    P(t | s) = count of s and t / count of s; a path's probability is the product of its tokens'. The suffix of m tokens may
    draft factor · m tokens that are as probable as `floor`. The draft with most tokens expected to be accepted, the
    sum of the probabilities, is taken.

    Example:
        text     x = 1; x = 2; x = 1; x
        guess    = 1 ; because "= 1" has followed "x" twice and "= 2" once
        verdict  = ✓, 1 ✗ → 3
    """

    name = "suffix"
    group = "text"
    reads_cache = False
    summary = "Suffix decoding: drafts what followed the last tokens most often, in the text and in past answers."
    pays = "When the same things are written again and again: agents, editing, code, questions like earlier ones."
    explains = (
        "It counts every sequence of tokens in this text and in past answers, and guesses the most frequent continuation of "
        "the last tokens: the longer the match, the more tokens, as long as they are probable enough. Every suffix of the text "
        "proposes such a draft; the one that promises the most tokens is checked in one pass."
    )
    paper = "SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications, Oliaro 2024, arXiv:2411.04975"
    Params = SuffixParams
    params: SuffixParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        trees = ({"tree": "on", "factor": "4", "floor": "0", "nodes": nodes} for nodes in ("8", "16", "32", "64"))
        return [{}, {"factor": "2"}, {"factor": "4"}, *trees]

    @classmethod
    def elsewhere(cls, params: SuffixParams, draft_model: str) -> Mapping[str, str]:
        chain = speculative(
            "suffix",
            num_speculative_tokens=params.nodes - 1,
            suffix_decoding_max_tree_depth=DEPTH,
            suffix_decoding_max_spec_factor=params.factor,
            suffix_decoding_min_token_prob=params.floor,
        )
        return {**ngram_tree(params.nodes), "vLLM": chain}

    def __init__(self, params: SuffixParams | None = None) -> None:
        super().__init__(params)
        self._text = SuffixAutomaton()

    def draft(self, context: Context) -> Tree:
        params, text = self.params, self._text
        text.follow(context.tokens)
        most, limits = node_budget(context, params.nodes) - 1, lengths(params.factor)
        proposals = [
            (max(limits[shortest : longest + 1]), longest, state) for state, shortest, longest in text.suffixes(text.end)
        ]
        proposals.sort(key=itemgetter(0), reverse=True)
        best, expected = Tree.root(context.pending), 0.0
        for limit, match, state in proposals:
            limit = min(limit, most)
            if limit <= expected:  # no token is more than certain
                break
            counts = [text.count[after] for after in text.next[state].values()]
            if counts and limit * max(counts) > expected * text.count[state]:
                tree, promised = self._grow(text, state, match, limit, context)
                if promised > expected:
                    best, expected = tree, promised
        return self._look_back(context, best, expected) if context.past is not None and params.past else best

    def _look_back(self, context: Context, best: Tree, expected: float) -> Tree:
        """Return the best draft, or a better one from past answers."""
        assert context.past is not None
        params, lines_so_far = self.params, Continuations()
        most, limits = node_budget(context, params.nodes) - 1, lengths(params.factor)
        if not most:
            return best
        for match, lines in groupby(context.past.lines(context.tokens, PAST_LINES, min(most, DEPTH)), itemgetter(1)):
            for line, _ in lines:  # a shorter suffix has the longer ones' occurrences too
                lines_so_far.add(line)
            limit = min(most, limits[match])
            if limit > expected:
                tree, promised = self._grow(lines_so_far, 0, match // 2, limit, context)
                if promised > expected:
                    best, expected = tree, promised
        return best

    def _grow(
        self, automaton: SuffixAutomaton | Continuations, state: int, match: int, limit: int, context: Context
    ) -> tuple[Tree, float]:
        """Grow the tree of the `limit` most probable tokens after a state; return it and the sum of their probabilities.

        The successors of a single occurrence have all of the counts: for the tree's size, their probability is taken from the
        length of the match instead.
        """
        params, count, eos = self.params, automaton.count, context.eos_ids
        branching = params.tree and context.branching
        tree, expected = Tree.root(context.pending), 0.0
        tree.apart = not branching
        # The text's end counts as an occurrence without a successor.
        following = sum(count[after] for after in automaton.next[state].values())
        first = count[state] / max(1, following)
        tree.reached = [1.0]
        usual = [1.0]  # by depth: the probability that the text continues the match so far
        tokens, depths = tree.tokens, [0]
        # (−probability, order, parent, token, state) of what may be added: the most probable first, of equals the oldest.
        heap: list[tuple[float, int, int, int, int]] = []
        node, reached, order = 0, 1.0, 0
        while True:
            if depths[node] < context.max_depth and (node == 0 or tokens[node] not in eos):
                most = limit + 1 - len(tokens) if branching else 1
                children = nlargest(most, automaton.next[state].items(), key=lambda child: count[child[1]])
                for token, after in children:
                    probability = reached * count[after] / count[state]
                    if probability < params.floor:
                        break
                    heappush(heap, (-probability, order, node, token, after))
                    order += 1
            if not heap or len(tokens) > limit:
                return tree, expected
            least, _, parent, token, state = heappop(heap)
            reached = -least
            expected += reached
            node = tree.add(token, parent)
            depths.append(depths[parent] + 1)
            if depths[node] == len(usual):
                usual.append(usual[-1] * USUALLY[min(match + len(usual) - 1, LONGEST)])
            tree.reached.append(min(1.0, reached * first) * usual[depths[node]])
