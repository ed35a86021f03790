"""Something done to buffers that never move, again and again: as a CUDA graph, or simply once more.

Of a pass over a 7B model on a fast GPU the memory takes 3 ms, while launching its kernels one by one from Python takes ten.
A graph launches them all at once. It remembers addresses, not values: what changes from step to step must lie in buffers that
stay where they are.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...transfer import accelerator

CHOICE = "SPECCHAT_GRAPHS"
"""Environment variable: `off` launches kernels one by one; `rerun` has all but the driver's part of it on any device, as tests
do."""


Key = tuple[str, int, int]
"""Kind of work, nodes, and what else its recording depends on."""


class Graphs(ABC):
    """Recordings of work on one session's buffers."""

    least_slots = 0
    """Slots of a new cache: a cache that grows makes every recording worthless."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._replays: dict[Key, Callable[[], None]] = {}
        self.recorded: Counter[Key] = Counter()
        """Number of recordings by key."""

    def run(self, key: Key, work: Callable[[], None]) -> None:
        """Do `work`: the first time under this key it is recorded, later the recording runs. It waits for nothing, touches only
        buffers that stay where they are, and may run several times on the same input."""
        replay = self._replays.get(key)
        if replay is None:
            replay = self._replays[key] = self.record(work)
            self.recorded[key] += 1
        replay()

    @abstractmethod
    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record `work` and return its replay."""

    def forget(self, kind: str) -> None:
        """Drop recordings of this kind of work: its buffers have moved."""
        self._replays = {key: replay for key, replay in self._replays.items() if key[0] != kind}

    def host(self, size: int) -> Tensor:
        """Allocate a buffer of integers [size] on the host, to copy to the device and back."""
        return torch.zeros(size, dtype=torch.long)

    def wait(self) -> None:  # noqa: B027
        """Wait until all work on the device is done."""


class Rerun(Graphs):
    """The same work on the same buffers, without any driver."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        return work


class CudaGraphs(Graphs):
    """CUDA graphs that share one pool of memory: only one of them runs at a time."""

    least_slots = 1024

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._gpu: Any = accelerator(device)
        self._pool = self._gpu.graph_pool_handle()

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """Warm up beside the stream in use, as CUDA asks for (kernels are chosen, workspaces made), then capture."""
        gpu = self._gpu
        stream = gpu.current_stream(self.device)
        side = gpu.Stream(self.device)
        side.wait_stream(stream)
        with gpu.stream(side):
            work()
        stream.wait_stream(side)
        graph = gpu.CUDAGraph()
        # By default a draft model that takes memory on another GPU meanwhile, in a thread of its own, would spoil the capture.
        with gpu.device(self.device), gpu.graph(graph, self._pool, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], None] = graph.replay
        return replay

    def host(self, size: int) -> Tensor:
        """Allocate pinned memory, so that copies do not block."""
        return super().host(size).pin_memory()

    def wait(self) -> None:
        """Wait: once a step."""
        self._gpu.current_stream(self.device).synchronize()


def chosen_graphs(device: torch.device) -> type[Graphs] | None:
    """Choose the recorder of passes for sessions on a device, if there is one."""
    match os.environ.get(CHOICE, ""):
        case "off":
            return None
        case "rerun":
            return Rerun
    return CudaGraphs if hasattr(accelerator(device), "CUDAGraph") else None
