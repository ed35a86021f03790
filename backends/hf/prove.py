"""Capabilities of a transformers model, proven at load: it verifies trees, else chains, else it decodes plainly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...errors import UserError
from ..info import NOT_NUMBERS, Capabilities
from ..proof import attempt, logger
from ..rounding import CONTEXTS, TOKENS, measure, promise
from ..rounding import PASSES as ROUNDING_PASSES
from . import attention
from .attention import PAD_ROWS
from .early_layers import LayerList
from .graphs import Graphs
from .lean.lean import lean
from .masks import native_plan, plans_for
from .plain import Feeding, cache_name, open_session
from .proof import SHORT, WINDOWS, Proof, use_attention
from .rope import find_rope
from .runner import Runner

ROWS = (2, 4, 8)
"""Fewest rows of a padded pass, tried until passes of every size have equal bits: oneDNN's products of one row sum otherwise
than those of several (bfloat16 from about 1,500 inputs on)."""
ENOUGH = 8
"""Nodes of a pass to which a model is held under `--exact auto`: with several threads those of larger passes may be divided
otherwise, and eight nodes bring most of what drafts do."""
HYBRID = {"linear_attention", "full_attention"}
"""Layer types of the hybrids whose cache can go back a step."""
STATEFUL = {"linear_attention", "conv", "mamba", "mamba2", "recurrent", "hybrid", "hybrid_sliding"}
"""Layer types whose state a token overwrites."""

CHAINS = "Branching drafts would change this model's text here, so methods draft chains, one guess after the other."
NEITHER = (
    "Checking several guesses at once would change this model's text here, so it decodes plainly. Try --dtype float32, or a "
    "GGUF file of it."
)
RECURRENT = "This model is recurrent: it cannot take a guess back, so it decodes plainly. Use another model to draft."
CHAINS_BEYOND = (
    "This model may read a text otherwise from {:,} tokens ({} in its configuration) on, where branching drafts could change "
    "it, so methods draft chains, one guess after the other."
)
UNFIT = (
    "This model cannot write token by token in transformers: it looks ahead, fills in gaps, or has no working KV cache. Load "
    "another causal language model."
)
UNREADABLE = (
    "specchat cannot read this model's hidden states, so trained drafters cannot draft for it. Use a draft model, or lookup."
)
NO_LAYERS = "This model's first layers cannot draft for it here. Use draft, or lookup."
FLOAT32_BITS = (
    "Here passes of many nodes do not give the same bits as passes of one, so identical holds up to float32 rounding."
)

PASSES = 12 + ROUNDING_PASSES
"""Forward passes of a proof that succeeds at once (what `progress` counts up to)."""

_LENGTH = re.compile(r"window|chunk_?size|chunk_length|block_size|context_length|_len$|distance|local_attention|index_topk$")
_OTHER = re.compile(r"pattern|layers|^num_|^max_|feed_forward|lm_head")


def unknown_lengths(config: Any) -> dict[str, int]:
    """Find the lengths in a (text) configuration that our masks do not know, such as GPT-Neo's `window_size`: from there on the
    model may read a text otherwise.

    Only what its class declares counts: no model of transformers reads anything else.
    """
    declared = {name for kind in type(config).__mro__ for name in (*vars(kind), *getattr(kind, "__annotations__", ()))}
    return {
        name: value
        for name, value in config.to_dict().items()
        if isinstance(value, int) and not isinstance(value, bool) and value > SHORT
        if name in declared and name not in WINDOWS and _LENGTH.search(name) and not _OTHER.search(name)
    }


@dataclass(frozen=True, slots=True)
class Proven:
    """Result of a proof."""

    runner: Runner
    """Opens sessions."""
    capabilities: Capabilities
    proof: Proof
    """Proves hidden states once they are asked for."""
    feeding: Feeding = "several"
    """Way in which tokens go in where only plain decoding works."""

    def changed(self, *, runner: Runner | None = None, reasons: Mapping[str, str] | None = None, **able: Any) -> Proven:
        """Replace the runner, add reasons, and change capabilities."""
        reasons = {**self.capabilities.reasons, **(reasons or {})}
        return replace(self, runner=runner or self.runner, capabilities=replace(self.capabilities, reasons=reasons, **able))


def prove(
    runner: Runner, config: Any, text: Sequence[int], tick: Callable[[], None], context: int, exact: str = "auto"
) -> Proven:
    """Find the passes that this model can verify.

    Args:
        runner: the model; its plan, specs and rope are set here.
        config: its text configuration.
        text: TOKENS ids of a text.
        tick: called after each pass.
        context: most tokens of a text.
        exact: as `LoadOptions.exact`.

    Raises:
        UserError: it is no causal language model.
    """
    runner, graphs = replace(runner, rope=find_rope(runner.module, context), graphs=None), runner.graphs
    for _ in range(2):  # a model that cannot will not the second time either, but a mishap is not repeated
        proof = Proof(runner, config, text, tick)
        proven = _hybrid(runner, proof)
        kinds = getattr(config, "layer_types", None) or ()
        if proven is None and (getattr(runner.module, "_is_stateful", False) or STATEFUL.intersection(kinds)):
            return _plainly(runner, proof, RECURRENT)
        if proven is None and proof.numbers and attempt(proof.find_specs):
            lengths = unknown_lengths(config)
            proven = None if lengths else _with_trees(runner, proof, exact)
            proven = proven or _with_chains(runner, proof, lengths)
            proven = proven and _with_graphs(_with_layers(proven), graphs)
        if proven is not None:
            return _with_states(proven)
        logger.warning("proof: neither trees nor chains")
    if not proof.numbers:
        return _plainly(runner, proof, NOT_NUMBERS)
    return _plainly(runner, proof, NEITHER)


def _hybrid(runner: Runner, proof: Proof) -> Proven | None:
    """Prove chains of a model of linear and full attention; None for other models, and where they fail."""
    runner = replace(runner, hybrid=True, tapped=proof.layers)
    if set(getattr(proof.config, "layer_types", None) or ()) != HYBRID or not attempt(proof.chains_work, runner):
        return None
    return Proven(runner, Capabilities(tree=False, reasons={"tree": CHAINS, "layers": NO_LAYERS}), proof)


def _with_trees(runner: Runner, proof: Proof, exact: str) -> Proven | None:
    """Prove trees, with the quickest passes that give the model's own logits; None where no pass does. The model's attention
    function is then the one that was tried last."""
    usual = proof.config._attn_implementation
    attention.register()
    for name in dict.fromkeys((attention.NAME, usual)):
        if not attempt(use_attention, runner.module, name):
            continue
        runners = [replace(runner, specs=proof.specs, layers=proof.layers)]
        if name == attention.NAME:
            fits = runner.takes_positions and runner.takes_rows and all(proof.specs)
            if fits and (model := lean(runner.module)) is not None:
                runners.insert(0, replace(runners[0], lean=model, layers=LayerList(("layers",), len(model.layers))))
            runners = [*(even(quick) for quick in runners if _pads(quick, exact)), *runners]
        for plan in plans_for(proof.config):
            for quick in runners:
                if attempt(proof.trees_work, candidate := replace(quick, plan=plan)):
                    return Proven(candidate, Capabilities(), proof)
    use_attention(runner.module, usual)
    return None


def _with_chains(runner: Runner, proof: Proof, lengths: Mapping[str, int]) -> Proven | None:
    """Prove chains, with the model's own masks, which know its `lengths`; None where they fail."""
    runner = replace(runner, specs=proof.specs, layers=proof.layers, plan=native_plan(proof.config))
    if not attempt(proof.chains_work, runner):
        return None
    reason = CHAINS
    if lengths:
        name, length = min(lengths.items(), key=lambda entry: entry[1])
        reason = CHAINS_BEYOND.format(length, name)
    return Proven(runner, Capabilities(tree=False, reasons={"tree": reason}), proof)


def _plainly(runner: Runner, proof: Proof, reason: str) -> Proven:
    """Prove plain decoding on transformers' own cache.

    Raises:
        UserError: that fails too.
    """
    feedings: tuple[Feeding, ...] = ("several", "single") if cache_name(runner.module) else ()
    usual: Feeding | None = "several" if reason == NOT_NUMBERS else None
    feeding = next((feeding for feeding in feedings if attempt(proof.plain_works, feeding)), usual)
    if feeding is None:
        raise UserError(UNFIT)
    reasons = dict.fromkeys(("tree", "chain", "layers", "states"), reason)
    return Proven(runner, Capabilities(tree=False, chain=False, reasons=reasons), proof, feeding)


def _pads(runner: Runner, exact: str) -> bool:
    cheap = runner.dtype in (torch.bfloat16, torch.float16) or (runner.lean is not None and runner.lean.halves)
    return runner.device.type == "cpu" and (exact == "on" or (exact == "auto" and cheap))


def even(runner: Runner) -> Runner:
    """Pad the runner's passes, so that every node should have the bits that it has alone."""
    filled = runner.lean is not None and runner.lean.alike
    return replace(runner, padded=True, fewest=1 if filled else ROWS[0])


def _with_layers(proven: Proven) -> Proven:
    """Prove that the first layers can draft."""
    runner, layers = proven.runner, proven.runner.layers
    if layers is not None and layers.count > 1 and attempt(proven.proof.early_layers_work, runner, proven.capabilities.tree):
        return proven.changed(runner=replace(runner, tapped=layers), layers=True)
    return proven.changed(runner=replace(runner, tapped=layers, layers=None), reasons={"layers": NO_LAYERS})


def _with_graphs(proven: Proven, graphs: type[Graphs] | None) -> Proven:
    """Record passes on buffers that never move, if replays give the model's own logits."""
    runner = proven.runner
    spread = len({spec.device for spec in runner.specs if spec is not None}) > 1
    unfit = spread or runner.padded or runner.rope is not None or not runner.takes_positions or runner.plan.style == "native"
    if graphs is None or unfit:
        return proven
    recorded = replace(runner, graphs=graphs)
    if attempt(proven.proof.graphs_work, recorded, proven.capabilities.tree):
        return proven.changed(runner=recorded)
    reason = proven.proof.unrecorded.rstrip(".") or "they did not give this model's own logits"
    return proven.changed(reasons={"graphs": f"Passes are launched kernel by kernel, not as CUDA graphs: {reason}."})


def _with_states(proven: Proven) -> Proven:
    """Offer hidden states where they can be read; the first session with taps proves them."""
    if proven.proof.has_states:
        return proven.changed(states=True)
    return proven.changed(runner=replace(proven.runner, tapped=None), reasons={"states": UNREADABLE})


def with_bits(proven: Proven, text: Sequence[int], tick: Callable[[], None], *, context: int, long: bool, exact: str) -> Proven:
    """Measure which passes give the bits of plain decoding, and add what is promised of the model's texts.

    Args:
        proven: the model.
        text: TOKENS ids of a text.
        tick: called after each pass.
        context: most tokens of a text.
        long: measure behind a long text too.
        exact: as `LoadOptions.exact`.
    """
    runner, able = proven.runner, proven.capabilities
    float32 = runner.dtype == torch.float32 and not runner.hybrid
    if not able.chain or (float32 and not runner.padded):  # such float32 is held to its own rounding
        return proven
    unit = torch.finfo(runner.dtype).eps if runner.padded else 0.0
    for rows in ROWS if runner.fewest > 1 else (1,):
        runner = replace(runner, fewest=rows)
        session = open_session(replace(runner, exact=runner.padded), min(context, TOKENS + PAD_ROWS))
        rounding = measure(session, text, tick, tree=able.tree, contexts=CONTEXTS if long else CONTEXTS[:-1], unit=unit)
        if rounding.exact:
            break
    if float32 and not rounding.exact:
        return proven.changed(runner=replace(runner, padded=False, fewest=1), reasons={"bits": FLOAT32_BITS})
    hold = exact == "on" or (exact == "auto" and rounding.most >= ENOUGH)
    runner = replace(runner, exact=runner.padded and rounding.exact)
    return replace(proven, runner=runner, capabilities=promise(able, rounding, hold=hold))
