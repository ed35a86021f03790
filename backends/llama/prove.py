"""Choice of a GGUF model's runtime, with its capabilities and the promise for its texts: proven and measured at load, and kept
for each file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..info import Capabilities
from ..kept import identity, keep, recall
from ..options import LoadOptions
from ..pass_times import Curve, pass_seconds
from ..rounding import MOST_COST, VERSION, Rounding, drafting_gain, measure, promise
from .context import LlamaContext, Runtime
from .library import version
from .options import CACHE_TYPES, FLASH, device_name, even_runtime
from .plain import Contexts
from .proof import SIZE, prove

LENGTHS = (250,)
"""Tokens of text behind which rounding is measured: the steps cross the block of 256 keys that attention takes at once."""

USUAL = (256, 2048)
"""Tokens of text behind which attention is timed: those of usual chats."""
NODES = (1, 8)
"""Nodes of the passes that are timed."""
SEED = 64
"""Tokens that are read; the rest of a text are copies of their keys and values, which take no time to make."""
ROUNDS = 2
ROOM = max(USUAL) + max(NODES)
"""Tokens of a context to time attention in."""
SEQUENCES = 2
"""Its sequences."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A runtime with what it was found to give."""

    runtime: Runtime
    capabilities: Capabilities
    curve: Curve = ()
    """Seconds of passes by their nodes."""
    timed: float = 0.0
    """Time of their measurement (Unix)."""
    rounding: Rounding | None = None
    """None where nothing can be drafted, and for float32."""

    def promised(self, *, hold: bool) -> Setup:
        """Add what is promised of the model's texts (see `rounding.promise`)."""
        if self.rounding is None:
            return self
        return replace(self, capabilities=promise(self.capabilities, self.rounding, hold=hold))


@dataclass(frozen=True, slots=True)
class Prover:
    """Finds the runtime, the capabilities and the promise of a model."""

    contexts: Contexts
    options: LoadOptions
    file: Path
    mtp: bool
    """Whether its MTP layer is loaded."""
    text: Sequence[int]
    """Ids of a text, for proofs and measurements."""
    tick: Callable[[], None]
    """Called after each pass; may raise Cancelled."""

    @property
    def _limit(self) -> int:
        """Most tokens of a context: beyond its table of positions llama.cpp ends the process."""
        return self.contexts.header.number("context_length") or ROOM

    def find(self, runtime: Runtime) -> Setup:
        """Recall what was found for this file in these settings, or find it and keep it."""
        options = self.options
        settings = options.exact, options.flash_attention, options.kv_type, options.dtype
        about = VERSION, identity([self.file]), version(), runtime, settings, device_name(runtime), self.mtp
        load = recall("loads", about)
        with suppress(KeyError, TypeError, ValueError):
            able = Capabilities(**load["capabilities"])
            curve = tuple((int(nodes), float(seconds)) for nodes, seconds in load["seconds"])
            able = replace(able, equal=tuple(able.equal))
            return Setup(replace(runtime, **load["runtime"]), able, curve, load["measured"])
        setup = self._choose(runtime)
        if setup.capabilities.chain:  # a mishap is not kept
            changed = {name: getattr(setup.runtime, name) for name in ("flash_attention", "type_k", "type_v")}
            keep("loads", about, {"capabilities": asdict(setup.capabilities), "seconds": setup.curve, "runtime": changed})
        return setup

    def _choose(self, runtime: Runtime) -> Setup:
        """Choose between a runtime and the same with flash attention, in which sizes of passes can have equal bits."""
        exact, even = self.options.exact, even_runtime(runtime, self.options)
        setup = self._try(even or runtime)
        if even is not None and not setup.capabilities.chain:
            even, setup = None, self._try(runtime)
        if setup.rounding is None or exact == "on":
            return setup.promised(hold=exact == "on")
        cost = 1.0 if even is None else attention_cost(self._attention(even), self._attention(runtime))
        if exact == "auto" and setup.rounding.most > 1:
            most = None if setup.rounding.exact else setup.rounding.most
            if cost * drafting_gain(setup.curve) / drafting_gain(setup.curve, most) <= MOST_COST:
                return setup.promised(hold=True)
        return (self._try(runtime) if cost > 1 else setup).promised(hold=False)

    def _try(self, runtime: Runtime) -> Setup:
        even = runtime.flash_attention == FLASH["on"]
        cpu = not runtime.gpu_layers
        # On a GPU the sums of large passes are other ones in float32, too.
        float32 = runtime.type_k == runtime.type_v == CACHE_TYPES["f32"] and self.contexts.weights.file_type == "all F32"
        with closing(self.contexts.open_session(runtime, min(SIZE, self._limit), alike=even)) as session:
            able = prove(session, self.text, self.tick)
            if not able.chain:
                return Setup(runtime, able)
            rounding: Rounding | None = None
            if not (cpu and float32):
                rounding = measure(session, self.text, self.tick, tree=able.tree, contexts=LENGTHS)
                if not even:  # whose rows go through several kernels, by their number and by the length of the text
                    rounding = replace(rounding, equal=(), rest=False)
            curve = pass_seconds(session, self.text, self.tick, cpu=cpu)
        return Setup(runtime, able, curve, time.time(), rounding)

    def _attention(self, runtime: Runtime) -> list[float]:
        """Time a runtime's attention; nothing where the model does not take so long a text, or cannot branch."""
        if self._limit < ROOM or self.contexts.weights.recurrent:
            return []
        run = self.contexts.open(runtime, ROOM, sequences=SEQUENCES, rows=max(NODES))
        return attention_seconds(run, self.text, self.contexts.header.number("attention.sliding_window"), self.tick)


def attention_seconds(run: LlamaContext, text: Sequence[int], window: int, tick: Callable[[], None]) -> list[float]:
    """Time passes over NODES behind texts of USUAL, one after the other, in a context of ROOM tokens and SEQUENCES;
    empty if it cannot be done. Seconds of computing of this thread, the least of some rounds: other programs do not
    count.

    Args:
        text: SEED and the largest of NODES ids.
        window: tokens that layers with a sliding window see; 0 if all layers see all.
        tick: called after each pass; may raise Cancelled.
    """

    def read(position: int) -> NDArray[np.uint8]:
        run.clear()
        run.decode(text[:SEED], range(position, position + SEED), [1] * SEED, ())
        tick()
        return run.cells()

    times = list[float]()
    beyond = read(0)
    for length in USUAL:
        visible = min(window or length, length) // SEED
        near = read(length - SEED)
        copies = [near] * (visible - 1) + [beyond] * (length // SEED - visible)
        if not all(map(run.add_cells, copies)):
            return []
        for nodes in NODES:
            rounds = []
            for _ in range(ROUNDS):
                start = time.thread_time()
                places = range(length, length + nodes)
                if run.decode(text[SEED : SEED + nodes], places, [1] * nodes, range(nodes)):
                    return []
                rounds.append(time.thread_time() - start)
                run.remove(0, length, -1)
                tick()
            times.append(min(rounds))
    return times


def attention_cost(times: Sequence[float], reference: Sequence[float]) -> float:
    """Return the mean ratio of seconds to those in another setting; 1 where either was not measured."""
    ratios = [a / b for a, b in zip(times, reference, strict=False)]
    return sum(ratios) / len(ratios) if ratios else 1.0
