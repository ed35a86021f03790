"""Passes over buffers that never move: recorded once, right ever after, and left alone where they cannot be. What is recorded
shows in private fields alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from specchat.backends import ROOT, LoadOptions, Sampling
from specchat.backends.best import read_best, write_best
from specchat.backends.hf.graphs import passes
from specchat.backends.hf.graphs.graphs import Graphs, Rerun
from specchat.backends.hf.graphs.passes import MOST, StaticPasses
from specchat.backends.hf.lean.lean import lean
from specchat.backends.hf.model import load_transformers
from specchat.backends.hf.session import TransformersSession
from specchat.backends.hf.slot_cache import SlotCache
from specchat.backends.scores import TorchScores

from ...cases import cases
from ...fakes.models.mirror import Mirror, linear
from ...fakes.models.tiny import reference, tiny_folder, tiny_model

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")
"""Operations that a capture refuses: the host would wait for the device."""


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of some work, with their tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not any(name in str(function) for name in WAITING), f"{function} waits for the device"
        out = function(*args, **(kwargs or {}))
        self.operations.append((function, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """Do it again, on the tensors it came to from outside."""
        fresh: dict[int, Any] = {}

        def now(value: Any) -> Any:
            return fresh.get(id(value), value) if isinstance(value, Tensor) else value

        for function, args, kwargs, out in self.operations:
            again = function(*tree_map(now, args), **tree_map(now, kwargs))
            for old, new in zip(tree_flatten(out)[0], tree_flatten(again)[0], strict=True):
                if isinstance(old, Tensor):
                    fresh[id(old)] = new


class Taped(Graphs):
    """What CUDA graphs are, on the CPU."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        work()  # as a warm-up
        tape = Tape()
        with tape:
            work()
        return tape.replay


GREEDY = Sampling()


@pytest.fixture(autouse=True, scope="module")
def small_cache() -> Iterator[None]:
    """A cache that has to grow within these tests' few tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specchat.backends.hf.slot_cache.FIRST_CAPACITY", 16)
        yield


def session_of(kind: str, graphs: type[Graphs]) -> TransformersSession:
    runner: Any = tiny_model(kind)._runner
    return TransformersSession(replace(runner, graphs=graphs), 200)


def sizes(session: TransformersSession) -> tuple[set[int], set[int]]:
    """Nodes of the passes that were recorded, and slots of the cache meanwhile."""
    assert session._static is not None
    found = [key for key in session._static.graphs.recorded if key[0] == "pass"]
    return {bucket for _, bucket, _ in found}, {slots for _, _, slots in found}


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2"])
def test_what_was_recorded_is_right_for_other_tokens_trees_and_lengths(kind: str) -> None:
    """The Python of a pass runs once per size and length of the cache: nothing it remembers may be of one step alone."""
    session = session_of(kind, Taped)
    mirror = Mirror(session, partial(linear, kind))
    mirror.prefill(list(range(10, 15)))
    for turn in range(9):  # far beyond the window, with branches in every pass
        ids = [20 + turn, 30 + turn, 40 + turn, 50 + turn, 60 + turn][: 2 + turn % 4]  # two to five
        parents = [ROOT, 0, 0, 1, 2][: len(ids)]
        mirror.evaluate(ids, parents)
        mirror.evaluate([70 + turn], [1])
        mirror.commit([0, 1], [len(ids)])  # the last one hangs below node 1 and stays alive
        mirror.evaluate([75], [len(ids)])
        mirror.commit([len(ids)], [])
        mirror.prefill(list(range(80, 83)))
    assert session.unrecorded == ""
    assert session._static is not None
    buckets, slots = sizes(session)
    assert buckets == {1, 2, 4, 8}
    assert len(slots) > 1, "the cache never grew"
    assert set(session._static.graphs.recorded.values()) == {1}


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_on_a_gpu_nothing_of_a_pass_is_on_the_host(kind: str) -> None:
    """torch's device without values stands for it: it refuses tensors of others, and to tell what is in its own."""
    device = torch.device("meta")
    runner: Any = tiny_model(kind)._runner
    quick = lean(copy.deepcopy(reference(kind)).to(device, torch.bfloat16))
    assert quick is not None
    cache = SlotCache([replace(spec, device=device, dtype=torch.bfloat16) for spec in runner.specs], 128)
    static = StaticPasses(quick.forward, cache, runner.plan, torch.bfloat16, Rerun(device))
    static._capacity, static._columns = cache.capacity, torch.arange(cache.capacity, device=device)
    for bucket in (1, 4, MOST):
        with torch.inference_mode(), Tape() as tape:
            static._pass(bucket)
            static._choose(bucket, 1)
            static._choose(bucket, 8)
        assert len(tape.operations) > 50
        for function, args, _, _ in tape.operations:
            assert all(value.device == device for value in args if isinstance(value, Tensor)), function


@cases(300, 40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_choices_that_come_back_are_those_of_the_logits(data: st.DataObject) -> None:
    rows, vocabulary = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 40))
    k = data.draw(st.integers(2, vocabulary))
    number = st.sampled_from([-3.5, -1.0, -0.0, 0.0, 1e-30, 0.25, 2.0, 2.015625, 40.0, -1e30])  # ties, and zeros of either sign
    row = st.lists(number, min_size=vocabulary, max_size=vocabulary)
    logits = torch.tensor(
        [data.draw(row) for _ in range(rows)], dtype=data.draw(st.sampled_from([torch.float32, torch.bfloat16]))
    )
    written = torch.zeros((rows, k + 1), dtype=torch.long)
    write_best(written, logits)
    best = read_best(written, vocabulary)
    wanted = TorchScores(logits, tuple(range(rows)), tuple(range(rows)))
    top = wanted.top(k)
    assert best.ids.tolist() == [[token for token, _ in row] for row in top]
    found = torch.from_numpy(best.logits - best.mass[:, None])
    torch.testing.assert_close(found, torch.tensor([[log for _, log in row] for row in top]))
    assert best.ids[:, 0].tolist() == wanted.choose(GREEDY)
    leads = torch.from_numpy(best.logits[:, 0] - best.logits[:, 1])
    for bound in (0.25, 1.75):
        assert (leads < bound).tolist() == wanted.near_ties(range(rows), wanted.choose(GREEDY), GREEDY, bound)


def test_scores_know_what_has_been_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of("llama", Rerun)
    own: Any = tiny_model("llama").open_session()
    sampling = Sampling(temperature=0.7, seed=3)
    for one in (session, own):
        one.prefill(range(10, 40))
    for turn in range(3):
        found, wanted = (one.evaluate([5 + turn, 6, 7], [ROOT, 0, 0], rows) for one, rows in ((session, (2, 0)), (own, (2, 0))))
        if turn == 2:  # all of it is here
            monkeypatch.setattr(type(found), "logits", property(lambda self: pytest.fail("went to the device")))
        assert found.choose(GREEDY) == wanted.choose(GREEDY)
        picks = wanted.choose(GREEDY)[1:]
        ties = [[one.near_ties([1], picks, GREEDY, 0.1 * i) for i in range(9)] for one in (found, wanted)]
        assert ties[0] == ties[1]
        for row, other in zip(found.top(5), wanted.top(5), strict=True):
            assert [token for token, _ in row] == [token for token, _ in other]
            assert [log for _, log in row] == pytest.approx([log for _, log in other], abs=1e-4)
        if turn == 2:
            break
        assert found.choose(sampling) == wanted.choose(sampling)
        kept = found.kept()
        session.evaluate([50], [0])
        own.evaluate([50], [0])
        torch.testing.assert_close(kept.logits, wanted.logits, atol=1e-4, rtol=1e-4)
        for one in (session, own):
            one.commit(())


def test_large_passes_and_wide_trees_are_launched_as_before() -> None:
    session = session_of("llama", Rerun)
    mirror = Mirror(session, partial(linear, "llama"))
    mirror.prefill([9])
    for size in (MOST, MOST + 1):
        ids = [10 + i for i in range(size)]
        mirror.evaluate(ids, [ROOT] * size)
    assert session._static is not None
    assert not session._static.take(1, passes.TENTATIVE + 1)
    assert sizes(session)[0] == {1, MOST}


class Broken(Rerun):
    """A driver that refuses."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")


class Stuck(Rerun):
    """A recording that does not do it again."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        return lambda: None


@pytest.mark.parametrize(
    ("graphs", "why"), [(Broken, "not permitted when stream is capturing"), (Stuck, "did not give this model's own logits")]
)
def test_a_model_whose_recordings_fail_says_so_and_goes_on(
    graphs: type[Graphs], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specchat.backends.hf.model.chosen_graphs", lambda device: graphs)
    model = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu"))
    assert model.info.capabilities.tree
    (note,) = model.info.notes
    assert note.startswith("Passes are launched kernel by kernel, not as CUDA graphs: ")
    assert why in note
    assert model._runner is not None
    assert model._runner.graphs is None
