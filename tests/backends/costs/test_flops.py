"""FLOPs of passes: what torch itself counts of them, and the same on both runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop

from specchat.backends import LoadOptions, load_model
from specchat.backends.base import ROOT, Model, Session
from specchat.backends.costs.flops import LayerFlops, Weight, computed, flops_of
from specchat.backends.hf.model import load_transformers

from ...fakes.drafters.gguf_heads import WIDTH, dflash_file, eagle_file, load_head, write_blocks, write_eagle
from ...fakes.drafters.heads import random_medusa
from ...fakes.drafters.mtp_files import mtp_target
from ...fakes.models.llama_tiny import VOCAB, needs_llama
from ...fakes.models.tiny import tiny_folder

PREFIX = 100
TREE = (ROOT, 0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 9)

NEAR = 0.04
"""The counter takes the scores that a mask hides for computed, and the built-in attention adds up in blocks."""


def counted(run: Callable[[], object]) -> tuple[float, float]:
    """FLOPs as we count them, and as torch counts the operations that it runs."""

    def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
        return int(sdpa_flop(query, key, value))

    cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    before = computed()
    with FlopCounterMode(display=False, custom_mapping={cpu: attention}) as counter:
        run()
    return computed() - before, float(counter.get_total_flops())


def passes(model: Model, prefix: int = PREFIX) -> tuple[Session, list[tuple[float, float]]]:
    """A plain pass and a tree's, behind a text."""
    session = model.open_session(prefix + 64)
    session.prefill([5 + i % 40 for i in range(prefix)])
    found = [counted(lambda: session.evaluate([7], [ROOT]))]
    session.commit([0])
    found.append(counted(lambda: session.evaluate([8 + i for i in range(len(TREE))], TREE)))
    return session, found


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No weights in a layout of their own, whose products torch does not count."""
    monkeypatch.setattr("specchat.backends.hf.lean.halves._known", lambda: False)
    monkeypatch.setattr("specchat.backends.hf.lean.halves.pays", lambda _: False)
    monkeypatch.setattr("specchat.backends.hf.lean.lean.pays", lambda _: False)


def test_builtin_model_against_torch(unpacked: None) -> None:
    session, found = passes(load_model("builtin", LoadOptions(device="cpu", dtype="float32")))
    for ours, theirs in found:
        print(f"{ours / 1e6:.2f} MFLOPs, torch counts {theirs / 1e6:.2f}")
        assert ours == pytest.approx(theirs, rel=NEAR)
    # Two per weight that is multiplied; of the table of embeddings only one row is read.
    network = session._run.flops  # type: ignore[attr-defined]
    matrices = sum(p.numel() for p in session._run.module.parameters() if p.ndim > 1)  # type: ignore[attr-defined]
    plain = network.of([0], 1) - sum(layer.key for layer in network.layers)
    assert plain == 2 * matrices  # the LM head is the table


KINDS = ("llama", "qwen3", "gpt2", "gemma3", "mistral", "mixtral", "qwen3-moe", "gpt-neox", "deepseek-v3", "glm4-moe")


@pytest.mark.parametrize("kind", KINDS)
def test_other_models_against_torch(kind: str, unpacked: None) -> None:
    """Windows, tied heads, fused projections, mixtures whose experts run only for the nodes that chose them, and latent vectors
    that each pass turns into keys and values anew."""
    own = kind in ("deepseek-v3", "glm4-moe")
    model = mtp_target(kind) if own else load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu"))
    module = model.module
    if experts := hasattr(module.config, "num_experts_per_tok"):
        module.set_experts_implementation("eager")  # torch does not count grouped products
    for ours, theirs in passes(model, prefix=48)[1]:
        print(f"{kind}: {ours:,.0f} FLOPs, torch counts {theirs:,.0f}")
        assert ours == pytest.approx(theirs, rel=0.06)
    if experts:
        module.set_experts_implementation(None)


def test_a_mixture_counts_its_chosen_experts_only() -> None:
    flops = flops_of(
        [
            Weight(0, True, 10),
            Weight(0, False, 800, expert=True),
            Weight(0, False, 8),
            Weight(-1, False, 5),
            Weight(1, False, 99),
        ],
        1,
        active=2 / 8,
        row=1000.0,
        keys={0: LayerFlops(0, 0, key=4.0, window=3)},
    )
    # Three nodes at positions 0, 1 and 9 see 1, 2 and, with a window of 3, 3 keys.
    assert flops.of([0, 1, 9], 2) == 3 * 2 * (10 + 800 / 4 + 8 + 5) + 2 * 1000 + 4 * (1 + 2 + 3)
    assert flops.of([], 2) == 2000


def test_no_layer_counts_twice_under_early_exit(builtin_model: Model) -> None:
    """Drafting with two layers and completing the nodes costs a whole pass and one more scoring of the rows."""
    session = builtin_model.open_session(256)
    session.prefill(range(5, 5 + PREFIX))
    network = session._run.flops  # type: ignore[attr-defined]
    before = computed()
    session.evaluate([7], [ROOT], layers=2)
    drafted = computed() - before
    assert drafted == network.of([PREFIX], 1, (0, 1)) < network.of([PREFIX], 1) / 2
    session.evaluate([8], [0])
    assert computed() - before == pytest.approx(network.of([PREFIX, PREFIX + 1], 3))
    session.close()


@needs_llama
def test_llama_cpp_counts_the_same(builtin_model: Model) -> None:
    model = load_model("builtin", LoadOptions(backend="llama.cpp"))
    ours, theirs = ([flops for flops, _ in passes(each)[1]] for each in (model, builtin_model))
    model.close()
    assert ours == theirs


@needs_llama
def test_trained_drafters_count_the_same_on_both_runtimes(tmp_path: Path) -> None:
    states, text = torch.randn(40, 3 * WIDTH), [8 + i for i in range(41)]
    found, on_torch = [], load_head(write_eagle(tmp_path / "eagle", drafted=512))
    for head in (on_torch, load_head(eagle_file(tmp_path / "eagle", drafted=512))):
        session: Any = head.open(64)  # type: ignore[attr-defined]
        session.extend(text[:39], states[:39])
        before = computed()
        session.extend(text[39:40], states[39:40])
        session.grow([3, 4], [ROOT, ROOT])
        session.grow([5], [0])
        found.append(computed() - before)
    print(f"eagle: {found} FLOPs")
    # On torch what a token's embedding adds to queries, keys and values is looked up, for each of the four nodes.
    network: Any = on_torch.open(64)._network  # type: ignore[attr-defined]
    assert found[1] - found[0] == 4 * 2 * WIDTH * network._known.shape[1]
    assert found[0] > 2 * 3 * WIDTH * WIDTH
    found = []
    for head in (load_head(write_blocks(tmp_path / "blocks")), load_head(dflash_file(tmp_path / "blocks"))):
        session = head.open(64)  # type: ignore[attr-defined]
        session.extend(torch.randn(20, len(head.info.taps) * WIDTH))
        before = computed()
        session.extend(torch.randn(2, len(head.info.taps) * WIDTH))
        session.guess(3, head.positions)  # type: ignore[attr-defined]
        found.append(computed() - before)
    print(f"dflash: {found} FLOPs")
    # llama.cpp scores every token of a block, transformers leaves out the first.
    assert found[1] - found[0] == 2 * WIDTH * VOCAB


def test_trained_drafters_against_torch(tmp_path: Path, unpacked: None) -> None:
    head: Any = load_head(write_eagle(tmp_path / "eagle", drafted=512))
    session = head.open(64)
    session.extend([8 + i for i in range(30)], torch.randn(30, 3 * WIDTH))
    for run in (lambda: session.extend([3], torch.randn(1, 3 * WIDTH)), lambda: session.grow([3, 4], [ROOT, ROOT])):
        ours, theirs = counted(run)
        assert ours == pytest.approx(theirs, rel=NEAR)
    medusa = random_medusa()
    state = torch.randn(1, len(medusa.info.taps) * 32)
    ours, theirs = counted(lambda: medusa.guess(state, 3, 2))
    assert ours == theirs
