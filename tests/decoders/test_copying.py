"""Drafting from the prompt does not make sampled answers copy more of it, and a lossy rule that does is found out."""

from __future__ import annotations

from itertools import islice

from specchat.backends import Model, Sampling
from specchat.benchmarks.methods.copying import copied, difference, prompts, sample

from ..cases import FULL

TOKENS, N = 24, 3


def test_the_share_of_copied_ngrams() -> None:
    assert copied([1, 2, 3, 4], [9, 2, 3, 4, 2, 3, 4], 3) == 2 / 5
    assert copied([1, 2, 3], [1, 2], 3) == 0


def test_lookup_changes_nothing_under_the_exact_rule_and_copies_no_more_under_rejection(builtin_model: Model) -> None:
    asked = list(islice(prompts(builtin_model), 2000 if FULL else 40))
    hot = Sampling(2.0)
    plain = sample(builtin_model, asked, "greedy", "exact", hot, TOKENS, N)
    exact = sample(builtin_model, asked, "lookup", "exact", hot, TOKENS, N)
    assert exact.texts == plain.texts
    assert exact.drafted > 0.2, "there was something to copy, and drafts of it were accepted"

    others = Sampling(2.0, seed=len(asked))
    rejection = sample(builtin_model, asked, "lookup", "rejection", others, TOKENS, N)
    apart, half = difference(rejection.shares, plain.shares)
    assert rejection.texts != plain.texts
    assert rejection.drafted > 0.2
    assert abs(apart) < 2 * half, "twice the 95% interval"

    lossy = sample(builtin_model, asked, "lookup", "soft:0.9", others, TOKENS, N)
    apart, half = difference(lossy.shares, plain.shares)
    assert apart > half, "the measure finds a rule that copies more"
