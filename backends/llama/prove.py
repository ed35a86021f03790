"""Choice of a GGUF model's runtime, with its capabilities and the promise for its texts: proven and measured at load, and kept
for each file.

The proof: a session gives the model's own logits in a five-node tree grown in two passes, in chains, and after rewinds. The
yardstick is the same text as plain chains from an empty cache: what is tested is branching and going back. Quantized weights
round by the size of a pass, so a control gives the limit: the difference of the same tokens in passes of other sizes, without
any branch or rewind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..base import ROOT
from ..info import NOT_NUMBERS, Capabilities
from ..kept import identity, keep, recall
from ..options import LoadOptions
from ..pass_times import Curve, pass_seconds
from ..proof import SessionProof, alike, attempt, difference
from ..rounding import MOST_COST, TOKENS, VERSION, Rounding, drafting_gain, measure, promise
from .context import LlamaContext, Runtime
from .library import version
from .options import CACHE_TYPES, FLASH, device_name, even_runtime
from .session import Contexts, LlamaHybridSession, LlamaSession

PREFIX = 16
"""Tokens before the tree: enough of a text that the model knows what it reads."""

LEAST_FAULT = 0.02
"""Least root-mean-square difference of logits, in units of their standard deviation, that is taken for a fault. A wrong mask
costs some 0.5."""
CONTROLS = 4.0
"""Times the control's difference that is taken for a fault: the paths are a few tokens, and some move more than others."""
TOLERANCE = 0.3
"""Difference that is a fault whatever the control shows. Real text in K-quants moves by 0.02 to 0.12 between passes of one node
and of several."""

PASSES = 12
"""Forward passes of the proof."""

SIZE = TOKENS + 8
"""Tokens of its cache."""

NEITHER = (
    "Checking several guesses at once would change this model's text on llama.cpp, so it decodes plainly. Try --kv-type f16, "
    "another file of it, or its safetensors folder."
)
CHAINS = "This model's cache cannot branch here, so methods draft chains, one guess after the other."


def prove(session: LlamaSession | LlamaHybridSession, text: Sequence[int], tick: Callable[[], None]) -> Capabilities:
    """Find whether this model verifies trees, else chains, else nothing, in an empty session of SIZE tokens."""
    proof = _Proof(session, text, tick)
    if bool(proof.reference.isnan().any()):
        return _plain(NOT_NUMBERS)
    if not proof.control <= TOLERANCE or not attempt(proof.chains, session):
        return _plain(NEITHER)
    session.rewind(PREFIX)
    if isinstance(session, LlamaHybridSession) or not attempt(proof.trees, session):
        return Capabilities(tree=False, reasons={"tree": CHAINS})
    return Capabilities()


def _plain(reason: str) -> Capabilities:
    return Capabilities(tree=False, chain=False, reasons={"tree": reason, "chain": reason})


class _Proof(SessionProof):
    """The proof of a session on a text, which leaves the prefix in it; the arguments are those of `prove`."""

    def __init__(self, session: LlamaSession | LlamaHybridSession, text: Sequence[int], tick: Callable[[], None]) -> None:
        super().__init__(text, PREFIX, tick)
        self.control = 0.0
        """Difference of the paths' logits from those in passes of another size."""
        paths: list[Tensor] = []
        for path in self.paths:
            session.rewind(0)
            line = self.prefix + path
            # Some graphs give a pass's first rows, whichever are asked for.
            whole = self.evaluate(session, line, range(ROOT, len(line) - 1), rows=range(PREFIX, len(line)))
            session.rewind(0)
            session.align(self.prefix)
            session.prefill(self.prefix)
            paths.append(self.chain(session, path))
            self.control = max(self.control, difference(whole, paths[-1]))
        session.rewind(PREFIX)
        self.reference = torch.stack(paths)
        self.limit = min(TOLERANCE, max(LEAST_FAULT, CONTROLS * self.control))


def states_work(session: LlamaSession | LlamaHybridSession, text: Sequence[int], width: int, tree: bool) -> bool:
    """Whether the states of a path through the tree, or of a chain behind a prefix, are those of the same tokens as a
    plain chain. The session is empty, of SIZE tokens, with every tap there is; `width` is that of a state."""
    proof = SessionProof(text, PREFIX, lambda: None)

    def works() -> bool:
        session.prefill(proof.prefix + proof.paths[1])
        reference = session.states(0, session.length).clone()
        session.rewind(0)
        session.prefill(proof.prefix)
        states = proof.states(session, tree)
        count = states.shape[1] // width
        pairs = zip(states.chunk(count, 1), reference.chunk(count, 1), strict=True)
        return all(alike(*pair, TOLERANCE) for pair in pairs)

    return attempt(works)


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
