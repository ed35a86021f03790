"""A chain of draft tokens from a drafter that runs a model, for which prompt lookup drafts in turn.

Chen et al., "Cascade Speculative Drafting for Even Faster LLM Inference" (2023), arXiv:2312.11462 (its vertical cascade, whose
last drafter is no neural network). Where the text repeats itself the next tokens of the chain are known before the draft model
runs: it reads them all in one pass, and keeps those it would have chosen itself. So the tokens are the same with the cascade
and without, in fewer passes. Only the end of a chain may differ: a token that both expect is drafted however unsure the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from ...backends.base import Model
from ...backends.info import plain_passes
from ..base import Context, Drafter
from ..tree import Draws, Tree
from .drafting import Reliability, weighs_draft
from .ngrams import LONGEST, ORDERS
from .ppm import ContextModel, Occurrence
from .proposers import FirstLayers, Proposer
from .sizes import pass_curve

SCHEDULES = ("constant", "confidence")
"""Lengths of a chain: always `tokens`, or up to `most` but no further than the first token less probable than `threshold`."""

CANDIDATES = 4
"""Occurrences that are examined for one that a token follows."""

LEAST = 0.05
"""Least probability that the draft model reaches the last token of a line."""


class Copies:
    """Lines copied from the text so far that a draft model is expected to choose itself.

    Args:
        model: that drafts; None where its pass over a line costs what one over a token does.
    """

    def __init__(self, model: Model | None = None) -> None:
        self._index = ContextModel()
        self._reliability = Reliability()
        self._costs = plain_passes(pass_curve(model))
        self._match = 0
        """Length of the match behind the last line."""

    def follow(self, tokens: Sequence[int]) -> None:
        """Catch up with the text."""
        self._index.follow(tokens)

    def after(self, drafted: Sequence[int], most: int, eos_ids: frozenset[int]) -> tuple[list[int], list[float]]:
        """Copy the line that followed an earlier occurrence of the last tokens.

        Args:
            drafted: tokens drafted behind the text.
            most: longest line.
            eos_ids: no line continues behind one of these.

        Returns:
            the line, and for each of its tokens the probability that the draft continues up to it.
        """
        index, text = self._index, self._index.tokens
        if most < 1 or (drafted and drafted[-1] in eos_ids):
            return [], []
        if drafted:
            tail = [*text[-LONGEST:], *drafted]
            occurrences: list[Occurrence] = []
            index.after(tail[-ORDERS:], occurrences, CANDIDATES)
            matches = [(start, self._measure(tail, start)) for start, _, _ in occurrences[:1]]
        else:
            matches = index.matches(1)
        if not matches:
            return [], []
        (start, match), *_ = matches
        self._match = match
        chances: list[float] = []
        reached = 1.0
        for at in range(start, min(start + most, len(text))):
            reached *= self._reliability[match]
            if reached < LEAST:
                break
            match += 1
            chances.append(reached)
            if text[at] in eos_ids:
                break
        # A token that the draft model chooses too saves a pass over one node; each adds to the cost of the pass over the line.
        gains = [saved - self._costs[1 + length] for length, saved in enumerate(accumulate(chances, initial=0.0))]
        length = gains.index(max(gains))
        return text[start : start + length].tolist(), chances[:length]

    def _measure(self, tail: Sequence[int], start: int) -> int:
        """Count the last tokens that stand before `start` in the text as well."""
        text, match = self._index.tokens, 0
        while match < min(LONGEST, len(tail), start) and text[start - 1 - match] == tail[-1 - match]:
            match += 1
        return match

    def learn(self, length: int, right: int) -> None:
        """Learn that the first `right` tokens of a line of this length were right."""
        for at in range(min(right + 1, length)):
            self._reliability.learn(min(self._match + at, LONGEST), at < right)


class ChainDrafter(Drafter):
    """A drafter of chains from a proposer. Its `Params` have `tokens`, `schedule`, `most`, `threshold` and `cascade`."""

    reads_cache = False
    params: Any
    _copies: Copies

    def _length(self, context: Context) -> int:
        """Return the most draft tokens of this round."""
        params = self.params
        most: int = params.tokens if params.schedule == "constant" else params.most
        return min(most, context.max_depth)

    def _chain(self, proposer: Proposer, context: Context) -> Tree:
        params = self.params
        enough = params.threshold if params.schedule == "confidence" else 0.0
        return grow_chain(proposer, context, self._length(context), enough, self._copies if params.cascade else None)


def grow_chain(proposer: Proposer, context: Context, most: int, enough: float = 0.0, copies: Copies | None = None) -> Tree:
    """Draft the pending token and a line of guesses.

    Args:
        proposer: makes the guesses.
        context: of the step.
        most: longest line.
        enough: the line ends with the first guess less probable than this.
        copies: drafts for the proposer; None for one pass a token.
    """
    tree = Tree.chain(context.pending, ())
    most = min(most, context.max_depth, context.session.context - context.session.length - 1)
    if most < 1:
        return tree
    capacity = min(most, proposer.capacity(context))  # the draft model may have the smaller context
    weighed = weighs_draft(context)
    if copies is not None:
        copies.follow(context.tokens)
    ended = False
    while not ended:
        line: Sequence[int] = ()
        if copies is not None and not proposer.known(context):
            line, _ = copies.after(tree.tokens[1:], capacity - len(tree), context.eos_ids)
            line = proposer.readable(line)
        last = len(tree) - 1
        if last:
            guesses = proposer.grow([tree.tokens[last], *line], range(last - 1, last + len(line)), 1)
        else:
            guesses = proposer.begin(context, 1, line)
        if not guesses[0]:
            break
        right = 0
        # The choices of the pass, as far as the line predicted them, and the one after it.
        for (token, probability), *_ in guesses:
            parent = len(tree) - 1
            node = tree.add(token, parent)
            if weighed:
                tree.probs = (tree.probs or {}) | {parent: Draws(proposer.distribution(parent), (node,))}
            agreed = right < len(line) and token == line[right]
            # A token that two drafters agree on is likelier than either thinks, and has been evaluated already.
            ended = node >= most or token in context.eos_ids or (probability < enough and not agreed)
            right += agreed
            if ended or not agreed:
                break
        if copies is not None:
            copies.learn(len(line), right)
        if right < len(line):
            proposer.forget(proposer.evaluated - len(line) + right)
    if isinstance(proposer, FirstLayers):
        tree.pre_evaluated = proposer.evaluated
    return tree
