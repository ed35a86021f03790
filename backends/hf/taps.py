"""Hidden states of a transformers model's passes at the layers that a session taps.

torch's own hooks collect them, or the lean pass itself; transformers' `output_hidden_states` would leave hooks in the model
for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from .early_layers import LayerList
from .lean.lean import LeanModel

Heard = dict[int, Tensor | None]
"""Hidden states by tap [1, n or more, width]; None where a pass did not reach it."""


@contextmanager
def overheard(network: Any, where: LayerList | None, taps: Collection[int] | None = None) -> Iterator[Heard]:
    """Collect the hidden states of a pass in this context.

    Args:
        network: the model, or its lean pass.
        where: its layers; None collects nothing.
        taps: the states to collect; None for all.
    """
    heard: Heard = {}
    if where is not None:
        heard = dict.fromkeys(range(where.count + 1) if taps is None else taps)
    if where is None or not heard:
        yield heard
        return
    if isinstance(network, LeanModel):
        network.ears.append(heard)
        try:
            yield heard
        finally:
            network.ears.pop()
        return
    inner = network
    for name in where.path[:-1]:
        inner = getattr(inner, name)

    def entering(tap: int, _layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        heard[tap] = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

    def leaving(_module: Any, _args: Any, out: Any) -> None:
        heard[where.count] = out[0]

    hooks = [
        layer.register_forward_pre_hook(partial(entering, tap), with_kwargs=True)
        for tap, layer in enumerate(getattr(inner, where.path[-1]))
        if tap in heard
    ]
    if where.count in heard:
        hooks.append(inner.register_forward_hook(leaving))
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def heard_rows(heard: Heard, count: int) -> dict[int, Tensor]:
    """Select the states of a pass's first `count` nodes by tap [count, width]."""
    states = {tap: hidden for tap, hidden in heard.items() if hidden is not None}
    if any(hidden.ndim != 3 or hidden.shape[1] < count for hidden in states.values()):
        raise RuntimeError("the model's hidden states are not one row per node")
    return {tap: hidden[0, :count] for tap, hidden in states.items()}
