"""Token trees evaluate to the logits of the linear sequence through each node, whatever happened to the cache before."""

from __future__ import annotations

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
from ..fakes.models.mirror import TinyMirror, linear, tokens
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
@given(data=st.data())
def test_random_trees_have_their_linear_paths_logits(kind: str, data: st.DataObject) -> None:
    mirror = TinyMirror(kind)
    # Often longer than the window, sometimes nothing at all.
    mirror.prefill(data.draw(tokens(0, WINDOW + 16)))
    for _ in range(data.draw(st.integers(3, 8))):
        living = sorted(mirror.nodes)
        action = data.draw(st.sampled_from(("grow", "grow", "grow", "line", "commit", "commit", "drop", "rewind", "prefill")))
        size = 0
        parents: list[int] = []
        match action:
            case "grow":
                size = data.draw(st.integers(1, 8))
                choices = ([ROOT, *living, *range(mirror.next, mirror.next + i)] for i in range(size))
                parents = [data.draw(st.sampled_from(choice)) for choice in choices]
            case "line":
                # Deeper than the window: its lower nodes see neither the prefix nor their own first ancestors there.
                size = data.draw(st.integers(WINDOW // 2, WINDOW + 8))
                parents = [data.draw(st.sampled_from([ROOT, *living])), *range(mirror.next, mirror.next + size - 1)]
            case "commit" if living:
                path = mirror.line(data.draw(st.sampled_from(living)))
                path = path[: data.draw(st.integers(0, len(path)))]
                mirror.commit(path, data.draw(st.lists(st.sampled_from(living), unique=True)))
            case "drop" if living:
                mirror.drop(data.draw(st.lists(st.sampled_from(living), unique=True)))
            case "rewind":
                mirror.rewind(data.draw(st.integers(0, len(mirror.committed))))
            case "prefill":
                mirror.prefill(data.draw(tokens(0, 20)))
        if size:
            new = range(mirror.next, mirror.next + size)
            rows = data.draw(st.none() | st.lists(st.sampled_from(new), unique=True, max_size=8))
            mirror.evaluate(data.draw(tokens(size, size)), parents, rows)
        assert list(mirror.session.tokens) == mirror.committed
        assert mirror.session.length == len(mirror.committed)
    # Whatever happened, the next plain step is right.
    mirror.commit([], [])
    mirror.evaluate([9], [ROOT], None)


@pytest.mark.parametrize("kind", TREES)
def test_greedy_is_transformers_own_beyond_the_window(kind: str) -> None:
    prompt = [(17 * i + 5) % (VOCAB - 4) + 4 for i in range(20)]
    count = 3 * WINDOW
    length = {"max_new_tokens": count, "min_new_tokens": count, "eos_token_id": None, "pad_token_id": 0}
    wanted = reference(kind).generate(torch.tensor([prompt]), do_sample=False, **length)[0, len(prompt) :]
    assert len(set(wanted.tolist())) > 8, "the model loops, so this proves little"
    session = tiny_model(kind).open_session()
    session.prefill(prompt[:-1])
    found = [prompt[-1]]
    for _ in range(count):
        scores = session.evaluate(found[-1:], (ROOT,))
        session.commit((0,))
        found += scores.choose(GREEDY)
    assert found[1:] == wanted.tolist()


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
