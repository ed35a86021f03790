"""A session on a transformers model: the tree's nodes in the slots of a preallocated KV cache."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from ...errors import ContextFull, UserError
from ..base import ROOT, Layers, Session
from ..costs.flops import NOTHING, Flops
from ..rounding import straightest
from ..scores import TorchScores
from ..states import States
from .attention import PAD_KEYS, PAD_ROWS, in_view, padded, parts_of
from .blocks import Run, covers, shown
from .devices import Threads
from .early_layers import EarlyLayers, LayerList, Portion
from .graphs.graphs import Graphs
from .graphs.passes import ALIGNED, StaticPasses
from .masks import MaskPlan, tree_mask
from .rope import Rope
from .slot_cache import KVSpec, SlotCache
from .taps import Taps

T = TypeVar("T")

logger = logging.getLogger("specchat.proof")

VIEW = 512
"""What a sliding window sees of a padded pass begins at a multiple of this: torch's attention takes keys in blocks of 512, and
the bits of a sum depend on where its blocks begin."""


@dataclass(frozen=True, slots=True)
class Runner:
    """What a session needs to know of a loaded model."""

    module: torch.nn.Module
    plan: MaskPlan
    specs: tuple[KVSpec | None, ...]
    dtype: torch.dtype
    device: torch.device
    """Where the model takes its token ids."""
    takes_positions: bool
    takes_rows: bool
    """Whether `forward` has `logits_to_keep`; without it the LM head runs over every node."""
    layers: LayerList | None = None
    """Where the decoder layers of `network` are; None if early passes do not work on it."""
    tapped: LayerList | None = None
    """The same; None if hidden states cannot be read there."""
    lean: torch.nn.Module | None = None
    """A quicker pass over the same weights, if there is one (see lean/lean.py)."""
    hybrid: bool = False
    """Whether it has linear attention beside full, so that its sessions are transformers' own caches (see plain.py)."""
    padded: bool = False
    """Whether attention is padded so that a node's logits do not depend on what else is in its pass (see
    `attention.padded`)."""
    exact: bool = False
    """Whether they then are the same bits, as the proof found."""
    graphs: type[Graphs] | None = None
    """What passes of few nodes are recorded with, if with anything."""
    threads: Threads | None = None
    """Sets the number of CPU threads by what passes take, if there is a choice."""
    flops: Flops = NOTHING
    """What its passes compute."""
    rope: Rope | None = None
    """Its rotary positions, if they depend on the length of the text."""
    shift: int = 0
    """Added to all positions that the model is told: the proof reads a short text as the end of a long one."""

    @property
    def network(self) -> torch.nn.Module:
        """What runs the passes."""
        return self.module if self.lean is None else self.lean

    @property
    def fewest(self) -> int:
        """Fewest nodes of a pass: matrix products in float32 give a row the same bits from four rows on."""
        return PAD_ROWS if self.padded and self.dtype == torch.float32 else 1


@dataclass(slots=True)
class Node:
    """A tentative token in the cache."""

    token: int
    parent: int
    position: int
    slot: int
    bits: int
    """Its ancestors and itself, bit i for slot length + i."""
    straight: bool
    """Whether it was evaluated with every ancestor in the slot of its own position, as plain decoding has them."""


def _filled(new: list[Node], picks: list[int] | None, fewest: int) -> tuple[list[Node], list[int] | None]:
    """A pass of at least `fewest` nodes and rows: the last node runs again in the slots behind, where nobody looks."""
    last = new[-1]
    own = 1 << (last.bits.bit_length() - 1)
    more = range(1, fewest - len(new) + 1)
    new = [*new, *(replace(last, slot=last.slot + i, bits=last.bits ^ own | own << i) for i in more)]
    if picks:
        picks = [*picks, *(picks[-1:] * (fewest - len(picks)))]
    return new, picks


def out_of_memory(error: BaseException) -> bool:
    """Whether torch could not get memory, on whatever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("not enough memory" in text or "out of memory" in text)


class TransformersSession(Session):
    """One conversation's KV cache on a transformers model.

    Committed token i is in slot i, so slots and positions agree; nodes take the slots behind. Between calls no slot behind
    `_end` means anything, which is why a pass that fails, or a rewind, needs no undoing.
    """

    def __init__(self, runner: Runner, context: int, taps: Sequence[int] = ()) -> None:
        self._run = runner
        self._forward: Callable[..., Any] = runner.network.forward
        self._plan = runner.plan
        self.rope = runner.rope.rule if runner.rope is not None else None
        self._context = context
        self._tokens: list[int] = []
        self._nodes: dict[int, Node] = {}
        self._next = 0
        self._end = 0
        self._taps: Taps | None = None
        if taps:
            module: Any = runner.module
            where, width = runner.tapped, module.config.get_text_config(decoder=True).hidden_size
            assert where is not None
            self._states = States(taps, width, context, runner.dtype, runner.device)
            self._taps = Taps(self._states, where.count)
            whole = Portion(runner.network, where, tuple(range(where.count)), False, None, self._taps)
            self._forward = whole.forward
        self._early = EarlyLayers(runner.network, runner.layers, self._taps)
        self._static: StaticPasses | None = None
        self.unrecorded = ""
        """Why passes are not recorded that should be."""
        try:
            with torch.inference_mode():
                slots = context + runner.fewest - 1
                if runner.graphs is not None and not taps:
                    slots += ALIGNED - slots % ALIGNED  # at least one more
                self._cache = SlotCache(runner.specs, slots, runner.padded)
                if runner.graphs is not None and not taps:
                    graphs = runner.graphs(runner.device)
                    self._static = StaticPasses(self._forward, self._cache, runner.plan, runner.dtype, graphs)
                self._arange = torch.arange(runner.shift, runner.shift + context, device=runner.device)[None]
                self._edge = self._make_edge()
        except Exception as error:
            if not out_of_memory(error):
                raise
            raise UserError(
                f"There is not enough memory on {runner.device} for a KV cache. Close other chats, or load a smaller model or "
                "a smaller dtype."
            ) from None
        self._bounded = not self._plan.full
        self._cuda = runner.device.type == "cuda"
        # The LM head may be on another GPU than the embedding; an index on the CPU suits them all.
        spread = len({spec.device for spec in runner.specs if spec is not None}) > 1
        self._index_device = torch.device("cpu") if spread else runner.device

    def _make_edge(self) -> Tensor | None:
        """What masks of single nodes are cut out of: zeros for the slots in view, and behind them the padding."""
        run = self._run
        if not run.padded:
            return None
        edge = torch.zeros(self._context + PAD_KEYS, dtype=run.dtype, device=run.device)
        edge[self._context :] = torch.finfo(run.dtype).min
        return edge

    @property
    def tokens(self) -> Sequence[int]:
        """The committed token ids (live)."""
        return self._tokens

    @property
    def context(self) -> int:
        """Most tokens that the cache can hold."""
        return self._context

    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> TorchScores:
        """Add nodes and run one forward pass over them (see `Session.evaluate`)."""
        begun = time.perf_counter()
        if len(tokens) != len(parents):
            raise ValueError(f"{len(tokens)} tokens with {len(parents)} parents")
        if layers is not None or self._early.stopped:
            scores = self._evaluate_early(tokens, parents, rows, layers)
            self.forward_seconds += time.perf_counter() - begun
            return scores
        order = straightest(parents, self._next) if self._edge is not None else None
        new = self._hang(tokens, parents, order)
        first_id = self._next
        wanted = range(first_id, first_id + len(new)) if rows is None else rows
        if not new:
            if wanted:
                raise ValueError(f"no pass completes the rows {list(wanted)}")
            return TorchScores(torch.empty((0, 0)), (), ())
        picks: list[int] | None = None
        if rows is not None:
            picks = [row - first_id for row in rows]
            if any(not 0 <= pick < len(new) for pick in picks):
                raise ValueError(f"rows {list(rows)} are not all of this pass's nodes {first_id} to {first_id + len(new) - 1}")
        recorded = self._recorded(new, picks, tuple(wanted))
        if recorded is not None:
            self._count(new, picks, None)
            self._add(new)
            self.forward_seconds += time.perf_counter() - begun
            return recorded
        if order is None:
            logits = self._guarded(lambda: self._pass(new, picks, self._forward), len(new))
        else:
            batch = sorted(new, key=lambda node: node.slot)
            places = order if picks is None else [order[pick] for pick in picks]
            risen = sorted(places)
            logits = self._guarded(lambda: self._pass(batch, None if picks is None else risen, self._forward), len(new))
            logits = logits[[bisect_left(risen, place) for place in places]]
        self._add(new)
        seconds = time.perf_counter() - begun
        self.forward_seconds += seconds
        if self._run.threads is not None:
            self._run.threads.learn(len(new), seconds)
        if picks is None:
            return TorchScores(logits, tuple(wanted), tuple([node.position + 1 for node in new]))
        return TorchScores(logits, tuple(wanted), tuple([new[pick].position + 1 for pick in picks]))

    def _recorded(self, new: list[Node], picks: list[int] | None, wanted: tuple[int, ...]) -> TorchScores | None:
        """The scores of a pass over static buffers; None if it has to be another one."""
        static, length = self._static, len(self._tokens)
        if static is None or not static.take(len(new), new[-1].slot + 1 - length):
            return None
        try:
            with torch.inference_mode():
                return static.run(new, self._nodes.values(), length, self._end, picks, wanted)
        except Exception as error:
            if out_of_memory(error):
                raise self._no_memory(len(new)) from None
            # What a model does in its passes cannot be known: they go on as they always did.
            self._static, self.unrecorded = None, f"{type(error).__name__}: {error}".splitlines()[0]
            logger.warning("graphs: %s", self.unrecorded)
            return None

    def _evaluate_early(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None, layers: Layers | None
    ) -> TorchScores:
        """A pass that stops early, or one that takes nodes on which did."""
        early = self._early
        run = None if layers is None else early.checked(layers)
        order = early.order(early.stopped if run is None else self._taken_on(run, [*(rows or ()), *parents]))
        if order:
            self._line_up(order)
            for number in order:
                node = self._nodes[number]
                node.straight = node.straight and self._sees_all(node)
        new = self._hang(tokens, parents)
        if run is not None:
            taken = set(order)
            for node in new:
                above = early.stopped.get(node.parent) if node.parent not in taken else None
                if above is not None and above.ran != run and not covers(above.ran, run):
                    raise ValueError(f"a node above has been through layers {shown(above.ran)} only, not {shown(run)}")
        ids = [*order, *range(self._next, self._next + len(new))]
        batch = [*(self._nodes[number] for number in order), *new]
        place = {number: i for i, number in enumerate(ids)}
        wanted = sorted(ids) if rows is None else rows
        if not place.keys() >= set(wanted):
            raise ValueError(f"rows {list(wanted)} are not all of this pass's nodes {sorted(ids)}")
        if not batch:
            return TorchScores(torch.empty((0, 0)), (), ())
        picks = [place[number] for number in wanted]
        if run is None or order:
            logits, portion = self._guarded(lambda: self._stages(order, batch, picks, len(run) if run else None), len(batch))
        else:
            portion = early.drafting(run)
            logits = self._guarded(lambda: self._pass(new, picks, portion.forward, portion.run), len(new))
        if run is None:
            early.stopped.clear()
        else:
            early.keep(ids, run, portion)
        self._add(new)
        return TorchScores(logits, tuple(wanted), tuple([batch[pick].position + 1 for pick in picks]))

    def _taken_on(self, run: Run, wanted: Iterable[int]) -> set[int]:
        """The nodes that stopped after fewer layers and are to run those of `run`: the wanted ones, those above and below."""
        fewer, taken = self._early.fewer(run), set[int]()
        for number in wanted:
            while number in fewer and number not in taken:
                taken.add(number)
                number = self._nodes[number].parent
        if taken:
            for number, node in self._nodes.items():  # parents come before their children
                if node.parent in taken and number not in fewer:
                    ran = shown(self._early.stopped[number].ran)
                    raise ValueError(f"a node below has been through {ran}, which is no part of {shown(run)} to go on from")
                if node.parent in taken:
                    taken.add(number)
        return taken

    def _stages(self, order: list[int], batch: list[Node], picks: list[int], end: int | None) -> tuple[Tensor, Portion]:
        """Take nodes through what they lack of the first `end` layers (of all if None); the first of `batch` are those that
        stopped, in `order`. Logits of the picked ones [rows, vocab], and what ran last."""
        stages = list(self._early.stages(order, len(batch) > len(order), end))
        carried = None
        for stage in stages[:-1]:
            stage.enter(carried)
            self._pass(batch[len(order) - stage.stopped :], [], stage.portion.forward, stage.portion.run)
            carried = stage.portion.leave()
        stages[-1].enter(carried)
        last = stages[-1].portion
        return self._pass(batch, picks, last.forward, last.run), last

    def _line_up(self, order: list[int]) -> None:
        """Bring nodes into the last slots in use, without holes, in this order (parents before their children)."""
        nodes = self._nodes
        if [nodes[number].slot for number in order] == list(range(self._end - len(order), self._end)):
            return
        last = {number: nodes[number] for number in order}
        self._nodes = {number: node for number, node in nodes.items() if number not in last} | last
        self._compact(0, [])

    def _guarded(self, run: Callable[[], T], nodes: int) -> T:
        """A pass over some nodes: no gradients, true seconds, and a sentence where the memory does not suffice."""
        with torch.inference_mode():
            try:
                out = run()
                if self._cuda:
                    # Without this the seconds would be those of launching; whoever reads the scores waits here anyway.
                    torch.cuda.synchronize(self._run.device)
            except Exception as error:
                if not out_of_memory(error):
                    raise
                raise self._no_memory(nodes) from None
        return out

    def _add(self, new: list[Node]) -> None:
        """New nodes whose pass went well are alive from here on."""
        for number, node in enumerate(new, self._next):
            self._nodes[number] = node
        self._next += len(new)
        self._end += len(new)
        self.nodes_evaluated += len(new)

    def _hang(self, tokens: Sequence[int], parents: Sequence[int], order: Sequence[int] | None = None) -> list[Node]:
        """The new nodes, placed behind the slots in use, in their order or in another; nothing is changed but that holes may be
        closed."""
        length = len(self._tokens)
        if self._end + len(tokens) > self._context and self._end - length > len(self._nodes):
            self._compact(0, [])
        slot = self._end
        if slot + len(tokens) > self._context:
            raise ContextFull(
                f"{length:,} tokens and {slot - length + len(tokens):,} tentative ones do not fit in the context of "
                f"{self._context:,}. Start a new chat, or load the model with a larger context."
            )
        new: list[Node] = []
        living = self._nodes
        first_id = self._next
        first_slot = slot
        for i, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            slot = first_slot + (i if order is None else order[i])
            bit = 1 << (slot - length)
            if parent == ROOT:
                node = Node(token, ROOT, length, slot, bit, slot == length)
            else:
                above = living.get(parent)
                if above is None:
                    if not first_id <= parent < first_id + len(new):
                        raise ValueError(f"parent {parent} is not alive")
                    above = new[parent - first_id]
                straight = above.straight and above.bits + 1 == bit
                node = Node(token, parent, above.position + 1, slot, above.bits | bit, straight)
            new.append(node)
        return new

    def _count(self, new: list[Node], picks: list[int] | None, portion: Run | None) -> None:
        """Count what a pass computes, through a portion of the layers if not all."""
        rows = len(new) if picks is None or not self._run.takes_rows else len(picks)
        self.flops += self._run.flops.count([node.position for node in new], rows, portion)

    def _pass(
        self, new: list[Node], picks: list[int] | None, forward: Callable[..., Any], portion: Run | None = None
    ) -> Tensor:
        """Run the model over nodes in the last slots, in their order; logits of the picked ones [rows, vocab]. `portion` is the
        layers that `forward` runs, if not all."""
        run, cache, taps, count = self._run, self._cache, self._taps, len(new)
        self._count(new, picks, portion)
        wanted = count if picks is None else len(picks)
        if run.fewest > 1:
            new, picks = _filled(new, picks, run.fewest)
        n = len(new)
        start = new[0].slot
        end = start + n
        if end > cache.capacity:
            cache.reserve(end, used=self._end)
        cache.begin(start, n)
        if run.rope is not None:
            run.rope.prompt = self._prompt
        # A chain from the committed tail on: every slot holds its own position, and each node sees all before it.
        chain = new[0].position == start and new[-1].position == end - 1 and self._is_chain(new)
        kwargs: dict[str, Any] = {
            "input_ids": torch.tensor([[node.token for node in new]], device=run.device),
            "past_key_values": cache,
            "attention_mask": self._masks(new, chain),
            "use_cache": True,
        }
        if run.takes_positions:
            if chain:
                kwargs["position_ids"] = self._arange[:, start:end]
            else:
                kwargs["position_ids"] = torch.tensor([[run.shift + node.position for node in new]], device=run.device)
        index = None if picks is None else torch.tensor(picks, dtype=torch.long, device=self._index_device)
        if index is not None and run.takes_rows:
            kwargs["logits_to_keep"] = index
        out = forward(**kwargs) if taps is None else taps.run(forward, kwargs, start, count)
        logits: Tensor = out.logits[0]
        if index is not None and not run.takes_rows:
            logits = logits[index.to(logits.device)]
        return logits[:wanted]

    def _is_chain(self, new: list[Node]) -> bool:
        """Whether each node sees every slot before its own."""
        return all(map(self._sees_all, new))

    def _sees_all(self, node: Node) -> bool:
        return node.bits + 1 == 1 << (node.slot - len(self._tokens) + 1)

    def exact(self, path: Sequence[int]) -> int:
        """How many nodes of a path from the tail on have plain decoding's bits (see `Session.exact`)."""
        if not self._run.exact:
            return len(path)
        return next((i for i, number in enumerate(path) if not self._nodes[number].straight), len(path))

    def _masks(self, new: list[Node], chain: bool) -> Any:
        """What to pass as `attention_mask`; also tells the layers where their view starts."""
        plan = self._plan
        n, length, start = len(new), len(self._tokens), new[0].slot
        if plan.style == "native":
            if not chain:
                raise UserError("This model evaluates chains only, not branching trees.")
            return None
        lowest = min(node.position for node in new)
        # One node that sees all before it needs no mask: a window is then just a shorter view.
        bare = chain and n == 1
        edge = self._edge
        if edge is not None:
            bare = bare and all(reach.first(lowest) == 0 for reach in plan.reaches.values())
        elif chain and start == 0 and plan.causal_without:
            bare = all(reach.first(n - 1) == 0 for reach in plan.reaches.values())
        firsts = {}
        for kind, reach in plan.reaches.items():
            first = reach.first(lowest)
            if edge is not None:
                first -= first % VIEW
            firsts[kind] = first if bare else min(first, length)
        if self._bounded:
            self._cache.look_from([firsts[kind] for kind in plan.layer_types])
        if bare:
            alone = None
            if edge is not None:
                behind = self._context - start - 1
                alone = padded(edge.narrow(0, behind, in_view(start + 1)).view(1, 1, 1, -1), ())
            return dict.fromkeys(plan.reaches, alone) if plan.style == "mapping" else alone
        # What the tentative slots hold; those of dropped nodes are seen by none.
        slot_positions = [length] * (start - length + n)
        for node in (*self._nodes.values(), *new):
            slot_positions[node.slot - length] = node.position
        bits, positions = [node.bits for node in new], [node.position for node in new]
        masks: dict[Any, Tensor] = {}
        out = {}
        for kind, reach in plan.reaches.items():
            # A window that nothing falls out of is a full mask; they share one tensor.
            key = None if reach.first(max(positions)) == 0 else reach
            if key not in masks:
                masks[key] = tree_mask(
                    bits,
                    positions,
                    slot_positions,
                    length,
                    reach,
                    firsts[kind],
                    self._run.dtype,
                    self._run.device,
                    plan.group,
                    self._cache.padded,
                )
                if edge is not None:
                    padded(masks[key], parts_of(start - firsts[kind], n))
            out[kind] = masks[key]
        if plan.style == "mapping":
            return out
        return next(iter(out.values()))

    def _no_memory(self, nodes: int) -> UserError:
        """The sentence for a pass that did not fit in memory."""
        if self._cuda:
            torch.cuda.empty_cache()
        return UserError(
            f"There was not enough memory on {self._run.device} to evaluate {nodes:,} tokens after {self._end:,}. The "
            "conversation is unchanged. Use shorter drafts, a smaller context or a smaller model."
        )

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Make `path` the committed tail (see `Session.commit`). A kept node whose parent goes would see what is no longer
        there: it goes too."""
        tail = ROOT
        for number in path:
            node = self._nodes.get(number)
            if node is None or node.parent != tail:
                raise ValueError(f"{list(path)} is not a chain of living nodes from the committed tail")
            if number in self._early.stopped:
                raise ValueError(f"node {number} has stopped early: a full pass must complete it before a commit")
            tail = number
        self._note(path)
        kept: set[int] = set()
        for number in sorted(set(keep).difference(path)):
            node = self._nodes.get(number)
            if node is not None and (node.parent == tail or node.parent in kept):
                kept.add(number)
        self._commit(path, kept)

    def _commit(self, path: Sequence[int], kept: set[int]) -> None:
        nodes, length = self._nodes, len(self._tokens)
        tokens = [nodes[number].token for number in path]
        slots = [nodes[number].slot for number in path]
        if not kept:
            self._move(slots, length)
            self._tokens.extend(tokens)
            nodes.clear()
            self._early.stopped.clear()
            self._next = 0
            self._end = len(self._tokens)
            return
        end = path[-1] if len(path) else ROOT
        self._nodes = {number: nodes[number] for number in sorted(kept)}
        self._early.only(kept)
        for node in self._nodes.values():
            if node.parent == end:
                node.parent = ROOT
        self._tokens.extend(tokens)
        self._compact(len(tokens), slots)

    def _compact(self, committed: int, path_slots: list[int]) -> None:
        """Close the holes: the last `committed` tokens come from `path_slots`, the living nodes follow in their order."""
        length = len(self._tokens)
        self._move(path_slots + [node.slot for node in self._nodes.values()], length - committed)
        slot = length
        for node in self._nodes.values():
            node.slot = slot
            node.bits = 1 << (slot - length)
            if node.parent != ROOT:
                node.bits |= self._nodes[node.parent].bits
            slot += 1
        self._end = slot

    def _move(self, source: list[int], start: int) -> None:
        """Move the slots `source` to `start` onwards; what is in place already stays."""
        done = 0
        while done < len(source) and source[done] == start + done:
            done += 1
        if done < len(source):
            with torch.inference_mode():
                self._cache.move(source[done:], start + done)
                if self._states is not None:
                    self._states.move(source[done:], start + done)

    def drop(self, nodes: Iterable[int]) -> None:
        """Free these nodes and their descendants."""
        gone = {number for number in nodes if number in self._nodes}
        if not gone:
            return
        # Parents have lower ids than their children.
        for number, node in self._nodes.items():
            if node.parent in gone:
                gone.add(number)
        for number in gone:
            del self._nodes[number]
            self._early.stopped.pop(number, None)
        self._next = max(self._nodes, default=ROOT) + 1
        self._end = max((node.slot + 1 for node in self._nodes.values()), default=len(self._tokens))

    def rewind(self, length: int) -> None:
        """Forget every node, and all committed tokens after the first `length`."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"cannot rewind to {length} of {len(self._tokens)} tokens")
        del self._tokens[length:]
        self._note((), length)
        self._nodes.clear()
        self._early.stopped.clear()
        self._next = 0
        self._end = length

    def close(self) -> None:
        """Free the cache."""
        self.rewind(0)
        self._cache = SlotCache((), 0)
        self._states = self._taps = self._static = None
        self._early = EarlyLayers(self._run.network, self._run.layers)
