"""What the passes of a transformers model multiply, read from its modules and its configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from .flops import Flops, LayerFlops, Weight, flops_of

CHOSEN = ("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts", "moe_k")
"""Keys of a configuration: how many experts a token is sent to."""
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""How many there are."""

ATTENTIONLESS = ("linear_attention", "conv", "mamba", "recurrent", "moe")
"""Types of layers that keep a state instead of keys."""

_LAYER = re.compile(r"layers\.(\d+)\.(.*)")
_EXPERTS = re.compile(r"(^|\.)experts(\.|$)")


def flops_of_model(module: Any, config: Any, path: Sequence[str], windows: Sequence[int], caches: Sequence[int] = ()) -> Flops:
    """The FLOPs of a causal language model's passes.

    Args:
        module: the model.
        config: of its text.
        path: attribute names from the module to its list of decoder layers; empty if it is not found, then nothing is known.
        windows: the most keys that a node of each layer sees, 0 for all.
        caches: numbers that each layer keeps for a token in place of its key.
    """
    layers: Any = module
    for name in path:
        layers = getattr(layers, name)
    head = module.get_output_embeddings()
    if not path or head is None:
        return Flops()
    inside = ".".join(path)
    row = 2.0 * next((weight.size for weight in weights_of(head, config)), 0)
    weights = weights_of(module, config, inside, head)
    kinds = getattr(config, "layer_types", None) or [""] * len(layers)
    told = config.per_layer_config if getattr(config, "is_heterogeneous", False) else [config] * len(layers)
    keys = {
        at: LayerFlops(0, 0, _of_a_key(told[at]), window, _expanding(layers[at], caches[at : at + 1], told[at]))
        for at, (kind, window) in enumerate(zip(kinds, windows, strict=False))
        if kind not in ATTENTIONLESS
    }
    return flops_of(weights, len(layers), active=active(config), row=row, keys=keys)


def flops_of_layer(block: nn.Module, config: Any, cache: int, *, row: float, node: float) -> Flops:
    """The same of a single decoder layer, which keeps `cache` numbers in place of a key; `row` and `node` as in `Flops`."""
    weights = [weight._replace(layer=0) for weight in weights_of(block, config)]
    keys = LayerFlops(0, 0, _of_a_key(config), cached=_expanding(block, [cache], config))
    found = flops_of(weights, 1, active=active(config), row=row, keys={0: keys})
    return Flops(found.layers, row, node)


def flops_of_tensors(weights: Mapping[str, Tensor], config: Any, layers: int, *, row: float, node: float = 0.0) -> Flops:
    """The same of layers that are tensors named `layers.N.…`; what else there is counts as `node` and `row` say."""
    found = (_LAYER.match(name) for name in weights)
    inside = (Weight(int(m[1]), "attn" in m[2], weights[m[0]].numel()) for m in found if m and weights[m[0]].ndim > 1)
    whole = flops_of(inside, layers, row=row, keys=dict.fromkeys(range(layers), LayerFlops(0, 0, _of_a_key(config))))
    return Flops(whole.layers, row, node)


def active(config: Any) -> float:
    """The share of a mixture's experts that a token is sent to; 1 for a model without."""
    chosen, there = (next((n for key in keys if (n := getattr(config, key, None))), 0) for keys in (CHOSEN, EXPERTS))
    return min(1.0, chosen / there) if chosen and there and isinstance(there, int) else 1.0


def weights_of(module: nn.Module, config: Any, inside: str = "", head: nn.Module | None = None) -> Iterator[Weight]:
    """The matrices of a module; embeddings and its LM head are none.

    Args:
        module: the module.
        config: says how many experts there are.
        inside: name of its list of decoder layers.
        head: the LM head.
    """
    experts = next((n for key in EXPERTS if (n := getattr(config, key, None))), 0)
    for name, part in module.named_modules():
        if part is head or isinstance(part, nn.Embedding):
            continue
        sizes: list[tuple[int, bool]] = []
        if isinstance(inputs := getattr(part, "in_features", None), int):
            sizes.append((inputs * int(part.out_features), False))  # whatever form its weight is kept in
        else:
            tensors = [p for p in part.parameters(recurse=False) if p.ndim > 1]
            sizes += [(tensor.numel(), tensor.ndim == 3 and tensor.shape[0] == experts) for tensor in tensors]
        number, _, rest = (
            name.removeprefix(f"{inside}.").partition(".") if inside and name.startswith(f"{inside}.") else ("-1", "", name)
        )
        attention = "attn" in rest or "attention" in rest
        for size, stacked in sizes:
            yield Weight(int(number), attention, size, stacked or bool(_EXPERTS.search(rest)))


def _expanding(layer: nn.Module, cached: Sequence[int], config: Any) -> float:
    """FLOPs of making a token's keys and values anew out of the latent vector that the cache holds; 0 where it holds them."""
    if list(cached) != [getattr(config, "kv_lora_rank", None)]:
        return 0.0
    return sum(2.0 * weight.numel() for name, weight in layer.named_parameters() if name.endswith("kv_b_proj.weight"))


def _of_a_key(config: Any) -> float:
    """FLOPs of attention with one key: twice its heads times the width of a key and a value together."""
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int):  # a recurrent model, or one with as many as each layer likes
        return 0.0
    width = getattr(config, "head_dim", None) or int(config.hidden_size) // heads
    latent: Mapping[str, Any] = vars(config)
    if latent.get("qk_nope_head_dim") and latent.get("v_head_dim"):
        both = int(latent["qk_nope_head_dim"]) + int(latent.get("qk_rope_head_dim") or 0) + int(latent["v_head_dim"])
        return 2.0 * heads * both
    return 4.0 * heads * int(width)
