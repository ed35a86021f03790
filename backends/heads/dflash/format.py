"""DFlash, DSpark and DFlash 2 drafters on the disk: z-lab's and SpecForge's (`dflash_config`), those in the `speculators`
layout, DeepSpec's, and transformers' own (`encoder.fc.weight`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast, get_args

from ....errors import UserError
from ..base import Kind
from ..formats import Checkpoint, Config, Format, Reading, Target

NAMES = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
"""transformers' names of tensors → ours."""

UNUSED = ("confidence_head.proj.weight", "confidence_head.proj.bias")
"""Tensors that predict how long a draft should be; the methods use the tokens' probabilities instead."""

MOST_BLOCK = 256

MarkovKind = Literal["vanilla", "gated", "rnn"]


@dataclass(frozen=True, slots=True)
class View:
    """The keys that a layer's positions attend to."""

    window: int | None
    """Keys fewer than this many positions away are visible; None for all."""
    causal: bool
    """Whether positions of the block see only those before them."""


@dataclass(frozen=True, slots=True)
class Markov:
    """DSpark's head, through which the token before a position changes its logits."""

    kind: MarkovKind
    rank: int


@dataclass(frozen=True, slots=True)
class Selector:
    """DFlash 2's selector, which rescores each position's most probable tokens by the token before."""

    candidates: int


class BlockShape:
    """The shape of the blocks that a drafter guesses, for its format in a folder and in GGUF."""

    __slots__ = ()
    block: int
    """Positions of a pass, the pending token's among them."""
    mask: int
    """The id of the mask token."""
    from_anchor: bool
    """Whether the pending token's own output is the first guess; else it is the first mask's."""

    @property
    def first(self) -> int:
        """Position in the block of the first guess."""
        return 0 if self.from_anchor else 1

    @property
    def positions(self) -> int:
        """Most positions that it guesses."""
        return self.block - self.first

    def tokens(self, pending: int) -> list[int]:
        """Return the tokens of a block: the pending one and masks."""
        return [pending, *[self.mask] * (self.block - 1)]


@dataclass(frozen=True, slots=True)
class DFlashFormat(BlockShape, Format):
    """The folder of a DFlash, DSpark or DFlash 2 drafter."""

    kind: ClassVar[Kind] = "dflash"
    layer: Mapping[str, Any]
    """The configuration of its layers, with Llama's keys."""
    views: tuple[View, ...]
    """The view of each layer."""
    taps: tuple[int, ...] | None
    """Layers whose inputs it reads; None for the usual ones at the target's depth."""
    speculators: bool
    block: int
    mask: int
    from_anchor: bool
    paths: Markov | Selector | None
    """The layers through which the token before a position changes its guesses; None in a drafter without them."""
    target_width: int | None
    embedding_scale: float
    value_scale: float
    logit_scale: float
    softcap: float

    def fitting(self, name: str, target: Target) -> list[Reading]:
        self.check_vocabulary(name, target)
        taps = self.taps if self.taps is not None else _usual(target.layers, len(self.views), self.speculators)
        if not taps or any(not 0 <= tap <= target.layers for tap in taps):
            raise self.too_deep(name, target)
        shape = self.shapes.get("fc.weight", ())
        hidden, inputs = shape if len(shape) == 2 else (target.width, len(taps) * target.width)
        if inputs != len(taps) * target.width:
            self.check_width(name, target, self.target_width or hidden)
            raise self.other_layers(name, inputs // target.width, len(taps), "target_layer_ids")
        self.check_mask(name, target, self.mask)
        return [Reading(taps)]


def dflash_title(paths: Markov | Selector | None) -> str:
    """Name the kind of drafter with these layers."""
    match paths:
        case Markov():
            return "DSpark"
        case Selector():
            return "DFlash 2"
        case None:
            return "DFlash"


def dflash_format(files: Checkpoint) -> DFlashFormat:
    """Read a DFlash drafter's configuration.

    Raises:
        UserError: a figure is missing from it, or it asks for something that specchat cannot do.
    """
    config = files.config
    speculators = "speculators_model_type" in config.values
    layer = config.part("transformer_layer_config") if speculators else config
    options = Config(config.file, _flatten(config.values))
    refused = next((key for key in ("attention_sink_bias", "shift_label") if options.get(key)), "")
    if refused or options.get("is_neox_style") is False or options.get("rope_is_neox_style") is False:
        raise UserError(
            f"{config.file} sets {refused or 'is_neox_style'}, which specchat cannot draft with yet. Use another drafter."
        )
    block = options.figure("block_size", 8 if speculators else 16)
    if not 2 <= block <= MOST_BLOCK:
        raise UserError(f"{config.file} needs a block_size of 2 to {MOST_BLOCK}.")
    mask = options.get("mask_token_id")
    if not isinstance(mask, int) or isinstance(mask, bool):
        raise UserError(f"{config.file} needs mask_token_id, not {str(mask)[:40]}.")
    paths = _paths(files, options)
    library = any(name in NAMES for _, name in files.names.values())
    return DFlashFormat(
        folder=files.folder,
        title=dflash_title(paths),
        names=files.names,
        shapes=files.shapes,
        vocabulary=layer.count("vocab_size"),
        trained_for=config.verifier,
        layer=layer.values,
        views=_views(layer, options, library=library, second=isinstance(paths, Selector)),
        taps=_taps(options, speculators),
        speculators=speculators,
        block=block,
        mask=mask,
        # In DSpark drafters (they set markov_rank) the pending token's output is the first guess.
        from_anchor=bool(options.get("sample_from_anchor", "markov_rank" in options.values or isinstance(paths, Markov))),
        paths=paths,
        target_width=config.count("target_hidden_size"),
        embedding_scale=options.number("input_embedding_scale", 1.0),
        value_scale=options.number("attention_value_scale", 1.0),
        logit_scale=options.number("output_multiplier", 1.0),
        softcap=options.number("final_logit_softcapping", 0.0),
    )


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the nested options for this kind of drafter into the configuration."""
    nested = [part for key in ("dflash_config", "dspark_config") if isinstance(part := config.get(key), Mapping)]
    return {key: value for options in (config, *nested) for key, value in options.items()}


def kind_of(config: Mapping[str, Any], shapes: Mapping[str, Any]) -> Literal["dspark", "dflash2", "dflash"] | None:
    """Identify which of these drafters a folder holds, by its configuration and its tensors' names; None for any other."""
    options, model_type = _flatten(config), config.get("speculators_model_type")
    prefixes = {name.partition(".")[0] for name in shapes}
    if options.get("selector_rank") or model_type == "dflash2" or "candidate_selector" in prefixes:
        return "dflash2"
    if options.get("markov_rank") or model_type == "dspark" or "markov_head" in prefixes:
        return "dspark" if options.get("markov_rank") != 0 else "dflash"
    plain = "dflash_config" in config or model_type == "dflash" or shapes.keys() >= {"fc.weight", "hidden_norm.weight"}
    return "dflash" if plain else None


def _paths(files: Checkpoint, options: Config) -> Markov | Selector | None:
    """Read the options of DSpark's or DFlash 2's head; None in plain DFlash."""
    kind = kind_of(options.values, files.shapes)
    if kind == "dflash2":
        if options.get("draft_vocab_size") and "d2t" in files.shapes:
            raise UserError(f"{files.folder} drafts a part of the vocabulary, which DFlash 2 does not do. Use another drafter.")
        return Selector(options.figure("selector_top_k", 16))
    if kind != "dspark":
        return None
    form = options.get("markov_head_type", "vanilla")
    if form not in get_args(MarkovKind):
        raise UserError(f"{options.file} needs a markov_head_type of {', '.join(get_args(MarkovKind))}, not {str(form)[:40]}.")
    return Markov(cast(MarkovKind, form), options.figure("markov_rank", 256))


def _taps(options: Config, speculators: bool) -> tuple[int, ...] | None:
    """Read the taps, as layers' inputs: `target_layer_ids` counts outputs, speculators' key inputs."""
    ids = options.layer_ids("aux_hidden_state_layer_ids" if speculators else "target_layer_ids")
    return None if ids is None else tuple(id + (not speculators) for id in ids)


def _usual(layers: int, drafter_layers: int, speculators: bool) -> tuple[int, ...]:
    """Return the usual taps for a target of `layers` layers, for a configuration that names none."""
    if speculators:
        return (2, layers // 2, layers - 3)
    if drafter_layers == 1:
        return (layers // 2 + 1,)
    return tuple(round(1 + i * (layers - 4) / (drafter_layers - 1)) + 1 for i in range(drafter_layers))


def _views(layer: Config, options: Config, *, library: bool, second: bool) -> tuple[View, ...]:
    """Read each layer's view. By default sliding layers are causal within the block, except in DFlash 2 (`second`) and in
    transformers (`library`), whose window also includes its last position."""
    kinds = layer.layer_types(layer.figure("num_hidden_layers"), "sliding_attention" if library else "full_attention")
    sliding = [kind == "sliding_attention" for kind in kinds]
    both_ways = library or options.get("sliding_window_non_causal", second)
    causal = [slides and not both_ways for slides in sliding]
    causal_option = options.get("is_causal", options.get("causal"))
    if causal_option is not None:
        causal = [bool(causal_option)] * len(kinds)
    if options.get("use_swa") and not any(sliding):
        sliding = [True] * len(kinds)
    window = None
    if any(sliding):
        swa = options.get("swa_window_size") is not None
        window = (options.figure("swa_window_size") if swa else layer.figure("sliding_window")) + library
    return tuple(View(window if slides else None, ordered) for slides, ordered in zip(sliding, causal, strict=True))
