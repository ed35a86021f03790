"""A chain of draft tokens from a drafter that runs a model, for which prompt lookup drafts in turn.

Chen et al., "Cascade Speculative Drafting for Even Faster LLM Inference" (2023), arXiv:2312.11462 (its vertical cascade, whose
last drafter is no neural network). Where the text repeats itself the next tokens of the chain are known before the draft model
runs: it reads them all in one pass, and keeps those it would have chosen itself. So the tokens are the same with the cascade
and without, in fewer passes. Only the end of a chain may differ: a token that both expect is drafted however unsure the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import Context, Drafter, Verified
from ..tree import Draws, Tree
from .costs import SLOPE, PassCosts
from .drafting import weighs_draft
from .learned import Reliability
from .ngrams import LONGEST, ORDERS
from .ppm import ContextModel, Occurrence
from .proposers import FirstLayers, Guesses, Proposer
from .schedules import Schedule

CANDIDATES = 4
"""Occurrences that are examined for one that a token follows."""

LEAST = 0.05
"""Least probability that the draft model reaches the last token of a line."""


class Experience:
    """The costs of a draft model's passes, and how reliably it repeats the text. It belongs to one model on one machine: all
    conversations may share it."""

    def __init__(self) -> None:
        self.reliability = Reliability()
        self.costs = PassCosts()


class Copies:
    """Lines copied from the text so far that a draft model is expected to choose itself."""

    def __init__(self, experience: Experience) -> None:
        self._index = ContextModel()
        self._experience = experience
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
            reached *= self._experience.reliability[match]
            if reached < LEAST:
                break
            match += 1
            chances.append(reached)
            if text[at] in eos_ids:
                break
        length = self._worthwhile(chances)
        return text[start : start + length].tolist(), chances[:length]

    def _worthwhile(self, chances: Sequence[float]) -> int:
        """Find the length of line that saves most: a token that the draft model chooses too saves a pass over one node, and
        each token adds to the cost of the pass over the line."""
        costs = self._experience.costs
        one = costs.seconds(1) or 1.0
        best, most, saved = 0, 0.0, 0.0
        for length, chance in enumerate(chances, 1):
            saved += chance * one
            gain = saved - (costs.seconds(length + 1) - one if costs.known else SLOPE * length)
            if gain > most:
                best, most = length, gain
        return best

    def _measure(self, tail: Sequence[int], start: int) -> int:
        """Count the last tokens that stand before `start` in the text as well."""
        text, match = self._index.tokens, 0
        while match < min(LONGEST, len(tail), start) and text[start - 1 - match] == tail[-1 - match]:
            match += 1
        return match

    def learn(self, chances: Sequence[float], right: int, seconds: float) -> None:
        """Learn from a pass of the draft model.

        Args:
            chances: of the line that it read.
            right: number of tokens of the line that the draft model chose too.
            seconds: of the pass.
        """
        self._experience.costs.learn(1 + len(chances), seconds)
        for at in range(min(right + 1, len(chances))):
            self._experience.reliability.learn(min(self._match + at, LONGEST), at < right)


class ChainDrafter(Drafter):
    """A drafter of chains from a proposer, whose length follows a schedule.

    Its `Params` have `tokens`, `schedule`, `most`, `threshold` and `cascade`.
    """

    reads_cache = False
    params: Any

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self._schedule = Schedule(self.params.schedule)
        self._copies: Copies | None = None

    def _length(self, context: Context) -> int:
        """Choose the most draft tokens of this round."""
        params = self.params
        if params.schedule != self._schedule.name:
            self._schedule = Schedule(params.schedule)
        return min(self._schedule.length(params.tokens, params.most), context.max_depth)

    def _chain(self, proposer: Proposer, context: Context, length: int) -> Tree:
        params = self.params
        enough = params.threshold if params.schedule == "confidence" else 0.0
        return grow_chain(proposer, context, length, enough, self._copies if params.cascade else None)

    def _learn(self, verified: Verified, seconds: Sequence[float]) -> None:
        """Learn the length of later drafts; `seconds` are those of the draft's passes."""
        drafted = len(verified.tree.as_drafted(())[0]) - 1
        self._schedule.learn(
            drafted=drafted,
            accepted=len(verified.path) - 1,
            pass_nodes=len(verified.tree),
            pass_seconds=verified.forward_seconds,
            draft_seconds=seconds if drafted else (),
        )


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
    reading = context.session.length < len(context.tokens) - 1  # the first pass may begin with the prompt
    capacity = min(most, proposer.capacity(context))  # the draft model may have the smaller context
    if copies is not None:
        copies.follow(context.tokens)
    line, chances = _expected_line(proposer, copies, context, tree, capacity)
    guesses = proposer.begin(context, 1, line)
    while guesses[0]:
        right, ended = _add_guesses(tree, guesses, line, proposer, context, most=most, enough=enough)
        if copies is not None and len(chances) == len(line) and not reading:
            copies.learn(chances, right, proposer.seconds[-1])
        reading = False
        if right < len(line):
            proposer.forget(proposer.evaluated - len(line) + right)
        if ended:
            break
        line, chances = _expected_line(proposer, copies, context, tree, capacity)
        last = len(tree) - 1
        guesses = proposer.grow([tree.tokens[last], *line], range(last - 1, last + len(line)), 1)
    if isinstance(proposer, FirstLayers):
        tree.pre_evaluated = proposer.evaluated
    return tree


def _expected_line(
    proposer: Proposer, copies: Copies | None, context: Context, tree: Tree, capacity: int
) -> tuple[list[int], list[float]]:
    """Copy the line that the proposer is expected to choose next, with the probabilities of `Copies.after`."""
    if copies is None or proposer.known(context):
        return [], []
    line, chances = copies.after(tree.tokens[1:], capacity - len(tree), context.eos_ids)
    line = [*proposer.readable(line)]
    return line, chances[: len(line)]


def _add_guesses(
    tree: Tree,
    guesses: Sequence[Guesses],
    line: Sequence[int],
    proposer: Proposer,
    context: Context,
    *,
    most: int,
    enough: float,
) -> tuple[int, bool]:
    """Add the choices of one pass to the chain: as far as the line predicted them, and the one after it.

    Args:
        tree: the chain.
        guesses: after the chain's end, and after each token of the line [1 + n].
        line: the line that the pass read [n].
        proposer, context, most, enough: as `grow_chain`'s.

    Returns:
        the number of right tokens of the line, and whether the chain ends.
    """
    weighed = weighs_draft(context)
    right, ended = 0, False
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
    return right, ended
