"""A target without weights whose choice is a pure function of the last few tokens, to test drafters against."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from specchat.backends import Capabilities, Sampling
from specchat.backends.base import Layers
from specchat.decoders import Context, Generation, Tree

from ..recorded import RecordedModel, RecordedScores, RecordedSession

CONTEXT = 4096


class ToyModel(RecordedModel):
    """Ranks its vocabulary by a random function of the last `memory` tokens; EOS, the id behind it, where `ends` is set."""

    def __init__(self, seed: int, *, memory: int = 2, vocabulary: int = 8, ends: bool = False, tree: bool = True) -> None:
        super().__init__(context=CONTEXT, name="toy")
        able = Capabilities(tree=tree, reasons={"tree": "A toy that only does chains."})
        self.info = replace(self.info, capabilities=able, vocabulary=max(self.info.vocabulary, vocabulary))
        self.seed = seed
        self.memory = memory
        self.eos = self.info.eos_ids[0]
        self.ids = [*range(vocabulary), self.eos] if ends else list(range(vocabulary))
        self._ranked: dict[object, list[int]] = {}

    def ranked(self, last: Sequence[int], noise: object = None) -> list[int]:
        """All tokens, most probable first, after a path that ends with `last`."""
        key = (tuple(last[-self.memory :]), noise)
        if key not in self._ranked:
            self._ranked[key] = random.Random(repr((self.seed, key))).sample(self.ids, len(self.ids))
        return self._ranked[key]

    def narrow(self, matching: tuple[int, ...], position: int, token: int) -> tuple[int, ...]:
        """A path is known by its last tokens (a record: by the records that agree with it)."""
        return (*matching, token)[-self.memory :]

    def next_token(self, matching: tuple[int, ...], position: int) -> int | None:
        return self.ranked(matching)[0]

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> ToySession:
        return ToySession(self, context or CONTEXT)


class ToySession(RecordedSession):
    """The recorded model's session, which keeps `narrow`'s tuple for every node."""

    toy: ToyModel

    def __init__(self, model: ToyModel, context: int) -> None:
        super().__init__(model, context)
        self.toy = model

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> RecordedScores:
        scores = super().evaluate(tokens, parents, rows, layers)
        return ToyScores(self.toy, scores.nodes, [self._place(node) for node in scores.nodes])


class ToyScores(RecordedScores):
    """Ranks instead of one recorded token."""

    def __init__(self, model: ToyModel, nodes: Sequence[int], places: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        super().__init__(model, nodes, places)
        self.toy = model
        self.last = [last for _, last in places]

    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        if sampling.greedy:
            return [self.toy.ranked(last)[0] for last in self.last]
        # Two of three draws are the first choice, the others any.
        noise = [(sampling.seed, position) if hash((sampling.seed, position)) % 3 == 0 else None for position in self.positions]
        return [self.toy.ranked(last, n)[0] for last, n in zip(self.last, noise, strict=True)]

    def top(self, k: int) -> list[list[tuple[int, float]]]:
        return [[(token, -float(rank)) for rank, token in enumerate(self.toy.ranked(last)[:k])] for last in self.last]


def run_checked(generation: Generation) -> Generation:
    """Go through all steps, and check what holds of each."""
    session = generation.conversation.session
    eos = generation.conversation.model.info.eos_ids
    while generation.finish_reason is None:
        most = generation._max_depth()
        step = generation.advance()
        if step is None:
            continue
        tree = step.tree
        assert max(tree.depths()) <= most
        siblings = list(zip(tree.parents, tree.tokens, strict=True))
        assert len(set(siblings)) == len(siblings), "a node twice"
        assert all(parent < node for node, parent in enumerate(tree.parents))
        assert not any(tree.tokens[parent] in eos for parent in tree.parents[1:]), "drafted past EOS"
        assert step.drafted == len(tree) - 1 - len(tree.window)
        assert 0 not in tree.window
        assert session.length <= session.context
    return generation


def drafting(tokens: list[int], room: int = 1000, branching: bool = True, eos: Sequence[int] = ()) -> Context:
    """Context of a drafter, with a session that is empty."""
    return Context(tokens, ToyModel(0).open_session(), Sampling(), room, frozenset(eos), branching)


def lines(tree: Tree) -> list[list[int]]:
    """The draft tokens of each leaf's line."""
    leaves = set(range(len(tree))) - set(tree.parents)
    return [[tree.tokens[node] for node in tree.path(leaf)][1:] for leaf in sorted(leaves)]
