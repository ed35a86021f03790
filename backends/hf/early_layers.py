"""Passes through some of a transformers model's layers: drafting with the first ones, and going on from there later.

A pass runs the model's own `forward` on a *twin* of the model: shallow copies of the modules on the way down to the list of
decoder layers, with stand-ins in that list. The weights are shared and the model itself is never changed, so other sessions
and threads see nothing of it. Every stand-in keeps its layer's place in the list, for models look up masks and rotations by
index. A pass that goes on at layer b feeds the token ids as usual and swaps the hidden states in front of layer b: whatever a
model does before its first layer (scaled embeddings, learned positions) needs no special case.

Half a layer can run, too: Zhang et al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative
Decoding" (2023), arXiv:2309.08168, leave out either the attention block or the MLP. A layer then runs its own `forward` on a
shallow copy in which the other block adds nothing. That is right only where a block's result is *added* to the hidden states
(one after the other, or side by side as in GPT-NeoX), so a layer has to show it first: without both blocks it must hand on
what it was given, bit for bit. Layers whose blocks add the hidden states themselves (Bloom), or that normalise the sum, do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
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


@dataclass(slots=True)
class LayerList:
    """Location of a model's decoder layers."""

    path: tuple[str, ...]
    """Attribute names from the model down to the list."""
    count: int
    tupled: bool = False
    """Whether a layer returns a tuple; known from the first pass of the proof."""


def find_layers(module: nn.Module, count: int) -> LayerList | None:
    """Find the list of `count` decoder layers that is nearest to the model's top; None if there is none."""
    names = [
        name for name, part in module.named_modules() if isinstance(part, nn.ModuleList) and len(part) == count and name.strip()
    ]
    if not names:
        return None
    return LayerList(tuple(min(names, key=lambda name: name.count(".")).split(".")), count)


class StandIn:
    """Stand-in for a decoder layer, with the layer's attributes: the layer is left out, or at an end of a portion."""

    __slots__ = ("_enters", "_layer", "_leaves", "_portion", "_runs")

    def __init__(self, layer: nn.Module, portion: Portion, *, runs: bool, enters: bool = False, leaves: bool = False) -> None:
        self._layer = layer
        self._portion = portion
        self._runs = runs
        self._enters = enters
        self._leaves = leaves

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        portion = self._portion
        if not self._runs:
            return (hidden_states,) if portion.where.tupled else hidden_states
        if self._enters:
            entering = portion.entering
            missing = -1 if entering is None else hidden_states.shape[1] - entering.shape[1]
            if entering is None or missing < 0:
                raise RuntimeError("the model's hidden states are not one row per node")
            if missing:  # of a pass that is filled up
                entering = torch.cat((entering, entering[:, -1:].expand(-1, missing, -1)), 1)
            hidden_states = entering.to(hidden_states.device)
        out = self._layer(hidden_states, *args, **kwargs)
        if self._leaves:
            portion.where.tupled = isinstance(out, tuple)
            portion.left = out[0] if isinstance(out, tuple) else out
        return out


class Portion:
    """A model reduced to some of its layers.

    Args:
        module: the model.
        where: its decoder layers.
        run: layers to run, in order, or one block of them. The first and the last are whole layers.
        enters: the first of them takes given hidden states instead of the embeddings.
        leaves: the layer behind which the hidden states are kept, if any.
    """

    def __init__(self, module: nn.Module, where: LayerList, run: Run, enters: bool, leaves: int | None) -> None:
        self.run = run
        self.where = where
        self.entering: Tensor | None = None
        """Hidden states that the next pass continues from [1, n, width]."""
        self.left: Tensor | None = None
        """Hidden states that the last pass kept [1, n or more, width]."""
        layers: Any = module
        for name in where.path:
            layers = getattr(layers, name)
        parts = {number(part): part for part in run}
        stand_ins: list[Any] = []
        for index, layer in enumerate(layers):
            first, last = enters and index == run[0], index == leaves
            part = parts.get(index)
            if isinstance(part, Block):
                stand_ins.append(half(layer, part))
            elif part is None or first or last:
                stand_ins.append(StandIn(layer, self, runs=part is not None, enters=first, leaves=last))
            else:
                stand_ins.append(layer)
        self.forward: Callable[..., Any] = _twin(module, where.path, stand_ins).forward
        """The reduced model's own `forward`."""

    def leave(self, count: int) -> Tensor:
        """Take the states that the last pass kept of its nodes [1, count, width]."""
        left, self.left = self.left, None
        if left is None:
            raise RuntimeError("the model did not run its layers one after the other")
        return left[:, :count]


def _twin(module: nn.Module, path: Sequence[str], layers: list[Any]) -> nn.Module:
    """Copy a model, shallowly, with `layers` in place of the list at the end of `path`; everything else is shared."""
    twin = type(module).__new__(type(module))
    twin.__dict__.update(module.__dict__)
    for name in HOOKED:
        twin.__dict__.pop(name, None)
    parts = twin.__dict__["_modules"] = dict(module._modules)
    name, *rest = path
    inner: Any = _twin(getattr(module, name), rest, layers) if rest else layers
    if isinstance(inner, nn.Module):
        parts[name] = inner
    else:
        # Beside the modules: torch takes nothing else among them.
        parts.pop(name, None)
        twin.__dict__[name] = inner
    return twin


class EarlyLayers:
    """Early passes of a session: the portions of its model, and the nodes that stopped, all behind the same layers. `where` is
    None if such passes do not work."""

    def __init__(self, module: nn.Module, where: LayerList | None) -> None:
        self._module = module
        self._where = where
        self._portions: dict[tuple[Run, bool, int], Portion] = {}
        self._run: Run = ()
        """The layers and blocks that the stopped nodes have been through."""
        self.stopped: dict[int, Tensor | None] = {}
        """Node id → its hidden state [width] after the first whole layers; None if the pass left out layer 0."""

    def checked(self, layers: Layers) -> Run:
        """Validate the layers and blocks of an early pass (see `checked`)."""
        if self._where is None:
            raise UserError("This model cannot stop after some of its layers. Use a method that runs all of them.")
        run = checked(layers, self._where.count)
        if self.stopped and run != self._run:
            raise ValueError(
                f"nodes have stopped behind layers {shown(self._run)}: complete them before others do at {shown(run)}"
            )
        return run

    def _portion(self, run: Run, enters: bool, depth: int) -> Portion:
        """Return a portion that keeps the hidden states behind `depth` layers, if any. It is made for this session alone: its
        states must not mix with another session's."""
        assert self._where is not None
        key = (run, enters, depth)
        if key not in self._portions:
            self._portions[key] = Portion(self._module, self._where, run, enters, depth - 1 if depth else None)
        return self._portions[key]

    def drafting(self, run: Run) -> Portion:
        """Return the portion for an early pass; it keeps the hidden states as far as they can be reused."""
        return self._portion(run, False, prefix(run))

    def keep(self, numbers: Sequence[int], run: Run, portion: Portion) -> None:
        """Note the nodes of an early pass that has gone well."""
        self._run = run
        hidden = portion.leave(len(numbers))[0].unbind(0) if prefix(run) else [None] * len(numbers)
        self.stopped.update(zip(numbers, hidden, strict=True))

    def only(self, numbers: Container[int]) -> None:
        """Forget all nodes but these."""
        self.stopped = {number: hidden for number, hidden in self.stopped.items() if number in numbers}

    def complete(self, order: Sequence[int], fresh: int, run_pass: Callable[[int, Callable[..., Any]], Tensor]) -> Tensor:
        """Take stopped nodes through their missing layers, with `fresh` new ones behind them that need all layers; return the
        last pass's result. Layers that only the new nodes need run over those alone.

        Args:
            order: the stopped nodes.
            fresh: number of new ones.
            run_pass: runs a `forward` over this many of the last nodes.
        """
        assert self._where is not None
        count, depth = self._where.count, prefix(self._run)
        joining = [self.stopped[number] for number in order] if depth else []
        carried: list[Tensor] = []
        if fresh and depth:
            portion = self._portion(tuple(range(depth)), False, depth)
            run_pass(fresh, portion.forward)
            carried = [portion.leave(fresh)]
        portion = self._portion(tuple(range(depth, count)), depth > 0, 0)
        states = torch.stack([state for state in joining if state is not None])[None] if depth else None
        if states is not None:
            portion.entering = torch.cat([states, *(part.to(states.device) for part in carried)], dim=1)
        return run_pass(len(order) + fresh, portion.forward)
