"""The Llama family's forward pass without what a general library needs around it.

On small models a pass is mostly Python and the launching of small kernels. Here Q, K and V are one matrix product, gate and up
projection another, nodes are rows of plain matrices, rotations come from a table, the last layer runs for the nodes that are
asked for, and the layers are called directly. The weights and the arithmetic are the model's own, but for the order of sums.
Like every other assumption about a model this is proven at load, on the same tree (see `proof.py`); a model that fails, or that
is built of anything but plain linear layers (quantized, spread over devices, adapted), keeps its own pass.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import even, tree_attention
from .int8 import Int8, together
from .products import FEWEST_ROWS, Linear, Part, filled, fused, halves, in_halves, packed, pays

FAMILIES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
"""Models whose layers are: norm, attention with rotary positions, sum, norm, gated MLP, sum. Others of the same class names'
shape scale something on the way (Granite, Gemma), so they are not guessed at."""

SILU = ("SiLU", "SiLUActivation")
"""Modules that are `F.silu`."""

MOST_CPU_BYTES = 4 << 30
"""Weights of a larger model on the CPU stay as they are where they cannot be packed: copying them takes seconds, and its passes
wait for memory, not for Python."""


class LeanOutput(NamedTuple):
    """Output of a pass, by transformers' name."""

    logits: Tensor


def norm(module: Any, wide: bool = False) -> Any:
    """Make a root-mean-square norm of fewer calls, on the CPU: in float32 the same bits where the width is a power of two.
    `wide` states are float32, whatever the weights are.

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
    return hidden


class Rotations:
    """Cosines and sines of the positions, as the model's own module computes them: from a table, unless they depend on
    the length of the text."""

    def __init__(self, rotary: Any) -> None:
        self._rotary = rotary
        kind = str(getattr(rotary, "rope_type", "dynamic"))
        self._fixed = "dynamic" not in kind and kind != "longrope"
        self._tables: list[tuple[Tensor, Tensor]] = []  # all that were made: graphs go on reading theirs

    def __call__(self, hidden: Tensor, positions: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Look up cosines and sines for positions [1, n], all below `most`.

        Returns:
            Cosines, and sines of which the first half is negated [n, width of a head].
        """
        if not self._fixed:
            return self._made(hidden, positions)
        cos, sin = self._table(hidden, most)
        return cos.index_select(0, positions[0]), sin.index_select(0, positions[0])

    def from_on(self, hidden: Tensor, start: int, count: int, most: int) -> tuple[Tensor, Tensor]:
        """Do the same for the positions `start` … `start` + `count`."""
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
    """Make the first half of a gated MLP: the inputs of its last layer, for inputs [n, inputs]."""

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
        linear: makes products of its linear layers, as `fused`, `packed` and `together`; the last one's give float32.
        hear: called with the index and the states that the layer is given.
    """

    def __init__(
        self, layer: Any, index: int, kind: str, linear: Linear = fused, hear: Callable[[int, Tensor], None] | None = None
    ) -> None:
        attention, mlp, wide = layer.self_attn, layer.mlp, linear is together
        self._index = index
        self._hear = hear
        self._kind = kind
        self._fewest = FEWEST_ROWS if linear is packed else 0
        self._attention = attention
        self._width = int(attention.head_dim)
        self._heads = attention.q_proj.out_features // self._width
        self._kv_heads = attention.k_proj.out_features // self._width
        self._scaling = float(attention.scaling)
        self._qkv = linear(attention, "q_proj", "k_proj", "v_proj")
        self._query_norm = norm(getattr(attention, "q_norm", None), wide)
        self._key_norm = norm(getattr(attention, "k_norm", None), wide)
        self._out = linear(attention, "o_proj")
        activation = F.silu if type(mlp.act_fn).__name__ in SILU else mlp.act_fn
        self._inner = chunked(linear(mlp, "gate_proj", "up_proj"), activation)
        self._down = linear(mlp, "down_proj")
        self._before = norm(layer.input_layernorm, wide) or _unchanged
        self._after = norm(layer.post_attention_layernorm, wide)

    def __call__(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """Run the layer; the arguments are `attend`'s."""
        if self._hear is not None:
            self._hear(self._index, hidden)
        rows = hidden[0]
        n = len(rows)
        if n < self._fewest:  # once, and not for each product
            rows = filled(rows)
        rows = self.mixed(self.read(rows), cos, sin, mask, cache).add_(rows)
        rows = self._down(self._inner(self._after(rows))).add_(rows)
        return (rows if len(rows) == n else rows[:n])[None]

    def half(self, kind: Literal["attention", "mlp"]) -> Callable[[Tensor, Tensor, Tensor, Any, Any], Tensor]:
        """Return one block of the layer."""
        return self.attend if kind == "attention" else self.feed

    def only(self, picks: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """Run the layer for the nodes `picks` [1, rows, hidden width], with K and V of all; the other arguments are
        `attend`'s."""
        if self._hear is not None:
            self._hear(self._index, hidden)
        if not len(picks):  # no state is wanted, only K and V
            self._turned(self.read(hidden[0]), cos, sin, cache)
            return hidden[:, :0]
        return self.feed(self.attend(hidden, cos, sin, mask, cache)[:, picks])

    def attend(self, hidden: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """Run the attention block and its residual connection.

        Args:
            hidden: [1, n, hidden width]; behind the nodes' there may be rows that fill up matrix products.
            cos, sin: of the nodes' positions [n, width of a head]; the first half of `sin` is negated.
            mask: as `tree_attention` takes it, or one by kind of layer.
            cache: takes K and V and gives those in view.
        """
        rows = hidden[0]
        return self.mixed(self.read(rows), cos, sin, mask, cache).add_(rows)[None]

    def read(self, rows: Tensor) -> Tensor:
        """Project attention's input [n, width] to queries, keys and values, side by side, before they are rotated."""
        return self._qkv(self._before(rows))

    def mixed(self, states: Tensor, cos: Tensor, sin: Tensor, mask: Any, cache: Any) -> Tensor:
        """Compute the attention block's addition [n, hidden width] from the output of `read`; otherwise as `attend`."""
        if isinstance(mask, dict):
            mask = mask[self._kind]
        queries, keys, values = self._turned(states, cos, sin, cache)
        # What `tree_attention` does for one node, which sees everything or has a padded mask.
        if len(cos) == 1 and (mask is None or getattr(mask, "parts", None) == ()):
            queries = queries.reshape(1, self._kv_heads, -1, self._width)
            if mask is None:
                attended = F.scaled_dot_product_attention(queries, keys, values, scale=self._scaling)
            else:
                attended = even(queries, keys, values, mask, self._scaling)
            mixed = attended.reshape(1, -1)
            return self._out(mixed if len(states) == 1 else filled(mixed))
        attended, _ = tree_attention(self._attention, queries, keys, values, mask, scaling=self._scaling)
        mixed = attended.view(queries.shape[2], -1)
        return self._out(mixed if len(mixed) == len(states) else filled(mixed))

    def _turned(self, states: Tensor, cos: Tensor, sin: Tensor, cache: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Rotate queries [1, heads, n, width of a head] and keys, write K and V; return the queries, and K and V in view."""
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
        """Run the MLP block and its residual connection."""
        rows = hidden[0]
        return self._down(self._inner(self._after(rows))).add_(rows)[None]


class LeanModel(nn.Module):
    """Quick passes of a model over the same weights, with the interface that sessions use: `forward`, and `layers` to
    run only some of."""

    def __init__(self, module: Any, linear: Linear) -> None:
        super().__init__()
        self.halves = linear is halves
        """Whether its weights are read as half floats."""
        self.alike = linear in (halves, packed)
        """Whether its products give a row the same bits among any number of others."""
        inner = module.model
        kinds = getattr(module.config, "layer_types", None) or ["full_attention"] * len(inner.layers)
        pairs = zip(inner.layers, kinds, strict=True)
        self.layers = [LeanLayer(layer, index, kind, linear, self.hear) for index, (layer, kind) in enumerate(pairs)]
        self._rotations = Rotations(inner.rotary_emb)
        self._wide = linear is together
        self._parts = (inner.embed_tokens, norm(inner.norm, self._wide), linear(module, "lm_head"))
        self.ears: list[dict[int, Tensor | None]] = []
        """Receivers of hidden states by tap: a pass fills in those that have a key (see `taps.py`)."""
        self._filled = self.layers if linear is packed else None  # not what stands in for them: that wants a row per node

    def forward(
        self,
        input_ids: Tensor,
        past_key_values: Any,
        attention_mask: Any,
        position_ids: Tensor,
        use_cache: bool = True,
        logits_to_keep: Tensor | None = None,
    ) -> LeanOutput:
        """Run one pass over new nodes; the names are transformers'.

        Args:
            input_ids, position_ids: [1, n].
            past_key_values: the slot cache.
            attention_mask: None, [1, 1, n, m], or one by kind of layer.
            use_cache: always True.
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
        if any(len(self.layers) in heard for heard in self.ears):
            rows = normed(last(hidden, cos, sin, attention_mask, past_key_values)[0, :n])
            self.hear(len(self.layers), rows[None])
            return LeanOutput(head(rows if logits_to_keep is None else rows[logits_to_keep])[None])
        if logits_to_keep is not None and 2 * len(logits_to_keep) <= n and isinstance(last, LeanLayer):
            # Of a prompt nothing but the keys and values is wanted of the last layer.
            hidden = last.only(logits_to_keep, hidden, cos, sin, attention_mask, past_key_values)
            rows = hidden[0]
        else:
            rows = last(hidden, cos, sin, attention_mask, past_key_values)[0, :n]
            if logits_to_keep is not None:
                rows = rows[logits_to_keep]
        return LeanOutput(head(normed(rows))[None])

    def hear(self, tap: int, hidden: Tensor) -> None:
        """Hand the hidden states at a tap [1, n or more, hidden width] to their receivers."""
        for heard in self.ears:
            if tap in heard:
                heard[tap] = hidden


def lean(module: Any) -> LeanModel | None:
    """Make the model's lean pass; None where it is not known to be of the family."""
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
        layers = [getattr(owner, name) for owner in dict.fromkeys(owners) for name in projections if hasattr(owner, name)]
        if len(layers) != len(projections) or not all(map(_plain, layers)):
            return False
        biased = [isinstance(part, nn.Linear) and part.bias is not None for part in layers]
        if len(set(biased[:3])) != 1 or len(set(biased[3:])) != 1:
            return False
    return True


def _plain(part: nn.Module) -> bool:
    return type(part) is nn.Linear or (isinstance(part, Part) and isinstance(part.whole, Int8))
