"""A session's passes of up to 64 nodes over buffers that never move, recorded as CUDA graphs, or simply done once more.

Of a pass over a 7B model on a fast GPU the memory takes 3 ms, while launching its kernels one by one from Python takes ten. A
graph launches them all at once. It remembers addresses, not values: what changes from step to step must lie in buffers that
stay where they are.

A pass of n nodes runs as one of 1, 2, 4 … 64: the nodes that fill it up write to a slot that nobody reads. All that a step
changes (token ids, positions, slots, who sees whom) crosses to the device in one copy; the masks are made there. Attention
goes over the whole cache, what is not in view hidden by the mask. The choices come back in one copy too, as many as anybody
has asked for so far.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..best import MOST_CHOICES, BestScores, read_best, write_best
from ..sessions.states import States
from ..transfer import accelerator
from .masks import MaskPlan, Reach
from .slot_cache import SlotCache, SlotNode
from .taps import Heard, heard_rows

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


MOST = 64
"""Nodes of the largest pass; larger ones are launched kernel by kernel, which they hide."""
TENTATIVE = 256
"""Slots behind the committed tokens that a node can tell apart."""
WORDS = TENTATIVE // 64
ALIGNED = 64
"""Slots of a cache come in multiples of this: attention kernels take masks in aligned rows only."""


class StaticPasses:
    """A session's graphs and their buffers. `listen` collects hidden states in a context, for `states` if the session
    has taps."""

    def __init__(
        self,
        forward: Callable[..., Any],
        plan: MaskPlan,
        dtype: torch.dtype,
        cache: SlotCache,
        graphs: Graphs,
        listen: Callable[[], AbstractContextManager[Heard]],
        states: States | None,
    ) -> None:
        self.graphs = graphs
        self._listen = listen
        self._states = states
        self._tapped: dict[int, Tensor] = {}
        """Hidden states of the last pass by tap [MOST, width]: replays write to the same memory."""
        self._forward = forward
        self._cache = cache
        self._plan = plan
        self._dtype = dtype
        self._capacity = 0
        self._choices = 1
        size = self._size(MOST)
        self._host = graphs.host(size)
        self._inputs = torch.zeros(size, dtype=torch.long, device=graphs.device)
        self._array = self._host.numpy()
        room = MOST * (MOST_CHOICES + 1)
        self._back = graphs.host(room)
        self._found = torch.zeros(room, dtype=torch.long, device=graphs.device)
        self._logits: Tensor | None = None  # [MOST, vocab]
        self._columns = torch.empty(0)

    @staticmethod
    def _size(bucket: int) -> int:
        return 1 + bucket * (3 + WORDS) + TENTATIVE

    @staticmethod
    def take(count: int, tentative: int) -> bool:
        """Whether a pass of `count` nodes, the last in slot `tentative` behind the committed tokens, fits the buffers."""
        return count <= MOST and tentative <= TENTATIVE

    def request(self, choices: int) -> None:
        """Fetch this many choices of each node from the next pass on."""
        self._choices = max(self._choices, min(choices, MOST_CHOICES))

    def run(
        self,
        new: Sequence[SlotNode],
        living: Iterable[SlotNode],
        length: int,
        used: int,
        picks: Sequence[int] | None,
        nodes: tuple[int, ...],
    ) -> BestScores:
        """Run one pass over the nodes `new`, in the last slots, among `living` ones.

        Args:
            length: committed tokens.
            used: slots that hold something, the new nodes' not counted.
            picks: indices of the nodes whose scores are wanted; None for all.
            nodes: their ids.
        """
        cache, graphs = self._cache, self.graphs
        cache.reserve(max(new[-1].slot + 2, graphs.least_slots), used)  # the last slot takes what nobody reads
        if cache.capacity != self._capacity:
            graphs.forget("pass")
            self._capacity = cache.capacity
            self._columns = torch.arange(cache.capacity, device=graphs.device)
        bucket = 1 << (len(new) - 1).bit_length()
        self._write(new, living, length, bucket)
        size = self._size(bucket)
        self._inputs[:size].copy_(self._host[:size], non_blocking=True)
        graphs.run(("pass", bucket, self._capacity), lambda: self._pass(bucket))
        assert self._logits is not None
        if self._states is not None:
            for tap, rows in self._tapped.items():
                self._states.write(tap, new[0].slot, rows[: len(new)])
        vocabulary = self._logits.shape[1]
        choices = min(self._choices, vocabulary)
        graphs.run(("choices", bucket, choices), lambda: self._choose(bucket, choices))
        room = bucket * (choices + 1)
        self._back[:room].copy_(self._found[:room], non_blocking=True)
        graphs.wait()
        best = read_best(self._back[:room].view(bucket, choices + 1)[: len(new)], vocabulary)
        chosen = range(len(new)) if picks is None else picks
        return BestScores(self.request, best, self._logits, list(chosen), nodes, tuple([new[i].position + 1 for i in chosen]))

    def _write(self, new: Sequence[SlotNode], living: Iterable[SlotNode], length: int, bucket: int) -> None:
        n, array = len(new), self._array
        array[: self._size(bucket)] = 0
        array[0] = length
        ids, positions, slots = (array[1 + i * bucket : 1 + (i + 1) * bucket] for i in range(3))
        ids[:n] = [node.token for node in new]
        positions[:n] = [node.position for node in new]
        slots[:n] = [node.slot for node in new]
        slots[n:] = self._capacity - 1
        begin = 1 + 3 * bucket
        where = array[begin : begin + TENTATIVE]
        for group in (living, new):
            for node in group:
                where[node.slot - length] = node.position
        words = array[begin + TENTATIVE : begin + TENTATIVE + n * WORDS]
        words[:] = np.frombuffer(b"".join([node.bits.to_bytes(8 * WORDS, "little") for node in new]), dtype=np.int64)

    def _pass(self, bucket: int) -> None:
        """Run the model over the static buffers: this is recorded."""
        data, cache = self._inputs, self._cache
        ids, positions, slots = (data[1 + i * bucket : 1 + (i + 1) * bucket] for i in range(3))
        cache.look_from([0] * len(cache.slots))
        cache.places = slots
        try:
            with self._listen() as heard:
                out = self._forward(
                    input_ids=ids[None],
                    past_key_values=cache,
                    attention_mask=self._masks(bucket, positions),
                    position_ids=positions[None],
                    use_cache=True,
                )
        finally:
            cache.places = None
        for tap, rows in heard_rows(heard, bucket).items():
            if tap not in self._tapped:
                self._tapped[tap] = rows.new_empty((MOST, rows.shape[1]))
            self._tapped[tap][:bucket].copy_(rows)
        logits = out.logits[0]
        if self._logits is None:
            self._logits = torch.empty((MOST, logits.shape[1]), dtype=logits.dtype, device=logits.device)
        self._logits[:bucket].copy_(logits)

    def _masks(self, bucket: int, positions: Tensor) -> Any:
        """Make additive masks over the whole cache, as `forward` takes them."""
        data, plan = self._inputs, self._plan
        begin = 1 + 3 * bucket
        where = data[begin : begin + TENTATIVE]
        words = data[begin + TENTATIVE : self._size(bucket)].view(bucket, WORDS)
        behind = self._columns - data[:1]  # [slots], from the committed tail on
        committed, near = behind < 0, behind.clamp(0, TENTATIVE - 1)
        bits = (words.index_select(1, near >> 6) >> (near & 63)) & 1
        visible = bits.bool().logical_and_(behind < TENTATIVE).logical_or_(committed)
        masks: dict[Reach, Tensor] = {}
        for reach in plan.reaches.values():
            if reach not in masks:
                masks[reach] = self._mask(visible, reach, positions, torch.where(committed, self._columns, where[near]))
        if plan.style == "mapping":
            return {kind: masks[reach] for kind, reach in plan.reaches.items()}
        return next(iter(masks.values()))

    def _mask(self, visible: Tensor, reach: Reach, positions: Tensor, held: Tensor) -> Tensor:
        """Make the mask of one kind of layer [1, 1, group × bucket, slots] from what is visible ignoring `reach`
        [bucket, slots], the positions of the nodes [bucket] and those held in the slots [slots]."""
        if reach.window is not None:
            visible = visible & (held > (positions - reach.window)[:, None])
        elif reach.chunk is not None:
            visible = visible & (held >= (positions - positions % reach.chunk)[:, None])
        low = torch.finfo(self._dtype).min
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=visible.device).masked_fill_(~visible, low)
        return mask.repeat(self._plan.group, 1)[None, None]

    def _choose(self, bucket: int, choices: int) -> None:
        assert self._logits is not None
        write_best(self._found[: bucket * (choices + 1)].view(bucket, choices + 1), self._logits[:bucket])
