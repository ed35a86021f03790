"""The Llama family's forward pass without what a general library needs around it.

On small models a pass is mostly Python and the launching of small kernels. Here Q, K and V are one matrix product, gate and up
projection another, nodes are rows of plain matrices, rotations come from a table, the last layer runs for the nodes that are
asked for, and the layers are called directly. The weights and the arithmetic are the model's own, but for the order of sums.
Like every other assumption about a model this is proven at load, on the same tree (see `proving/`); a model that fails, or that
is built of anything but plain linear layers (quantized, spread over devices, adapted), keeps its own pass.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Parts, even, padded, tree_attention
from .halves import halves, in_halves
from .int8 import Int8, together
from .packed import FEWEST_ROWS, Part, filled, packed, pays
from .products import Linear, fused

FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Models whose layers are: norm, attention with rotary positions, sum, norm, gated MLP, sum. Others of the same class names'
shape scale something on the way (Granite, Gemma), so they are not guessed at."""

SILU = ("SiLU", "SiLUActivation")
"""Modules that are `F.silu`."""

MOST_CPU_BYTES = 4 << 30
"""Weights of a larger model on the CPU stay as they are where they cannot be packed: copying them takes seconds, and its passes
wait for memory, not for Python."""


class Output(NamedTuple):
    """What a pass returns, by transformers' name for it."""

    logits: Tensor


def norm(module: Any, wide: bool = False) -> Any:
    """A root-mean-square norm in fewer calls, on the CPU: in float32 the same bits where the width is a power of two; `wide`
    is one of states in float32, whatever its weights are.

    In half types it is a layer norm, which torch computes at once: values and their negatives together have no mean, and the
    mean square for their variance.
    """
    if module is None or module.weight.device.type == "mps":
        return module
    weight = module.weight.detach().float() if wide else module.weight.detach()
    if weight.device.type != "cpu":  # one kernel
        return partial(F.rms_norm, normalized_shape=weight.shape, weight=weight, eps=module.variance_epsilon)
    width, least = len(weight), float(module.variance_epsilon)
    epsilon, share, both = torch.tensor([least], dtype=torch.float32), 1 / width, [2 * width]

    def half(hidden: Tensor) -> Tensor:
        centred = torch.cat((hidden, torch.neg(hidden)), -1)
        return torch.mul(torch.layer_norm(centred, both, None, None, least).narrow(-1, 0, width), weight)

    def by_length(hidden: Tensor) -> Tensor:
        return torch.div(hidden, torch.hypot(torch.linalg.vector_norm(hidden, 2, -1, True), floor)).mul_(root)

    def normed(hidden: Tensor) -> Tensor:
        squares = torch.mul(hidden, hidden).sum(-1, True)
        return torch.mul(hidden, torch.add(epsilon, squares, alpha=share).rsqrt_()).mul_(weight)

    if wide:
        floor, root = torch.tensor((least * width) ** 0.5), weight * width**0.5
        return by_length
    return normed if weight.dtype == torch.float32 else half


def _unchanged(hidden: Tensor) -> Tensor:
    """Stand in for a norm that a layer does not have."""
    return hidden


class Rotations:
    """Cosines and sines of the positions, the model's own: from a table, unless they depend on the length of the text.

    Args:
        rotary: the model's own module.
    """

    def __init__(self, rotary: Any) -> None:
        self._rotary = rotary
        kind = str(getattr(rotary, "rope_type", "dynamic"))
        self._fixed = "dynamic" not in kind and kind != "longrope"
        self._tables: list[tuple[Tensor, Tensor]] = []  # all that were made: graphs go on reading theirs

    def __call__(self, hidden: Tensor, positions: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines for each node.

        Args:
            hidden: for its type and device.
            positions: [1, n].
            most: no position reaches this.

        Returns:
            Cosines, and sines of which the first half is negated [n, width of a head].
        """
        if not self._fixed:
            return self._made(hidden, positions)
        cos, sin = self._table(hidden, most)
        return cos.index_select(0, positions[0]), sin.index_select(0, positions[0])

    def from_on(self, hidden: Tensor, start: int, count: int, most: int) -> tuple[Tensor, Tensor]:
        """The same for the positions `start` … `start` + `count`."""
        if not self._fixed:
            return self._made(hidden, torch.arange(start, start + count, device=hidden.device)[None])
        cos, sin = self._table(hidden, most)
        return cos.narrow(0, start, count), sin.narrow(0, start, count)

    def _table(self, hidden: Tensor, most: int) -> tuple[Tensor, Tensor]:
        if not self._tables or len(self._tables[-1][0]) < most:
            self._tables.append(self._made(hidden, torch.arange(most, device=hidden.device)[None]))
        return self._tables[-1]

    def _made(self, hidden: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._rotary(hidden, positions)
        half = sin.shape[-1] // 2
        return cos[0], torch.cat((-sin[0, :, :half], sin[0, :, half:]), -1)


def chunked(gate_up: Callable[[Tensor], Tensor], activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """What a gated MLP hands to its last layer, for inputs [n, inputs]."""

    def inner(inputs: Tensor) -> Tensor:
        gate, up = gate_up(inputs).chunk(2, -1)
        return activation(gate).mul_(up)

    return inner


class LeanLayer:
    """One decoder layer.

    Args:
        layer: the model's own.
        index: its number, as the cache counts.
        kind: its entry in a mapping of masks.
        linear: what makes products of its linear layers, as `fused`, `packed` and `together` do; the last one's give float32.
    """

    __slots__ = (
        *("_after", "_attention", "_before", "_down", "_fewest", "_heads", "_index", "_inner", "_key_norm"),
        *("_kind", "_kv_heads", "_out", "_qkv", "_query_norm", "_scaling", "_width"),
    )

    def __init__(self, layer: Any, index: int, kind: str, linear: Linear = fused) -> None:
        attention, mlp, wide = layer.self_attn, layer.mlp, linear is together
        self._index, self._kind = index, kind
        self._fewest = FEWEST_ROWS if linear is packed else 0
        self._attention = attention
        self._width = int(attention.head_dim)
        self._heads = attention.q_proj.out_features // self._width
        self._kv_heads = attention.k_proj.out_features // self._width
        self._scaling = float(attention.scaling)
        self._qkv = linear(attention, "q_proj", "k_proj", "v_proj")
        self._query_norm, self._key_norm = (norm(getattr(attention, name, None), wide) for name in ("q_norm", "k_norm"))
        self._out = linear(attention, "o_proj")
        activation = F.silu if type(mlp.act_fn).__name__ in SILU else mlp.act_fn
        self._inner = chunked(linear(mlp, "gate_proj", "up_proj"), activation)
        self._down = linear(mlp, "down_proj")
        self._before = norm(layer.input_layernorm, wide) or _unchanged
        self._after = norm(layer.post_attention_layernorm, wide)

    def __call__(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """The layer's output; the arguments are `attend`'s."""
        rows = hidden[0]
        n = len(rows)
        if n < self._fewest:  # once, and not for each product
            rows = filled(rows)
        rows = self.mixed(self._qkv(self._before(rows)), cos, sin, mask, cache).add_(rows)
        rows = self._down(self._inner(self._after(rows))).add_(rows)
        return (rows if len(rows) == n else rows[:n])[None]

    def half(self, kind: Literal["attention", "mlp"]) -> Callable[[Tensor, Tensor, Tensor, Any, Any], Tensor]:
        """The layer with one block of its two."""
        return self.attend if kind == "attention" else self.feed

    def only(self, kept: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """The layer's output for some of the nodes [1, rows, hidden width]; K and V are those of all.

        Args:
            kept: indices of these nodes [rows].
            hidden, cos, sin, mask, cache: as `attend` takes them.
        """
        if not len(kept):  # no state is wanted, only K and V
            self._turned(self.read(hidden[0]), cos, sin, cache)
            return hidden[:, :0]
        return self.feed(self.attend(hidden, cos, sin, mask, cache, kept))

    def attend(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any, kept: Tensor | None = None) -> Tensor:
        """The hidden states with what the attention block adds.

        Args:
            hidden: [1, n, hidden width]; behind the nodes' there may be rows that fill up matrix products.
            cos: of the nodes' positions [n, width of a head].
            sin: the same, its first half negated: what `rotate_half` would negate.
            mask: as `tree_attention` takes it, or one by kind of layer.
            cache: takes K and V and gives those in view.
            kept: indices of the nodes whose states are wanted [rows]; None for all.
        """
        rows = hidden[0]
        return self.seen(rows, cos, sin, mask, cache, kept).add_(rows if kept is None else rows[kept])[None]

    def seen(self, rows: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any, kept: Tensor | None = None) -> Tensor:
        """What the attention block adds [n or rows, hidden width]; the arguments are `attend`'s, `rows` what it reads [n, width
        of its input]."""
        return self.mixed(self.read(rows), cos, sin, mask, cache, kept)

    def read(self, rows: Tensor) -> Tensor:
        """Queries, keys and values of what attention reads [n, width of its input], side by side, before they are turned."""
        return self._qkv(self._before(rows))

    def mixed(self, states: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any, kept: Tensor | None = None) -> Tensor:
        """What the attention block adds [n or rows, hidden width], of what `read` gives; the other arguments are `attend`'s."""
        if isinstance(mask, dict):
            mask = mask[self._kind]
        queries, keys, values = self._turned(states, cos, sin, cache)
        # What `tree_attention` does for one node, which sees everything or has a padded mask.
        if len(cos) == 1 and kept is None and (mask is None or getattr(mask, "parts", None) == ()):
            queries = queries.reshape(1, self._kv_heads, -1, self._width)
            if mask is None:
                seen = F.scaled_dot_product_attention(queries, keys, values, scale=self._scaling)
            else:
                seen = even(queries, keys, values, mask, self._scaling)
            mixed = seen.reshape(1, -1)
            return self._out(mixed if len(states) == 1 else filled(mixed))
        if kept is not None:
            mask = narrowed(mask, kept, len(cos), keys)
            queries = queries.index_select(2, kept)
        seen, _ = tree_attention(self._attention, queries, keys, values, mask, scaling=self._scaling)
        mixed = seen.view(queries.shape[2], -1)
        return self._out(mixed if kept is not None or len(mixed) == len(states) else filled(mixed))

    def _turned(self, states: Tensor, cos: Tensor, sin: Tensor, cache: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the nodes [1, heads, n, width of a head], and the keys and values in view; the nodes' own are written."""
        n, heads, kv_heads = len(cos), self._heads, self._kv_heads
        both = heads + kv_heads
        by_head = states[:n].view(1, n, both + kv_heads, self._width).transpose(1, 2)
        turned, values = by_head.split_with_sizes((both, kv_heads), 1)
        if self._query_norm is not None and self._key_norm is not None:
            turned = torch.cat((self._query_norm(turned[:, :heads]), self._key_norm(turned[:, heads:])), 1)
        turned = (turned * cos).add_(turned.roll(self._width // 2, 3).mul_(sin))
        queries, keys = turned.split_with_sizes((heads, kv_heads), 1)
        keys, values = cache.update(keys, values, self._index)
        return queries.to(keys.dtype), keys, values

    def feed(self, hidden: Tensor, *_: Any) -> Tensor:
        """The hidden states with what the MLP block adds."""
        rows = hidden[0]
        return self._down(self._inner(self._after(rows))).add_(rows)[None]


def narrowed(mask: Tensor | None, kept: Tensor, n: int, keys: Tensor) -> Tensor | None:
    """The mask of some of a pass's nodes.

    Args:
        mask: of all: [1, 1, n, m], or [1, 1, heads per group × n, m]; None for a causal chain on an empty cache.
        kept: indices of some nodes [rows].
        n: how many nodes there are.
        keys: for the type and the number of slots [1, K/V heads, m, width].

    Returns:
        The same for these nodes alone; None for one that sees everything.
    """
    if mask is None:
        if len(kept) == 1 and int(kept) == n - 1:
            return None
        later = torch.arange(n, device=kept.device) > kept[:, None]
        return torch.zeros((1, 1, len(kept), n), dtype=keys.dtype, device=keys.device).masked_fill_(later, float("-inf"))
    m = mask.shape[3]
    some = mask.view(1, -1, n, m).index_select(2, kept).view(1, 1, -1, m)
    parts = getattr(mask, "parts", None)
    return some if parts is None else padded(some, kept_parts(parts, kept.tolist()))


def kept_parts(parts: Parts, kept: Sequence[int]) -> Parts:
    """The division of a padded pass for some of its nodes, in rising order."""
    out = []
    for a, b, keys in parts:
        begin, end = bisect_left(kept, a), bisect_left(kept, b)
        if begin < end:
            out.append((begin, end, keys))
    return tuple(out)


class LeanModel(nn.Module):
    """A model with the calls of its own that sessions make: `forward`, and `layers` to run only some of.

    Args:
        module: the model; its weights are shared.
        linear: what makes products of its linear layers.
    """

    tell: Callable[[Tensor], None] | None = None
    """Told the states of all nodes after the final norm [1, n, hidden width], where a session taps them (see `taps.py`)."""

    def __init__(self, module: Any, linear: Linear) -> None:
        super().__init__()
        self.halves = linear is halves
        """Whether its weights are read as half floats."""
        self.alike = linear in (halves, packed)
        """Whether its products give a row the same bits among any number of others."""
        inner = module.model
        kinds = getattr(module.config, "layer_types", None) or ["full_attention"] * len(inner.layers)
        self.layers = [LeanLayer(*each, linear) for each in zip(inner.layers, range(len(inner.layers)), kinds, strict=True)]
        self._rotations = Rotations(inner.rotary_emb)
        self._wide = linear is together
        self._parts = (inner.embed_tokens, norm(inner.norm, self._wide), linear(module, "lm_head"))
        self._filled = self.layers if linear is packed else None  # not what stands in for them: that wants a row per node

    def forward(
        self,
        input_ids: Tensor,
        past_key_values: Any,
        attention_mask: Any,
        position_ids: Tensor,
        use_cache: bool = True,
        logits_to_keep: Tensor | None = None,
    ) -> Output:
        """One pass over new nodes.

        Args:
            input_ids: [1, n].
            past_key_values: the slot cache.
            attention_mask: None, [1, 1, n, m], or one by kind of layer.
            position_ids: [1, n].
            use_cache: there is no other way.
            logits_to_keep: indices of the nodes whose logits are wanted [rows]; None for all.
        """
        embed, normed, head = self._parts
        hidden, n = embed(input_ids), input_ids.shape[1]
        if self._wide:
            hidden = hidden.float()
        cos, sin = self._rotations(hidden, position_ids, past_key_values.capacity)
        if n < FEWEST_ROWS and self.layers is self._filled:  # once, and not for each layer
            hidden = filled(hidden[0])[None]
        *layers, last = self.layers
        for layer in layers:
            hidden = layer(hidden, cos, sin, attention_mask, past_key_values)
        if self.tell is not None:
            rows = normed(last(hidden, cos, sin, attention_mask, past_key_values)[0, :n])
            self.tell(rows[None])
            return Output(head(rows if logits_to_keep is None else rows[logits_to_keep])[None])
        if logits_to_keep is not None and 2 * len(logits_to_keep) <= n and isinstance(last, LeanLayer):
            # Of a prompt nothing but the keys and values is wanted of the last layer.
            hidden = last.only(logits_to_keep, hidden, cos, sin, attention_mask, past_key_values)
            rows = hidden[0]
        else:
            rows = last(hidden, cos, sin, attention_mask, past_key_values)[0, :n]
            if logits_to_keep is not None:
                rows = rows[logits_to_keep]
        return Output(head(normed(rows))[None])


def lean(module: Any) -> LeanModel | None:
    """The model's lean pass; None where it is not known to be of the family."""
    weights = list(module.parameters())
    if len({(weight.device, weight.dtype) for weight in weights}) != 1 or not weights[0].is_floating_point():
        return None
    if not of_family(module):
        return None
    linear: Linear = fused
    if isinstance(module.lm_head, Int8):
        linear = together
    elif all(in_halves(weight) for weight in weights if weight.ndim > 1):
        linear = halves
    elif pays(weights):
        linear = packed
    elif weights[0].device.type == "cpu" and sum(weight.nbytes for weight in weights) > MOST_CPU_BYTES:
        return None
    if linear is packed:
        table = module.get_input_embeddings().weight
        for weight in weights:
            if weight.ndim == 1 or weight is table:  # copied out of the file, which else stays in memory as a whole
                weight.data = weight.data.clone()
    del weights  # which are freed one by one as they are packed
    return LeanModel(module, linear)


def of_family(module: Any) -> bool:
    """Whether a model is known to be of the family, and built of plain linear layers, or of those that `quantize` put there."""
    if type(module).__name__ not in FAMILIES or not type(module).__module__.startswith("transformers."):
        return False
    for part in module.modules():
        changed = part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part) or hasattr(part, "_hf_hook")
        if changed or (isinstance(part, nn.Linear) and type(part) is not nn.Linear):
            return False
    projections = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    for layer in module.model.layers:
        owners = [owner for owner in (layer.self_attn, layer.mlp) for name in projections if hasattr(owner, name)]
        found = [getattr(owner, name) for owner in dict.fromkeys(owners) for name in projections if hasattr(owner, name)]
        if len(found) != len(projections) or not all(map(_plain, found)):
            return False
        biased = [isinstance(part, nn.Linear) and part.bias is not None for part in found]
        if len(set(biased[:3])) != 1 or len(set(biased[3:])) != 1:
            return False
    return True


def _plain(part: nn.Module) -> bool:
    return type(part) is nn.Linear or (isinstance(part, Part) and isinstance(part.whole, Int8))
