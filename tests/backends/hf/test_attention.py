"""A node of a padded pass has the bits that it has alone, however many rows of queries torch is given at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from specchat.backends.hf import attention
from specchat.backends.hf.attention import MANY_ROWS, MOST_ROWS, in_view, most_rows, padded, parts_of, tree_attention

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
        found = tree_attention(layer, query, key, value, mask)[0]
        for node in range(0, n, 13):
            own = chain(start + node, 1, dtype)
            seen = own.shape[3]
            alone = tree_attention(layer, query[:, :, node : node + 1], key[:, :, :seen], value[:, :, :seen], own)[0]
            assert torch.equal(alone[0, 0], found[0, node])


def test_how_many_rows_may_be_at_once_is_known() -> None:
    assert most_rows(torch.bfloat16, WIDTH, WIDTH) in (MOST_ROWS, MANY_ROWS)
