"""Passes through some of a transformers model's layers: drafting with the first ones, and going on from there later.

A pass runs the model's own `forward` on a *twin* of the model: shallow copies of the modules on the way down to the list of
decoder layers, with stand-ins in that list. The weights are shared and the model itself is never changed, so other sessions and
threads see nothing of it. Every stand-in keeps its layer's place in the list, for models look up masks and rotations by index.
A pass that goes on at layer b feeds the token ids as usual and swaps the hidden states in front of layer b: whatever a model
does before its first layer (scaled embeddings, learned positions) needs no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..base import Block, Layers
from .blocks import HOOKED, Run, checked, half, number, prefix, shown


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
