"""One machine for sessions: whatever happened before, logits and hidden states are those of a fresh plain pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cache, partial
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from specchat.backends import ROOT, ContextFull, LoadOptions, UserError, load_model
from specchat.backends.base import Block
from specchat.backends.hf.early_layers import Run
from specchat.backends.hf.graphs import CHOICE
from specchat.backends.hf.lean.int8 import works
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.context import LlamaContext
from specchat.backends.llama.model import load_llama
from specchat.backends.sessions.chain import CATCH_UP
from specchat.backends.sessions.states import States

from ..cases import FULL
from ..fakes.drafters.mtp_files import HYBRIDS, Family, mtp_folder, mtp_target
from ..fakes.models import llama_tiny
from ..fakes.models.llama_tiny import FLOAT32, needs_llama, room, tiny_llama
from ..fakes.models.mirror import GAPS, HALVES, Mirror, alike, close, in_passes, linear, loose
from ..fakes.models.tiny import TREES, WINDOW, hidden, logits_of, network, reference, tiny_folder, tiny_model
from ..zoo import gguf_files as zoo

TAPS, LLAMA_TAPS, LAST = (1, 0, 3, 2, 1), (1, 0, 2, 1), (3, 1)
"""Taps of three layers, in no order and one twice, with the state after the final norm and without."""
LEAVES = 10
"""Sequence ids of llama.cpp: few, so that they run short."""
SEEDS, ACTIONS = (60, 14) if FULL else (4, 10)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches that have to grow, prompts of several passes, and ids that run short, within a few tokens."""
    monkeypatch.setattr("specchat.backends.hf.slot_cache.FIRST_CAPACITY", 16)
    monkeypatch.setattr("specchat.backends.sessions.states.FIRST_ROWS", 8)
    monkeypatch.setattr("specchat.backends.base.PREFILL_CHUNK", 16)
    monkeypatch.setattr("specchat.backends.llama.session.sequences", lambda vocabulary: LEAVES)


@cache
def tapped(kind: str) -> Any:
    """Copy the reference: asked for hidden states, transformers leaves hooks in a model for ever."""
    return deepcopy(reference(kind))


def tiny(kind: str, taps: Sequence[int] = (), *, early: bool = True) -> Mirror:
    states = partial(hidden, tapped(kind), taps=taps) if taps else None
    session = tiny_model(kind).open_session(taps=taps)
    return Mirror(session, partial(linear, kind), early=kind if early else "", states=states, same=loose if taps else close)


def equal(logits: Tensor, expected: Tensor) -> None:
    assert torch.equal(logits, expected)


@cache
def eight_bits() -> Any:
    return load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu", dtype="int8"))


def int8() -> Mirror:
    """Bits, against passes of one node."""
    if not works():
        pytest.skip("this CPU multiplies no bytes")
    alone = lambda text: in_passes(eight_bits().open_session(), text, [1] * len(text))  # noqa: E731
    return Mirror(eight_bits().open_session(), alone, same=equal)


def hybrid(family: Family) -> Mirror:
    whole, taps = network(mtp_folder(family)), (1, 3)
    states = partial(hidden, whole, taps=taps)
    return Mirror(mtp_target(family).open_session(200, taps), partial(logits_of, whole), same=alike, tree=False, states=states)


def llama(taps: Sequence[int] = ()) -> Mirror:
    states = partial(hidden, llama_tiny.reference(), taps=taps) if taps else None
    session = tiny_llama().open_session(256, taps)
    return Mirror(session, partial(logits_of, llama_tiny.reference()), same=loose, states=states, leaves=LEAVES)


@cache
def of_zoo(architecture: str) -> Any:
    return load_llama(zoo.write(architecture, room() / f"session-{architecture}.gguf"), architecture, FLOAT32)


def llama_hybrid(architecture: str) -> Mirror:
    fresh = of_zoo(architecture).open_session(256)

    def alone(text: Sequence[int]) -> Tensor:
        fresh.rewind(0)
        logits: Tensor = fresh.evaluate(text, range(ROOT, len(text) - 1)).logits
        return logits

    return Mirror(of_zoo(architecture).open_session(256), alone, same=loose, tree=False)


SOME, OTHERS = (TREES, TREES) if FULL else (TREES[::3], TREES[1::3])
KINDS: dict[str, Callable[[], Mirror]] = {
    **{kind: partial(tiny, kind) for kind in TREES},
    **{f"{kind}, tapped": partial(tiny, kind, TAPS) for kind in OTHERS},
    "bloom": lambda: Mirror(tiny_model("bloom").open_session(), partial(linear, "bloom"), tree=False),
    "int8": int8,
    **{family: partial(hybrid, family) for family in HYBRIDS},
}
RECORDED = {f"{kind}, recorded": partial(tiny, kind, early=False) for kind in SOME}
LLAMA: dict[str, Callable[[], Mirror]] = {
    "llama.cpp": llama,
    "llama.cpp, tapped": partial(llama, LLAMA_TAPS),
    "llama.cpp, last state": partial(llama, LAST),
    **{f"llama.cpp {architecture}": partial(llama_hybrid, architecture) for architecture in ("lfm2", "mamba2", "qwen35")},
}


@pytest.mark.parametrize("name", [*KINDS, *RECORDED, *(pytest.param(name, marks=needs_llama) for name in LLAMA)])
def test_whatever_happened_a_session_says_what_a_plain_pass_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in RECORDED:
        monkeypatch.setenv(CHOICE, "rerun")
    for seed in range(SEEDS):
        mirror, rng = (KINDS | RECORDED | LLAMA)[name](), Random(repr((name, seed)))
        mirror.wander(rng, range(8, 208), ACTIONS)
        mirror.session.close()


def full_up(name: str) -> Mirror:
    """A session that has 10 tokens of context."""
    if name == "llama.cpp":
        return Mirror(tiny_llama().open_session(10), partial(logits_of, llama_tiny.reference()), same=loose)
    return Mirror(tiny_model(name).open_session(10), partial(linear, name))


@pytest.mark.parametrize("name", ["llama", pytest.param("llama.cpp", marks=needs_llama)])
def test_a_full_context_is_refused_and_nothing_changes(name: str) -> None:
    mirror = full_up(name)
    mirror.prefill([5, 6, 7, 8])
    mirror.evaluate([9, 10, 11], [ROOT, ROOT, 0])
    with pytest.raises(ContextFull, match="10"):
        mirror.session.evaluate([1, 2, 3, 4], [ROOT] * 4)
    with pytest.raises(ContextFull, match="10"):
        mirror.session.prefill([1] * 7)
    mirror.evaluate([9, 10, 11], [2, 1, 4])
    mirror.check()


def beneath(name: str, session: Any) -> tuple[Any, str]:
    """Object and attribute below a session whose failure fails its pass."""
    match name:
        case "llama.cpp":
            return LlamaContext, "decode"
        case "llama":
            return session, "_forward"
    family: Any = name
    return mtp_target(family).module.model.layers[-1].mlp, "forward"


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA."), RuntimeError("DefaultCPUAllocator: not enough memory")])
@pytest.mark.parametrize("name", ["llama", *HYBRIDS, pytest.param("llama.cpp", marks=needs_llama)])
def test_a_pass_that_fails_leaves_the_session_as_it_was(name: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made to fail below the session, once part of it is done."""
    mirror, decode = (KINDS | LLAMA)[name](), LlamaContext.decode

    def fail(*call: Any, **_: Any) -> int:
        if name != "llama.cpp":
            raise error
        decode(*call)
        return -3

    mirror.prefill(list(range(5, 25)))
    mirror.evaluate([70, 71, 72], [ROOT, 0, 1])
    mirror.commit([0], [1] if mirror.tree else [])
    evaluated = mirror.session.nodes_evaluated
    with monkeypatch.context() as patch:
        patch.setattr(*beneath(name, mirror.session), fail)
        with pytest.raises(RuntimeError if name in HYBRIDS else UserError):  # of hybrids the engine makes the sentence
            mirror.session.evaluate([80, 81], [ROOT, 1 if mirror.tree else 0])
    assert mirror.session.nodes_evaluated == evaluated
    mirror.evaluate([80, 81], [ROOT, mirror.next])
    mirror.check()


def test_recurrent_models_decode_plainly() -> None:
    model = tiny_model("mamba")
    assert not model.info.capabilities.tree
    assert not model.info.capabilities.chain
    assert "recurrent" in model.info.capabilities.reasons["chain"]
    session: Any = model.open_session()
    ids = list(range(10, 40))
    session.prefill(ids)
    scores = session.evaluate([40], (ROOT,))
    close(scores.logits[0], linear("mamba", [*ids, 40])[-1])
    session.commit((0,))
    # Going back means starting over, unseen from here.
    assert session.align([*ids[:20], 50]) == 20
    scores = session.evaluate([50], (ROOT,))
    close(scores.logits[0], linear("mamba", [*ids[:20], 50])[-1])
    with pytest.raises(UserError, match="chains only"):
        session.evaluate([1, 2], (ROOT, ROOT))


@pytest.mark.parametrize("runtime", ["transformers", pytest.param("llama.cpp", marks=needs_llama)])
def test_a_model_whose_states_are_not_what_they_seem_is_found_out(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crooked(self: Any, tap: int, start: int, rows: Tensor) -> None:
        write(self, tap, start, rows.flip(0))

    write = States.write
    monkeypatch.setattr(States, "write", crooked)
    file = llama_tiny.gguf_of(llama_tiny.tiny_folder()) if runtime == "llama.cpp" else tiny_folder("llama")
    model = load_model(str(file), LoadOptions(device="cpu"))
    for _ in range(2):  # it is not tried again
        with pytest.raises(UserError, match="were not this model's own"):
            model.open_session(taps=(0,))
        monkeypatch.undo()
    able = model.info.capabilities
    assert (able.states, able.tree) == (False, True)
    assert "were not this model's own" in able.reasons["states"]
    model.open_session().prefill([5, 6, 7])
    model.close()


def test_wrong_calls_are_told_and_change_nothing() -> None:
    session: Any = tiny_model("llama").open_session()
    session.prefill(range(10, 20))
    session.evaluate([5, 6], (ROOT, 0), ())
    with pytest.raises(ValueError, match="not alive"):
        session.evaluate([7], (9,))
    with pytest.raises(ValueError, match="not all of this pass"):
        session.evaluate([7], (0,), (0,))
    with pytest.raises(ValueError, match="2 tokens with 1"):
        session.evaluate([7, 8], (0,))
    with pytest.raises(ValueError, match="not a chain"):
        session.commit((1,))
    with pytest.raises(ValueError, match="cannot rewind"):
        session.rewind(11)
    with pytest.raises(UserError, match="layers"):
        session.evaluate([7], (0,), layers=3)
    with pytest.raises(ValueError, match="no taps"):
        session.states(0, 1)
    assert session.evaluate([7], (1,)).nodes == (2,)


@pytest.mark.parametrize("family", HYBRIDS)
def test_a_refused_draft_costs_its_accepted_tokens_again_and_nothing_else(family: Family) -> None:
    model, passes = mtp_target(family), []
    session = model.open_session(256)
    hook = model.module.register_forward_pre_hook(
        lambda _module, _args, named: passes.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        session.prefill(range(5, 20))
        for step in range(3):
            session.evaluate(range(70, 75), range(ROOT, 4))
            session.commit((0, 1))
            assert passes == [15, 5, 7, 9][: step + 2]
        # What has added up goes in alone, so that the next refused draft is cheap again.
        for _ in range(CATCH_UP):
            session.evaluate(range(70, 75), range(ROOT, 4))
            session.commit((0, 1))
        assert max(passes[1:]) <= CATCH_UP + 5
        assert passes.count(5) > 1
        # A chain that is taken whole leaves nothing to do.
        session.evaluate(range(70, 73), range(ROOT, 2))
        session.commit((0, 1, 2))
        del passes[:]
        session.evaluate((80,), (ROOT,))
        session.commit((0,))
        session.evaluate((81, 82), (ROOT, 0))
        assert passes == [1, 2]
    finally:
        hook.remove()
        session.close()


def silenced(kind: str, run: Run) -> Any:
    """The reference with the output projections of what `run` leaves out set to zero: these blocks then add nothing."""
    model = copy.deepcopy(reference(kind))
    layers = next(part for name, part in model.named_modules() if name.endswith((".layers", ".h")))
    last = {"attention": ("o_proj", "attn.c_proj", "attention.dense"), "mlp": ("down_proj", "mlp.c_proj", "dense_4h_to_h")}
    for index, layer in enumerate(layers):
        for block, names in last.items():
            if index in run or Block(index, block) in run:  # type: ignore[arg-type]
                continue
            weights = [weight for name, weight in layer.named_parameters() if any(ending in name for ending in names)]
            assert weights
            for weight in weights:
                weight.data.zero_()
    return model


RUNS: tuple[Run, ...] = (*HALVES, *GAPS, (Block(0, "attention"),), (Block(2, "mlp"),))
SOME_RUNS = [(kind, run) for i, kind in enumerate(TREES) for j, run in enumerate(RUNS) if FULL or (i + j) % 4 == 0]


@pytest.mark.parametrize(("kind", "run"), SOME_RUNS, ids=str)
def test_a_block_that_is_left_out_adds_nothing(kind: str, run: Run) -> None:
    session: Any = tiny_model(kind).open_session()
    ids = list(range(20, 20 + WINDOW + 8))
    expected = logits_of(silenced(kind, run), ids)
    assert not torch.allclose(expected, linear(kind, ids), atol=1e-2)
    close(session.evaluate(ids[:5], range(-1, 4), layers=run).logits, expected[:5])
    close(session.evaluate(ids[5:], range(4, len(ids) - 1), layers=list(run)).logits, expected[5:])
    close(session.evaluate((), ()).logits, linear(kind, ids))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "gpt-neox", "mistral", "gemma3"])
def test_a_draft_without_blocks_sees_what_the_whole_model_made_of_the_text_before(kind: str) -> None:
    from transformers.cache_utils import DynamicCache

    run: Run = (0, Block(1, "mlp"), Block(2, "attention"))
    before, ids = list(range(20, 20 + WINDOW + 8)), [7, 8, 9]
    cache = DynamicCache(config=reference(kind).config)
    with torch.inference_mode():
        reference(kind)(input_ids=torch.tensor([before]), past_key_values=cache, use_cache=True)
        expected = silenced(kind, run)(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]
    session: Any = tiny_model(kind).open_session()
    session.prefill(before)
    # The drafts of two branches: neither sees the other's, and both see the committed text.
    close(session.evaluate([*ids, *ids], (ROOT, 0, 1, ROOT, 3, 4), layers=run).logits, torch.cat((expected, expected)))
    session.drop((0,))
    close(session.evaluate((5,), (5,)).logits[-1:], linear(kind, [*before, *ids, 5])[-1:])
    session.commit((3, 4, 5, 6))
    close(session.evaluate((6,), (ROOT,)).logits, linear(kind, [*before, *ids, 5, 6])[-1:])


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
