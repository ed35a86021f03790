"""Half a decoder layer: its attention block without its MLP block, or the MLP without the attention.

Zhang et al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding" (2023),
arXiv:2309.08168, leave out either. A layer runs its own `forward` on a shallow copy in which the other block adds nothing. That
is right only where a block's result is *added* to the hidden states (one after the other, or side by side as in GPT-NeoX), so a
layer has to show it first: without both blocks it must hand on what it was given, bit for bit. Layers whose blocks add the
hidden states themselves (Bloom), or that normalise the sum, do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..base import Block, Layers

ATTENTION = ("self_attn", "attn", "attention", "self_attention")
"""Names of a layer's attention block."""
MLP = ("mlp", "feed_forward", "ffn", "block_sparse_moe")
"""Names of its other block, dense or a mixture of experts."""

HOOKED = ("forward", "_old_forward", "_hf_hook")
"""Attributes that accelerate sets on a module spread over devices; they belong to the original, not to a copy."""

Run = tuple[int | Block, ...]
"""Validated layers and blocks of an early pass."""


def checked(layers: Layers, count: int) -> Run:
    """Validate the layers of an early pass, a proper part of the model's `count` layers, and return them in order."""
    if count < 2:
        raise UserError("This model has only one layer, so it cannot stop early. Use another method.")
    if isinstance(layers, int):
        if not 1 <= layers < count:
            raise UserError(f"This model has {count} layers, so it can stop after 1 to {count - 1} of them, not {layers}.")
        return tuple(range(layers))
    run = tuple(layers)
    numbers = [number(part) for part in run]
    whole = len(run) == count and not any(isinstance(part, Block) for part in run)
    if not run or numbers != sorted(set(numbers)) or numbers[0] < 0 or numbers[-1] >= count or whole:
        raise UserError(
            f"This model has layers 0 to {count - 1}. List some of them but not all, in ascending order, not {shown(run)}."
        )
    return run


def number(part: int | Block) -> int:
    """Return the index of a layer, or of the layer that a block is half of."""
    return part.layer if isinstance(part, Block) else part


def shown(run: Run) -> str:
    """Write as `0, 1, 2a`: layer 2's attention block only."""
    return ", ".join(map(str, run)) or "none"


def prefix(run: Run) -> int:
    """Count the whole layers from 0 on in `run` before its first gap: after a gap states differ from the full pass's."""
    return next((i for i, part in enumerate(run) if part != i), len(run))


class Silent:
    """Stand-in for a block that adds nothing."""

    __slots__ = ("_block", "_pair")

    def __init__(self, block: nn.Module, pair: bool) -> None:
        self._block = block
        self._pair = pair

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hidden: Tensor = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        nothing = torch.zeros_like(hidden)
        return (nothing, None) if self._pair else nothing


class Half:
    """A decoder layer of which one block runs; the layer itself is never changed."""

    __slots__ = ("_block", "_layer", "_run")

    def __init__(self, layer: nn.Module, block: Block) -> None:
        self._layer = layer
        self._block = block
        self._run: Callable[..., Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Run the layer without the other block.

        Raises:
            UserError: its blocks cannot be told apart.
        """
        inputs: tuple[Any, ...] = (hidden_states, *args)
        hook = getattr(self._layer, "_hf_hook", None)
        if hook is not None:  # it brings the inputs to the layer's device
            inputs, kwargs = hook.pre_forward(self._layer, *inputs, **kwargs)
        if self._run is None:
            self._run = self._proven(inputs, kwargs)
        return self._run(*inputs, **kwargs)

    def _proven(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Return the layer with one block, after a check that without both it passes its input on."""
        parts = self._layer._modules
        attention = [name for name in ATTENTION if parts.get(name) is not None]
        mlp = [name for name in MLP if parts.get(name) is not None]
        if len(attention) == len(mlp) == 1:
            for pair in (False, True):  # some mixtures of experts answer with a pair
                hollow = without(self._layer, {attention[0]: True, mlp[0]: pair})
                if hands_on(hollow, inputs, kwargs):
                    left_out = {mlp[0]: pair} if self._block.kind == "attention" else {attention[0]: True}
                    return without(self._layer, left_out)
        raise UserError(
            f"The layers of this model ({type(self._layer).__name__}) do not separate attention and MLP. Leave out whole "
            "layers only, such as 3 or 4-6."
        )


def without(layer: nn.Module, silent: dict[str, bool]) -> nn.Module:
    """Copy a layer, shallowly, with the named parts adding nothing; the flag says whether a part returns a pair."""
    copy = type(layer).__new__(type(layer))
    copy.__dict__.update(layer.__dict__)
    for name in HOOKED:
        copy.__dict__.pop(name, None)
    parts = copy.__dict__["_modules"] = dict(layer._modules)
    for name, pair in silent.items():
        block = parts.pop(name)
        assert block is not None
        # Beside the modules: torch takes nothing else among them.
        copy.__dict__[name] = Silent(block, pair)
    return copy


def hands_on(layer: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a layer's output is its input."""
    try:
        out = layer(*inputs, **kwargs)
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, RuntimeError, AssertionError) as error:
        # Layers fail in every way there is when a part answers as they do not expect; but a lack of memory is no answer.
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return False
    out = out[0] if isinstance(out, tuple) else out
    return isinstance(out, Tensor) and out.shape == inputs[0].shape and torch.equal(out, inputs[0])


def half(layer: Any, block: Block) -> Any:
    """Make the stand-in for a layer of which only `block` runs; the lean pass has its own."""
    return Half(layer, block) if isinstance(layer, nn.Module) else layer.half(block.kind)
