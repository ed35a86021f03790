"""Drafting with some of the layers: right scores, and a later pass that goes on from there gives the whole model's logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from specchat.backends import ROOT
from specchat.backends.base import Block
from specchat.backends.hf.blocks import Run, covers, prefix

from ...cases import cases
from ...fakes.models.mirror import TinyMirror, linear, tokens
from ...fakes.models.references import logits_of
from ...fakes.models.tiny import TREES, WINDOW, cut, tiny_model

LAYERS = 3
"""Layers of every tiny model."""
GAPS = ((0, 2), (1,), (1, 2), (2,))
"""Lists of layers with a layer left out before the last."""
HALVES: tuple[Run, ...] = (
    (0, Block(1, "mlp"), 2),
    (0, Block(1, "attention"), 2),
    (Block(0, "attention"), 1, Block(2, "mlp")),
    (Block(0, "mlp"), 2),
    (0, 1, Block(2, "attention")),
)
"""Lists with blocks."""


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


class EarlyMirror(TinyMirror):
    """Knows as well which nodes stopped early, and which layers they ran."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.ran: dict[int, Run] = {}

    def draft(self, ids: list[int], parents: list[int], run: Run) -> None:
        """An early pass. Through the first layers alone, its scores are the cut model's."""
        scores = self.session.evaluate(ids, parents, layers=len(run) if prefix(run) == len(run) else run)
        assert scores.nodes == tuple(range(self.next, self.next + len(ids)))
        for token, parent in zip(ids, parents, strict=True):
            self.nodes[self.next] = (token, parent)
            self.ran[self.next] = run
            self.next += 1
        if prefix(run) == len(run):
            for row, node in enumerate(scores.nodes):
                close(scores.logits[row], logits_of(cut(self.kind, tuple(range(len(run)))), self.text(node))[-1])

    def finish(self, ids: list[int], parents: list[int], pick: Any) -> None:
        """A full pass: completes what stopped early, whose scores are the whole model's."""
        before = self.session.nodes_evaluated
        completed = [*self.ran, *range(self.next, self.next + len(ids))]
        rows = pick(completed)
        scores = self.session.evaluate(ids, parents, rows)
        assert self.session.nodes_evaluated == before + len(ids)
        for token, parent in zip(ids, parents, strict=True):
            self.nodes[self.next] = (token, parent)
            self.next += 1
        assert scores.nodes == tuple(sorted(completed) if rows is None else rows)
        for row, node in enumerate(scores.nodes):
            assert scores.positions[row] == len(self.text(node))
            close(scores.logits[row], linear(self.kind, self.text(node))[-1])
        self.ran.clear()

    def forget(self) -> None:
        self.ran = {node: run for node, run in self.ran.items() if node in self.nodes}


@pytest.fixture(autouse=True, scope="module")
def small_cache() -> Iterator[None]:
    """A cache that has to grow within these tests' few tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specchat.backends.hf.slot_cache.FIRST_CAPACITY", 16)
        yield


@pytest.mark.parametrize("kind", TREES)
@cases(20, 8, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_nodes_that_stopped_early_end_with_the_whole_models_logits(kind: str, data: st.DataObject) -> None:
    mirror = EarlyMirror(kind)
    mirror.prefill(data.draw(tokens(0, WINDOW + 8)))

    def grown(above: Sequence[int]) -> tuple[list[int], list[int]]:
        size = data.draw(st.integers(1, 6))
        choices = ([ROOT, *above, *range(mirror.next, mirror.next + i)] for i in range(size))
        return data.draw(tokens(size, size)), [data.draw(st.sampled_from(choice)) for choice in choices]

    for _ in range(data.draw(st.integers(3, 9))):
        living = sorted(mirror.nodes)
        complete = [node for node in living if node not in mirror.ran]
        action = data.draw(
            st.sampled_from(("draft", "draft", "draft", "finish", "finish", "commit", "drop", "rewind", "prefill"))
        )
        match action:
            case "draft":
                run = data.draw(st.sampled_from(((0,), (0, 1), *GAPS, *HALVES)))
                above = [node for node in living if node in complete or covers(mirror.ran[node], run)]
                mirror.draft(*grown(above), run)
            case "finish":
                ids, parents = grown(living) if data.draw(st.booleans()) else ([], [])
                mirror.finish(ids, parents, lambda done: data.draw(st.none() | st.permutations(done).map(lambda p: p[:4])))
            case "commit" if complete:
                path = mirror.line(data.draw(st.sampled_from(complete)))
                path = path[: data.draw(st.integers(0, len(path)))]
                mirror.commit(path, data.draw(st.lists(st.sampled_from(living), unique=True)))
            case "drop" if living:
                mirror.drop(data.draw(st.lists(st.sampled_from(living), unique=True)))
            case "rewind":
                mirror.rewind(data.draw(st.integers(0, len(mirror.committed))))
            case "prefill":
                mirror.prefill(data.draw(tokens(0, 12)))
        mirror.forget()
    mirror.finish([9], [ROOT], lambda done: None)
    mirror.commit([mirror.next - 1], [])
    mirror.evaluate([9], [ROOT], None)


@pytest.mark.parametrize(("kind", "run"), list(zip(TREES, cycle(GAPS), strict=False)))
def test_a_list_of_layers_drafts_as_a_model_of_these_layers(kind: str, run: tuple[int, ...]) -> None:
    # With nothing committed, every K and V that the nodes see comes from the listed layers alone.
    session: Any = tiny_model(kind).open_session()
    ids = list(range(20, 20 + WINDOW + 8))
    wanted = logits_of(cut(kind, run), ids)
    close(session.evaluate(ids[:5], range(-1, 4), layers=run).logits, wanted[:5])
    close(session.evaluate(ids[5:], range(4, len(ids) - 1), layers=list(run)).logits, wanted[5:])
    close(session.evaluate((), ()).logits, linear(kind, ids))


def test_a_node_that_stopped_early_is_not_committed() -> None:
    session: Any = tiny_model("llama").open_session()
    session.prefill(range(10, 20))
    session.evaluate([5], (ROOT,))
    session.evaluate([6, 7], (0, 0), layers=2)
    with pytest.raises(ValueError, match="stopped early"):
        session.commit((0, 1))
    assert session.length == 10
    # It may be kept, and finished below the new tail.
    session.commit((0,), keep=(2,))
    close(session.evaluate((), ()).logits, linear("llama", [*range(10, 20), 5, 7])[-1:])
    session.commit((2,))
    assert list(session.tokens) == [*range(10, 20), 5, 7]
