"""DFlash, DSpark and DFlash 2 drafters on the disk: z-lab's and SpecForge's (`dflash_config`), those in the `speculators`
layout, DeepSpec's, and transformers' own (`encoder.fc.weight`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..base import Kind
from ..formats import Checkpoint, Config, Format, Taps, count, figure, layer_ids, layer_types, part, verifier

NAMES = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
"""transformers' names of tensors → ours."""

UNUSED = ("confidence_head.proj.weight", "confidence_head.proj.bias")
"""Tensors that predict how long a draft should be; the methods use the tokens' probabilities instead."""

MOST_BLOCK = 256


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
    listed: Taps | None
    """Layers whose inputs it reads; None for the usual ones at the target's depth."""
    speculators: bool
    block: int
    mask: int
    from_anchor: bool
    paths: Markov | Selector | None
    """The layers through which the token before a position changes its guesses; None in a drafter without them."""
    embedding_scale: float
    logit_scale: float
    softcap: float

    @property
    def fuses(self) -> bool:
        return True

    def taps(self, layers: int) -> Taps:
        return self.listed if self.listed is not None else _usual(layers, len(self.views), self.speculators)


TITLES: Mapping[type, str] = {Markov: "DSpark", Selector: "DFlash 2"}
"""Kinds of drafter by their paths; DFlash without any."""


def dflash_format(files: Checkpoint) -> DFlashFormat:
    """Read a DFlash drafter's configuration."""
    config = files.config
    speculators = "speculators_model_type" in config
    layer = part(config, "transformer_layer_config") if speculators else config
    options = _flatten(config)
    block = figure(options, "block_size", 8 if speculators else 16)
    if not 2 <= block <= MOST_BLOCK:
        raise ValueError(f"block_size is {block}")
    paths = _paths(files, options)
    library = any(name in NAMES for _, name in files.names.values())
    return DFlashFormat(
        folder=files.folder,
        title=TITLES.get(type(paths), "DFlash"),
        names=files.names,
        shapes=files.shapes,
        vocabulary=count(layer, "vocab_size"),
        width=count(config, "target_hidden_size"),
        trained_for=verifier(config),
        layer=layer,
        views=_views(layer, options, library=library, second=isinstance(paths, Selector)),
        # `target_layer_ids` counts outputs, speculators' key inputs.
        listed=layer_ids(options, "aux_hidden_state_layer_ids") if speculators else layer_ids(options, "target_layer_ids", 1),
        speculators=speculators,
        block=block,
        mask=int(options["mask_token_id"]),
        # In DSpark drafters (they set markov_rank) the pending token's output is the first guess.
        from_anchor=bool(options.get("sample_from_anchor", "markov_rank" in options or isinstance(paths, Markov))),
        paths=paths,
        embedding_scale=float(options.get("input_embedding_scale") or 1.0),
        logit_scale=float(options.get("output_multiplier") or 1.0),
        softcap=float(options.get("final_logit_softcapping") or 0.0),
    )


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the nested options for this kind of drafter into the configuration."""
    return {**config, **part(config, "dflash_config"), **part(config, "dspark_config")}


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
    kind = kind_of(options, files.shapes)
    if kind == "dflash2":
        if "d2t" in files.shapes:
            raise ValueError("DFlash 2 with a part of the vocabulary")
        return Selector(figure(options, "selector_top_k", 16))
    if kind != "dspark":
        return None
    if options.get("markov_head_type", "vanilla") != "vanilla":
        raise ValueError(f"markov_head_type is {options['markov_head_type']!r:.40}")
    return Markov()


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
    kinds = layer_types(layer, "sliding_attention" if library else "full_attention")
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
        window = figure(options, "swa_window_size", layer.get("sliding_window")) + library
    return tuple(View(window if slides else None, ordered) for slides, ordered in zip(sliding, causal, strict=True))
