"""A session beside a plain record of what it should hold, for tests that do things to it at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from specchat.backends import ROOT

from .references import logits_of
from .tiny import CONTEXT, VOCAB, WINDOW, reference, tiny_model


@st.composite
def tokens(draw: st.DrawFn, low: int, high: int) -> list[int]:
    """Between `low` and `high` token ids; as likely many as few, unlike `st.lists`."""
    rng = random.Random(draw(st.integers(0, 1 << 20)))
    return [rng.randrange(4, VOCAB) for _ in range(draw(st.integers(low, high)))]


def linear(kind: str, ids: Sequence[int]) -> torch.Tensor:
    """Logits [len(ids), vocab] of a fresh plain pass by transformers itself."""
    return logits_of(reference(kind), ids)


def in_passes(session: Any, ids: Sequence[int], sizes: Sequence[int]) -> torch.Tensor:
    """Logits [len(ids), vocab] of a text that goes in by committed chains of these sizes."""
    found, at = [], 0
    for size in sizes:
        found.append(session.evaluate(ids[at : at + size], range(ROOT, size - 1)).logits)
        session.commit(range(size))
        at += size
    return torch.cat(found)


def wander_chain(
    session: Any,
    rng: random.Random,
    rounds: int,
    token: Callable[[], int],
    check: Callable[[list[int], int, torch.Tensor], None],
) -> Iterator[None]:
    """A chain grows, is refused, kept and rewound at random; stops after each commit.

    Args:
        token: draws one.
        check: is given a text, how many of its last tokens a pass went over, and their logits.
    """
    session.prefill([token() for _ in range(9)])
    for _ in range(rounds):
        for _ in range(rng.randrange(1, 3)):  # a chain may grow in several passes
            first, new = session._next, [token() for _ in range(rng.choice((1, 1, 2, 5)))]
            if session.length + len(session._nodes) + len(new) > session.context:
                session.rewind(20)
                break
            above = next(reversed(session._nodes), ROOT)
            found = session.evaluate(new, [above, *range(first, first + len(new) - 1)]).logits.clone()
            check([*session.tokens, *(node.token for node in session._nodes.values())], len(new), found)
        living = list(session._nodes)
        match rng.randrange(8):
            case 0:
                session.drop(living[rng.randrange(len(living) + 1) :])
            case 1:
                session.rewind(rng.randrange(1, session.length + 1))
            case 2:
                session.align([*session.tokens[: rng.randrange(1, session.length + 1)], 5])
            case _:
                end = rng.randrange(len(living) + 1)
                session.commit(living[:end], living[end : rng.randrange(end, len(living) + 1)])
                yield


class Mirror:
    """A session beside a plain record of what it should hold."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.committed: list[int] = []
        self.nodes: dict[int, tuple[int, int]] = {}
        """id → (token, parent)."""
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

    def prefill(self, ids: list[int]) -> None:
        self.session.prefill(ids)
        self.committed += ids
        self.nodes, self.next = {}, 0

    def evaluate(
        self, ids: list[int], parents: list[int], rows: list[int] | None = None
    ) -> list[tuple[list[int], torch.Tensor]]:
        """Evaluate nodes; the text up to each that was asked for, and the logits [vocab] after it."""
        scores = self.scores(ids, parents, rows)
        return list(zip(map(self.text, scores.nodes), scores.logits, strict=True))

    def scores(self, ids: list[int], parents: list[int], rows: list[int] | None = None) -> Any:
        """Evaluate nodes, which are those that were asked for, in their places."""
        first = self.next
        scores = self.session.evaluate(ids, parents, rows)
        for token, parent in zip(ids, parents, strict=True):
            self.nodes[self.next] = (token, parent)
            self.next += 1
        wanted = list(range(first, self.next)) if rows is None else rows
        assert scores.nodes == tuple(wanted)
        assert scores.positions == tuple(len(self.text(node)) for node in wanted)
        return scores

    def commit(self, path: list[int], keep: list[int]) -> None:
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

    def drop(self, gone: list[int]) -> None:
        self.session.drop(gone)
        self.nodes = {i: n for i, n in self.nodes.items() if not set(self.line(i)) & set(gone)} if gone else self.nodes
        if gone:
            self.next = max(self.nodes, default=ROOT) + 1

    def rewind(self, length: int) -> None:
        self.session.rewind(length)
        del self.committed[length:]
        self.nodes, self.next = {}, 0

    def wander(self, rng: random.Random, some: list[int], actions: int, check: Callable[[], None]) -> None:
        """Do so many things to the session at random, with tokens of `some`, and check after each."""
        for _ in range(actions):
            living = sorted(self.nodes)
            match rng.choice(("grow", "grow", "grow", "level", "line", "commit", "commit", "drop", "rewind", "align")):
                case "grow":
                    size = rng.randint(1, 8)
                    parents = [rng.choice([ROOT, *living, *range(self.next, self.next + i)]) for i in range(size)]
                    new = range(self.next, self.next + size)
                    self.evaluate(rng.sample(some, size), parents, rng.choice([None, rng.sample(new, rng.randint(0, size))]))
                case "line" if len(self.committed) + len(living) < CONTEXT // 2:
                    # Deeper than a window: its lower nodes see neither the prefix nor their own first ancestors there.
                    size = rng.randint(WINDOW // 2, WINDOW + 8)
                    parents = [rng.choice([ROOT, *living]), *range(self.next, self.next + size - 1)]
                    self.evaluate(rng.sample(some, size), parents)
                case "level" if living:
                    # Each leaf grows, as a drafter does it level by level.
                    leaves = [i for i in living if not any(p == i for _, p in self.nodes.values())]
                    self.evaluate(rng.sample(some, len(leaves)), leaves)
                case "commit" if living:
                    path = self.line(rng.choice(living))
                    self.commit(path[: rng.randint(0, len(path))], rng.sample(living, rng.choice((0, len(living) // 2))))
                case "drop" if living:
                    self.drop(rng.sample(living, rng.randint(1, len(living))))
                case "rewind":
                    self.rewind(rng.randint(0, len(self.committed)))
                case "align" if len(self.committed) < 60:
                    # A next turn that shares some of the last one.
                    turn = self.committed[: rng.randint(0, len(self.committed))] + some[: rng.randint(1, 20)]
                    shared = self.session.align(turn)
                    self.rewind(shared)
                    self.prefill(turn[shared:])
            check()

    def play(self, rng: random.Random, some: list[int], actions: int, check: Callable[[], None]) -> None:
        """Wander about from a text of any length; whatever happened, the next plain step is right."""
        self.prefill(some[: rng.choice((0, 1, rng.randint(0, WINDOW + 16)))])
        self.wander(rng, some, actions, check)
        self.commit([], [])
        self.evaluate([9], [ROOT])


class TinyMirror(Mirror):
    """A mirror of a tiny model on transformers, whose logits it checks at once."""

    def __init__(self, kind: str) -> None:
        super().__init__(tiny_model(kind).open_session())
        self.kind = kind

    def evaluate(
        self, ids: list[int], parents: list[int], rows: list[int] | None = None
    ) -> list[tuple[list[int], torch.Tensor]]:
        """Evaluate nodes, and compare."""
        found = super().evaluate(ids, parents, rows)
        # One plain pass per leaf: causal, so it holds the logits of all nodes above as well.
        passes: list[tuple[list[int], torch.Tensor]] = []
        for text, logits in sorted(found, key=lambda pair: -len(pair[0])):
            plain = next((plain for leaf, plain in passes if leaf[: len(text)] == text), None)
            if plain is None:
                plain = linear(self.kind, text)
                passes.append((text, plain))
            torch.testing.assert_close(logits, plain[len(text) - 1], atol=1e-4, rtol=1e-4)
        return found
