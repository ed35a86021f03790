"""Which of the ways to run a transformers model holds: each is tried, the quickest first, until its proof succeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ....errors import UserError
from ...info import NOT_NUMBERS, UPTO, Capabilities, shortest
from ...rounding import CONTEXTS, LARGE, TOKENS, Rounding, measure, promise
from ...rounding import PASSES as ROUNDING_PASSES
from .. import attention
from ..attention import PAD_ROWS
from ..early_layers import LayerList
from ..lean.lean import lean
from ..masks import native_plan, plans_for
from ..plain import Feeding, cache_name, session_of
from ..rope import find_rope
from ..runner import Runner
from .lengths import unknown_lengths
from .proof import Check, Proof, StatesProof, Tick, attempt, logger, switched

MOST = 8
"""Most rows that a pass is filled up to."""
AMONG = (9, 12, 16, 24)
"""Rows of products that others are compared with: more than a kernel of oneDNN's takes at once."""
MOST_OUTPUTS = 128
"""Outputs that are computed: the order of a sum depends on how many inputs there are."""


def fewest_rows(module: nn.Module) -> int:
    """Find how many rows the products of a model's linear layers need on the CPU, at least; 1 where up to MOST do not help."""
    shapes = set[tuple[int, int, torch.dtype, bool]]()
    for part in module.modules():
        if isinstance(part, nn.Linear | Conv1D):
            across = isinstance(part, Conv1D)
            outputs, inputs = part.weight.shape[::-1] if across else part.weight.shape
            shapes.add((min(outputs, MOST_OUTPUTS), inputs, part.weight.dtype, across))
    found = [_rows(*shape) for shape in shapes]
    return max((rows for rows in found if rows <= MOST), default=1)


@cache
def _rows(outputs: int, inputs: int, dtype: torch.dtype, across: bool) -> int:
    """The same for one shape, whose weights lie input by input if `across`."""
    rows, weight = cancelling(outputs, inputs, dtype)
    if across:
        weight = weight.t().contiguous().t()
    return settled_rows(lambda some: F.linear(some, weight), rows)


def settled_rows(product: Callable[[Tensor], Tensor], rows: Tensor) -> int:
    """Find from how many of some rows [n, inputs] on each has the bits that it has among all."""
    with torch.inference_mode():
        whole = product(rows)
        fewer = (*range(1, MOST + 1), *(n for n in AMONG if n < len(rows)))
        other = (n for n in reversed(fewer) if not torch.equal(product(rows[:n]), whole[:n]))
    return next(other, 0) + 1


def cancelling(outputs: int, inputs: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Make inputs [most of AMONG, inputs] and weights [outputs, inputs] with products of zero.

    Their terms cancel each other, shuffled: of a sum nothing is left but its rounding, which depends on the order of the terms.
    """
    source = torch.Generator().manual_seed(0)
    half = inputs // 2
    order = torch.randperm(2 * half, generator=source)

    def shuffled(count: int, sign: int) -> Tensor:
        terms = torch.randn((count, half), generator=source)
        return F.pad(torch.cat((terms, sign * terms), 1)[:, order], (0, inputs - 2 * half)).to(dtype)

    return shuffled(max(AMONG), -1), shuffled(outputs, 1)


SIDE_BITS = 3
"""In units of the largest logit's last place: how close two choices beside a tree's first path must be for the next pass to
decide (seen at most: 0.7 such units in 1,676 nodes)."""
ENOUGH = 8
"""Nodes of a pass to which a model is held under `--exact auto`: with several threads those of larger passes may be shared out
otherwise, and eight nodes bring most of what drafts do."""
HYBRID = {"linear_attention", "full_attention"}
"""Layer types of the hybrids whose cache can go back a step."""
CHAINS = "Branching drafts would change this model's text here, so methods draft chains, one guess after the other."
CHAINS_BEYOND = (
    "This model reads a text otherwise from {} on, where branching drafts would change it, so methods draft chains, one guess "
    "after the other."
)
NEITHER = (
    "Checking several guesses at once would change this model's text here, so it decodes plainly. Try --dtype float32, or a "
    "GGUF file of it."
)
MORE_KEPT = (
    "This model remembers more than keys and values ({}), which a rejected guess could not be taken out of, so it decodes "
    "plainly. Use another model to draft."
)
UNFIT = (
    "This model cannot write token by token in transformers: it looks ahead, fills in gaps, or has no working KV cache. Load "
    "another causal language model."
)
"""Refusal of models that look ahead, fill in masked tokens, or cannot use a KV cache."""
UNREADABLE = (
    "specchat cannot read this model's hidden states, so trained drafters cannot draft for it. Use a draft model, or lookup."
)
PASSES = 11 + ROUNDING_PASSES
"""Forward passes of a proof that succeeds at once (what `progress` counts up to)."""


class Proven(NamedTuple):
    """What a proof found."""

    runner: Runner
    """What sessions are to be opened with."""
    capabilities: Capabilities
    feeding: Feeding
    """How tokens go in where only plain decoding works."""
    states: StatesProof | None = None
    """None if hidden states cannot be read."""


def rounded(
    runner: Runner, found: Capabilities, text: Sequence[int], limit: int, tick: Tick, parameters: int
) -> Rounding | None:
    """Measure which passes give the bits of passes of one node; None where nothing can be drafted, and for float32 whose rows
    are not kept apart, which is held to its own rounding.

    Args:
        runner: as proven.
        found: what it can do.
        text: TOKENS ids of a text.
        limit: most tokens that the model takes.
        tick: called after each pass.
        parameters: of the model.
    """
    if not found.chain or (runner.dtype == torch.float32 and not runner.padded and not runner.hybrid):
        return None
    session = session_of(replace(runner, exact=runner.padded), min(limit, TOKENS + PAD_ROWS))
    long = runner.device.type != "cpu" or parameters <= LARGE
    return measure(session, text, tick, tree=found.tree, contexts=CONTEXTS if long else CONTEXTS[:-1])


def promised(runner: Runner, found: Capabilities, rounding: Rounding | None, exact: str) -> tuple[Runner, Capabilities]:
    """Return the runner and what it can do with what is promised of its texts (see `rounding.promise`)."""
    if rounding is None:
        return runner, found
    if rounding.exact and runner.padded:
        # Nodes beside a tree's first path may move in their last bits: by a few units of the largest logits' last place.
        side = SIDE_BITS * torch.finfo(runner.dtype).eps * rounding.highest
        return replace(runner, exact=True), replace(promise(found, rounding, hold=False), near_tie=side)
    if runner.dtype == torch.float32 and not runner.hybrid:
        why = "Here passes of many nodes do not give the same bits as passes of one, so identical holds up to float32 rounding."
        return replace(runner, padded=False, fewest=1), replace(found, reasons={**found.reasons, "bits": why})
    return runner, promise(found, rounding, hold=exact == "on" or (exact == "auto" and rounding.most >= ENOUGH))


def prove(runner: Runner, config: Any, text: Sequence[int], tick: Tick, context: int, exact: str = "auto") -> Proven:
    """Find how this model takes trees.

    Args:
        runner: the model; its plan, specs and rope are filled in here.
        config: its text configuration.
        text: TOKENS ids of a text.
        tick: told after each pass.
        context: most tokens of a text.
        exact: as `LoadOptions.exact`.

    Raises:
        UserError: it is no causal language model.
    """
    runner = replace(runner, rope=find_rope(runner.module, context))
    found = _proven(runner, config, text, tick, context, exact)
    if found.capabilities.chain or recurrent(runner.module, config):
        return found
    # The same passes over the same weights: a model that cannot will not now either, but a mishap does not come twice.
    logger.warning("proof: neither trees nor chains; trying once more")
    return _proven(runner, config, text, tick, context, exact)


def _proven(runner: Runner, config: Any, text: Sequence[int], tick: Tick, context: int, exact: str) -> Proven:
    """One attempt; arguments and result are `prove`'s."""
    proof = Proof(runner, config, text, tick, context)
    runner = proof.runner
    lengths = unknown_lengths(config)
    twin = proof.of_twin(lengths)
    hybrid = replace(runner, hybrid=True, tapped=proof.layers)

    def beyond(check: Check, candidate: Runner) -> bool:
        """Whether what holds in a short text holds beyond every length of the configuration as well."""
        return not lengths or (twin is not None and attempt(partial(twin.agrees, check, candidate)))

    def bounded(found: Capabilities) -> Capabilities:
        """The same up to the shortest of these lengths."""
        reasons = {**found.reasons, "reach": UPTO.format(shortest(lengths))}
        return replace(found, reach=min(lengths.values()), reasons=reasons)

    mixed = set(getattr(config, "layer_types", None) or ()) == HYBRID
    if mixed and attempt(partial(proof.chain_works, hybrid)):
        found = _hybrid(hybrid, proof)
        proven = beyond(Proof.chain_works, hybrid)
        return found if proven else found._replace(capabilities=bounded(found.capabilities))
    if recurrent(runner.module, config):
        plainly = "This model is recurrent: it cannot take a guess back, so it decodes plainly. Use another model to draft."
    elif bool(proof.wanted.isnan().any()):
        plainly = NOT_NUMBERS
    else:
        short: tuple[Runner, str] | None = None
        for candidate, check in ways(runner, proof, config, exact):
            if not attempt(partial(check, proof, candidate)):
                continue
            tree = candidate.plan.style != "native"
            if beyond(check, candidate):
                why = {} if tree else {"tree": CHAINS if short is None else CHAINS_BEYOND.format(shortest(lengths))}
                return able(candidate, proof, Capabilities(tree=tree, reasons=why))
            short = short or (candidate, config._attn_implementation)
        if short is not None:
            candidate, attention_name = short
            switched(candidate.module, attention_name)
            proof.chain_works(candidate)
            return able(candidate, proof, bounded(Capabilities(tree=candidate.plan.style != "native")))
        plainly = MORE_KEPT.format(proof.more.replace("_", " ")) if proof.more else NEITHER
    reasons = dict.fromkeys(("tree", "chain", "layers", "states"), plainly)
    proofs = [proof] if twin is None else [proof, twin]
    feedings: Sequence[Feeding] = ("several", "single") if cache_name(runner.module) else ()
    works = (way for way in feedings if all(attempt(partial(each.plain_works, way)) for each in proofs))
    feeding: Feeding | None = next(works, "several" if plainly == NOT_NUMBERS else None)
    if feeding is None:
        raise UserError(UNFIT)
    return Proven(replace(runner, layers=None), Capabilities(tree=False, chain=False, reasons=reasons), feeding)


def ways(runner: Runner, proof: Proof, config: Any, exact: str) -> Iterator[tuple[Runner, Check]]:
    """The ways to give this model its passes, likeliest first, with the check that proves each: trees, at last chains alone.
    The model uses the attention function of the one that came last."""
    model, own = runner.module, config._attn_implementation
    if not attempt(proof.look):
        return
    runner = replace(runner, specs=proof.specs, layers=proof.layers)
    attention.register()
    for name in dict.fromkeys((attention.NAME, own)):
        if not attempt(partial(switched, model, name)):
            continue
        kinds = [*leaner(runner, name), runner]
        padded = [even(kind) for kind in kinds if name == attention.NAME and worth_padding(kind, exact)]
        for plan in plans_for(config):
            for kind in (*padded, *kinds):
                yield replace(kind, plan=plan), Proof.works
    switched(model, own)
    yield replace(runner, plan=native_plan(config)), Proof.chain_works


def worth_padding(runner: Runner, exact: str) -> bool:
    """Whether passes are to be tried in which attention is padded, so that a node's bits do not depend on what is around it.

    Args:
        runner: the model.
        exact: as `LoadOptions.exact`.
    """
    cheap = runner.dtype in (torch.bfloat16, torch.float16) or (runner.lean is not None and runner.lean.halves)
    return runner.device.type == "cpu" and (exact == "on" or (exact == "auto" and cheap))


def even(runner: Runner) -> Runner:
    """The runner with passes in which every node is to have the bits that it has alone."""
    filled = runner.lean is not None and runner.lean.alike
    return replace(runner, padded=True, fewest=1 if filled else fewest_rows(runner.module))


def _hybrid(runner: Runner, proof: Proof) -> Proven:
    """What a model of linear and full attention can do whose chains are proven."""
    where = runner.tapped
    states = StatesProof(proof, tree=False) if where is not None and len(proof.states) == where.count + 1 else None
    reasons = {
        "tree": "This model's linear attention cannot branch, so methods draft chains, one guess after the other.",
        "layers": "This model's linear attention needs every layer, so the first ones cannot draft. Use draft, or lookup.",
    }
    if states is None:
        reasons["states"] = UNREADABLE
    found = Capabilities(tree=False, layers=False, states=states is not None, reasons=reasons)
    return Proven(runner if states is not None else replace(runner, tapped=None), found, "several", states)


def leaner(runner: Runner, attention_name: str) -> list[Runner]:
    """The runner with a lean pass, if this model has one."""
    if attention_name != attention.NAME or not (runner.takes_positions and runner.takes_rows and all(runner.specs)):
        return []
    found = lean(runner.module)
    return [] if found is None else [replace(runner, lean=found, layers=LayerList(("layers",), len(found.layers)))]


def able(runner: Runner, proof: Proof, found: Capabilities) -> Proven:
    """What else a model can do whose passes are proven: stop early, and perhaps hand out hidden states.

    Args:
        runner: as proven.
        proof: its passes.
        found: what it can do for certain.
    """
    where = runner.layers
    runner, early, why = with_layers(runner, proof, tree=found.tree)
    states = StatesProof(proof, tree=found.tree) if where is not None and len(proof.states) == where.count + 1 else None
    if states is None:
        why["states"] = UNREADABLE
    else:
        runner = replace(runner, tapped=where)
    runner, unrecorded = with_graphs(runner, proof, tree=found.tree)
    why |= unrecorded
    found = replace(found, layers=early, states=states is not None, reasons={**found.reasons, **why})
    return Proven(runner, found, "several", states)


def with_graphs(runner: Runner, proof: Proof, *, tree: bool) -> tuple[Runner, dict[str, str]]:
    """The runner with passes recorded on buffers that never move, if that gives the model's own logits, and if not, why."""
    graphs = proof.graphs
    spread = len({spec.device for spec in runner.specs if spec is not None}) > 1
    apart = spread or runner.padded or runner.rope is not None
    if graphs is None or apart or not runner.takes_positions or runner.plan.style == "native":
        return runner, {}
    recorded = replace(runner, graphs=graphs)
    works = attempt(partial(proof.graphs_work, recorded, tree))
    if why := proof.opened.unrecorded or ("" if works else "they did not give this model's own logits"):
        return runner, {"graphs": f"Passes are launched kernel by kernel, not as CUDA graphs: {why.rstrip('.')}."}
    return recorded, {}


def with_layers(runner: Runner, proof: Proof, *, tree: bool) -> tuple[Runner, bool, dict[str, str]]:
    """The runner, whether this model can stop after some of its layers, and if not, why."""
    layers = runner.layers
    if layers is None:
        why = "specchat does not know this model's layers, so the first ones cannot draft. Use draft, or lookup."
    elif layers.count < 2:
        why = "This model has only one layer, so no first ones can draft. Use draft, or lookup."
    elif attempt(partial(proof.layers_work, tree)):
        return runner, True, {}
    else:
        why = "Drafting with its first layers would change this model's text, so they cannot. Use draft, or lookup."
    return replace(runner, layers=None), False, {"layers": why}


def recurrent(model: Any, config: Any) -> bool:
    """Whether the model keeps a state that a token overwrites."""
    types = set(getattr(config, "layer_types", None) or ())
    stateful = {"linear_attention", "conv", "mamba", "mamba2", "recurrent", "hybrid", "hybrid_sliding"}
    return bool(getattr(model, "_is_stateful", False)) or bool(types & stateful)
