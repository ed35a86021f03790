"""DFlash, DSpark and DFlash 2 drafters on the disk: z-lab's and SpecForge's (`dflash_config`), those in the `speculators`
layout, DeepSpec's, and transformers' own (`encoder.fc.weight`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

from ....errors import UserError, counted
from ..base import Kind
from ..formats import Format, Reading, Target, figure, part, whole

NAMES = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
"""transformers' names of tensors → what they are called here."""

UNUSED = ("confidence_head.proj.weight", "confidence_head.proj.bias")
"""Tensors that say how long a draft should be; here the probabilities of its tokens do."""

MOST_BLOCK = 256

MarkovKind = Literal["vanilla", "gated", "rnn"]


@dataclass(frozen=True, slots=True)
class View:
    """What a layer's positions see of each other, and of the text."""

    window: int | None
    """They see keys less than so many positions away; None for all."""
    causal: bool
    """Whether positions of the block see only those before them."""


@dataclass(frozen=True, slots=True)
class Markov:
    """DSpark's head, by which the token before a position changes its logits."""

    kind: MarkovKind
    rank: int


@dataclass(frozen=True, slots=True)
class Selector:
    """DFlash 2's choice among the most probable tokens of each position, by the token before."""

    candidates: int


@dataclass(frozen=True, slots=True)
class DFlashFormat(Format):
    """The folder of a DFlash drafter, or of one of its relatives."""

    kind: ClassVar[Kind] = "dflash"
    layer: Mapping[str, Any]
    """The configuration of its layers, in the words of Llama's."""
    views: tuple[View, ...]
    """What each layer sees."""
    taps: tuple[int, ...] | None
    """Layers whose inputs it reads; None for those that everybody takes for a target of that depth."""
    speculators: bool
    block: int
    """Positions of a pass, the pending token's among them."""
    mask: int
    """The token that stands for one not known yet."""
    from_anchor: bool
    """Whether the pending token's own output is the first guess; else it is the first mask's."""
    paths: Markov | Selector | None
    """The layers through which the token before a position changes its guesses; None in a drafter without them."""
    target_width: int | None
    embedding_scale: float
    value_scale: float
    logit_scale: float
    softcap: float

    @property
    def positions(self) -> int:
        """The most that it guesses."""
        return self.block if self.from_anchor else self.block - 1

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


def dflash_format(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]]
) -> DFlashFormat:
    """A DFlash drafter.

    Raises:
        UserError: its configuration lacks a figure, or asks for what specchat cannot do.
    """
    speculators = "speculators_model_type" in config
    library = any(name in NAMES for _, name in names.values())
    layer = part(config, "transformer_layer_config") if speculators else config
    given = _given(config)
    refused = next((key for key in ("attention_sink_bias", "shift_label") if given.get(key)), "")
    if refused or given.get("is_neox_style") is False or given.get("rope_is_neox_style") is False:
        raise UserError(
            f"{folder / 'config.json'} sets {refused or 'is_neox_style'}, which specchat cannot draft with yet. Use another "
            "drafter."
        )
    layers = figure(folder, layer, "num_hidden_layers")
    block = figure(folder, given, "block_size", 8 if speculators else 16)
    mask = given.get("mask_token_id")
    if not isinstance(mask, int) or isinstance(mask, bool) or not 2 <= block <= MOST_BLOCK:
        what = f"mask_token_id, not {str(mask)[:40]}" if 2 <= block <= MOST_BLOCK else f"a block_size of 2 to {MOST_BLOCK}"
        raise UserError(f"{folder / 'config.json'} needs {what}.")
    paths = _paths(folder, given, shapes)
    verifier = part(part(config, "speculators_config"), "verifier").get("name_or_path")
    return DFlashFormat(
        folder=folder,
        title="DSpark" if isinstance(paths, Markov) else "DFlash 2" if paths is not None else "DFlash",
        names=names,
        shapes=shapes,
        vocabulary=whole(layer.get("vocab_size")),
        trained_for=verifier if isinstance(verifier, str) else "",
        layer=layer,
        views=_views(folder, layer, given, layers, library, isinstance(paths, Selector)),
        taps=_taps(folder, given, speculators),
        speculators=speculators,
        block=block,
        mask=mask,
        # DSpark's, which say markov_rank, take the pending token's output for the first guess.
        from_anchor=bool(given.get("sample_from_anchor", "markov_rank" in given or isinstance(paths, Markov))),
        paths=paths,
        target_width=whole(config.get("target_hidden_size")),
        embedding_scale=_number(folder, given, "input_embedding_scale", 1.0),
        value_scale=_number(folder, given, "attention_value_scale", 1.0),
        logit_scale=_number(folder, given, "output_multiplier", 1.0),
        softcap=_number(folder, given, "final_logit_softcapping", 0.0),
    )


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with its parts for this kind of drafter laid open."""
    return {**config, **part(config, "dflash_config"), **part(config, "dspark_config")}


def kind_of(config: Mapping[str, Any], shapes: Mapping[str, Any]) -> Literal["dspark", "dflash2", "dflash"] | None:
    """Which of these drafters a folder holds, by its configuration and its tensors' names; None for any other."""
    given, told = _given(config), config.get("speculators_model_type")
    if given.get("selector_rank") or told == "dflash2" or any(name.startswith("candidate_selector.") for name in shapes):
        return "dflash2"
    if given.get("markov_rank") or told == "dspark" or any(name.startswith("markov_head.") for name in shapes):
        return "dspark" if given.get("markov_rank") != 0 else "dflash"
    plain = "dflash_config" in config or told == "dflash" or shapes.keys() >= {"fc.weight", "hidden_norm.weight"}
    return "dflash" if plain else None


def _paths(folder: Path, given: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Markov | Selector | None:
    """What makes guesses go by the token before."""
    kind = kind_of(given, shapes)
    if kind == "dflash2":
        if given.get("draft_vocab_size") and "d2t" in shapes:
            raise UserError(f"{folder} drafts a part of the vocabulary, which DFlash 2 does not do. Use another drafter.")
        return Selector(figure(folder, given, "selector_top_k", 16))
    if kind != "dspark":
        return None
    form = given.get("markov_head_type") or "vanilla"
    if form not in get_args(MarkovKind):
        raise UserError(
            f"{folder / 'config.json'} needs a markov_head_type of {', '.join(get_args(MarkovKind))}, not {str(form)[:40]}."
        )
    return Markov(cast(MarkovKind, form), figure(folder, given, "markov_rank", 256))


def _taps(folder: Path, given: Mapping[str, Any], speculators: bool) -> tuple[int, ...] | None:
    """The inputs that are read: `target_layer_ids` counts the layers' outputs, speculators' key their inputs."""
    key = "aux_hidden_state_layer_ids" if speculators else "target_layer_ids"
    ids = given.get(key)
    if ids is None:
        return None
    if not isinstance(ids, list) or not ids or not all(isinstance(id, int) and -1 <= id < 4096 for id in ids):
        raise UserError(f"{folder / 'config.json'} does not list the target's layers ({str(ids)[:40]}). Download it again.")
    return tuple(ids) if speculators else tuple(id + 1 for id in ids)


def _usual(layers: int, own: int, speculators: bool) -> tuple[int, ...]:
    """The inputs that everybody takes for a target of so many layers where a configuration names none."""
    if speculators:
        return (2, layers // 2, layers - 3)
    if own == 1:
        return (layers // 2 + 1,)
    return tuple(round(1 + i * (layers - 4) / (own - 1)) + 1 for i in range(own))


def _views(
    folder: Path,
    layer: Mapping[str, Any],
    given: Mapping[str, Any],
    layers: int,
    library: bool,
    second: bool,
) -> tuple[View, ...]:
    """What each layer sees. Sliding layers are causal within the block, if nothing else is said; not so in DFlash 2 (`second`),
    and in transformers, whose window includes its last position."""
    types = layer.get("layer_types")
    if types is None:
        types = ["sliding_attention" if library else "full_attention"] * layers
    if not isinstance(types, list) or len(types) < layers or set(types) - {"full_attention", "sliding_attention"}:
        raise UserError(f"{folder / 'config.json'} needs layer_types, one for each of {counted(layers, 'layer')}.")
    sliding = [kind == "sliding_attention" for kind in types[:layers]]
    both_ways = library or given.get("sliding_window_non_causal", second)
    causal = [slides and not both_ways for slides in sliding]
    said = next((given[key] for key in ("is_causal", "causal") if given.get(key) is not None), None)
    if said is not None:
        causal = [bool(said)] * layers
    if given.get("use_swa") and not any(sliding):
        sliding = [True] * layers
    window = None
    if any(sliding):
        key = "swa_window_size" if given.get("swa_window_size") is not None else "sliding_window"
        window = figure(folder, given if key == "swa_window_size" else layer, key) + library
    return tuple(View(window if slides else None, ordered) for slides, ordered in zip(sliding, causal, strict=True))


def _number(folder: Path, given: Mapping[str, Any], key: str, default: float) -> float:
    value = given.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{folder / 'config.json'} needs a number for {key}, not {str(value)[:40]}.")
    return float(value)
