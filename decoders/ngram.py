"""An n-gram model of the text that is learned while the text is written: no parameters, no training, no second model.

It is the n-gram pool of lookahead decoding (Fu et al. 2024, arXiv:2402.02057) without its window, so that n-grams come from
verified text alone, as in adaptive n-gram parallel decoding (Ou et al. 2024, arXiv:2404.08698).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..backends.base import UserError
from .base import Context, Drafter, Tree, param
from .drafting import Trie, drawn, node_budget, until_eos
from .ngram_pool import NgramPool, TextNgrams


@dataclass(frozen=True, slots=True)
class NgramParams:
    """Settings of the n-gram model."""

    n: int = param(8, "Tokens of an n-gram, its key included", low=2, high=64)
    key: int = param(1, "How many last tokens an n-gram is looked up by", low=1, high=8)
    completions: int = param(4, "Most completions of a key: the latest ones", low=1, high=64)
    nodes: int = param(16, "Most nodes of the tree, the pending token included", low=1, high=256)
    fill: str = param("none", "What to draft if the key is new: nothing, or random tokens", choices=("none", "random"))
    seed: int = param(0, "Seed of the random fill", low=0)

    def __post_init__(self) -> None:
        """Refuse a key that leaves nothing to complete.

        Raises:
            UserError: key is not below n.
        """
        if self.key >= self.n:
            raise UserError(f"ngram.key ({self.key}) must be below n ({self.n}): the n-gram needs a token to draft.")


class Ngram(Drafter):
    """Each n-gram of the text is kept by its first `key` tokens; what followed the last tokens before is drafted.

    All n-grams are verified ones: the prompt's own, and the tokens that the target has chosen. Completions of a key share
    one tree, the latest first. What is known outlives the text: a later turn drafts from the turns before, even where they
    have been cut from the context.
    """

    name = "ngram"
    summary = "Online n-gram model: drafts how verified n-grams with the same beginning went on."
    pays = "Where wording recurs, within an answer or from turn to turn."
    paper = (
        "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding, Fu 2024, arXiv:2402.02057; "
        "Lossless Acceleration of LLMs via Adaptive N-gram Parallel Decoding, Ou 2024, arXiv:2404.08698"
    )
    Params = NgramParams
    params: NgramParams

    def __init__(self, params: NgramParams | None = None) -> None:
        super().__init__(params)
        self._text = TextNgrams(NgramPool(), self.params.n, self.params.key, self.params.completions)

    def draft(self, context: Context) -> Tree:
        params, pending = self.params, context.pending
        text = self._learned(context)
        trie = Trie(pending, node_budget(context, params.nodes))
        # A text shorter than the key gives a shorter key, which nothing is stored by.
        completions = text.pool.get(tuple(text.tokens[-params.key :]), params.completions if context.branching else 1)
        if not completions and params.fill == "random":
            completions = [tuple(drawn(context.tokens, params.n - params.key, params.seed, context.eos_ids))]
        for completion in completions:
            trie.add(until_eos(completion[: context.room], context.eos_ids))
        return trie.tree

    def _learned(self, context: Context) -> TextNgrams:
        """The n-grams of all text up to now; other lengths of n-gram or key are learned afresh, from the text at hand."""
        params, text = self.params, self._text
        if (text.n, text.key) != (params.n, params.key):
            text = self._text = TextNgrams(NgramPool(), params.n, params.key, params.completions)
        text.most = params.completions
        text.follow(context.tokens)
        return text
