"""Products with half floats are those of float32, and taken only where nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from specchat.backends import LoadOptions, load_model
from specchat.backends.hf.lean import halves
from specchat.backends.hf.lean.halves import slim


def weight(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0])).half().float()


@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_they_are_float32s_products(rows: int) -> None:
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

    known = halves._known()  # asked before torch's own is replaced
    monkeypatch.setattr(torch, "fbgemm_pack_gemm_matrix_fp16", pack)
    fine, large = weight(4, 4), weight(4, 4)
    large[0, 0] = 70000.0
    for matrix in (fine + 1e-5, large, fine.double(), fine.bfloat16(), weight(1100, 1000)):
        with torch.inference_mode():
            found = slim(matrix)(torch.eye(matrix.shape[1], dtype=matrix.dtype))
        assert torch.equal(found, matrix.t())
    assert not packed
    slim(fine)
    assert len(packed) == known


def test_a_row_has_the_same_bits_among_any_number_of_others() -> None:
    if not halves._known():
        pytest.skip("this CPU has no kernel for half floats")
    product, inputs = slim(weight(96, 672)), torch.randn(64, 672)
    with torch.inference_mode():
        wanted = product(inputs)
        for first, count in ((0, 1), (5, 2), (20, 3), (1, 7), (30, 33)):
            assert torch.equal(product(inputs[first : first + count]), wanted[first : first + count])


def test_the_built_in_model_is_read_as_half_floats_and_computed_in_float32() -> None:
    model: Any = load_model("builtin", LoadOptions(device="cpu", threads=1))
    assert model.info.dtype == "float32"
    assert model._runner.lean.halves == halves._known()
