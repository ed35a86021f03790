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
    """What has been recorded on one session's buffers.

    Args:
        device: where the buffers are.
    """

    least_slots = 0
    """Slots of a new cache: a cache that grows makes every recording worthless."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._replays: dict[Key, Callable[[], None]] = {}
        self.recorded: Counter[Key] = Counter()
        """How often each thing has been recorded."""

    def run(self, key: Key, work: Callable[[], None]) -> None:
        """Do `work`: the first time under this key it is recorded, later the recording runs.

        Args:
            key: tells one recording from another.
            work: reads and writes buffers that stay where they are, and waits for nothing. It may run several times on the
                same input.
        """
        replay = self._replays.get(key)
        if replay is None:
            replay = self._replays[key] = self.record(work)
            self.recorded[key] += 1
        replay()

    @abstractmethod
    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """What does `work` from now on."""

    def forget(self, kind: str) -> None:
        """Buffers of this kind of work have moved: record it anew."""
        self._replays = {key: replay for key, replay in self._replays.items() if key[0] != kind}

    def host(self, size: int) -> Tensor:
        """A buffer of integers [size] on the host, to copy to the device and back."""
        return torch.zeros(size, dtype=torch.long)

    def wait(self) -> None:  # noqa: B027
        """Until everything asked for is done."""


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
        here = gpu.current_stream(self.device)
        beside = gpu.Stream(self.device)
        beside.wait_stream(here)
        with gpu.stream(beside):
            work()
        here.wait_stream(beside)
        graph = gpu.CUDAGraph()
        # By default a draft model that takes memory on another GPU meanwhile, in a thread of its own, would spoil the capture.
        with gpu.device(self.device), gpu.graph(graph, self._pool, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], None] = graph.replay
        return replay

    def host(self, size: int) -> Tensor:
        """Pinned, so that copies need no stop on their way."""
        return super().host(size).pin_memory()

    def wait(self) -> None:
        """The one wait of a step."""
        self._gpu.current_stream(self.device).synchronize()


def chosen_graphs(device: torch.device) -> type[Graphs] | None:
    """What sessions on this device record passes with, if anything."""
    match os.environ.get(CHOICE, ""):
        case "off":
            return None
        case "rerun":
            return Rerun
    return CudaGraphs if hasattr(accelerator(device), "CUDAGraph") else None
