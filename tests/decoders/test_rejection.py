"""Rejection over whole texts: what drafters draw and verification keeps, step by step, has the target's distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from specchat.backends.base import Sampling, Scores, Session
from specchat.backends.scores import TorchScores
from specchat.decoders.acceptance import Acceptance, accept
from specchat.decoders.base import Context
from specchat.decoders.parts.cascade import grow_chain
from specchat.decoders.parts.growth import Grower, slots
from specchat.decoders.parts.proposers import Proposer
from specchat.decoders.tree import Tree

from ..cases import FULL

SIZE, LENGTH, EOS = 3, 3, 2
"""Token ids, tokens of a text, and one after which nothing is drafted."""
TEXTS = 6000 if FULL else 500
_random = torch.Generator().manual_seed(4)
TARGET = 1.5 * torch.randn((SIZE, SIZE, SIZE), generator=_random)
"""Logits of the next token by the last two."""
DRAFT = TARGET + 1.2 * torch.randn((SIZE, SIZE, SIZE), generator=_random)

SETTINGS = (
    Sampling(temperature=0.7),
    Sampling(temperature=1.0),
    Sampling(temperature=1.3),
    Sampling(temperature=1.0, top_k=2),
    Sampling(temperature=1.3, top_p=0.8),
    Sampling(temperature=1.0, min_p=0.1),
)


class TableProposer(Proposer):
    """A draft model that is a table."""

    def _rows(self, paths: list[list[int]], context: Context) -> Scores:
        texts = [[*context.tokens[:-1], *path] for path in paths]
        first = self.evaluated
        logits = torch.stack([DRAFT[text[-2], text[-1]] for text in texts])
        return TorchScores(logits, tuple(range(first, first + len(paths))), tuple(map(len, texts)))

    def _open(self, context: Context, line: Any) -> Scores:
        return self._rows([[context.pending]], context)

    def _extend(self, tokens: Any, parents: Any) -> Scores:
        assert self._context is not None
        pairs = zip(tokens, parents, strict=True)
        return self._rows([[*self._path[parent], token] for token, parent in pairs], self._context)

    def _drop(self, first: int) -> None:
        pass

    def settle(self, path: Any) -> None:
        pass


class TableTree(Grower):
    """Its tree."""

    name = "table"

    def _open(self, context: Context) -> Mapping[str, Proposer]:
        return {"table": TableProposer()}


def chain(context: Context) -> Tree:
    return grow_chain(TableProposer(), context, 4)


def tree(context: Context) -> Tree:
    return TableTree(SimpleNamespace(nodes=9, depth=3, width=2, grow=2, merge="")).draft(context)


def text(draft: Callable[[Context], Tree], sampling: Sampling, rule: Acceptance) -> tuple[list[int], int]:
    """The first tokens of a text, and how many draft tokens its first step accepted."""
    tokens, session, accepted = [0, 1], SimpleNamespace(context=99, length=1), []
    while len(tokens) < 2 + LENGTH:
        context = Context(tokens, session, sampling, 9, frozenset((EOS,)), acceptance=rule)  # type: ignore[arg-type]
        found = draft(context)
        lines = [[*tokens[:-1], *(found.tokens[node] for node in found.path(node))] for node in range(len(found))]
        logits = torch.stack([TARGET[line[-2], line[-1]] for line in lines])
        scores = TorchScores(logits, tuple(range(len(found))), tuple(map(len, lines)))
        path, last = accept(found, scores, [0] * len(found), rule, sampling, lambda _: ())
        tokens = [*tokens, *(found.tokens[node] for node in path[1:]), last]
        accepted.append(len(path) - 1)
    return tokens[2 : 2 + LENGTH], accepted[0]


def expected(sampling: Sampling) -> Tensor:
    """The probability of each text."""
    out = torch.ones((SIZE,) * LENGTH, dtype=torch.float64)
    for line in product(range(SIZE), repeat=LENGTH):
        whole = (0, 1, *line)
        for at in range(2, len(whole)):
            row = TorchScores(TARGET[whole[at - 2], whole[at - 1]][None], (0,), (0,))
            out[line] *= float(row.probs(0, sampling)[whole[at]])
    return out


@pytest.mark.parametrize("draft", [chain, tree])
@pytest.mark.parametrize("rule", ["rejection", "rejection:token"])
@pytest.mark.parametrize("number", range(len(SETTINGS)) if FULL else (1,))
def test_texts_have_the_targets_distribution(draft: Callable[[Context], Tree], rule: str, number: int) -> None:
    counts = np.zeros((SIZE,) * LENGTH)
    acceptance = Acceptance.parse(rule)
    for seed in range(TEXTS):
        found, _ = text(draft, replace(SETTINGS[number], seed=seed), acceptance)
        counts[tuple(found)] += 1
    wanted = expected(SETTINGS[number]).numpy()
    assert not counts[wanted == 0].any()
    likely = wanted > 0
    assert chisquare(counts[likely], wanted[likely] / wanted[likely].sum() * TEXTS).pvalue > 1e-3


def test_whole_paths_accept_more_than_token_by_token() -> None:
    means = []
    for rule in ("rejection", "rejection:token"):
        found = [text(chain, Sampling(temperature=1.0, seed=seed), Acceptance.parse(rule))[1] for seed in range(500)]
        means.append(sum(found) / len(found))
    assert means[0] > 1.1 * means[1]


def test_the_shape_of_a_drawn_tree_is_the_same_whatever_is_drawn() -> None:
    shape = slots(9, [2, 2, 2], 2, whole=False)
    assert shape == slots(9, [2, 2, 2], 2, whole=False)
    assert sum(len(below) for level in shape for below in level.values()) == 8
    assert all(len(level) <= 2 for level in shape)
    assert [len(below) for below in slots(1 + 2 + 6, [2, 3], 99, whole=True)[1].values()] == [3, 3]
    grown = set()
    for seed in range(40):
        context = Context(
            [0, 1],
            cast(Session, SimpleNamespace(context=99, length=1)),
            Sampling(1.0, seed=seed),
            9,
            frozenset(),
            acceptance=Acceptance("rejection"),
        )
        found = tree(context)
        assert found.apart
        grown.add(tuple(found.parents))
    assert len(grown) == 1
