"""Graphs that replay what torch was told, as CUDA graphs do: the Python around it runs once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from specchat.backends.hf.graphs.graphs import Graphs

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")
"""Operations that a capture refuses: the host would wait for the device."""


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of some work, with their tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert not any(name in str(function) for name in WAITING), f"{function} waits for the device"
        out = function(*args, **(kwargs or {}))
        self.operations.append((function, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        """Do it again, on the tensors it came to from outside."""
        fresh: dict[int, Any] = {}

        def now(value: Any) -> Any:
            return fresh.get(id(value), value) if isinstance(value, Tensor) else value

        for function, args, kwargs, out in self.operations:
            again = function(*tree_map(now, args), **tree_map(now, kwargs))
            for old, new in zip(tree_flatten(out)[0], tree_flatten(again)[0], strict=True):
                if isinstance(old, Tensor):
                    fresh[id(old)] = new


class Taped(Graphs):
    """What CUDA graphs are, on the CPU."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        work()  # as a warm-up
        tape = Tape()
        with tape:
            work()
        return tape.replay
