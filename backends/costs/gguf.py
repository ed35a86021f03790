"""What the passes of a GGUF file's model multiply, read from its tensors and its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from ..files.gguf_file import Header, Tensor
from .flops import Flops, LayerFlops, Weight, flops_of

_BLOCK = re.compile(r"blk\.(\d+)\.(.*)")

TABLES = ("token_embd.weight", "position_embd.weight", "token_types.weight", "per_layer_token_embd.weight", "output.weight")
"""Tensors outside the layers that are looked up, and the LM head."""

HEADS = ("output.weight", "token_embd.weight")
"""The LM head, or the table that stands in for it."""


def flops_of_file(header: Header, tensors: Iterable[Tensor], *, mtp: bool = False) -> Flops:
    """The FLOPs of a pass.

    Args:
        header: the file's.
        tensors: of all its parts.
        mtp: of the last MTP layer alone, which runs without the others.
    """
    sizes = {tensor.name: prod(tensor.shape) for tensor in tensors if len(tensor.shape) > 1}
    layers, behind = header.number("block_count"), header.number("nextn_predict_layers")
    row = 2.0 * next((sizes[name] for name in HEADS if name in sizes), 0)
    heads = header.per_layer("attention.head_count", layers)
    width = header.number("embedding_length") // max(1, max(heads, default=1))
    key = header.number("attention.key_length", width) + header.number("attention.value_length", width)
    slides = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    window = header.number("attention.sliding_window")
    # Without a list of the layers that slide, the architecture decides; then all are taken to see everything.
    windows = [window if at < len(slides) and slides[at] else 0 for at in range(layers)] if isinstance(slides, list) else []
    keys = {
        at: LayerFlops(0, 0, 2.0 * heads[at] * key, windows[at] if windows else 0)
        for at in range(layers)
        if any(name.startswith((f"blk.{at}.attn_q", f"blk.{at}.attn_kv")) for name in sizes)
    }
    counts = header.per_layer("expert_count", layers), header.per_layer("expert_used_count", layers)
    active = {at: used / there for at, (there, used) in enumerate(zip(*counts, strict=True)) if there and used}
    weights = [_weight(name, size) for name, size in sizes.items() if name not in TABLES]
    if not mtp:
        return flops_of(weights, layers - behind, active=active, row=row, keys=keys)
    last = layers - 1
    own = [weight._replace(layer=0) for weight in weights if weight.layer == last]
    return flops_of(own, 1, active={0: active.get(last, 1.0)}, row=row, keys={0: keys[last]} if last in keys else {})


def _weight(name: str, size: int) -> Weight:
    """A tensor's part in the passes."""
    found = _BLOCK.match(name)
    layer, rest = (int(found[1]), found[2]) if found else (-1, name)
    return Weight(layer, rest.startswith(("attn", "ssm")), size, "_exps." in rest or bool(re.search(r"\.\d+\.weight", rest)))
