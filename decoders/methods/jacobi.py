"""Jacobi decoding: a block of guesses is iterated to its fixed point, which is the plain method's own continuation.

Before Santilli et al.: Song et al., "Accelerating Feedforward Computation via Parallel Nonlinear Equation Solving" (2021),
arXiv:2002.03629.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...option import option
from ..base import Context, Drafter, Verified
from ..parts.drafting import draw_tokens, node_budget, until_eos
from ..tree import Tree

USUALLY = 0.3
"""Assumed probability that a guess is right if those before it were."""


@dataclass(frozen=True, slots=True)
class JacobiParams:
    tokens: int = option(8, "Guesses K in a block", low=1, high=256, length=True)


class Jacobi(Drafter):
    """One pass computes f(y)ᵢ, the target's choice after y₁ … yᵢ₋₁, at every place of the block at once.

    The guesses that equal the choices before them are accepted, with the choice that follows; the other choices are the next
    guesses, y ← f(y). Where the places before it are right a choice is final, so that each pass settles at least one more
    place; tokens from the text fill the block at its end.

    Example:
        text     we go
        guess    home to to; the pass before chose the first one there
        verdict  home ✓, to ✗ → now; the choices after the other places are the next guesses
    """

    name = "jacobi"
    group = "text"
    reads_cache = False
    summary = "Jacobi decoding: replaces a block of guesses with the model's own choices until they agree."
    pays = "A little, where the next tokens hardly depend on the ones just before. Needs no n-grams and no second model."
    explains = (
        "A block of guesses, at first just tokens from the text, is checked in one pass. The model's own choices in their "
        "places become the next guesses, until they stop changing. Guesses that come right early are accepted all at once; "
        "with most models that is an extra token now and then."
    )
    paper = "Accelerating Transformer Inference for Translation via Parallel Decoding, Santilli 2023, arXiv:2305.10427"
    Params = JacobiParams
    params: JacobiParams

    def __init__(self, params: JacobiParams | None = None) -> None:
        super().__init__(params)
        self._guesses: list[int] = []
        self._end: tuple[int, int] = (0, -1)
        """Length and last token of the text that the guesses continue."""

    def draft(self, context: Context) -> Tree:
        params, tokens = self.params, context.tokens
        end = (len(tokens), context.pending)
        if end != self._end:  # another method continued the text, or it is another text
            self._end = end
            self._guesses = []
        guesses = self._guesses[: params.tokens]
        guesses += draw_tokens(tokens, params.tokens - len(guesses), context.eos_ids)
        most = min(context.max_depth, node_budget(context, len(guesses) + 1) - 1)
        tree = Tree.chain(context.pending, until_eos(guesses[: max(0, most)], context.eos_ids))
        tree.keeps = True
        tree.reached = [USUALLY**depth for depth in range(len(tree))]
        return tree

    def learn(self, verified: Verified) -> None:
        accepted, chosen = len(verified.path) - 1, verified.chosen
        self._end = (self._end[0] + accepted + 1, chosen[accepted])
        # chosen[i] is for place i + 1 behind the pending token.
        self._guesses = list(chosen[accepted + 1 :])
