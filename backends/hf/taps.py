"""Reads hidden states out of a transformers model's passes, at the layers that a session taps.

Like early exit (`early_layers.py`) it works on a twin of the model, so other sessions see nothing of it: a stand-in notes what
its layer is given, and one around the module that owns the layers notes the last state after the final norm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..sessions.states import States


class Tap:
    """A decoder layer that notes the hidden states it is given."""

    __slots__ = ("_heard", "_index", "_layer")

    def __init__(self, layer: Any, index: int, heard: dict[int, Tensor]) -> None:
        self._layer, self._index, self._heard = layer, index, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        self._heard[self._index] = hidden_states
        return self._layer(hidden_states, *args, **kwargs)


class Inner:
    """The module that runs the decoder layers and the final norm; it tells the last state."""

    __slots__ = ("_module", "_tell")

    def __init__(self, module: nn.Module, tell: Callable[[Tensor], None]) -> None:
        self._module, self._tell = module, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = self._module(*args, **kwargs)
        self._tell(out[0])
        return out


class Taps:
    """What the passes of one session pick up on their way.

    Args:
        states: where it goes.
        layers: how many the model has.
    """

    def __init__(self, states: States, layers: int) -> None:
        self.states = states
        self._layers = layers
        self._heard: dict[int, Tensor] = {}

    def on(self, layer: Any, index: int) -> Any:
        """A layer, or what stands in for it to be heard."""
        return Tap(layer, index, self._heard) if index in self.states.taps else layer

    @property
    def last(self) -> Callable[[Tensor], None] | None:
        """Whom to tell the last states [1, n, width]; None if nobody asks for them."""
        return self._hear_last if self._layers in self.states.taps else None

    def _hear_last(self, hidden: Tensor) -> None:
        self._heard[self._layers] = hidden

    def run(self, forward: Callable[..., Any], inputs: Mapping[str, Any], start: int, count: int) -> Any:
        """A pass; what it brought to the taps it reached is kept. One that leaves layers out keeps what it had there: the pass
        that completes its nodes replaces it.

        Args:
            forward: of a tapped twin.
            inputs: its arguments.
            start: slot of the first node.
            count: how many nodes; behind them a pass may be filled up.
        """
        self._heard.clear()
        out = forward(**inputs)
        for tap, hidden in self.rows(count).items():
            self.states.write(tap, start, hidden)
        return out

    def rows(self, count: int) -> dict[int, Tensor]:
        """Hand out the states of the first `count` nodes of the pass that has just run, by tap [count, width]."""
        heard = dict(self._heard)
        self._heard.clear()
        if any(hidden.ndim != 3 or hidden.shape[1] < count for hidden in heard.values()):
            raise RuntimeError("the model's hidden states are not one row per node")
        return {tap: hidden[0, :count] for tap, hidden in heard.items()}
