"""The passes that prove what a transformers model can do: a five-node tree against its linear paths, chains, rewinding.

The linear paths go through the model in its own way (its own masks and attention, no cache), so that whatever we assume of its
masks is tested. What depends on the length of the text shows in a short one: windows are narrowed, and so are lengths that we
do not know, in a twin of the model (see `lengths.py`); the tree stands at the end of the context, as far as positions tell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from ....errors import Cancelled, UserError
from ...base import ROOT
from ...rounding import PARENTS, PATHS, PREFIX
from ..early_layers import find_layers
from ..masks import Reach
from ..plain import Feeding, HybridSession, PlainSession, overheard, session_of
from ..runner import Runner, out_of_memory
from ..session import TransformersSession
from ..slot_cache import KVSpec
from .lengths import SHORT, narrowed, twin_of

logger = logging.getLogger("specchat.proof")
"""Without a handler, warnings go to standard error: the engine's log."""

TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.03, torch.bfloat16: 0.15}
"""Greatest root-mean-square difference of logits, in units of their standard deviation. A wrong mask costs some 0.5; what a
half type loses depends on the order of its sums, about 0.005 and 0.03."""

CONTROLS, MOST = 3.0, 0.4
"""Times the control's difference that rounding may explain, and the most that it ever does. In bfloat16 one token of a text may
move by 0.3 with the order of its sums."""

Tick = Callable[[], None]
Check = Callable[["Proof", Runner], bool]


def opened(runner: Runner, prefix: Sequence[int], taps: Sequence[int] = ()) -> TransformersSession | HybridSession:
    """A session with narrow windows, with the prefix in it."""
    reaches = {k: Reach(r.window and SHORT, r.chunk and SHORT) for k, r in runner.plan.reaches.items()}
    session = session_of(replace(runner, plan=replace(runner.plan, reaches=reaches)), PREFIX + 16, taps)
    session.prefill(prefix)
    return session


def tolerance(dtype: torch.dtype) -> float:
    """The one of TOLERANCE for a type; other types are no wider than bfloat16."""
    return TOLERANCE.get(dtype, TOLERANCE[torch.bfloat16])


def difference(found: Tensor, wanted: Tensor) -> float:
    """Return the root-mean-square difference of logits [rows, vocab], in units of their standard deviation; NaN for NaN."""
    found, wanted = found.float(), wanted.to(found.device).float()
    return float((found - wanted).square().mean().sqrt() / wanted.std().clamp_min(1e-6))


def differs(found: Tensor, wanted: Tensor, most: float) -> bool:
    """Whether logits [rows, vocab] are further apart than rounding explains."""
    error = difference(found, wanted)
    if error <= most:
        return False
    logger.warning("proof: logits differ by %.3g, at most %g (wanted: %.3g ± %.3g)", error, most, wanted.mean(), wanted.std())
    return True


class Proof:
    """The passes of a proof on one model.

    Args:
        runner: the model, with any plan.
        config: its text configuration.
        text: ids of a text, PREFIX and the tree's at least.
        tick: told after each pass; may raise Cancelled.
        context: most tokens of a text.
    """

    def __init__(self, runner: Runner, config: Any, text: Sequence[int], tick: Tick, context: int) -> None:
        self.graphs = runner.graphs
        """What its passes are to be recorded with in the end."""
        self.runner = runner = replace(runner, graphs=None)
        self.config, self.text, self.tick, self.context = config, text, tick, context
        self.layers = find_layers(runner.module, int(getattr(config, "num_hidden_layers", -1)))
        self.specs: tuple[KVSpec | None, ...] = ()
        """What each layer caches."""
        self.more = ""
        """What one caches beside keys and values, such as indexer_keys."""
        self.states: dict[int, Tensor]
        """The linear hidden states by tap [2 paths, PREFIX + 3, width]."""
        self.session: TransformersSession | HybridSession
        """The last whose chains were checked; the prefix is in it."""
        self.opened: TransformersSession | HybridSession
        """The last of all."""
        self.prefix, self.tree = list(text[:PREFIX]), list(text[PREFIX : PREFIX + len(PARENTS)])
        paths = [self.prefix + [self.tree[node] for node in path] for path in PATHS]
        self.far = max(0, context - len(paths[0])) if runner.takes_positions else 0
        """Where in a long text the tree stands, as far as positions tell; the other passes are at its start."""
        self.wanted: Tensor
        """Linear logits [2 paths, at the start and then perhaps far behind; PREFIX + 3; vocab]."""
        with torch.inference_mode(), narrowed(config), overheard(runner.module, self.layers) as self.states:
            self.wanted = self._linear(paths)
        tick()
        self.limit = max(tolerance(runner.dtype), min(MOST, CONTROLS * self._control(paths)))
        """Greatest difference of logits that rounding explains."""

    def _control(self, paths: list[list[int]]) -> float:
        """Return how far the model's own logits move with another of transformers' attention functions, which is what rounding
        does to this text; 0 in float32, and where the model has no other."""
        model, config = cast(Any, self.runner.module), self.config
        if self.runner.dtype == torch.float32 or bool(self.wanted.isnan().any()):
            return 0.0
        own, found = config._attn_implementation, 0.0

        def compare() -> bool:
            nonlocal found
            with torch.inference_mode(), narrowed(config):
                if switched(model, "sdpa" if own == "eager" else "eager"):
                    found = difference(self._read(paths)[:, PREFIX:], self.wanted[:, PREFIX:])
            return True

        attempt(compare)
        switched(model, own)
        self.tick()
        return found

    def _linear(self, paths: list[list[int]]) -> Tensor:
        """The model's own logits of whole paths, at the text's start and, where they stand there as well, far behind."""
        try:
            return self._read(paths)
        except (LookupError, RuntimeError) as error:
            if out_of_memory(error) or not (self.far or self.runner.takes_positions):
                raise
            if self.far:
                self.far = 0  # it counts its keys by their positions, as MiniMax M3 does
            else:
                self.runner = replace(self.runner, takes_positions=False)  # it pads the text and not them, as Reformer does
            return self._linear(paths)

    def _read(self, paths: list[list[int]]) -> Tensor:
        run = self.runner
        starts = [0] * len(paths) + [self.far] * len(paths) * bool(self.far)
        told: dict[str, Any] = {}
        if run.takes_positions:
            places = [[start + i for i in range(len(paths[0]))] for start in starts]
            told["position_ids"] = torch.tensor(places, device=run.device)
        ids = torch.tensor(paths * (len(starts) // len(paths)), device=run.device)
        return run.module(input_ids=ids, use_cache=False, **told).logits  # type: ignore[no-any-return]

    def rows(self, nodes: tuple[int, ...], *, far: bool = False) -> Tensor:
        """The linear logits at some nodes [nodes, vocab], of the text's start or of its far end."""
        first = len(self.wanted) - len(PATHS) if far else 0
        found = (next((p, line.index(node)) for p, line in enumerate(PATHS) if node in line) for node in nodes)
        return torch.stack([self.wanted[first + path, PREFIX + at] for path, at in found])

    def look(self) -> bool:
        """Find what each layer caches, in a pass of one token; whether any does."""
        run = self.runner
        module: Any = run.module
        cache = DynamicCache(config=module.config)
        with torch.inference_mode():
            module(input_ids=torch.tensor([self.prefix[:1]], device=run.device), past_key_values=cache, use_cache=True)
        self.tick()
        out: list[KVSpec | None] = []
        for layer in cache.layers:
            held = {name: value for name, value in vars(layer).items() if isinstance(value, Tensor)}
            keys, values = held.pop("keys", None), held.pop("values", None)
            self.more = self.more or ", ".join(sorted(held))
            if keys is None or values is None or keys.ndim != 4:
                out.append(None)
                continue
            key, value = (keys.shape[1], keys.shape[3]), (values.shape[1], values.shape[3])
            out.append(KVSpec(key, value, keys.dtype, keys.device))
        self.specs = tuple(out)
        return any(out)

    def _open(self, runner: Runner) -> TransformersSession | HybridSession:
        session = self.opened = opened(runner, self.prefix)
        self.tick()
        return session

    def tree_works(self, runner: Runner) -> bool:
        """Whether the branching tree, grown in two passes, has its linear paths' logits."""
        far = runner.lean is None  # whose rotations come from a table as long as the cache
        with narrowed(self.config):
            session = self._open(replace(runner, shift=self.far if far else 0))
            top = session.evaluate(self.tree[:3], PARENTS[:3]).logits
            self.tick()
            low = session.evaluate(self.tree[3:], PARENTS[3:]).logits
            self.tick()
        return not differs(torch.cat((top, low)), self.rows((0, 1, 2, 3, 4), far=far), self.limit)

    def chain_works(self, runner: Runner) -> bool:
        """Whether a chain, a commit of its first node, and a plain step after a rewind have the linear logits."""
        with narrowed(self.config):
            session = self._open(runner)
            first, second = PATHS
            chain = session.evaluate([self.tree[node] for node in first], (ROOT, 0, 1)).logits
            session.commit((0, 1))
            self.tick()
            session.rewind(PREFIX + 1)
            plain = session.evaluate((self.tree[second[1]],), (ROOT,)).logits
            self.tick()
        self.session = session
        return not differs(torch.cat((chain, plain)), self.rows((*first, second[1])), self.limit)

    def layers_work(self, tree: bool) -> bool:
        """Whether nodes that stopped early and went on beside new ones have the linear logits, in the last checked session.

        Args:
            tree: with the branching tree; else with a chain.
        """
        session, path = self.session, PATHS[0]
        nodes, parents = ((0, 1, 2, 3, 4), PARENTS) if tree else (path, (ROOT, 0, 1))
        tokens = [self.tree[node] for node in nodes]
        half = max(1, int(self.config.num_hidden_layers) // 2)
        with narrowed(self.config):
            session.rewind(PREFIX)
            early = session.evaluate(tokens[:1], parents[:1], layers=half).logits
            self.tick()
            session.evaluate(tokens[1:2], parents[1:2], (), layers=half)
            self.tick()
            found = session.evaluate(tokens[2:], parents[2:]).logits
            self.tick()
        # A model that runs all its layers whatever it is told would pass for exact.
        stopped = not torch.equal(early[0], found[0])
        return stopped and not differs(found, self.rows(nodes), self.limit)

    def graphs_work(self, runner: Runner, tree: bool) -> bool:
        """Whether what is recorded on other tokens gives the linear logits when it runs again on these.

        Args:
            runner: records its passes.
            tree: with the branching tree as well.
        """
        first, second = PATHS
        with narrowed(self.config):
            session = self._open(runner)
            for tokens in (self.tree[::-1], self.tree):
                session.rewind(PREFIX - 1)
                session.prefill(self.prefix[-1:])
                parts = ((0, 3), (3, 5)) if tree else ()
                found = [session.evaluate(tokens[a:b], PARENTS[a:b]).kept().logits for a, b in parts]
                session.commit(())
                found.append(session.evaluate([tokens[node] for node in first], (ROOT, 0, 1)).kept().logits)
                session.commit((0, 1))
                session.rewind(PREFIX + 1)
                found.append(session.evaluate((tokens[second[1]],), (ROOT,)).kept().logits)
                self.tick()
        return not differs(torch.cat(found), self.rows((*range(5 * tree), *first, second[1])), self.limit)

    def works(self, runner: Runner) -> bool:
        """Whether trees and chains both do."""
        return self.tree_works(runner) and self.chain_works(runner)

    def agrees(self, check: Check, runner: Runner) -> bool:
        """Whether what holds for a model holds for this twin of it."""
        there, model = replace(runner, module=self.runner.module, lean=None), cast(Any, runner.module)
        return switched(there.module, model.config._attn_implementation) and check(self, there)

    def of_twin(self, lengths: Mapping[str, int]) -> Proof | None:
        """The proof on a twin of the model in which these lengths are short; None if there are none, or it cannot be built."""
        if not lengths:
            return None
        proof: Proof | None = None

        def build() -> bool:
            nonlocal proof
            twin = twin_of(self.runner.module, lengths)
            config = twin.config.get_text_config(decoder=True)
            proof = Proof(replace(self.runner, module=twin), config, self.text, self.tick, self.context)
            return bool(proof.wanted.isfinite().all())

        return proof if attempt(build) else None

    def plain_works(self, feeding: Feeding) -> bool:
        """Whether tokens that go in in this way have the linear logits."""
        path = PATHS[0]
        with narrowed(self.config):
            session = PlainSession(self.runner, PREFIX + 16, feeding)
            session.prefill(self.prefix[:2])
            session.prefill(self.prefix[2:])
            found = session.evaluate([self.tree[node] for node in path], (ROOT, 0, 1)).logits
            self.tick()
        return not differs(found, self.rows(path), self.limit)


class StatesProof:
    """The proof of hidden states, made when somebody first asks for them. It keeps what the linear pass of the load's proof
    showed.

    Args:
        proof: that proof.
        tree: whether trees work.
    """

    def __init__(self, proof: Proof, *, tree: bool) -> None:
        self._config, self._prefix, self._nodes, self._tree = proof.config, proof.prefix, proof.tree, tree
        self._wanted = [proof.states[tap][1].clone() for tap in sorted(proof.states)]

    def works(self, runner: Runner) -> bool:
        """Whether a session with every tap there is hands out the model's own hidden states, after a commit: through a branch
        of the tree if trees work, else a chain."""
        nodes, parents = ((0, 1, 2, 3, 4), PARENTS) if self._tree else (PATHS[1], (ROOT, 0, 1))
        with narrowed(self._config):
            session = opened(runner, self._prefix, range(len(self._wanted)))
            session.evaluate([self._nodes[node] for node in nodes], parents, ())
            session.commit(PATHS[1] if self._tree else (0, 1, 2))
        found = session.states(0, session.length).chunk(len(self._wanted), 1)
        return not any(differs(*pair, tolerance(runner.dtype)) for pair in zip(found, self._wanted, strict=True))


def attempt(check: Callable[[], bool]) -> bool:
    """A check's answer; what fails inside the model counts as a no.

    Raises:
        Cancelled, and whatever is not the model's fault (out of memory).
    """
    try:
        return check()
    except Cancelled:
        raise
    except Exception as error:
        # Models fail in every way there is; here a failure is an answer.
        if out_of_memory(error) or (isinstance(error, UserError) and "memory" in str(error)):
            raise
        logger.warning("proof: %s: %s", type(error).__name__, error)
        return False


def switched(model: Any, name: str) -> bool:
    """Tell the model to use an attention function; whether it does."""
    model.set_attn_implementation(name)
    return bool(model.config.get_text_config(decoder=True)._attn_implementation == name)
