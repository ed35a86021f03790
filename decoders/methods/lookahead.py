"""Lookahead decoding: Jacobi iterations in a window next to the answer yield n-grams, which are verified in the same pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...backends.info import MOST_NODES, plain_passes
from ...option import option
from .. import needs
from ..base import Context, Drafter, Verified
from ..parts.drafting import Trie, draw_tokens, node_budget, until_eos
from ..parts.ngrams import NgramPool, TextNgrams
from ..parts.sizes import pass_curve
from ..tree import Tree

DEAR = 1.6
"""Most plain passes that a pass with the window may cost: it gives some 1.5 tokens where wording hardly recurs."""


@dataclass(frozen=True, slots=True)
class LookaheadParams:
    """The paper takes W = G = 15 for 7B models, 10 for 13B and 7 for 33B, all with N = 5."""

    window: int = option(7, "Columns W of the window: how far ahead it looks", low=1, high=64)
    ngram: int = option(5, "Tokens N in an n-gram; the window has N - 1 levels", low=2, high=16, length=True)
    guesses: int = option(7, "Most n-grams G verified in a pass, and kept for each first token", low=1, high=64)
    text: bool = option(True, "Also pool the n-grams of the prompt and the answer; off: the published form")


@dataclass(slots=True)
class WindowColumn:
    """One column of the window: the tokens of levels 0 … N - 2, top down; fewer while the window fills."""

    tokens: list[int]
    broken: int = 0
    """The lowest level whose token is not the target's choice after the one above it; 0 if there is none."""
    nodes: list[int] = field(default_factory=list)
    """The levels' nodes in this step's tree; empty if the window is not in it."""


class Lookahead(Drafter):
    """A window of W columns and N - 1 levels, and a pool of the n-grams that it has yielded.

    Level 0 is a chain from the pending token, which is its column 0; level ℓ of column i hangs under level ℓ - 1 of the same
    column and so stands i + ℓ places behind the pending token. The target's choices after the last level are the tokens of
    the next one: each column is a Jacobi trajectory of N tokens, its first token the key under which the others are pooled.
    Then level ℓ + 1 becomes level ℓ, one place further, and the choices become the last level.

    In the same pass up to G pooled n-grams that begin with the pending token are verified. Equal beginnings share their nodes,
    also with the window.

    Example:
        text     we go; pooled under "go" is: home now
        guess    home now, and a window whose guesses only fill the pool
        verdict  home ✓, now ✗ → at
    """

    name = "lookahead"
    group = "text"
    reads_cache = False
    summary = "Lookahead decoding: collects n-grams from a window of parallel guesses and verifies them in the same pass."
    pays = (
        "Where a pass over many nodes costs little more than a pass over one, as on a GPU: code, mathematics, repeated wording."
    )
    explains = (
        "The model keeps a window of guesses some places ahead and refreshes it in every pass. It yields short sequences that "
        "fit together, and those that begin with the last token are checked in the same pass. It trades much more computation "
        "in each pass for fewer passes."
    )
    other_nodes = "Its other nodes are the window that finds later guesses."
    paper = "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding, Fu 2024, arXiv:2402.02057"
    requires = (needs.Trees(),)
    Params = LookaheadParams
    params: LookaheadParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"window": width, "guesses": width} for width in ("3", "7", "15")]

    def __init__(self, params: LookaheadParams | None = None) -> None:
        super().__init__(params)
        self._pool = NgramPool()
        self._text = TextNgrams(self._pool, self.params.ngram, 1, self.params.guesses)
        self._window: list[WindowColumn] = []
        self._shape = (0, 0)
        """W and N of the window."""
        self._context: Context | None = None
        """The context of the last tree."""

    def draft(self, context: Context) -> Tree:
        params, eos = self.params, context.eos_ids
        self._context = context
        if params.text:
            self._read(context)
        longest = min(params.ngram - 1, context.max_depth)
        window, branches = self._open_window(context), context.session.branches
        most = params.guesses if branches is None else min(params.guesses, branches - len(window))
        guesses = [until_eos(guess[:longest], eos) for guess in self._pool.get((context.pending,), most)]
        trie = Trie(context.pending, node_budget(context, 1 + sum(map(len, guesses)) + sum(len(c.tokens) for c in window)))
        for guess in guesses if context.branching else guesses[:1]:
            trie.add_match(guess, 1)
        tree = trie.tree
        guessed = len(tree)
        self._hang(window, trie, context)
        if window[0].nodes:
            tree.window = frozenset(range(guessed, len(tree)))
            tree.reached = []
        return tree

    def learn(self, verified: Verified) -> None:
        params, window, context = self.params, self._window, self._context
        tree = verified.tree
        if context is None or not window or not window[0].nodes:
            return
        place = {drafted: node for node, drafted in enumerate(tree.places or range(len(tree)))}
        if not all(column.nodes[-1] in place for column in window):  # the target could not evaluate the whole window
            return
        filling = len(window[0].tokens) < params.ngram - 1
        for i, column in enumerate(window):
            tokens = column.tokens
            choice = verified.chosen[place[column.nodes[-1]]]
            if not filling and column.broken <= 0:
                self._pool.add((tokens[0],), (*tokens[1:], choice), params.guesses)
            if choice in context.eos_ids:  # no token follows EOS: the column continues from another one
                choice = draw_tokens(context.tokens, i + 1, context.eos_ids)[i]
                column.broken = len(tokens)
            tokens.append(choice)
            if not filling:
                del tokens[0]
                column.broken -= 1
        if filling:  # level 0 stays, and moves one place nearer instead
            del window[0]

    def _read(self, context: Context) -> None:
        """Pool the n-grams of the text."""
        params = self.params
        if self._text.n != params.ngram:
            self._text = TextNgrams(self._pool, params.ngram, 1, params.guesses)
        self._text.most = params.guesses
        self._text.follow(context.tokens)

    def _open_window(self, context: Context) -> list[WindowColumn]:
        """Return the window with the pending token at its head; a new one, which has level 0 alone, if W or N have changed.

        Level 0 of a new window is longer by N - 2 columns: it loses one in each of the steps that add a level.
        """
        params, pending = self.params, context.pending
        width, branches = params.window, context.session.branches
        if branches is not None:  # half of them are for guesses
            width = max(1, min(width, branches // 2 - params.ngram + 2))
        if self._shape != (width, params.ngram):
            self._shape = (width, params.ngram)
            tokens = draw_tokens(context.tokens, width + params.ngram - 2, context.eos_ids)
            self._window = [WindowColumn([token]) for token in tokens]
        head = self._window[0]
        if head.tokens[0] != pending:
            head.tokens[0] = pending
            if len(head.tokens) > 1:  # the rest of this column was chosen after another token
                head.broken = max(head.broken, 1)
        return self._window

    @staticmethod
    def _hang(window: list[WindowColumn], trie: Trie, context: Context) -> None:
        """Add the whole window to the tree, unless the answer or the context is about to end or such a pass costs too much."""
        deepest = len(window) + len(window[0].tokens) - 2
        size = len(trie.tree) + sum(len(column.tokens) for column in window) - 1
        dear = plain_passes(pass_curve(context.model))[min(size, MOST_NODES)] > DEAR
        if deepest > context.max_depth or size > trie.budget or dear or not context.branching:
            for column in window:
                column.nodes = []
            return
        above: list[int] = []  # level 0 of the column before
        for column in window:
            top = trie.add(column.tokens[:1], above[0]) if above else [0]
            column.nodes = top + trie.add(column.tokens[1:], top[0])
            above = top
