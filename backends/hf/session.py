"""A session on a transformers model: the tree's nodes in the slots of a preallocated KV cache."""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...errors import UserError
from ..base import ROOT, Layers
from ..best import Fetcher
from ..proof import out_of_memory
from ..rounding import straightest
from ..scores import TorchScores
from ..sessions.states import States
from ..sessions.tree import TreeSession
from ..transfer import accelerator, on_device
from .attention import PAD_KEYS, in_view, padded, parts_of
from .early_layers import EarlyLayers
from .graphs import ALIGNED, StaticPasses
from .masks import tree_mask
from .runner import Runner
from .slot_cache import SlotCache, SlotNode
from .taps import heard_rows, overheard

VIEW = 512
"""A sliding window's view in a padded pass begins at a multiple of this: torch's attention takes keys in blocks of 512, and
the bits of a sum depend on the start of its blocks."""


class PassMasks:
    """Maker of a session's `attention_mask` for each pass. It sets the start of each layer's view in the cache."""

    def __init__(self, run: Runner, cache: SlotCache, context: int) -> None:
        self._run = run
        self._cache = cache
        self._context = context
        self._bounded = not run.plan.full
        self.edge: Tensor | None = None
        """Masks of single nodes are views of this where attention is padded: zeros for slots in view, then the padding."""
        if run.padded:
            self.edge = torch.zeros(context + PAD_KEYS, dtype=run.dtype, device=run.device)
            self.edge[context:] = torch.finfo(run.dtype).min

    def of(self, new: Sequence[SlotNode], living: Iterable[SlotNode], length: int, chain: bool) -> Any:
        """Make the masks of a pass over the nodes `new` in the last slots, among `living` ones; in a `chain` each node
        sees every slot before its own."""
        plan, edge = self._run.plan, self.edge
        n, start = len(new), new[0].slot
        if plan.style == "native":
            if not chain:
                raise UserError("This model evaluates chains only, not branching trees.")
            return None
        lowest = min(node.position for node in new)
        # One node that sees all before it needs no mask: a window is then just a shorter view.
        bare = chain and n == 1
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
        for nodes in (living, new):
            for node in nodes:
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
                    reach=reach,
                    first=firsts[kind],
                    dtype=self._run.dtype,
                    device=self._run.device,
                    group=plan.group,
                    padded=self._cache.padded,
                )
                if edge is not None:
                    padded(masks[key], parts_of(start - firsts[kind], n))
            out[kind] = masks[key]
        return out if plan.style == "mapping" else next(iter(out.values()))


logger = logging.getLogger("specchat.proof")


def _filled(new: list[SlotNode], picks: list[int] | None, fewest: int) -> tuple[list[SlotNode], list[int] | None]:
    """Fill a pass up to `fewest` nodes and rows: the last node runs again in the slots behind, which nothing reads."""
    last = new[-1]
    bit = 1 << (last.bits.bit_length() - 1)
    more = range(1, fewest - len(new) + 1)
    new = [*new, *(replace(last, slot=last.slot + i, bits=last.bits ^ bit | bit << i) for i in more)]
    if picks:
        picks = [*picks, *(picks[-1:] * (fewest - len(picks)))]
    return new, picks


class TransformersSession(TreeSession[SlotNode]):
    """One conversation's KV cache on a transformers model.

    Committed token i is in slot i, so slots and positions agree; nodes take the slots behind. Between calls no slot behind
    `_end` means anything, which is why a pass that fails, or a rewind, needs no undoing.
    """

    def __init__(self, runner: Runner, context: int, taps: Sequence[int] = ()) -> None:
        super().__init__(context)
        self._run = runner
        self._forward: Callable[..., Any] = runner.network.forward
        self.rope = runner.rope.rule if runner.rope is not None else None
        self._end = 0
        """Slots in use."""
        self._listen = partial(overheard, runner.network, runner.tapped, tuple(taps))
        if taps:
            module: Any = runner.module
            width = module.config.get_text_config(decoder=True).hidden_size
            self._states = States(taps, width, context, runner.dtype, runner.device)
        self._early = EarlyLayers(runner.network, runner.layers)
        self._static: StaticPasses | None = None
        self.unrecorded = ""
        """Reason why passes are launched one by one although they should be recorded."""
        try:
            with torch.inference_mode():
                slots = context + runner.fewest - 1
                if runner.graphs is not None:
                    slots += ALIGNED - slots % ALIGNED  # at least one more
                self._cache = SlotCache(runner.specs, slots, runner.padded)
                if runner.graphs is not None:
                    graphs = runner.graphs(runner.device)
                    self._static = StaticPasses(
                        self._forward, runner.plan, runner.dtype, self._cache, graphs, listen=self._listen, states=self._states
                    )
                self._arange = torch.arange(context, device=runner.device)[None]
                self._masks = PassMasks(runner, self._cache, context)
        except Exception as error:
            if not out_of_memory(error):
                raise
            raise UserError(
                f"There is not enough memory on {runner.device} for a KV cache. Close other chats, or load a smaller model or "
                "a smaller dtype."
            ) from None
        self._fetcher = Fetcher(runner.device)
        # The LM head may be on another GPU than the embedding; an index on the CPU suits them all.
        spread = len({spec.device for spec in runner.specs if spec is not None}) > 1
        self._index_device = torch.device("cpu") if spread else runner.device

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> TorchScores:
        start = time.perf_counter()
        self._check(tokens, parents)
        if layers is not None or self._early.stopped:
            scores = self._evaluate_early(tokens, parents, rows, layers)
            self.forward_seconds += time.perf_counter() - start
            return scores
        scored_ids = self._rows(len(tokens), rows)
        if not tokens:
            return TorchScores(torch.empty((0, 0)), (), ())
        order = straightest(parents, self._next) if self._masks.edge is not None else None
        new = self._hang(tokens, parents, order)
        picks = None if rows is None else [row - self._next for row in rows]
        recorded = self._recorded(new, picks, tuple(scored_ids))
        if recorded is not None:
            self._add(new)
            self.forward_seconds += time.perf_counter() - start
            return recorded
        if order is None:
            fetched = self._guarded(lambda: self._pass(new, picks, self._forward), len(new))
        else:
            batch = sorted(new, key=lambda node: node.slot)
            places = order if picks is None else [order[pick] for pick in picks]
            risen = sorted(places)
            rows = [bisect_left(risen, place) for place in places]
            fetched = self._guarded(lambda: self._pass(batch, None if picks is None else risen, self._forward)[rows], len(new))
        self._add(new)
        scored = new if picks is None else [new[pick] for pick in picks]
        scores = self._fetcher.scores(*fetched, tuple(scored_ids), tuple([node.position + 1 for node in scored]))
        self.forward_seconds += time.perf_counter() - start
        return scores

    def _recorded(self, new: list[SlotNode], picks: list[int] | None, ids: tuple[int, ...]) -> TorchScores | None:
        """Run a pass over static buffers and return its scores; None if it does not fit or fails."""
        static, length = self._static, len(self.tokens)
        if static is None or not static.take(len(new), new[-1].slot + 1 - length):
            return None
        try:
            with torch.inference_mode():
                return static.run(new, self._nodes.values(), length, self._end, picks, ids)
        except Exception as error:
            if out_of_memory(error):
                raise self._no_memory(len(new)) from None
            # What a model does in its passes cannot be known: they go on as they always did.
            self._static = None
            self.unrecorded = f"{type(error).__name__}: {error}".splitlines()[0]
            logger.warning("graphs: %s", self.unrecorded)
            return None

    def _evaluate_early(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None, layers: Layers | None
    ) -> TorchScores:
        """Run a pass that stops early, or one that completes nodes that did."""
        early = self._early
        run = None if layers is None else early.checked(layers)
        order = sorted(early.stopped) if run is None else []
        if order:
            self._line_up(order)
            for number in order:
                node = self._nodes[number]
                node.straight = node.straight and (self._sees_all(node) or not self._run.exact)
        new = self._hang(tokens, parents)
        ids = [*order, *range(self._next, self._next + len(new))]
        batch = [*(self._nodes[number] for number in order), *new]
        place = {number: i for i, number in enumerate(ids)}
        scored = sorted(ids) if rows is None else rows
        if not place.keys() >= set(scored):
            raise ValueError(f"rows {list(scored)} are not all of this pass's nodes {sorted(ids)}")
        if not batch:
            return TorchScores(torch.empty((0, 0)), (), ())
        picks = [place[number] for number in scored]

        def run_pass(count: int, forward: Callable[..., Any]) -> Tensor:
            return self._pass(batch[-count:], picks if count == len(batch) else [], forward)

        if run is None:
            fetched = self._guarded(lambda: early.complete(order, len(new), run_pass), len(batch))
            early.stopped.clear()
        else:
            portion = early.drafting(run)
            fetched = self._guarded(lambda: self._pass(new, picks, portion.forward), len(new))
            early.keep(ids, run, portion)
        self._add(new)
        return self._fetcher.scores(*fetched, tuple(scored), tuple([batch[pick].position + 1 for pick in picks]))

    def _line_up(self, order: list[int]) -> None:
        """Bring nodes into the last slots in use, without holes, in this order (parents before their children)."""
        nodes = self._nodes
        if [nodes[number].slot for number in order] == list(range(self._end - len(order), self._end)):
            return
        nodes.update({number: nodes.pop(number) for number in order})
        self._pack((), nodes)

    def _guarded(self, run: Callable[[], Tensor], nodes: int) -> tuple[Tensor, Tensor | None]:
        """Run a pass over some nodes without gradients, for `Fetcher.scores`.

        Raises:
            UserError: the memory does not suffice.
        """
        with torch.inference_mode():
            try:
                return self._fetcher.start(run())
            except Exception as error:
                if not out_of_memory(error):
                    raise
                raise self._no_memory(nodes) from None

    def _hang(self, tokens: Sequence[int], parents: Sequence[int], order: Sequence[int] | None = None) -> list[SlotNode]:
        """Make the new nodes, in slots behind those in use, in their order or another. At most holes are closed."""
        if self._end + len(tokens) > self.context:
            self._pack((), self._nodes)
        length, living, first, exact = len(self.tokens), self._nodes, self._next, self._run.exact
        new: list[SlotNode] = []
        for i, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
            slot = self._end + (i if order is None else order[i])
            bit = 1 << (slot - length)
            if parent == ROOT:
                new.append(SlotNode(token, ROOT, length, slot == length or not exact, slot, bit))
                continue
            above = living.get(parent) or new[parent - first]
            straight = (above.straight and above.bits + 1 == bit) or not exact
            new.append(SlotNode(token, parent, above.position + 1, straight, slot, above.bits | bit))
        return new

    def _pass(self, new: list[SlotNode], picks: list[int] | None, forward: Callable[..., Any]) -> Tensor:
        """Run the model over nodes in the last slots, in their order; return logits of the picked ones [rows, vocab]."""
        run, cache, count = self._run, self._cache, len(new)
        scored = count if picks is None else len(picks)
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
        chain = new[0].position == start and new[-1].position == end - 1 and all(map(self._sees_all, new))
        kwargs: dict[str, Any] = {
            "input_ids": on_device([[node.token for node in new]], run.device),
            "past_key_values": cache,
            "attention_mask": self._masks.of(new, self._nodes.values(), len(self.tokens), chain),
            "use_cache": True,
        }
        if run.takes_positions:
            if chain:
                kwargs["position_ids"] = self._arange[:, start:end]
            else:
                kwargs["position_ids"] = on_device([[node.position for node in new]], run.device)
        index = None if picks is None else on_device(picks, self._index_device)
        if index is not None and run.takes_rows:
            # Where a model spans GPUs accelerate moves tensors to the first of them: numbers stay numbers.
            kwargs["logits_to_keep"] = picks if self._index_device != run.device else index
        with self._listen() as heard:
            out = forward(**kwargs)
        if self._states is not None:
            # Also where a pass leaves layers out: the one that completes its nodes writes again.
            for tap, rows in heard_rows(heard, count).items():
                self._states.write(tap, start, rows)
        logits: Tensor = out.logits[0]
        if index is not None and not run.takes_rows:
            logits = logits[index.to(logits.device)]
        return logits[:scored]

    def _sees_all(self, node: SlotNode) -> bool:
        """Whether a node sees every slot before its own."""
        return node.bits + 1 == 1 << (node.slot - len(self.tokens) + 1)

    def _no_memory(self, nodes: int) -> UserError:
        if (module := accelerator(self._run.device)) is not None:
            module.empty_cache()
        return UserError(
            f"There was not enough memory on {self._run.device} to evaluate {nodes:,} tokens after {self._end:,}. The "
            "conversation is unchanged. Use shorter drafts, a smaller context or a smaller model."
        )

    def _add(self, new: Sequence[SlotNode]) -> None:
        super()._add(new)
        self._end += len(new)

    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        if stopped := self._early.stopped.keys() & path:
            raise ValueError(f"node {min(stopped)} has stopped early: a full pass must complete it before a commit")
        super().commit(path, keep)

    def _settle(self, path: Sequence[int], staying: dict[int, SlotNode]) -> None:
        self._pack(path, staying)
        self._early.only(staying)

    def _pack(self, path: Sequence[int], staying: dict[int, SlotNode]) -> None:
        """Close the holes: behind the committed tokens come those of `path`, then the nodes that stay, in their order."""
        nodes, start = self._nodes, len(self.tokens)
        self._move([nodes[number].slot for number in (*path, *staying)], start)
        length = start + len(path)
        for slot, node in enumerate(staying.values(), length):
            above = staying.get(node.parent)
            node.slot = slot
            node.bits = 1 << (slot - length) | (above.bits if above is not None else 0)
        self._end = length + len(staying)

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

    def _free(self, freed: set[int]) -> None:
        self._early.only(self._nodes.keys() - freed)
        left = (node.slot + 1 for number, node in self._nodes.items() if number not in freed)
        self._end = max(left, default=len(self.tokens))

    def _cut(self, length: int) -> None:
        self._early.stopped.clear()
        self._end = length

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """View a layer's keys and values of the committed tokens, as its attention reads them [K/V heads, tokens, width of a
        head], until the next pass."""
        slots = self._cache.slots[layer]
        return slots.keys[0, :, : self.length], slots.values[0, :, : self.length]

    def close(self) -> None:
        self.rewind(0)
        self._cache = SlotCache((), 0)
        self._masks = PassMasks(self._run, self._cache, 0)
        self._states = self._static = None
        self._early = EarlyLayers(self._run.network, self._run.layers)
