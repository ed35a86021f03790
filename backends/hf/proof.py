"""Passes that prove at load that sessions give a transformers model's own logits: a five-node tree, chains, rewinds.

The yardstick is the model's own pass over the same tokens, with its own masks, attention and positions, and without a cache.
Windows and chunks are narrowed meanwhile, so that they matter in a text of a few tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from ..base import ROOT
from ..proof import NODES, PARENTS, PATHS, PREFIX, SessionProof, alike, attempt, difference
from .early_layers import find_layers
from .masks import Reach
from .plain import Feeding, HybridSession, PlainSession, open_session
from .runner import Runner
from .session import TransformersSession
from .slot_cache import KVSpec
from .taps import overheard

TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.15}
"""Greatest root-mean-square difference of logits, in units of their standard deviation. A wrong mask costs some 0.5; what a
half type loses depends on the order of its sums, about 0.005 and 0.03."""

CONTROLS = 3.0
"""Times the control's difference that rounding may explain."""
MOST_DIFFERENCE = 0.4
"""Largest difference that rounding explains: in bfloat16 one token of a text may move by 0.3 with the order of its sums."""

SHORT = 4
"""Windows and chunks of the proof."""
WINDOWS = ("sliding_window", "attention_chunk_size")
"""Lengths that our masks know (see `masks.py`), and that models read from their configuration in every pass."""

SLOTS = PREFIX + 16
"""Tokens of a session's cache."""


@contextmanager
def narrowed(config: Any) -> Iterator[None]:
    """Set the sliding windows and chunks of a configuration to SHORT tokens: real ones are longer than the proof's text."""
    before = {name: getattr(config, name) for name in WINDOWS if getattr(config, name, None) is not None}
    for name in before:
        setattr(config, name, SHORT)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def tolerance(dtype: torch.dtype) -> float:
    """Look up a type in TOLERANCE; other types are no wider than bfloat16."""
    return TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])


class Proof(SessionProof):
    """Checks of sessions on one model against its own logits.

    Args:
        runner: the model, with any plan.
        config: its text configuration.
        text: ids of a text, PREFIX and the tree's at least.
        tick: called after each pass; may raise Cancelled.
    """

    def __init__(self, runner: Runner, config: Any, text: Sequence[int], tick: Callable[[], None]) -> None:
        super().__init__(text, PREFIX, tick)
        self.config = config
        self.layers = find_layers(runner.module, int(getattr(config, "num_hidden_layers", -1)))
        self.specs: tuple[KVSpec | None, ...] = ()
        """Keys and values that each layer caches."""
        self.unrecorded = ""
        """Reason why a session could not record its passes."""
        self._runner = runner
        with overheard(runner.module, self.layers) as heard:
            self.reference = self._own_logits()
        self._states = {tap: hidden[1] for tap, hidden in heard.items() if hidden is not None}
        self.limit = max(tolerance(runner.dtype), min(MOST_DIFFERENCE, CONTROLS * self._control()))

    @property
    def numbers(self) -> bool:
        """Whether the model computes numbers, not NaN."""
        return not bool(self.reference.isnan().any())

    @property
    def has_states(self) -> bool:
        """Whether the model's own pass showed the hidden states of every layer and the last."""
        return self.layers is not None and len(self._states) == self.layers.count + 1

    def _own_logits(self) -> Tensor:
        """Run the model's own pass over both paths; return the logits of the tree's nodes [2, 3, vocab]."""
        run, depth = self._runner, len(PATHS[0])
        options: dict[str, Any] = {"logits_to_keep": depth} if run.takes_rows else {}
        with torch.inference_mode(), narrowed(self.config):
            ids = torch.tensor([self.prefix + path for path in self.paths], device=run.device)
            logits: Tensor = run.module(input_ids=ids, use_cache=False, **options).logits
        self.tick()
        return logits[:, -depth:]

    def _control(self) -> float:
        """Measure how far another of transformers' attention functions moves the logits, which is rounding alone; 0 in float32,
        and where the model has no other."""
        model: Any = self._runner.module
        if self._runner.dtype == torch.float32 or not self.numbers:
            return 0.0
        usual, moved = self.config._attn_implementation, [0.0]

        def compare() -> bool:
            if use_attention(model, "sdpa" if usual == "eager" else "eager"):
                moved.append(difference(self._own_logits(), self.reference))
            return True

        attempt(compare)
        use_attention(model, usual)
        return moved[-1]

    def find_specs(self) -> bool:
        """Set `specs` by a pass of one token; return whether any layer caches keys and values."""
        run = self._runner
        module: Any = run.module
        cache = DynamicCache(config=module.config)
        with torch.inference_mode():
            ids = torch.tensor([self.prefix[:1]], device=run.device)
            module(input_ids=ids, past_key_values=cache, use_cache=True)
        self.tick()
        specs: list[KVSpec | None] = []
        for layer in cache.layers:
            keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
            if not isinstance(keys, Tensor) or not isinstance(values, Tensor) or keys.ndim != 4:
                specs.append(None)
                continue
            key, value = (keys.shape[1], keys.shape[3]), (values.shape[1], values.shape[3])
            specs.append(KVSpec(key, value, keys.dtype, keys.device))
        self.specs = tuple(specs)
        return any(specs)

    def _open(self, runner: Runner, taps: Sequence[int] = ()) -> TransformersSession | HybridSession:
        """Open a session with narrow windows and read the prefix."""
        reaches = {kind: Reach(reach.window and SHORT, reach.chunk and SHORT) for kind, reach in runner.plan.reaches.items()}
        session = open_session(replace(runner, plan=replace(runner.plan, reaches=reaches)), SLOTS, taps)
        session.prefill(self.prefix)
        self.tick()
        return session

    def trees_work(self, runner: Runner) -> bool:
        """Whether trees and chains have the model's own logits."""
        with narrowed(self.config):
            return self.trees(self._open(runner)) and self.chains(self._open(runner))

    def chains_work(self, runner: Runner) -> bool:
        """Whether chains have the model's own logits."""
        with narrowed(self.config):
            return self.chains(self._open(runner))

    def early_layers_work(self, runner: Runner, tree: bool) -> bool:
        """Whether nodes that stopped early and were completed with new ones have the model's own logits: the branching
        tree, or else a chain."""
        nodes, parents = (NODES, PARENTS) if tree else (PATHS[0], (ROOT, 0, 1))
        tokens = [self.tree[node] for node in nodes]
        half = max(1, int(self.config.num_hidden_layers) // 2)
        with narrowed(self.config):
            session = self._open(runner)
            early = self.evaluate(session, tokens[:1], parents[:1], layers=half)
            self.evaluate(session, tokens[1:2], parents[1:2], rows=(), layers=half)
            logits = self.evaluate(session, tokens[2:], parents[2:], rows=range(len(nodes)))
        # A model that runs all its layers in any case would pass for exact.
        return not torch.equal(early[0], logits[0]) and self.alike(logits, nodes)

    def graphs_work(self, runner: Runner, tree: bool) -> bool:
        """Whether the replay of a pass that was recorded on other tokens has the model's own logits, of chains and
        perhaps the tree."""
        first, second = PATHS
        with narrowed(self.config):
            session: Any = self._open(runner)
            for tokens in (self.tree[::-1], self.tree):
                session.rewind(PREFIX - 1)
                session.prefill(self.prefix[-1:])
                parts = ((0, 3), (3, 5)) if tree else ()
                logits = [self.evaluate(session, tokens[a:b], PARENTS[a:b]) for a, b in parts]
                session.commit(())
                logits.append(self.chain(session, [tokens[node] for node in first]))
                session.commit((0,))
                logits.append(self.chain(session, [tokens[second[1]]]))
        self.unrecorded = session.unrecorded
        return not self.unrecorded and self.alike(torch.cat(logits), (*NODES * tree, *first, second[1]))

    def states_work(self, runner: Runner, tree: bool) -> bool:
        """Whether a session with every tap gives the model's own hidden states, through a branch of the tree or else a
        chain."""
        with narrowed(self.config):
            states = self.states(self._open(runner, sorted(self._states)), tree).chunk(len(self._states), 1)
        return all(alike(rows, self._states[tap], tolerance(runner.dtype)) for tap, rows in enumerate(states))

    def plain_works(self, feeding: Feeding) -> bool:
        """Whether tokens that go into transformers' own cache in this way have the model's own logits."""
        with narrowed(self.config):
            session = PlainSession(self._runner, SLOTS, feeding)
            session.prefill(self.prefix[:2])
            session.prefill(self.prefix[2:])
            return self.alike(self.chain(session, self.paths[0]), PATHS[0])


def use_attention(model: Any, name: str) -> bool:
    """Switch the model to an attention function; return whether it uses that."""
    model.set_attn_implementation(name)
    return bool(model.config.get_text_config(decoder=True)._attn_implementation == name)
