"""An n-gram model of the text that is learned while the text is written: no parameters, no training, no second model.

It is the pool of lookahead decoding (Fu et al. 2024, arXiv:2402.02057) without its window, so that n-grams come from
verified text alone, as in adaptive n-gram parallel decoding (Ou et al. 2024, arXiv:2404.08698).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...option import option
from ..base import Context, Drafter
from ..parts.drafting import Trie, node_budget, until_eos
from ..parts.elsewhere import ngram_tree
from ..parts.ngrams import NgramPool, TextNgrams
from ..tree import Tree

NGRAM, KEY, COMPLETIONS = 10, 3, 4
"""Tokens in an n-gram, including its key; most of the last tokens to look up; latest completions that are kept for a key."""


@dataclass(frozen=True, slots=True)
class NgramParams:
    nodes: int = option(16, "Most nodes in the tree, including the last token", low=1, high=256, length=True)


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
    def elsewhere(cls, params: NgramParams, draft_model: str) -> Mapping[str, str]:
        return ngram_tree(params.nodes)

    def __init__(self, params: NgramParams | None = None) -> None:
        super().__init__(params)
        self._text = TextNgrams(NgramPool(), NGRAM, KEY, COMPLETIONS)

    def draft(self, context: Context) -> Tree:
        text = self._text
        text.follow(context.tokens)
        completions = [
            (key, completion)
            for key in range(min(KEY, len(text)), 0, -1)
            for completion in text.pool.get(tuple(text.tokens[-key:]), COMPLETIONS)
        ]
        trie = Trie(context.pending, node_budget(context, self.params.nodes))
        for key, completion in completions if context.branching else completions[:1]:
            trie.add_match(until_eos(completion[: context.max_depth], context.eos_ids), key)
        return trie.tree
