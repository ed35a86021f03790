"""Our attention function for transformers models: scaled dot-product attention that never copies the KV cache.

Under grouped-query attention transformers' own function repeats K and V for every head as soon as there is a mask: at 2,000
tokens of context and 8 tree nodes (32 heads over 8) 16.2 ms a layer on one CPU core, against 4.0 ms here, where the heads of
one group become rows of one query instead.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ONE_SUM = 192
"""Up to this many keys torch adds a row's products in one go, so that keys which are hidden change no bit."""
FEW_KEYS, PAD_KEYS = 16, 64
"""A padded pass shows a node the slots up to the next multiple of FEW_KEYS, beyond ONE_SUM of PAD_KEYS: wider steps cost
attention, narrower ones divide more passes (see `parts_of`)."""
PAD_ROWS = 4
"""Its rows of queries are a multiple of this."""
MOST_ROWS = 60
"""Most rows of queries at once where more have other bits (see `most_rows`): from 64 on torch rearranges keys for AMX, from 192
on it takes larger blocks."""

MANY_ROWS, TRIED_KEYS, HIDDEN = 768, 704, 0.1
"""Sizes of the trial in `most_rows`: rows from which on torch's blocks stop growing, keys of more than one block, the hidden
share of them."""

NAME = "specchat_tree"
"""The attention's name in transformers. No mask function goes by this name, so transformers takes our masks, or none, as they
are."""


def tree_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Compute attention of a pass's nodes over the slots in view.

    Args:
        module, dropout: unused.
        query: [1, heads, n, width].
        key, value: [1, K/V heads, m, width].
        attention_mask: additive, [1, 1, n, m], or [1, 1, heads per group × n, m] when repeated already. None: one node sees all
            in view; several are a causal chain on an empty cache (m = n).
        scaling: of the scores; 1/√width if None.
        **kwargs: `softcap` as in Gemma 2.

    Returns:
        [1, n, heads, width of V], and no weights.

    Raises:
        NotImplementedError: learned position biases or attention sinks.
    """
    if kwargs.get("position_bias") is not None or kwargs.get("s_aux") is not None:
        raise NotImplementedError("position biases and attention sinks")
    _, heads, n, width = query.shape
    kv_heads, m = key.shape[1], key.shape[2]
    group = heads // kv_heads
    causal = attention_mask is None and n > 1
    if causal and n != m:
        raise NotImplementedError("a chain after a prefix needs a mask")
    softcap = kwargs.get("softcap")
    if group > 1 and not (causal and softcap is None):
        # [1, K/V heads, group × n, width]: each group's heads are rows beside each other, all reading one K/V head.
        query = query.reshape(1, kv_heads, group * n, width)
        if attention_mask is not None and n > 1 and attention_mask.shape[2] == n:
            parts = getattr(attention_mask, "parts", None)
            attention_mask = attention_mask.repeat(1, 1, group, 1)
            if parts is not None:
                attention_mask = padded(attention_mask, parts)
    parts = getattr(attention_mask, "parts", None)
    if parts is not None and attention_mask is not None:
        out = _alike(query, key, value, attention_mask, parts, n, scaling=scaling, cap=softcap)
    elif softcap is not None:
        out = _capped(query, key, value, attention_mask, causal=n if causal else 0, scaling=scaling, cap=softcap)
    else:
        out = F.scaled_dot_product_attention(
            query, key, value, attention_mask, is_causal=causal, scale=scaling, enable_gqa=causal and group > 1
        )
    return out.reshape(1, heads, n, value.shape[3]).transpose(1, 2).contiguous(), None


Parts = tuple[tuple[int, int, int], ...]
"""Nodes of a pass and the slots they see: (first node, behind the last, behind the last slot in view)."""


def in_view(slots: int) -> int:
    """Round up the slots that a padded pass shows a node that needs the first `slots` of its view."""
    if slots <= ONE_SUM:
        return -(-slots // FEW_KEYS) * FEW_KEYS
    return -(-slots // PAD_KEYS) * PAD_KEYS


def parts_of(start: int, count: int) -> Parts:
    """Divide a padded pass of `count` nodes behind `start` slots in view, so that every node sees as many slots as
    alone in a pass; nothing if all see the same."""
    end = start + count
    if end <= ONE_SUM:
        return ()
    stops = [*range(max(ONE_SUM, start + PAD_KEYS - start % PAD_KEYS), end, PAD_KEYS), end]
    if len(stops) == 1:
        return ()
    begins = [start, *stops]
    return tuple((a - start, b - start, in_view(b)) for a, b in zip(begins, stops, strict=False))


def padded(mask: Tensor, parts: Parts) -> Tensor:
    """Mark a mask so that `tree_attention` gives each node the bits that it has alone in a pass.

    torch sums attention's products in an order that depends on how many keys there are, and on whether a block of queries has
    fewer than four rows. With the same number of keys, those behind a node's own hidden by the mask, and rows in fours, its
    attention has the same bits whatever else is in the pass, in every type (0 of 17,640 passes differ: torch 2.13, CPUs with
    AVX-512). Norms and activations have that without help, matrix products from some number of rows on (see
    `prove.ROWS`): a token tree's logits are those of plain decoding, bit for bit. Proven at load (see `rounding.py`).
    """
    mask.parts = parts  # type: ignore[attr-defined]
    return mask


def _alike(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, parts: Parts, n: int, *, scaling: float | None, cap: float | None
) -> Tensor:
    """Compute attention of a padded pass [1, K/V heads, group × n, width of V]; the arguments are `tree_attention`'s, with the
    heads of a group as rows."""
    _, heads, rows, width = query.shape
    if not parts:
        return even(query, key, value, mask, scaling, cap)
    group = rows // n
    by_node = query.view(1, heads, group, n, width)
    cut: list[Tensor] | None = getattr(mask, "cut", None)
    if cut is None:  # once for all layers: a prompt's mask is as large as a layer's weights
        rows_by_group = mask.view(1, -1, n, mask.shape[3])
        cut = [rows_by_group[:, :, a:b, :keys].reshape(1, 1, -1, keys) for a, b, keys in parts]
        mask.cut = cut  # type: ignore[attr-defined]
    out = []
    for (a, b, keys), part_mask in zip(parts, cut, strict=True):
        queries = by_node[:, :, :, a:b].reshape(1, heads, group * (b - a), width)
        part = even(queries, key[:, :, :keys], value[:, :, :keys], part_mask, scaling, cap)
        out.append(part.view(1, heads, group, b - a, part.shape[3]))
    return torch.cat(out, 3)


def even(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None, cap: float | None = None) -> Tensor:
    """Compute attention [1, K/V heads, rows, width of V] with the last row repeated up to a multiple of PAD_ROWS, at
    most `most_rows` at once; `mask` [1, 1, 1 or rows, m] is added to the scores, and `cap` bends them into ±cap."""
    rows = query.shape[2]
    if rows > MOST_ROWS and rows > (most := MOST_ROWS if cap else most_rows(query.dtype, query.shape[3], value.shape[3])):
        mask = mask.expand(-1, -1, rows, -1)
        spans = [slice(a, a + most) for a in range(0, rows, most)]
        return torch.cat([even(query[:, :, s], key, value, mask[:, :, s], scaling, cap) for s in spans], 2)
    more = -rows % PAD_ROWS
    if more:
        query = torch.cat((query, query[:, :, -1:].expand(-1, -1, more, -1)), 2)
        if mask.shape[2] > 1:
            mask = torch.cat((mask, mask[:, :, -1:].expand(-1, -1, more, -1)), 2)
    if cap is not None:
        out = _capped(query, key, value, mask, scaling=scaling, cap=cap)
    elif query.dtype == torch.float16:
        # torch multiplies float16 on a CPU at a fraction of float32's speed: 94 µs for 4 heads over 128 keys, 16 in float32.
        out = F.scaled_dot_product_attention(query.float(), key.float(), value.float(), mask.float(), scale=scaling).half()
    else:
        out = F.scaled_dot_product_attention(query, key, value, mask, scale=scaling)
    return out[:, :, :rows] if more else out


@cache
def most_rows(dtype: torch.dtype, width: int, value_width: int) -> int:
    """Find the most rows of queries at once that have the bits of a few, for each kind of heads. Many at once take less time:
    a seventh (512 nodes behind 7,680 tokens, 14 heads over 2, bfloat16, a thread of AVX-512)."""
    source = torch.Generator().manual_seed(0)
    dtype = torch.float32 if dtype == torch.float16 else dtype  # as `even` computes it

    def some(count: int, wide: int) -> Tensor:
        return torch.randn((1, 2, count, wide), generator=source).to(dtype)

    query, key, value = some(MANY_ROWS, width), some(TRIED_KEYS, width), some(TRIED_KEYS, value_width)
    hidden = torch.rand((1, 1, MANY_ROWS, TRIED_KEYS), generator=source) < HIDDEN
    mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, torch.finfo(dtype).min)

    def seen(begin: int, end: int) -> Tensor:
        rows = slice(begin, end)
        return F.scaled_dot_product_attention(query[:, :, rows], key, value, mask[:, :, rows])

    few = torch.cat([seen(a, a + PAD_ROWS) for a in range(0, MANY_ROWS, PAD_ROWS)], 2)
    alike = all(torch.equal(seen(0, n), few[:, :, :n]) for n in (MOST_ROWS, 64, 192, MANY_ROWS))
    return MANY_ROWS if alike else MOST_ROWS


def _capped(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, causal: int = 0, scaling: float | None, cap: float
) -> Tensor:
    """Compute attention with scores bent into ±cap before the softmax; `causal` rows form a chain (0: none do)."""
    scores = query @ key.transpose(2, 3) * (query.shape[3] ** -0.5 if scaling is None else scaling)
    scores = (scores / cap).tanh() * cap
    if causal:
        later = torch.ones((causal, causal), dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later.repeat(scores.shape[2] // causal, 1), float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value


def register() -> None:
    """Make the function known to transformers. Harmless when repeated."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, tree_attention)
