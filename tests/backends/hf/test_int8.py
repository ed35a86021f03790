"""Eight-bit weights: a row's bits are its own, logits are the model's, and where they cannot be one sentence says so. What a
CPU lacks is patched in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends.base import ROOT
from specchat.backends.files.memory import Needs
from specchat.backends.hf import devices
from specchat.backends.hf.lean import int8
from specchat.backends.hf.lean.int8 import Fbgemm, Int8, Int8Table, Kernel, OneDnn, rounded_rows, works
from specchat.backends.hf.lean.packed import Part
from specchat.backends.hf.model import load_transformers
from specchat.backends.options import LoadOptions
from specchat.errors import UserError

from ...fakes.models.mirror import in_passes
from ...fakes.models.references import logits_of
from ...fakes.models.tiny import reference, tiny_folder

needs_bytes = pytest.mark.skipif(not works(), reason="this CPU multiplies no bytes")


def loaded(kind: str, **options: Any) -> Any:
    return load_transformers(tiny_folder(kind), kind, LoadOptions(device="cpu", dtype="int8", **options))


KERNELS: tuple[type[Kernel], ...] = (Fbgemm, OneDnn)


def usable(kernel: type[Kernel]) -> bool:
    try:
        return int8.exact(kernel)
    except (AttributeError, RuntimeError):
        return False


@needs_bytes
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("width", [33, 896, 4864])
def test_a_row_has_the_same_bits_alone_and_among_others(width: int, kernel: type[Kernel]) -> None:
    if not usable(kernel):
        pytest.skip("this CPU has no such kernel")
    torch.manual_seed(0)
    bias = torch.randn(96)
    layer = Int8(torch.randn(96, width) * 0.02, bias, kernel=kernel)
    inputs = torch.randn(70, width) * 3
    inputs[5], inputs[6, 3] = 0, 2000.0
    found = layer.rows(inputs)
    for n in (1, 2, 3, 4, 8, 33, 64):
        for start in range(0, len(inputs) - n + 1, 7):
            assert torch.equal(layer.rows(inputs[start : start + n]), found[start : start + n])
    wanted = inputs.double() @ layer.weight.double().t() + bias.double()
    error = (found - wanted).norm(dim=1) / wanted.norm(dim=1)
    assert error.max() < 2**-9  # bfloat16 rounds inputs by up to that


def test_a_kernel_whose_sums_overflow_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Saturating(OneDnn):
        """As CPUs without VNNI multiply: sums of two products in sixteen bits."""

        def __call__(self, rows: Tensor) -> Tensor:
            pairs = (rows + 128).view(len(rows), 1, -1, 2) * self.whole.view(1, len(self.whole), -1, 2)
            return pairs.sum(-1).clamp(-(2.0**15), 2.0**15 - 1).sum(-1) - 128 * self.whole.sum(1)

        def __init__(self, whole: Tensor, scales: Tensor) -> None:
            self.whole = whole.float()

    assert not int8.exact(Saturating)
    monkeypatch.setattr(int8, "KERNELS", (Saturating,))
    assert int8.quickest.__wrapped__() is None


@needs_bytes
def test_weights_are_within_half_a_step_of_the_models_own() -> None:
    weight = torch.randn(64, 48) * torch.logspace(-3, 3, 64)[:, None]
    step = weight.abs().amax(1, True) / 127
    for module in (Int8(weight, None), Int8Table(weight)):
        assert ((module.weight - weight).abs() <= step * 0.501).all()
    assert torch.equal(Int8Table(weight)(torch.tensor([[3, 60]]))[0], Int8Table(weight).weight[[3, 60]])


@needs_bytes
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "gpt-neox", "gpt2"])
def test_passes_of_any_size_give_the_same_bits(kind: str) -> None:
    model, whole = loaded(kind), reference(kind)
    assert model.info.dtype == "int8"
    assert model.info.parameters == sum(part.numel() for part in whole.parameters())
    assert model.info.capabilities.tree
    assert model.info.capabilities.exact
    tokens = list(range(40, 60))
    rows = [in_passes(model.open_session(), tokens, sizes).float() for sizes in ((1,) * 20, (2, 3, 15), (20,))]
    assert torch.equal(rows[0], rows[1])
    assert torch.equal(rows[0], rows[2])
    wanted = logits_of(whole, tokens)
    assert (rows[0] - wanted).std() < 0.2 * wanted.std()  # of layers in disorder 1.4


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
    rows = [each.evaluate(range(40, 60), range(ROOT, 19)).logits for each in (ours, loaded(kind).open_session())]
    assert torch.equal(*rows)


@needs_bytes
def test_scales_without_their_layer_are_refused(tmp_path: Path) -> None:
    folder = compressed("llama", tmp_path / "odd", {"model.layers.9.mlp.up_proj.weight_scale": torch.ones(8, 1)})
    with pytest.raises(UserError, match=r"Cannot load odd: model.layers.9.mlp.up_proj.weight_scale is not of a linear layer"):
        load_transformers(folder, "odd", LoadOptions(device="cpu"))


@needs_bytes
def test_only_the_family_has_layers_put_together_and_nothing_is_kept_twice() -> None:
    attention = loaded("llama").module.model.layers[0].self_attn
    assert isinstance(attention.q_proj, Part)
    assert attention.q_proj.whole is attention.v_proj.whole
    assert isinstance(loaded("gemma2").module.model.layers[0].self_attn.q_proj, Int8)
    for part in loaded("llama").module.parameters():
        assert part.ndim == 1
        assert part.untyped_storage().nbytes() == part.nbytes  # no view keeps the whole file in memory


def test_where_it_cannot_be_a_sentence_says_what_can(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"CPU only.*--dtype bfloat16"):
        devices.choose_dtype("int8", torch.device("cuda"))
    monkeypatch.setattr(devices, "int8_works", lambda: False)
    with pytest.raises(UserError, match=r"multiplies bytes.*--dtype auto"):
        loaded("llama")


@needs_bytes
def test_a_mixture_whose_experts_would_stay_as_they_are_is_refused() -> None:
    with pytest.raises(UserError, match=r"Most of qwen3-moe's weights.*--dtype bfloat16"):
        loaded("qwen3-moe")


def test_it_is_reckoned_as_a_byte_for_each_weight() -> None:
    needs = Needs("transformers", 2_000, 4_000, 4096, 10)
    found = needs.footprint(gpu=False, dtype="int8")
    assert (found.weights, found.token, found.widened) == (1_000, 20.0, False)
