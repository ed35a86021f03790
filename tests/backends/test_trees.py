"""Token trees evaluate to the logits of the linear sequence through each node, whatever happened to the cache before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from specchat.backends import ROOT, Sampling, UserError
from specchat.backends.hf.graphs.graphs import CHOICE
from specchat.backends.hf.session import TransformersSession

from ..cases import cases
from ..fakes.models.mirror import TinyMirror, linear
from ..fakes.models.references import generated
from ..fakes.models.tiny import TREES, VOCAB, WINDOW, reference, tiny_model

GREEDY = Sampling()


@pytest.fixture(autouse=True, scope="module", params=["off", "rerun"])
def small_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """A cache that has to grow within these tests' few tokens; with passes over buffers that never move, and without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("specchat.backends.hf.slot_cache.FIRST_CAPACITY", 16)
        patch.setenv(CHOICE, request.param)
        yield


@pytest.mark.parametrize("kind", TREES)
@cases(20, 8, suppress_health_check=list(HealthCheck), derandomize=True)
@given(seed=st.integers(0, 1 << 32))
def test_random_trees_have_their_linear_paths_logits(kind: str, seed: int) -> None:
    mirror, rng = TinyMirror(kind), random.Random(seed)

    def check() -> None:
        assert list(mirror.session.tokens) == mirror.committed
        assert mirror.session.length == len(mirror.committed)

    mirror.play(rng, [rng.randrange(4, VOCAB) for _ in range(200)], rng.randint(3, 8), check)


@pytest.mark.parametrize("kind", TREES)
def test_greedy_is_transformers_own_beyond_the_window(kind: str) -> None:
    prompt = [(17 * i + 5) % (VOCAB - 4) + 4 for i in range(20)]
    count = 3 * WINDOW
    wanted = generated(reference(kind), prompt, count, min_new_tokens=count, eos_token_id=None)
    assert len(set(wanted)) > 8, "the model loops, so this proves little"
    session = tiny_model(kind).open_session()
    session.prefill(prompt[:-1])
    found = [prompt[-1]]
    for _ in range(count):
        scores = session.evaluate(found[-1:], (ROOT,))
        session.commit((0,))
        found += scores.choose(GREEDY)
    assert found[1:] == wanted


@pytest.mark.parametrize("kind", TREES)
def test_chunked_prefill_is_one_pass(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.backends.base.PREFILL_CHUNK", 13)
    ids = [(31 * i + 7) % (VOCAB - 4) + 4 for i in range(3 * WINDOW)]
    session = tiny_model(kind).open_session()
    session.prefill(ids[:-1])
    scores: Any = session.evaluate(ids[-1:], (ROOT,))
    torch.testing.assert_close(scores.logits[0], linear(kind, ids)[-1], atol=1e-4, rtol=1e-4)


def test_models_that_refuse_masks_draft_chains() -> None:
    model = tiny_model("bloom")
    assert not model.info.capabilities.tree
    assert model.info.capabilities.chain
    assert model.info.capabilities.reasons["tree"] in model.info.notes
    session: Any = model.open_session()
    ids = list(range(10, 30))
    session.prefill(ids)
    scores = session.evaluate([30, 31, 32], (ROOT, 0, 1))
    torch.testing.assert_close(scores.logits, linear("bloom", [*ids, 30, 31, 32])[-3:], atol=1e-4, rtol=1e-4)
    session.commit((0,))
    scores = session.evaluate([40], (ROOT,))
    torch.testing.assert_close(scores.logits[0], linear("bloom", [*ids, 30, 40])[-1], atol=1e-4, rtol=1e-4)
    with pytest.raises(UserError, match="chains only"):
        session.evaluate([1, 2], (ROOT, ROOT))
    assert list(session.tokens) == [*ids, 30]


def test_recurrent_models_decode_plainly() -> None:
    model = tiny_model("mamba")
    assert not model.info.capabilities.tree
    assert not model.info.capabilities.chain
    assert "recurrent" in model.info.capabilities.reasons["chain"]
    session: Any = model.open_session()
    ids = list(range(10, 40))
    session.prefill(ids)
    scores = session.evaluate([40], (ROOT,))
    torch.testing.assert_close(scores.logits[0], linear("mamba", [*ids, 40])[-1], atol=1e-4, rtol=1e-4)
    session.commit((0,))
    # Going back means starting over, unseen from here.
    assert session.align([*ids[:20], 50]) == 20
    scores = session.evaluate([50], (ROOT,))
    torch.testing.assert_close(scores.logits[0], linear("mamba", [*ids[:20], 50])[-1], atol=1e-4, rtol=1e-4)
    with pytest.raises(UserError, match="chains only"):
        session.evaluate([1, 2], (ROOT, ROOT))


def test_committing_a_fully_accepted_chain_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    session = tiny_model("llama").open_session()
    assert isinstance(session, TransformersSession)
    session.prefill(range(10, 20))
    moved: list[list[int]] = []
    monkeypatch.setattr(session._cache, "move", lambda source, start: moved.append(source))
    session.evaluate([20, 21, 22], (ROOT, 0, 1))
    session.commit((0, 1, 2))
    session.evaluate([23, 24, 25], (ROOT, 0, 1))
    session.commit((0, 1))
    session.evaluate([26], (ROOT,))
    session.commit((0,))
    assert not moved
    session.evaluate([30, 31, 32], (ROOT, 0, 0))
    session.commit((0, 2))
    assert moved == [[18]]
