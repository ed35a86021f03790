"""An n-gram model of the text that is learned while the text is written: no parameters, no training, no second model.

It is the pool of lookahead decoding (Fu et al. 2024, arXiv:2402.02057) without its window, so that n-grams come from
verified text alone, as in adaptive n-gram parallel decoding (Ou et al. 2024, arXiv:2404.08698).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...option import option
from ..base import Context, Drafter, Elsewhere
from ..parts.drafting import Trie, node_budget, until_eos
from ..parts.elsewhere import ngram_tree
from ..parts.ngrams import NgramPool, TextNgrams
from ..tree import Tree


@dataclass(frozen=True, slots=True)
class NgramParams:
    n: int = option(10, "Tokens in an n-gram, including its key", low=2, high=64, length=True)
    key: int = option(3, "How many of the last tokens to look up at most; then fewer, down to one", low=1, high=8)
    completions: int = option(4, "Most completions kept for a key: the latest ones", low=1, high=64)
    nodes: int = option(16, "Most nodes in the tree, including the last token", low=1, high=256)

    @property
    def longest_key(self) -> int:
        """`key`, or as much of it as leaves the n-gram a token to draft."""
        return min(self.key, self.n - 1)


class Ngram(Drafter):
    """Each n-gram of the text is kept by its first tokens, its key; n-grams whose key is the end of the text are drafted.

    N-grams are those of the prompt and of the tokens that the target has chosen. Completions share one tree: those of the
    longest key first, the latest of each key first. N-grams outlive the text: a later turn drafts from the turns before, even
    if they were cut from the context.

    Example:
        text     a red fox ran, the red
        guess    fox ran: the n-gram kept under the key "red"
        verdict  fox ✓, ran ✗ → slept
    """

    name = "ngram"
    group = "text"
    reads_cache = False
    summary = "N-gram model: learns n-grams as the text grows and drafts how they continued before."
    pays = "When wording recurs, within an answer or from turn to turn."
    explains = (
        "It remembers every short sequence of tokens in the text by its first tokens. When the text ends with these, all known "
        "continuations are guessed at once and checked in one pass. It keeps them for later turns of the chat."
    )
    paper = (
        "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding, Fu 2024, arXiv:2402.02057; "
        "Lossless Acceleration of LLMs via Adaptive N-gram Parallel Decoding, Ou 2024, arXiv:2404.08698"
    )
    Params = NgramParams
    params: NgramParams

    @classmethod
    def grid(cls, layers: int) -> Sequence[Mapping[str, str]]:
        return [{"nodes": nodes} for nodes in ("8", "16", "32")]

    @classmethod
    def elsewhere(cls, params: NgramParams, draft_model: str) -> Elsewhere:
        return ngram_tree(params.nodes)

    def __init__(self, params: NgramParams | None = None) -> None:
        super().__init__(params)
        self._text = TextNgrams(NgramPool(), self.params.n, self.params.longest_key, self.params.completions)

    def draft(self, context: Context) -> Tree:
        params, text = self.params, self._read(context)
        completions = [
            (key, completion)
            for key in range(min(params.longest_key, len(text)), 0, -1)
            for completion in text.pool.get(tuple(text.tokens[-key:]), params.completions)
        ]
        trie = Trie(context.pending, node_budget(context, params.nodes))
        for key, completion in completions if context.branching else completions[:1]:
            trie.add_match(until_eos(completion[: context.max_depth], context.eos_ids), key)
        return trie.tree

    def _read(self, context: Context) -> TextNgrams:
        """Catch up with the text; for other lengths of n-gram or key, start over with the text at hand."""
        params, text = self.params, self._text
        if (text.n, text.key) != (params.n, params.longest_key):
            text = self._text = TextNgrams(NgramPool(), params.n, params.longest_key, params.completions)
        text.most = params.completions
        text.follow(context.tokens)
        return text
