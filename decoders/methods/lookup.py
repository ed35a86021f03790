"""Prompt lookup: drafts the tokens that followed earlier occurrences of the last ones. No draft model, no training.

Saxena, "Prompt Lookup Decoding" (2023), https://github.com/apoorvumang/prompt-lookup-decoding, is the variant `reference`.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from ...option import option
from ..base import Context, Drafter, Verified
from ..parts.drafting import USUAL, Reliability, until_eos
from ..parts.elsewhere import chain_length, prompt_lookup
from ..parts.ngrams import LONGEST, ORDERS, NgramIndex
from ..tree import Tree

REFERENCE_NGRAM = 3
"""Longest n-gram of the published method."""

PAST_LINES = 16
"""Most occurrences in past answers to draft from."""


@dataclass(frozen=True, slots=True)
class LookupParams:
    variant: str = option(
        "ours", "ours: many matches merged into one tree; reference: as published", choices=("ours", "reference")
    )
    max_ngram: int = option(0, "Longest n-gram to look up; 0 is 8 for ours and 3 for reference", low=0, high=ORDERS)
    tokens: int = option(10, "reference: draft tokens K", low=1, high=256, length="variant=reference")
    nodes: int = option(16, "ours: most nodes in the tree, including the last token", low=1, high=256, length=True)
    past: bool = option(True, "ours: draft from past answers too, where there are any")
    floor: float = option(
        -1.0, "ours: lowest probability of a draft token's path; -1 drafts what pays by the cost of passes", low=-1, high=1
    )

    @property
    def longest(self) -> int:
        """The longest n-gram to look up: `max_ngram`, or the variant's default."""
        return self.max_ngram or (REFERENCE_NGRAM if self.variant == "reference" else ORDERS)


class Lookup(Drafter):
    """Prompt lookup.

    `reference`: the leftmost occurrence of the longest n-gram (n = 3, 2, 1) that has K tokens after it; those K are the draft.

    `ours`: the occurrences with the longest matches, latest first, each propose the line of tokens that followed. The lines
    share one tree, grown best first within the node budget. How probable a line's next token is depends on the length m of
    its match so far (odds of m^1.1 / 2, m at most 12) and on how the text has kept to its matches until now, which is learned
    from every match, drafted or not: so a long match drafts far and a short one a token or two. Lines that agree share their
    nodes, and where they part each takes its share of the probability that those before it leave. A line that reaches the
    end of the text goes on copying itself, as LZ77 does: text that has begun to loop is drafted as a loop.

    Example:
        text     the cat sat on the mat, and the cat
        guess    sat on the mat: what followed "the cat" before
        verdict  sat ✓, on ✗ → down: two tokens from one pass
    """

    name = "lookup"
    group = "text"
    reads_cache = False
    summary = "Prompt lookup: finds where the last tokens occurred before and drafts what followed."
    pays = "When the answer repeats the prompt or itself: summaries, questions about a text, editing, code."
    explains = (
        "It finds earlier occurrences of the last few tokens in the prompt or the answer, and guesses that the text continues "
        "as it did there. Long matches are trusted for many tokens, short ones for one or two; several matches share one tree. "
        "The model checks all guesses in one pass and keeps those that it would have chosen itself."
    )
    paper = "Prompt Lookup Decoding, Saxena 2023, https://github.com/apoorvumang/prompt-lookup-decoding"
    Params = LookupParams
    params: LookupParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [*({"nodes": nodes} for nodes in ("4", "8", "16", "32", "64")), {"variant": "reference"}]

    @classmethod
    def elsewhere(cls, params: LookupParams, draft_model: str) -> Mapping[str, str]:
        ours = params.variant == "ours"
        return prompt_lookup(chain_length(params.nodes)) if ours else prompt_lookup(params.tokens, params.longest)

    def __init__(self, params: LookupParams | None = None) -> None:
        super().__init__(params)
        self._index = NgramIndex()
        self.reliability = Reliability()
        """Reliability of matches in this text and earlier ones; may be replaced between texts."""
        self._eos: Collection[int] = ()
        self._latest = -1, 0
        """The longest match: index of the token that followed it, or -1 for no match, and its length."""

    def draft(self, context: Context) -> Tree:
        self._index.follow(context.tokens)
        if self.params.variant == "reference":
            return Tree.chain(context.pending, self._reference(context))
        return self._grow(context)

    def match(self, tokens: Sequence[int]) -> int:
        """Measure the longest match of the last tokens, at most LONGEST: a cheap call in place of `draft`, where that may not
        pay. It learns from the tokens that the text has gained since the last call, as `learn` does from a step."""
        index = self._index
        if not index.followed(tokens):
            index.follow(tokens)
            self._latest = -1, self._latest[1]
        text = index.tokens
        place, match = self._latest
        for token in tokens[len(text) :]:
            if place >= 0:
                right = text[place] == token
                self.reliability.learn(match, right)
                place, match = (place + 1, min(match + 1, LONGEST)) if right else (-1, 0)
            index.append(token)
            if place < 0:
                place, match = index.latest
        self._latest = (place, match) if place >= 0 else index.latest
        return self._latest[1]

    def close(self) -> None:
        """Learn from the text's last tokens, for `match`."""
        if (source := self._index.source) is not None and self._index.followed(source):
            self.match(source)

    def promises(self, match: int, costs: Sequence[float], rate: float) -> bool:
        """Return whether a chain behind a match may give more than `rate` tokens in a plain pass's time.

        Args:
            match: length of the match.
            costs: of a pass by its nodes, in plain passes.
            rate: to beat.
        """
        if not match:
            return False
        reached = [1.0]
        for nodes in range(1, min(self.params.nodes, len(costs) - 1)):
            reached.append(reached[-1] * self.reliability[match + nodes - 1])
        expected = self.sizes.expected(reached)
        return any(expected[nodes] > rate * costs[nodes] for nodes in range(2, len(expected)))

    def learn(self, verified: Verified) -> None:
        """Learn how far the text continued the longest match, whether or not lookup drafted it."""
        start, match = self._latest
        if start < 0:
            return
        self._latest = -1, match
        text, path, at = self._index.tokens, verified.path, start
        for node in path[1:]:
            right = text[at] == verified.tree.tokens[node]
            self.reliability.learn(min(match, LONGEST), right)
            if not right:
                return
            match += 1
            at = at + 1 if at + 1 < len(text) else start  # a late match copies itself
        if verified.tree.tokens[path[-1]] not in self._eos:
            self.reliability.learn(min(match, LONGEST), text[at] == verified.chosen[path[-1]])

    def _reference(self, context: Context) -> Sequence[int]:
        """Draft as the published `find_candidate_pred_tokens`, cut to the depth and behind EOS.

        If the first occurrence has too little text after it, every later one has less.
        """
        params, text = self.params, self._index.tokens
        raw, width = text.tobytes(), text.itemsize
        for n in range(min(params.longest, len(text)), 0, -1):
            at = raw.find(ngram := raw[-n * width :])
            while at % width:  # not where a token begins
                at = raw.find(ngram, at + 1)
            start = at // width + n
            if start < len(text) - n and start + params.tokens <= len(text):
                return until_eos(text[start : start + min(params.tokens, context.max_depth)].tolist(), context.eos_ids)
        return []

    def _grow(self, context: Context) -> Tree:
        params, eos = self.params, context.eos_ids
        reach = min(context.max_depth, params.nodes - 1)
        tree = Tree.root(context.pending)
        chances = [1.0]
        if params.floor < 0:
            tree.reached = chances
        self._eos = eos
        self._latest = self._index.latest
        _, match = self._latest
        if reach <= 0 or (not match and context.past is None):
            return tree
        floor = self.sizes.least(context, params.floor)
        reliability = self.reliability
        shortest = 1
        # Shorter matches begin with a token that is not worth its node. The longest stays: whether it pays is decided later.
        longest = match if params.floor < 0 else params.longest
        while shortest < min(params.longest, longest) and reliability[shortest] < floor:
            shortest += 1
        if match < shortest and context.past is None:  # nothing matches
            return tree
        factor = reliability.factor
        tokens, parents = tree.tokens, tree.parents
        children: dict[tuple[int, int], int] = {}
        left = [1.0]  # by node: the probability that it is reached and none of its children is right
        # With more occurrences than half of the nodes, the last get no node.
        most = (params.nodes + 1) // 2 if context.branching else 1
        # By falling bound on the next token's probability: (-bound, rank, match so far, depth, node, line).
        lines = [
            (-reliability[match], rank, match, 0, 0, line)
            for rank, (line, match) in enumerate(self._lines(context, reach, most, shortest))
        ]
        heapify(lines)
        while lines and len(tokens) < params.nodes:
            _, rank, match, depth, node, line = heappop(lines)
            while depth < len(line) and (node == 0 or tokens[node] not in eos):
                token = line[depth]
                child = children.get((node, token))
                if child is None:
                    odds = USUAL[match] * factor  # as `Reliability` has it, without a call for every node
                    probability = left[node] * odds / (1 + odds)
                    if (probability < floor and (len(tokens) > 1 or params.floor >= 0)) or len(tokens) >= params.nodes:
                        break
                    if lines and probability < -lines[0][0]:  # another line comes first
                        entry = (-probability, rank, match, depth, node, line)
                        _, rank, match, depth, node, line = heapreplace(lines, entry)
                        continue
                    child = children[node, token] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                    left[node] -= probability
                    left.append(probability)
                    chances.append(probability)
                node = child  # new, or put there by another line
                depth += 1
                match += 1
        return tree

    def _lines(self, context: Context, reach: int, most: int, shortest: int) -> Iterator[tuple[array[int], int]]:
        """Yield up to `reach` tokens that followed each match, with the length of the match; no line twice.

        A match in past answers counts as half as long: among so many tokens any text has short matches.
        """
        params, text = self.params, self._index.tokens
        yielded = set[bytes]()
        for start, match in self._index.matches(most, params.longest, shortest):
            if not yielded:  # the longest one
                self._latest = start, match
            line = text[start : start + reach]
            while len(line) < reach:  # a late match: it overlaps what it predicts
                line.extend(line[: reach - len(line)])
            raw = line.tobytes()
            if raw not in yielded:
                yielded.add(raw)
                yield line, match
        if context.past is not None and params.past:
            for line, match in context.past.lines(context.tokens, min(most, PAST_LINES), reach):
                if match // 2 >= shortest and (raw := line.tobytes()) not in yielded:
                    yielded.add(raw)
                    yield line, match // 2
