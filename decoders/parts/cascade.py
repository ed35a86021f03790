"""A chain of draft tokens from a drafter that runs a model, for which prompt lookup drafts in turn.

Chen et al., "Cascade Speculative Drafting for Even Faster LLM Inference" (2023), arXiv:2312.11462 (its vertical cascade, whose
last drafter is no neural network). Where the text repeats itself the next tokens of the chain are known before the draft model
runs: it takes them all in one pass, and keeps those it would have chosen itself. So the tokens are the same with the cascade
and without, in fewer passes. Only where a chain ends may differ: what both expect is drafted however unsure the model is.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import Context
from ..tree import Draws, Tree
from .costs import SLOPE, PassCosts
from .drafting import weighs_draft
from .learned import Reliability
from .ngrams import LONGEST, ORDERS
from .ppm import ContextModel, Occurrence
from .proposers import FirstLayers, Guesses, Proposer

CANDIDATES = 4
"""Places that are looked at for one that something follows."""

LEAST = 0.05
"""No line goes on behind a token that the draft model reaches less often than this."""


class Worth:
    """What a draft model's passes take, and how often it goes on as the text did before. Of one model on one machine: all its
    conversations may share this."""

    def __init__(self) -> None:
        self.reliability = Reliability()
        self.costs = PassCosts()


class Copies:
    """What the text so far lets a draft model expect of itself.

    Args:
        index: of the text; several drafters may share one.
        worth: of the draft model.
    """

    def __init__(self, index: ContextModel, worth: Worth) -> None:
        self._index = index
        self._worth = worth
        self._match = 0
        """Length of the match behind the last line."""

    def follow(self, tokens: Sequence[int]) -> None:
        """Catch up with the text."""
        self._index.follow(tokens)

    def after(self, drafted: Sequence[int], most: int, eos_ids: frozenset[int]) -> tuple[list[int], list[float]]:
        """What followed where the last tokens stood before.

        Args:
            drafted: tokens drafted behind the text.
            most: longest line.
            eos_ids: nothing follows one of these.

        Returns:
            the line, and for each of its tokens the probability that the draft goes on so far with it.
        """
        index, text = self._index, self._index.tokens
        if most < 1 or (drafted and drafted[-1] in eos_ids):
            return [], []
        if drafted:
            tail = [*text[-LONGEST:], *drafted]
            found: list[Occurrence] = []
            index.after(tail[-ORDERS:], found, CANDIDATES)
            places = [(start, self._measure(tail, start)) for start, _, _ in found[:1]]
        else:
            places = index.matches(1)
        if not places:
            return [], []
        (start, match), *_ = places
        self._match = match
        chances: list[float] = []
        reached = 1.0
        for at in range(start, min(start + most, len(text))):
            reached *= self._worth.reliability[match]
            if reached < LEAST:
                break
            match += 1
            chances.append(reached)
            if text[at] in eos_ids:
                break
        length = self._worthwhile(chances)
        return text[start : start + length].tolist(), chances[:length]

    def _worthwhile(self, chances: Sequence[float]) -> int:
        """How much of a line saves most: a token that the draft model chooses too saves a pass over one node, and each adds to
        the pass that takes it along."""
        costs = self._worth.costs
        one = costs.seconds(1) or 1.0
        best, most, saved = 0, 0.0, 0.0
        for length, chance in enumerate(chances, 1):
            saved += chance * one
            left = saved - (costs.seconds(length + 1) - one if costs.known else SLOPE * length)
            if left > most:
                best, most = length, left
        return best

    def _measure(self, tail: Sequence[int], start: int) -> int:
        """How many of the last tokens stand before `start` in the text as well."""
        text, match = self._index.tokens, 0
        while match < min(LONGEST, len(tail), start) and text[start - 1 - match] == tail[-1 - match]:
            match += 1
        return match

    def learn(self, chances: Sequence[float], right: int, seconds: float) -> None:
        """Take in a pass of the draft model.

        Args:
            chances: of the line that it took along.
            right: how many tokens of that the draft model chose too.
            seconds: of the pass.
        """
        self._worth.costs.learn(1 + len(chances), seconds)
        for at in range(min(right + 1, len(chances))):
            self._worth.reliability.learn(min(self._match + at, LONGEST), at < right)


def grow_chain(proposer: Proposer, context: Context, most: int, enough: float = 0.0, copies: Copies | None = None) -> Tree:
    """The pending token and a line of guesses.

    Args:
        proposer: whose.
        context: what to draft after.
        most: longest line.
        enough: the line ends with the first guess less probable than this.
        copies: drafts for the proposer; None for one pass a token.
    """
    tree = Tree.chain(context.pending, ())
    most = min(most, context.max_depth, context.session.context - context.session.length - 1)
    if most < 1:
        return tree
    reading = context.session.length < len(context.tokens) - 1  # the first pass may begin with the prompt
    room = min(most, proposer.capacity(context))  # the draft model's own context may be the smaller one
    if copies is not None:
        copies.follow(context.tokens)
    line, chances = _expected(proposer, copies, context, tree, room)
    guesses = proposer.begin(context, 1, line)
    while guesses[0]:
        right, ended = _take(guesses, line, tree, proposer, context, most, enough)
        if copies is not None and len(chances) == len(line) and not reading:
            copies.learn(chances, right, proposer.seconds[-1])
        reading = False
        if right < len(line):
            proposer.forget(proposer.evaluated - len(line) + right)
        if ended:
            break
        line, chances = _expected(proposer, copies, context, tree, room)
        last = len(tree) - 1
        guesses = proposer.grow([tree.tokens[last], *line], range(last - 1, last + len(line)), 1)
    if isinstance(proposer, FirstLayers):
        tree.pre_evaluated = proposer.evaluated
    return tree


def _expected(
    proposer: Proposer, copies: Copies | None, context: Context, tree: Tree, room: int
) -> tuple[list[int], list[float]]:
    """What the proposer is expected to choose next: what followed in the text.

    Returns:
        the line, and for each of its tokens the probability that the draft goes on so far with it.
    """
    if copies is None or proposer.known(context):
        return [], []
    line, chances = copies.after(tree.tokens[1:], room - len(tree), context.eos_ids)
    line = [*proposer.readable(line)]
    return line, chances[: len(line)]


def _take(
    guesses: Sequence[Guesses], line: Sequence[int], tree: Tree, proposer: Proposer, context: Context, most: int, enough: float
) -> tuple[int, bool]:
    """Add the choices of one pass to the chain: as far as the line predicted them, and the one after it.

    Args:
        guesses: after the chain's end, and after each token of the line [1 + n].
        line: what the pass took along [n].
        tree, proposer, context, most, enough: as `grow_chain`'s.

    Returns:
        how many tokens of the line were right, and whether the chain ends here.
    """
    weighed = weighs_draft(context)
    right, ended = 0, False
    for (token, probability), *_ in guesses:
        parent = len(tree) - 1
        node = tree.add(token, parent)
        if weighed:
            tree.probs = (tree.probs or {}) | {parent: Draws(proposer.distribution(parent), (node,))}
        agreed = right < len(line) and token == line[right]
        # What two drafters agree on is likelier than either thinks, and has been evaluated already.
        ended = node >= most or token in context.eos_ids or (probability < enough and not agreed)
        right += agreed
        if ended or not agreed:
            break
    return right, ended
