"""Passes through some of a transformers model's layers: drafting with the first ones, and going on from there later.

A pass runs the model's own `forward` on a *twin* of the model: shallow copies of the modules on the way down to the list of
decoder layers, with stand-ins in that list. The weights are shared and the model itself is never changed, so other sessions and
threads see nothing of it. Every stand-in keeps its layer's place in the list, for models look up masks and rotations by index.
A pass that goes on at layer b feeds the token ids as usual and swaps the hidden states in front of layer b: whatever a model
does before its first layer (scaled embeddings, learned positions) needs no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from ..base import Block, Layers
from .blocks import HOOKED, Run, checked, half, number, prefix


@dataclass(slots=True)
class LayerList:
    """Location of a model's decoder layers."""

    path: tuple[str, ...]
    """Attribute names from the model down to the list."""
    count: int
    tupled: bool = False
    """Whether a layer returns a tuple; known from the first pass of the proof."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """A node that has not been through every layer yet."""

    ran: Run
    """The layers and blocks that drafted it."""
    hidden: Tensor | None
    """Its hidden state [width] after the first `depth` layers; None if the pass left out layer 0."""

    @property
    def depth(self) -> int:
        """Number of first layers that need not run again."""
        return prefix(self.ran)


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
    """Early passes of a session: the portions of its model, and the nodes that stopped. `where` is None if such passes
    do not work."""

    def __init__(self, module: nn.Module, where: LayerList | None) -> None:
        self._module = module
        self._where = where
        self._portions: dict[tuple[Any, ...], Portion] = {}
        self.stopped: dict[int, Stopped] = {}
        """Node id → where it stopped."""

    def checked(self, layers: Layers) -> Run:
        """Validate the layers and blocks of an early pass (see `checked`)."""
        if self._where is None:
            raise UserError("This model cannot stop after some of its layers. Use a method that runs all of them.")
        return checked(layers, self._where.count)

    def _portion(self, run: Run, enters: bool, leaves: int | None) -> Portion:
        """Return a portion, made for this session alone: its states must not mix with another session's."""
        assert self._where is not None
        key = (run, enters, leaves)
        portion = self._portions.get(key)
        if portion is None:
            portion = self._portions[key] = Portion(self._module, self._where, run, enters, leaves)
        return portion

    def drafting(self, run: Run) -> Portion:
        """Return the portion for an early pass; it keeps the hidden states as far as they can be reused."""
        depth = prefix(run)
        return self._portion(run, False, depth - 1 if depth else None)

    def keep(self, numbers: Sequence[int], run: Run, portion: Portion) -> None:
        """Note the nodes of an early pass that has gone well."""
        hidden = portion.leave(len(numbers))[0].unbind(0) if prefix(run) else [None] * len(numbers)
        for node, row in zip(numbers, hidden, strict=True):
            self.stopped[node] = Stopped(run, row)

    def only(self, numbers: Container[int]) -> None:
        """Forget all nodes but these."""
        self.stopped = {number: node for number, node in self.stopped.items() if number in numbers}

    def order(self, numbers: Iterable[int]) -> list[int]:
        """Sort stopped nodes, deepest first: each lower stage then takes the last of them."""
        return sorted(numbers, key=lambda number: (-self.stopped[number].depth, number))

    def stages(self, order: Sequence[int], fresh: bool) -> Iterator[PassStage]:
        """Yield the stages that take stopped and new nodes through their missing layers: one for each depth at which
        nodes stopped, as layers that only some of the nodes need run over those alone.

        Args:
            order: see `order`.
            fresh: whether there are new nodes behind them, which need all layers.
        """
        assert self._where is not None
        count = self._where.count
        depths = [self.stopped[number].depth for number in order]
        bounds = sorted({*depths, *([0] if fresh else [])})
        for bound, until in zip(bounds, [*bounds[1:], count], strict=True):
            rows = [
                hidden
                for number in order
                if bound == (node := self.stopped[number]).depth and (hidden := node.hidden) is not None
            ]
            portion = self._portion(tuple(range(bound, until)), bound > 0, None if until == count else until - 1)
            joining = torch.stack(rows)[None] if rows else None
            yield PassStage(portion, sum(depth <= bound for depth in depths), joining)


@dataclass(frozen=True, slots=True)
class PassStage:
    """A pass over the nodes that need the same next layers."""

    portion: Portion
    stopped: int
    """Number of stopped nodes that take part: the last ones, with all new nodes behind them."""
    joining: Tensor | None
    """Hidden states of those that take part from here on [1, n, width]."""

    def enter(self, carried: Tensor | None) -> None:
        """Put together the states that the stage begins with: those that join here, then those that the stage before
        `carried` over."""
        both = [part for part in (self.joining, carried) if part is not None]
        self.portion.entering = torch.cat([part.to(both[0].device) for part in both], dim=1) if both else None
