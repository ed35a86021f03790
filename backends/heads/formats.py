"""Formats of trained drafters: a folder's description before its weights are read, and checks that it fits a target."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...errors import UserError, first_line
from .base import HeadInfo, Kind

IGNORED = ("t2d", "verifier_lm_head.weight", "verifier_norm.weight")
"""Tensors that only training needs."""

ORDERING = "masked_embedding.token_ordering"
"""The token ids of each cluster of an assistant's vocabulary, as integers."""

Config = Mapping[str, Any]
"""A drafter's config.json, or an object in it."""

Taps = tuple[int, ...]
"""Layers whose inputs a drafter reads."""


def part(config: Config, key: str) -> Config:
    """Return a nested object; empty if there is none."""
    nested = config.get(key)
    return nested if isinstance(nested, Mapping) else {}


def figure(config: Config, key: str, default: int | None = None) -> int:
    """Return a whole number above 0.

    Raises:
        ValueError: it is missing, or something else.
    """
    value = default if config.get(key) is None else config[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{key} is {value!r:.40}")
    return value


def count(config: Config, key: str) -> int | None:
    """Return a whole number; None for anything else."""
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def layer_ids(config: Config, key: str, shift: int = 0) -> Taps | None:
    """Return a list of the target's layers, each with `shift` added; None if it is missing."""
    return None if config.get(key) is None else tuple(int(id) + shift for id in config[key])


def layer_types(config: Config, default: str = "") -> list[str]:
    """Return the attention of each layer, full or sliding; without a list all are of the default.

    Raises:
        ValueError: there is another kind.
    """
    layers = figure(config, "num_hidden_layers")
    kinds = config.get("layer_types") or [default] * layers
    if len(kinds) < layers or set(kinds) - {"full_attention", "sliding_attention"}:
        raise ValueError(f"layer_types is {kinds!r:.60}")
    return list(kinds[:layers])


def unreadable(place: Path, error: Exception) -> UserError:
    """Make the error for a drafter whose description cannot be used."""
    reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
    return UserError(f"specchat cannot read the drafter in {place} ({reason}). Use another drafter.")


def verifier(config: Config) -> str:
    """Return the target that `speculators` names; empty if there is none."""
    return str(part(part(config, "speculators_config"), "verifier").get("name_or_path") or "")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a drafter's folder."""

    folder: Path
    config: Config
    names: Mapping[str, tuple[Path, str]]
    """Tensor → its file and its name there. The keys are the same in every layout."""
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Target:
    """The facts about a model that decide whether a drafter fits it."""

    name: str
    width: int
    """Width of its hidden states."""
    layers: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class Format(ABC):
    """A trained drafter's folder, or its GGUF file."""

    kind: ClassVar[Kind]
    runtime: ClassVar[Literal["transformers", "llama.cpp"]] = "transformers"
    """The runtime that computes it."""
    reads_keys: ClassVar[bool] = False
    """Whether it reads the target's own keys and values."""
    folder: Path
    title: str
    names: Mapping[str, tuple[Path, str]]
    """Tensor → its file and its name there, as in `Checkpoint`."""
    shapes: Mapping[str, tuple[int, ...]]
    vocabulary: int | None
    """Size of the target's vocabulary, if the configuration says so."""
    width: int | None
    """Width of the target's hidden states, if the configuration says so."""
    trained_for: str
    """The target's name, if the configuration has it."""

    @abstractmethod
    def taps(self, layers: int) -> Taps:
        """Return the layers that it reads of a target with `layers` layers."""

    def fitting(self, name: str, target: Target) -> Taps:
        """Check that the drafter fits a target, and return its taps there.

        Args:
            name: of the drafter, as the user gave it.
            target: the model that it is to draft for.

        Raises:
            UserError: it is incomplete, or for another target; says what is wrong, and what to do.
        """
        taps = self.taps(target.layers)
        inputs = self.shapes["fc.weight"][1] if self.fuses else 0
        if self.vocabulary not in (None, target.vocabulary):
            reason = f"it drafts from a vocabulary of {self.vocabulary:,} tokens, and {target.name} has {target.vocabulary:,}"
        elif self.width not in (None, target.width):
            reason = f"it reads hidden states {self.width:,} numbers wide, and those of {target.name} have {target.width:,}"
        elif not taps or not all(0 <= tap <= target.layers for tap in taps):
            reason = f"it reads layers that {target.name} does not have, which has {target.layers}"
        elif inputs not in (0, len(taps) * target.width):
            reason = f"its fc.weight reads {inputs:,} numbers, and {len(taps)} layers give {len(taps) * target.width:,}"
        else:
            return taps
        raise self.misfit(name, target.name, reason)

    def misfit(self, name: str, target: str, reason: str) -> UserError:
        """Return an error with a reason why it does not fit a target."""
        advice = f"It was made for {self.trained_for}." if self.trained_for else "Load it with the model it was made for."
        return UserError(f"{name} does not fit {target}: {reason}. {advice}")

    def describe(self, name: str, parameters: int, dtype: str, taps: Taps) -> HeadInfo:
        """Collect the facts about the loaded drafter."""
        return HeadInfo(name, self.kind, self.title, parameters=parameters, dtype=dtype, taps=taps, path=str(self.folder))

    @property
    def fuses(self) -> bool:
        """Whether fc.weight reads the target's states side by side."""
        return False

    @property
    def borrows(self) -> bool:
        """Whether it drafts with the target's LM head."""
        return not any(name.endswith("lm_head.weight") for name in self.shapes)


LAYERS_KEY = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True, slots=True)
class EagleFormat(Format):
    """An EAGLE head's folder: EAGLE-1 and EAGLE-2 (the same weights), and EAGLE-3 as SafeAILab, SpecForge and DeepSpec write it
    (`midlayer.*`) and as `speculators` does (`layers.0.*`). Here the layers are called `layers.0`, `layers.1` …"""

    kind: ClassVar[Kind] = "eagle"
    layer: Config
    """The configuration of its layers, with Llama's keys."""
    layers: int
    listed: Taps | None
    """Layers whose inputs it reads; None for the usual three."""
    norm_before_residual: bool
    norm_before_fc: bool
    fc_norm: bool
    norm_output: bool

    @property
    def third(self) -> bool:
        """Whether it is EAGLE-3: it fuses several of the target's layers, and its attention reads that and the embedding."""
        return self.title == "EAGLE-3"

    @property
    def fuses(self) -> bool:
        return self.third

    def taps(self, layers: int) -> Taps:
        return (self.listed or (2, layers // 2, layers - 3)) if self.third else (layers,)


def eagle_format(files: Checkpoint) -> EagleFormat:
    """Read an EAGLE head's configuration. EAGLE-3 reads the features next to the embedding, so its attention's input is twice
    as wide."""
    config, shapes = files.config, files.shapes
    speculators = "speculators_model_type" in config
    layer = part(config, "transformer_layer_config") if speculators else config
    eagle = part(config, "eagle_config")
    hidden, _ = shapes["fc.weight"]
    third = shapes["layers.0.self_attn.q_proj.weight"][1] == 2 * hidden

    def flag(name: str, tensor: str) -> bool:
        return third and bool(config.get(name, eagle.get(name, tensor in shapes)))

    # vLLM, llama.cpp and speculators take k for the input of layer k; DeepSpec counts outputs, under a key of its own.
    inputs = layer_ids(config, LAYERS_KEY) or layer_ids(eagle, LAYERS_KEY)
    return EagleFormat(
        folder=files.folder,
        title="EAGLE-3" if third else "EAGLE-1",
        names=files.names,
        shapes=shapes,
        layer=layer,
        layers=figure(layer, "num_hidden_layers", 1),
        listed=layer_ids(config, "target_layer_ids", 1) or inputs,
        vocabulary=count(layer, "vocab_size"),
        width=count(config, "target_hidden_size") if third else hidden,
        norm_before_residual=bool(config.get("norm_before_residual", speculators)),
        norm_before_fc=flag("norm_before_fc", "input_norm.weight"),
        fc_norm=flag("fc_norm", "fc_norm.0.weight"),
        norm_output=third and bool(config.get("norm_output")),
        trained_for=verifier(config),
    )


MEDUSA_NAMES = (
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.(\d+)\.linear\.(weight|bias)"), r"\1.\2.\3"),
    (re.compile(r"(?:medusa_heads?\.)?(\d+)\.\d+\.weight"), r"\1.lm_head.weight"),
)
"""FasterDecoding's names of tensors → ours: `HEAD.BLOCK.weight`, `HEAD.BLOCK.bias` and `HEAD.lm_head.weight`."""


@dataclass(frozen=True, slots=True)
class MedusaFormat(Format):
    """A folder of Medusa heads."""

    kind: ClassVar[Kind] = "medusa"
    heads: int
    blocks: int
    """Residual blocks of each."""

    def taps(self, layers: int) -> Taps:
        return (layers,)


def medusa_name(name: str) -> str:
    """Translate a Medusa tensor's name to ours; any other name stays."""
    for pattern, ours in MEDUSA_NAMES:
        if match := pattern.fullmatch(name):
            return match.expand(ours)
    return name


def medusa_format(files: Checkpoint) -> MedusaFormat:
    """Read the format of Medusa heads. Their number comes from the tensors: the published configurations say 2 where there
    are 5."""
    matches = [match for name in files.shapes if (match := re.fullmatch(r"(\d+)\.(\d+|lm_head)\.weight", name))]
    blocks = [int(match[2]) for match in matches if match[2] != "lm_head"]
    return MedusaFormat(
        folder=files.folder,
        title="Medusa",
        names=files.names,
        shapes=files.shapes,
        vocabulary=count(files.config, "vocab_size"),
        width=files.shapes["0.lm_head.weight"][1],
        trained_for=str(files.config.get("base_model_name_or_path") or ""),
        heads=max(int(match[1]) for match in matches) + 1,
        blocks=max(blocks, default=-1) + 1,
    )


ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Values of `model_type` of Gemma 4's assistants."""

SLIDING, FULL = "sliding_attention", "full_attention"

ROPE: Mapping[str, Config] = {
    SLIDING: {"rope_theta": 10_000.0},
    FULL: {"rope_theta": 1_000_000.0, "rope_type": "proportional", "partial_rotary_factor": 0.25},
}
"""Defaults of an assistant's rotary positions."""


@dataclass(frozen=True, slots=True)
class AssistantFormat(Format):
    """The folder of a Gemma 4 assistant: a few layers with queries only."""

    kind: ClassVar[Kind] = "eagle"
    reads_keys: ClassVar[bool] = True
    layers: tuple[str, ...]
    """The type of each layer."""
    frequencies: Mapping[str, list[float]]
    """Rotary frequencies of each pair of channels, for each type of layer (radians per position)."""
    window: int
    """Rows that sliding layers see."""
    epsilon: float
    clusters: int
    """Clusters of the vocabulary; 0 if every token is scored."""
    best: int
    """Number of clusters whose tokens are scored."""

    @property
    def borrows(self) -> bool:
        return False

    def taps(self, layers: int) -> Taps:
        return (layers,)


def assistant_format(files: Checkpoint) -> AssistantFormat:
    """Read an assistant's configuration."""
    config = files.config
    text = part(config, "text_config")
    kinds = layer_types(text)
    width = figure(config, "backbone_hidden_size")
    return AssistantFormat(
        folder=files.folder,
        title="Gemma 4 assistant",
        names=files.names,
        shapes=files.shapes,
        vocabulary=count(text, "vocab_size"),
        width=width,
        trained_for="",
        layers=tuple(kinds),
        frequencies={kind: _frequencies(text, kind, kinds.index(kind)) for kind in dict.fromkeys(kinds)},
        window=figure(text, "sliding_window", 512),
        epsilon=float(text.get("rms_norm_eps") or 1e-6),
        best=figure(config, "centroid_intermediate_top_k", 32),
        clusters=figure(config, "num_centroids", 2048) if config.get("use_ordered_embeddings") else 0,
    )


def _frequencies(text: Config, kind: str, layer: int) -> list[float]:
    """Compute the rotary frequencies for layers of one type, the first of which is number `layer`."""
    rope = part(part(text, "rope_parameters"), kind) or ROPE[kind]
    form = rope.get("rope_type", "default")
    if form not in ("default", "proportional"):
        raise ValueError(f"rope_type is {form!r:.40}")
    head_width = figure(text, "head_dim", 256)
    if kind == FULL:
        layers = part(text, "per_layer_config")
        layer_width = part(layers, FULL if FULL in layers else str(layer)).get("head_dim")
        head_width = layer_width or figure(text, "global_head_dim", 512)
    half = head_width // 2
    share = float(rope.get("partial_rotary_factor", 1.0)) if form == "proportional" else 1.0
    base, turning = float(rope.get("rope_theta") or ROPE[kind]["rope_theta"]), int(share * half)
    return [base ** (-i / half) / float(rope.get("factor", 1.0)) if i < turning else 0.0 for i in range(half)]
