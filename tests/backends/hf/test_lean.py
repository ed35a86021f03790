"""The lean pass, products in halves, in eight bits and of padded passes, and recorded passes: the model's own logits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from specchat.backends import ROOT, LoadOptions, Sampling, UserError, load_model
from specchat.backends.best import read_best, write_best
from specchat.backends.hf import attention
from specchat.backends.hf import graphs as passes
from specchat.backends.hf.attention import MOST_ROWS, in_view, padded, parts_of, tree_attention
from specchat.backends.hf.graphs import MOST, Graphs, Rerun
from specchat.backends.hf.lean import products
from specchat.backends.hf.lean.int8 import Int8, Int8Table, Kernel, exact, rounded_rows, works
from specchat.backends.hf.lean.lean import LeanModel, lean, norm
from specchat.backends.hf.lean.products import FEWEST_ROWS, Packed, Part, onednn, slim
from specchat.backends.hf.model import load_transformers
from specchat.backends.hf.session import TransformersSession
from specchat.backends.scores import TorchScores

from ...cases import cases
from ...fakes.models.mirror import Mirror, in_passes, linear
from ...fakes.models.tiny import logits_of, reference, tiny_folder, tiny_model

FAMILY = ("llama", "mistral", "qwen2", "qwen3")


@pytest.mark.parametrize("kind", ["gemma2", "qwen3-moe"])
def test_other_families_keep_their_own_pass(kind: str) -> None:
    model: Any = tiny_model(kind)
    assert model._runner.lean is None
    assert model.info.capabilities.tree


class Adapted(nn.Linear):
    """A changed linear layer."""


def hooked(module: Any) -> None:
    module.model.layers[1].register_forward_pre_hook(lambda *_: None)


def adapted(module: Any) -> None:
    attention = module.model.layers[1].self_attn
    attention.k_proj = Adapted(attention.k_proj.in_features, attention.k_proj.out_features, bias=False)


def patched(module: Any) -> None:
    mlp = module.model.layers[0].mlp
    mlp.forward = mlp.forward


def mixed(module: Any) -> None:
    module.lm_head = module.lm_head.to(torch.bfloat16)


@pytest.mark.parametrize("change", [hooked, adapted, patched, mixed])
def test_a_changed_model_keeps_its_own_pass(change: Any) -> None:
    module = deepcopy(reference("llama"))
    change(module)
    assert lean(module) is None


def test_a_lean_pass_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(module: Any) -> LeanModel | None:
        model = lean(module)
        assert model is not None
        for layer in model.layers:
            layer._scaling *= 3
        return model

    monkeypatch.setattr("specchat.backends.hf.prove.lean", wrong)
    model: Any = load_transformers(tiny_folder("llama"), "llama", LoadOptions(device="cpu"))
    assert model._runner.lean is None
    assert model.info.capabilities.tree
    assert model.info.capabilities.layers


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [64, 896])
def test_a_norm_in_half_types_is_the_models_own_whatever_stands_out(dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(0)
    theirs = LlamaRMSNorm(width, eps=1e-6).to(dtype)
    theirs.weight.data.normal_(1, 0.3)
    ours, hidden = norm(theirs), torch.randn(64, width, dtype=dtype)
    hidden[:, 3] = 3000  # as one channel of many models does
    hidden[0] = 0
    with torch.inference_mode():
        normed, expected = ours(hidden), theirs(hidden)
        torch.testing.assert_close(normed, expected, rtol=2 * torch.finfo(dtype).eps, atol=torch.finfo(dtype).tiny)
        assert (normed == expected).double().mean() > 0.98
        assert torch.equal(torch.cat([ours(hidden[i : i + 1]) for i in range(64)]), normed)


def weight(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0])).half().float()


@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_products_in_halves_are_float32s(rows: int) -> None:
    inputs, bias = weight(rows, 77), torch.randn(300)
    matrix = weight(300, 77)
    with torch.inference_mode():
        torch.testing.assert_close(slim(matrix)(inputs), inputs @ matrix.t())
        torch.testing.assert_close(slim(matrix, bias)(inputs), inputs @ matrix.t() + bias)


def test_what_half_floats_cannot_hold_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[Tensor] = []

    def pack(matrix: Tensor) -> Tensor:
        packed.append(matrix)
        return matrix

    has_kernel = products.halves_known()  # asked before torch's own is replaced
    monkeypatch.setattr(torch, "fbgemm_pack_gemm_matrix_fp16", pack)
    fine, large = weight(4, 4), weight(4, 4)
    large[0, 0] = 70000.0
    for matrix in (fine + 1e-5, large, fine.double(), fine.bfloat16(), weight(1100, 1000)):
        with torch.inference_mode():
            product = slim(matrix)(torch.eye(matrix.shape[1], dtype=matrix.dtype))
        assert torch.equal(product, matrix.t())
    assert not packed
    slim(fine)
    assert len(packed) == has_kernel


def test_a_row_has_the_same_bits_among_any_number_of_others() -> None:
    if not products.halves_known():
        pytest.skip("this CPU has no kernel for half floats")
    product, inputs = slim(weight(96, 672)), torch.randn(64, 672)
    with torch.inference_mode():
        whole = product(inputs)
        for first, count in ((0, 1), (5, 2), (20, 3), (1, 7), (30, 33)):
            assert torch.equal(product(inputs[first : first + count]), whole[first : first + count])


def test_the_built_in_model_is_read_as_half_floats_and_computed_in_float32() -> None:
    model: Any = load_model("builtin", LoadOptions(device="cpu", threads=1))
    assert model.info.dtype == "float32"
    assert model._runner.lean.halves == products.halves_known()


HEADS, KV_HEADS, WIDTH = 14, 2, 64


def chain(start: int, n: int, dtype: torch.dtype) -> Tensor:
    """The mask of a chain of n nodes behind `start` tokens, as a padded pass has it."""
    keys = in_view(start + n)
    later = torch.arange(keys) > torch.arange(start, start + n)[:, None]
    mask = torch.zeros((1, 1, n, keys), dtype=dtype).masked_fill_(later, torch.finfo(dtype).min)
    return padded(mask, parts_of(start, n))


@pytest.mark.parametrize("most", [MOST_ROWS, None], ids=["few rows at once", "as many as may be"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_node_among_many_has_the_bits_that_it_has_alone(
    dtype: torch.dtype, most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if most is not None:
        monkeypatch.setattr(attention, "most_rows", lambda *_: most)
    torch.manual_seed(0)
    start, n = 500, 160
    room = in_view(start + n)
    query = torch.randn(1, HEADS, n, WIDTH).to(dtype)
    key, value = (torch.randn(1, KV_HEADS, room, WIDTH).to(dtype) for _ in range(2))
    layer = nn.Identity()
    mask = chain(start, n, dtype)
    for _ in range(2):  # the second layer of a pass gets the same mask
        together = tree_attention(layer, query, key, value, mask)[0]
        for node in range(0, n, 13):
            node_mask = chain(start + node, 1, dtype)
            keys = node_mask.shape[3]
            alone = tree_attention(layer, query[:, :, node : node + 1], key[:, :, :keys], value[:, :, :keys], node_mask)[0]
            assert torch.equal(alone[0, 0], together[0, node])


needs_onednn = pytest.mark.skipif(not onednn(), reason="this torch has no oneDNN")


@cache
def loaded(kind: str, dtype: str = "float32") -> Any:
    return load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu", dtype=dtype))


@needs_onednn
@pytest.mark.parametrize("kind", FAMILY)
def test_a_model_of_packed_weights_has_its_own_logits_and_numbers(kind: str) -> None:
    model, whole = loaded(kind), reference(kind)
    layer = model._runner.module.model.layers[0]
    assert isinstance(layer.self_attn.o_proj, Packed)
    assert isinstance(layer.self_attn.q_proj, Part)
    assert isinstance(model.module.lm_head, Packed)
    assert model._runner.lean is not None
    assert model.info.capabilities.tree
    assert model.info.capabilities.layers
    assert model.info.parameters == sum(part.numel() for part in whole.parameters())
    tokens = list(range(40, 60))
    with torch.inference_mode():
        expected = whole(torch.tensor([tokens]), use_cache=False).logits[0]
        # The module's own pass, which trained drafters and models that fail the proof need.
        torch.testing.assert_close(model.module(torch.tensor([tokens]), use_cache=False).logits[0], expected, rtol=0, atol=2e-5)
    for sizes in ((1,) * 20, (2, 3, 15), (20,)):
        torch.testing.assert_close(in_passes(model.open_session(), tokens, sizes), expected, rtol=0, atol=2e-5)


@needs_onednn
@pytest.mark.parametrize(("kind", "dtype"), [("llama", "float32"), ("qwen2", "bfloat16")])
def test_some_rows_of_a_pass_over_few_nodes_are_those_of_all(kind: str, dtype: str) -> None:
    """Matrix products of few nodes are filled up to FEWEST_ROWS; the mask of the wanted rows is the nodes' own."""
    model, tokens = loaded(kind, dtype), list(range(40, 60))
    for n in range(1, FEWEST_ROWS + 2):
        for chosen in (range(n - 1, n), range(n)[::2]):
            logits = []
            for rows in (range(n), chosen):
                session = model.open_session()
                session.prefill(tokens)
                logits.append(session.evaluate(tokens[:n], range(ROOT, n - 1), rows).logits.float())
                session.close()
            torch.testing.assert_close(logits[1], logits[0][list(chosen)], rtol=0, atol=0.05 if dtype == "bfloat16" else 2e-5)


@needs_onednn
@pytest.mark.parametrize("kind", ["qwen2"])
def test_the_weights_can_be_read_and_are_in_memory_once(kind: str) -> None:
    model, whole = loaded(kind), reference(kind)
    module = model.module
    for ours, theirs in zip(module.model.layers, whole.model.layers, strict=True):
        for path in ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"):
            assert torch.equal(ours.get_submodule(path).weight, theirs.get_submodule(path).weight)
    tables = [part for part in module.parameters() if part.ndim > 1]
    assert {id(part) for part in tables} <= {id(module.get_input_embeddings().weight), id(module.lm_head.weight)}
    for part in module.parameters():  # no view keeps the whole file in memory
        assert part.untyped_storage().nbytes() == part.nbytes


needs_bytes = pytest.mark.skipif(not works(), reason="this CPU multiplies no bytes")


def load_int8(kind: str, **options: Any) -> Any:
    return load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu", dtype="int8", **options))


@needs_bytes
@pytest.mark.parametrize("width", [33, 896, 4864])
def test_a_row_has_the_same_bits_alone_and_among_others(width: int) -> None:
    torch.manual_seed(0)
    bias = torch.randn(96)
    layer = Int8(torch.randn(96, width) * 0.02, bias)
    inputs = torch.randn(70, width) * 3
    inputs[5], inputs[6, 3] = 0, 2000.0
    products = layer.rows(inputs)
    for n in (1, 2, 3, 4, 8, 33, 64):
        for start in range(0, len(inputs) - n + 1, 7):
            assert torch.equal(layer.rows(inputs[start : start + n]), products[start : start + n])
    expected = inputs.double() @ layer.weight.double().t() + bias.double()
    error = (products - expected).norm(dim=1) / expected.norm(dim=1)
    assert error.max() < 2**-9  # bfloat16 rounds inputs by up to that


def test_a_kernel_whose_sums_overflow_is_not_used() -> None:
    class Saturating(Kernel):
        """A kernel that sums two products in sixteen bits, as CPUs without VNNI do."""

        def __call__(self, rows: Tensor) -> Tensor:
            pairs = (rows + 128).view(len(rows), 1, -1, 2) * self.whole.view(1, len(self.whole), -1, 2)
            return pairs.sum(-1).clamp(-(2.0**15), 2.0**15 - 1).sum(-1) - 128 * self.whole.sum(1)

        def __init__(self, whole: Tensor, scales: Tensor) -> None:
            self.whole = whole.float()

    assert not exact(Saturating)


@needs_bytes
def test_weights_are_within_half_a_step_of_the_models_own() -> None:
    weight = torch.randn(64, 48) * torch.logspace(-3, 3, 64)[:, None]
    step = weight.abs().amax(1, True) / 127
    for module in (Int8(weight, None), Int8Table(weight)):
        assert ((module.weight - weight).abs() <= step * 0.501).all()
    assert torch.equal(Int8Table(weight)(torch.tensor([[3, 60]]))[0], Int8Table(weight).weight[[3, 60]])


@needs_bytes
@pytest.mark.parametrize("kind", ["qwen2", "gemma2", "gpt2"])
def test_passes_of_any_size_give_the_same_bits(kind: str) -> None:
    model, whole = load_int8(kind), reference(kind)
    assert model.info.dtype == "int8"
    assert model.info.parameters == sum(part.numel() for part in whole.parameters())
    assert model.info.capabilities.tree
    assert model.info.capabilities.exact
    tokens = list(range(40, 60))
    rows = [in_passes(model.open_session(), tokens, sizes).float() for sizes in ((1,) * 20, (2, 3, 15), (20,))]
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    expected = logits_of(whole, tokens)
    assert (rows[0] - expected).std() < 0.2 * expected.std()  # of layers in disorder 1.4


COMPRESSED = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}}},
}


def compressed(kind: str, folder: Path, add: dict[str, Tensor]) -> Path:
    """A tiny model's folder with its projections as compressed-tensors writes them, and some more tensors."""
    shutil.copytree(tiny_folder(kind), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": COMPRESSED}))
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        tensors[name], tensors[f"{name}_scale"] = rounded_rows(tensors[name].bfloat16())
    save_file(tensors | add, folder / "model.safetensors", {"format": "pt"})
    return folder


@needs_bytes
@pytest.mark.parametrize(("kind", "dtype"), [("llama", "auto"), ("gemma2", "int8")])
def test_a_checkpoint_of_integers_keeps_them(kind: str, dtype: str, tmp_path: Path) -> None:
    model = load_transformers(compressed(kind, tmp_path / kind, {}), kind, LoadOptions(device="cpu", dtype=dtype))
    assert model.info.dtype == "int8"
    ours: Any = model.open_session()
    rows = [session.evaluate(range(40, 60), range(ROOT, 19)).logits for session in (ours, load_int8(kind).open_session())]
    assert torch.equal(*rows)


@needs_bytes
def test_scales_without_their_layer_are_refused(tmp_path: Path) -> None:
    folder = compressed("llama", tmp_path / "odd", {"model.layers.9.mlp.up_proj.weight_scale": torch.ones(8, 1)})
    with pytest.raises(UserError, match=r"Cannot load odd \(model.layers.9.mlp.up_proj.weight_scale is not of a linear layer"):
        load_transformers(folder, "odd", LoadOptions(device="cpu"))


@needs_bytes
def test_only_the_family_has_layers_put_together_and_nothing_is_kept_twice() -> None:
    attention = load_int8("llama").module.model.layers[0].self_attn
    assert isinstance(attention.q_proj, Part)
    assert attention.q_proj.whole is attention.v_proj.whole
    assert isinstance(load_int8("gemma2").module.model.layers[0].self_attn.q_proj, Int8)
    for part in load_int8("llama").module.parameters():
        assert part.ndim == 1
        assert part.untyped_storage().nbytes() == part.nbytes  # no view keeps the whole file in memory


@needs_bytes
def test_a_mixture_whose_experts_would_stay_as_they_are_is_refused() -> None:
    with pytest.raises(UserError, match=r"Most of qwen3-moe's weights.*--dtype bfloat16"):
        load_int8("qwen3-moe")


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
    keys = [key for key in session._static.graphs.recorded if key[0] == "pass"]
    return {bucket for _, bucket, _ in keys}, {slots for _, _, slots in keys}


@pytest.mark.parametrize("kind", ["mistral", "gemma2"])
def test_what_was_recorded_is_right_for_other_tokens_trees_and_lengths(kind: str) -> None:
    """A pass is recorded once per size and length of the cache; tests/pretend_gpu/ replays captures."""
    session = session_of(kind, Rerun)
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
    scores = TorchScores(logits, tuple(range(rows)), tuple(range(rows)))
    top = scores.top(k)
    assert best.ids.tolist() == [[token for token, _ in row] for row in top]
    logprobs = torch.from_numpy(best.logits - best.mass[:, None])
    torch.testing.assert_close(logprobs, torch.tensor([[log for _, log in row] for row in top]))
    assert best.ids[:, 0].tolist() == scores.choose(GREEDY)
    leads = torch.from_numpy(best.logits[:, 0] - best.logits[:, 1])
    for bound in (0.25, 1.75):
        assert (leads < bound).tolist() == scores.near_ties(range(rows), GREEDY, bound)


def test_scores_know_what_has_been_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of("llama", Rerun)
    plain: Any = tiny_model("llama").open_session()
    sampling = Sampling(temperature=0.7, seed=3)
    for one in (session, plain):
        one.prefill(range(10, 40))
    for turn in range(3):
        scores, expected = (
            one.evaluate([5 + turn, 6, 7], [ROOT, 0, 0], rows) for one, rows in ((session, (2, 0)), (plain, (2, 0)))
        )
        if turn == 2:  # all of it is here
            monkeypatch.setattr(type(scores), "logits", property(lambda self: pytest.fail("went to the device")))
        assert scores.choose(GREEDY) == expected.choose(GREEDY)
        ties = [[one.near_ties([1], GREEDY, 0.1 * i) for i in range(9)] for one in (scores, expected)]
        assert ties[0] == ties[1]
        for row, other in zip(scores.top(5), expected.top(5), strict=True):
            assert [token for token, _ in row] == [token for token, _ in other]
            assert [log for _, log in row] == pytest.approx([log for _, log in other], abs=1e-4)
        if turn == 2:
            break
        assert scores.choose(sampling) == expected.choose(sampling)
        held = scores.kept()
        session.evaluate([50], [0])
        plain.evaluate([50], [0])
        torch.testing.assert_close(held.logits, expected.logits, atol=1e-4, rtol=1e-4)
        for one in (session, plain):
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
