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
from .taps import Inner, Taps


@dataclass(slots=True)
class LayerList:
    """Where a model keeps its decoder layers."""

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
        """How many layers, from the first on, need not run again."""
        return prefix(self.ran)


def find_layers(module: nn.Module, count: int) -> LayerList | None:
    """The list of `count` decoder layers that lies nearest to the model's top; None if there is none."""
    names = [
        name for name, part in module.named_modules() if isinstance(part, nn.ModuleList) and len(part) == count and name.strip()
    ]
    if not names:
        return None
    return LayerList(tuple(min(names, key=lambda name: name.count(".")).split(".")), count)


@dataclass(slots=True)
class Carrier:
    """Hidden states on their way in and out of a pass [1, n, width]."""

    entering: Tensor | None = None
    left: Tensor | None = None


class StandIn:
    """Takes a decoder layer's place; whatever a model asks of the layer itself, it passes on."""

    __slots__ = ("_layer", "_where")

    def __init__(self, layer: nn.Module, where: LayerList) -> None:
        self._layer = layer
        self._where = where

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


class Skipped(StandIn):
    """A layer that a pass leaves out."""

    __slots__ = ()

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        return (hidden_states,) if self._where.tupled else hidden_states


class Boundary(StandIn):
    """A layer that a pass begins with, or behind which it keeps the hidden states, or both."""

    __slots__ = ("_carrier", "_enters", "_leaves")

    def __init__(self, layer: nn.Module, where: LayerList, carrier: Carrier, enters: bool, leaves: bool) -> None:
        super().__init__(layer, where)
        self._carrier, self._enters, self._leaves = carrier, enters, leaves

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._enters:
            entering = self._carrier.entering
            missing = -1 if entering is None else hidden_states.shape[1] - entering.shape[1]
            if entering is None or missing < 0:
                raise RuntimeError("the model's hidden states are not one row per node")
            if missing:  # of a pass that is filled up
                entering = torch.cat((entering, entering[:, -1:].expand(-1, missing, -1)), 1)
            hidden_states = entering.to(hidden_states.device)
        out = self._layer(hidden_states, *args, **kwargs)
        if self._leaves:
            self._where.tupled = isinstance(out, tuple)
            self._carrier.left = out[0] if isinstance(out, tuple) else out
        return out


class Portion:
    """A model reduced to some of its layers.

    Args:
        module: the model.
        where: its decoder layers.
        run: those to run, in order, or one block of them. What it enters and leaves are whole layers.
        enters: the first of them takes given hidden states instead of the embeddings.
        leaves: the layer behind which the hidden states are kept, if any.
        taps: what picks up hidden states on the way, if anything does.
    """

    def __init__(
        self, module: nn.Module, where: LayerList, run: Run, enters: bool, leaves: int | None, taps: Taps | None = None
    ) -> None:
        self.run = run
        self._carrier = Carrier()
        layers: Any = module
        for name in where.path:
            layers = getattr(layers, name)
        parts = {number(part): part for part in run}
        stand_ins: list[Any] = []
        for index, layer in enumerate(layers):
            first, last = enters and index == run[0], index == leaves
            part = parts.get(index)
            heard = layer if taps is None else taps.on(layer, index)
            if part is None:
                stand_ins.append(Skipped(layer, where))
            elif isinstance(part, Block):
                stand_ins.append(half(layer, part))
            elif first or last:
                stand_ins.append(Boundary(heard, where, self._carrier, first, last))
            else:
                stand_ins.append(heard)
        last_heard = None if taps is None else taps.last
        self.forward: Callable[..., Any] = _twin(module, where.path, stand_ins, last_heard).forward
        """The reduced model's own `forward`."""

    def enter(self, hidden: Tensor | None) -> None:
        """Set what the next pass goes on from [1, n, width]."""
        self._carrier.entering = hidden

    def leave(self, count: int) -> Tensor:
        """Take what the last pass kept of its nodes [1, count, width]."""
        left, self._carrier.left = self._carrier.left, None
        if left is None:
            raise RuntimeError("the model did not run its layers one after the other")
        return left[:, :count]


def _twin(module: nn.Module, path: Sequence[str], layers: list[Any], tell: Callable[[Tensor], None] | None) -> nn.Module:
    """A shallow copy of a model with `layers` in place of its list of layers; everything else is shared.

    Args:
        module: the model.
        path: from there to the list.
        layers: what takes the list's place.
        tell: told the states after the final norm [1, n, width], if not None.
    """
    twin = type(module).__new__(type(module))
    twin.__dict__.update(module.__dict__)
    for name in HOOKED:
        twin.__dict__.pop(name, None)
    parts = twin.__dict__["_modules"] = dict(module._modules)
    name, *rest = path
    if not rest:
        twin.__dict__["tell"] = tell  # for the lean pass, which owns its layers itself
    inner: Any = _twin(getattr(module, name), rest, layers, tell) if rest else layers
    if len(rest) == 1 and tell is not None:
        inner = Inner(inner, tell)
    if isinstance(inner, nn.Module):
        parts[name] = inner
    else:
        # Beside the modules: torch takes nothing else among them.
        parts.pop(name, None)
        twin.__dict__[name] = inner
    return twin


class EarlyLayers:
    """What a session needs to stop early and go on: the portions of its model, and the nodes that stopped.

    Args:
        module: the model.
        where: its decoder layers; None if early passes do not work on it.
        taps: what picks up hidden states on the way, if anything does.
    """

    def __init__(self, module: nn.Module, where: LayerList | None, taps: Taps | None = None) -> None:
        self._module = module
        self._where = where
        self._taps = taps
        self._portions: dict[tuple[Any, ...], Portion] = {}
        self.stopped: dict[int, Stopped] = {}
        """Node id → where it stopped."""

    def checked(self, layers: Layers) -> Run:
        """The layers and blocks of an early pass (see `checked`).

        Raises:
            UserError: they are no part of the model's, or early passes do not work on it.
        """
        if self._where is None:
            raise UserError("This model cannot stop after some of its layers. Use a method that runs all of them.")
        return checked(layers, self._where.count)

    def _portion(self, run: Run, enters: bool, leaves: int | None) -> Portion:
        """A twin of its own per portion and session: what it carries must not meet another session's."""
        assert self._where is not None
        key = (run, enters, leaves)
        found = self._portions.get(key)
        if found is None:
            found = self._portions[key] = Portion(self._module, self._where, run, enters, leaves, self._taps)
        return found

    def drafting(self, run: Run) -> Portion:
        """What an early pass runs; it keeps the hidden states as far as they can be used again."""
        depth = prefix(run)
        return self._portion(run, False, depth - 1 if depth else None)

    def keep(self, numbers: Sequence[int], run: Run, portion: Portion) -> None:
        """Note the nodes of an early pass that has gone well."""
        hidden = portion.leave(len(numbers))[0].unbind(0) if prefix(run) else [None] * len(numbers)
        for node, row in zip(numbers, hidden, strict=True):
            self.stopped[node] = Stopped(run, row)

    def only(self, kept: Container[int]) -> None:
        """Forget all nodes but these."""
        self.stopped = {number: node for number, node in self.stopped.items() if number in kept}

    def order(self, numbers: Iterable[int]) -> list[int]:
        """Nodes that stopped, deepest first: each stage below then takes the last of them."""
        return sorted(numbers, key=lambda number: (-self.stopped[number].depth, number))

    def stages(self, order: Sequence[int], fresh: bool) -> Iterator[Stage]:
        """What takes the nodes that stopped, and new ones, through the layers they have not been through.

        Layers that only some of the nodes need run over those alone: one stage per depth at which nodes stopped.

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
                if bound == (kept := self.stopped[number]).depth and (hidden := kept.hidden) is not None
            ]
            portion = self._portion(tuple(range(bound, until)), bound > 0, None if until == count else until - 1)
            joining = torch.stack(rows)[None] if rows else None
            yield Stage(portion, sum(depth <= bound for depth in depths), joining)


@dataclass(frozen=True, slots=True)
class Stage:
    """A pass over the nodes that need the same next layers."""

    portion: Portion
    stopped: int
    """How many of the nodes that stopped take part: the last ones, and all new nodes behind them."""
    joining: Tensor | None
    """Hidden states of those that take part from here on [1, n, width]."""

    def enter(self, carried: Tensor | None) -> None:
        """Put together what the stage begins with.

        Args:
            carried: what the stage before kept; its nodes stand behind those that join here.
        """
        both = [part for part in (self.joining, carried) if part is not None]
        self.portion.enter(torch.cat([part.to(both[0].device) for part in both], dim=1) if both else None)
