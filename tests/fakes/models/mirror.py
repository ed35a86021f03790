"""A session beside a plain record of what it should hold, for tests that do things to it at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
import torch

from specchat.backends import ROOT, UserError
from specchat.backends.base import Block
from specchat.backends.hf.early_layers import Run, prefix

from .tiny import WINDOW, cut, logits_of, reference

DEPTHS: tuple[Run, ...] = ((0,), (0, 1))
GAPS: tuple[Run, ...] = ((0, 2), (1,), (1, 2), (2,))
"""Lists of layers, of three, with a layer left out before the last."""
HALVES: tuple[Run, ...] = (
    (0, Block(1, "mlp"), 2), (0, Block(1, "attention"), 2), (Block(0, "attention"), 1, Block(2, "mlp")), (Block(0, "mlp"), 2),
    (0, 1, Block(2, "attention")),
)  # fmt: skip
"""Lists with blocks."""


def linear(kind: str, ids: Sequence[int]) -> torch.Tensor:
    """Logits [len(ids), vocab] of a fresh plain pass of a tiny model by transformers itself."""
    return logits_of(reference(kind), ids)


def in_passes(session: Any, ids: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    """Read a text by committed chains of these sizes: logits [len(ids), vocab]."""
    rows, at = [], 0
    for size in sizes:
        rows.append(session.evaluate(ids[at : at + size], range(ROOT, size - 1)).logits.clone())
        session.commit(range(size))
        at += size
    return torch.cat(rows)


def close(logits: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare but for rounding in float32."""
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def loose(logits: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare states, which are larger than logits, or llama.cpp with transformers."""
    torch.testing.assert_close(logits, expected, atol=2e-3, rtol=1e-3)


def alike(logits: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare hybrids: in 60 random texts transformers' own passes of several tokens differed from a single one by up to
    0.035 in some logit; what is wrong differs in all of them."""
    assert logits.shape == expected.shape
    assert float((logits - expected).square().mean().sqrt()) < 0.01 * float(expected.std())


class Mirror:
    """A session beside a plain record of what it should hold: `logits` of a plain pass over a text [n, vocab], `same` fails
    where they differ, `tree` and `early`: it evaluates branches, and stops early."""

    def __init__(
        self, session: Any, logits: Callable[[Sequence[int]], torch.Tensor], *,
        same: Callable[[torch.Tensor, torch.Tensor], None] = close, tree: bool = True, early: str = "",
        states: Callable[[Sequence[int]], torch.Tensor] | None = None, leaves: int = 1000,
    ) -> None:  # fmt: skip
        self.session = session
        self.same = same
        self.tree = tree
        self.early = early
        self.states = states
        self.leaves = leaves
        self._logits = logits
        self.committed: list[int] = []
        self.nodes: dict[int, tuple[int, int]] = {}
        """id → (token, parent)."""
        self.ran: dict[int, Run] = {}
        """Nodes that stopped early, and the layers that they ran."""
        self.next = 0

    def line(self, node: int) -> list[int]:
        """Ids from the top down to a node."""
        out = []
        while node != ROOT:
            out.append(node)
            node = self.nodes[node][1]
        return out[::-1]

    def text(self, node: int) -> list[int]:
        return self.committed + [self.nodes[i][0] for i in self.line(node)]

    def prefill(self, ids: Sequence[int]) -> None:
        self.session.prefill(ids)
        self.committed += ids
        self.nodes = {}
        self.ran = {}
        self.next = 0

    def _add(self, ids: Sequence[int], parents: Sequence[int]) -> list[int]:
        first = self.next
        for token, parent in zip(ids, parents, strict=True):
            self.nodes[self.next] = (token, parent)
            self.next += 1
        return list(range(first, self.next))

    def evaluate(self, ids: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None) -> None:
        """Evaluate nodes, and compare: with them what stopped early is finished."""
        inner = {*parents, *(parent for _, parent in self.nodes.values())}
        if sum(i not in inner for i in (*self.nodes, *range(self.next, self.next + len(ids)))) > self.leaves:
            with pytest.raises(UserError, match="leaves"):
                self.session.evaluate(ids, parents, rows)
            return
        scores = self.session.evaluate(ids, parents, rows)
        done = [*sorted(self.ran), *self._add(ids, parents)]
        self.ran = {}
        assert scores.nodes == tuple(done if rows is None else rows)
        # One plain pass per leaf: causal, so it holds the logits of all nodes above as well.
        passes: list[tuple[list[int], torch.Tensor]] = []
        rows_ = [(self.text(node), logits.clone()) for node, logits in zip(scores.nodes, scores.logits, strict=True)]
        assert scores.positions == tuple(len(text) for text, _ in rows_)
        for text, logits in sorted(rows_, key=lambda pair: -len(pair[0])):
            plain = next((plain for leaf, plain in passes if leaf[: len(text)] == text), None)
            if plain is None:
                plain = self._logits(text)
                passes.append((text, plain))
            self.same(logits, plain[len(text) - 1])

    def draft(self, ids: Sequence[int], parents: Sequence[int], run: Run) -> None:
        """An early pass. Through the first layers alone, its scores are the cut model's."""
        whole = prefix(run) == len(run)
        scores = self.session.evaluate(ids, parents, layers=len(run) if whole else run)
        new = self._add(ids, parents)
        self.ran |= dict.fromkeys(new, run)
        assert scores.nodes == tuple(new)
        for row, node in enumerate(new if whole else ()):
            self.same(scores.logits[row], logits_of(cut(self.early, tuple(range(len(run)))), self.text(node))[-1])

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        self.session.commit(path, keep)
        end = path[-1] if path else ROOT
        alive: set[int] = set()
        for node in sorted(set(keep) - set(path)):
            if self.nodes[node][1] == end or self.nodes[node][1] in alive:
                alive.add(node)
        self.committed += [self.nodes[i][0] for i in path]
        self.nodes = {i: (t, ROOT if p == end else p) for i, (t, p) in self.nodes.items() if i in alive}
        if not self.nodes:
            self.next = 0

    def drop(self, nodes: Sequence[int]) -> None:
        self.session.drop(nodes)
        self.nodes = {i: n for i, n in self.nodes.items() if not set(self.line(i)) & set(nodes)} if nodes else self.nodes
        if nodes:
            self.next = max(self.nodes, default=ROOT) + 1

    def rewind(self, length: int) -> None:
        self.session.rewind(length)
        del self.committed[length:]
        self.nodes = {}
        self.next = 0

    def align(self, turn: Sequence[int]) -> None:
        """The next turn, which shares some of the last one."""
        shared = self.session.align(turn)
        self.rewind(shared)
        self.prefill(turn[shared:])

    def check(self) -> None:
        """Compare tokens, length and states with the record."""
        assert list(self.session.tokens) == self.committed
        assert self.session.length == len(self.committed)
        if self.states is not None and self.committed:
            self.same(self.session.states(0, len(self.committed)), self.states(self.committed))

    def _parents(self, rng: Random, size: int, above: Sequence[int]) -> list[int]:
        """Choose the parents of new nodes: anywhere in a tree, each the one before it in a chain."""
        if not self.tree:
            return [max(above, default=ROOT), *range(self.next, self.next + size - 1)]
        return [rng.choice([ROOT, *above, *range(self.next, self.next + i)]) for i in range(size)]

    def wander(self, rng: Random, letters: Sequence[int], actions: int) -> None:
        """Do `actions` random things to the session and check after each; whatever happened, the next plain step is right."""
        self.prefill(rng.choices(letters, k=rng.choice((0, 1, rng.randint(0, WINDOW + 16))) or (not self.tree)))
        steps = ("grow", "grow", "grow", "level", "line", "commit", "commit", "drop", "rewind", "align")
        for _ in range(actions):
            living = sorted(self.nodes)
            full = len(self.committed) + len(living) > 160
            match rng.choice((*steps, "draft", "draft", "draft", "finish") if self.early else steps):
                case "grow" if not full:
                    size = rng.randint(1, 8 if self.tree else 4)
                    done = [*self.ran, *range(self.next, self.next + size)]
                    rows = rng.choice([None, rng.sample(done, rng.randint(0, len(done)))])
                    self.evaluate(rng.choices(letters, k=size), self._parents(rng, size, living), rows)
                case "line" if not full:
                    # Deeper than a window: its lower nodes see neither the prefix nor their own first ancestors there.
                    size = rng.randint(WINDOW // 2, WINDOW + 8)
                    top = rng.choice([ROOT, *living]) if self.tree else max(living, default=ROOT)
                    self.evaluate(rng.choices(letters, k=size), [top, *range(self.next, self.next + size - 1)])
                case "level" if living:
                    # Each leaf grows, as a drafter does it level by level.
                    leaves = [i for i in living if not any(p == i for _, p in self.nodes.values())]
                    self.evaluate(rng.choices(letters, k=len(leaves)), leaves)
                case "draft" if not full:
                    run = next(iter(self.ran.values()), None) or rng.choice((*DEPTHS, *GAPS, *HALVES))
                    size = rng.randint(1, 6)
                    self.draft(rng.choices(letters, k=size), self._parents(rng, size, living), run)
                case "finish":
                    self.evaluate([], [])
                case "commit" if complete := [node for node in living if node not in self.ran]:
                    path = self.line(rng.choice(complete))
                    path = path[: rng.randint(0, len(path))]
                    rest = living[len(path) :] if not self.tree else living
                    length = rng.randint(0, len(rest)) if not self.tree else rng.choice((0, len(rest) // 2, len(rest)))
                    self.commit(path, rest[:length] if not self.tree else rng.sample(rest, length))
                case "drop" if living:
                    nodes = rng.sample(living, rng.randint(1, len(living)))
                    self.drop(living[living.index(min(nodes)) :] if not self.tree else nodes)
                case "rewind" if self.committed:
                    self.rewind(rng.randint(not self.tree, len(self.committed)))
                case "align" if 0 < len(self.committed) < 60:
                    begin = self.committed[: rng.randint(not self.tree, len(self.committed))]
                    self.align(begin + rng.choices(letters, k=rng.randint(1, 20)))
            self.ran = {node: run for node, run in self.ran.items() if node in self.nodes}
            self.check()
        self.evaluate([], []) if self.ran else None
        self.commit([])
        self.evaluate(letters[:1], [ROOT])
