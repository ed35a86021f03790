"""What a trained drafter's folder holds, told by its configuration and its tensors' names and shapes, never by its name.

EAGLE-1 and EAGLE-2 (the same weights), and EAGLE-3 as SafeAILab, SpecForge and DeepSpec write it (`midlayer.*`, a Llama-like
configuration) and as `speculators` does (`layers.0.*`, a configuration in parts). Engines disagree on what some configurations
mean: those have several readings, which are measured (see load.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ...errors import UserError, counted
from ..files.checkpoint import PICKLES, header, read_json
from .base import Kind

UNSUPPORTED = {
    "dflash": "DFlash",
    "dflash2": "DFlash",
    "dspark": "DSpark",
    "peagle": "P-EAGLE",
    "mlp": "an MLP speculator",
    "eagle": "EAGLE in the speculators layout",
    "medusa": "Medusa",
}
"""`speculators_model_type`, or what tells the same, of drafters that are known but not for use here yet."""

IGNORED = ("t2d", "verifier_lm_head.weight", "verifier_norm.weight")
"""Tensors that only training needs."""

UNPICKLE = (
    "import torch, safetensors.torch as s; s.save_file({{k: v.clone().contiguous() for k, v in torch.load({file}, "
    "map_location='cpu', weights_only=True).items()}}, {out})"
)
"""Python that turns pickled tensors into safetensors. With `weights_only` torch runs no code of the file."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a configuration."""

    taps: tuple[int, ...]
    """Layers whose inputs the drafter reads, as it names them; empty for the usual three. Negative: counted from the end."""
    norm_before_residual: bool = False
    note: str = ""
    """In what it differs from the first reading."""


@dataclass(frozen=True, slots=True)
class Format:
    """A trained drafter's folder."""

    folder: Path
    kind: Kind
    title: str
    names: Mapping[str, tuple[Path, str]]
    """Tensor → its file and its name there. Here the layers are `layers.0`, `layers.1` … in every layout."""
    shapes: Mapping[str, tuple[int, ...]]
    layer: Mapping[str, Any]
    """The configuration of its layers, in the words of Llama's."""
    layers: int
    readings: tuple[Reading, ...]
    """At least one, the documented one first."""
    vocabulary: int | None
    """Of the target, if the configuration says so."""
    drafted: int | None = None
    """How many token ids it can draft, if the configuration says so."""
    target_width: int | None = None
    """Of the target's hidden states, if the configuration says so."""
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    logit_scale: float = 1.0
    trained_for: str = ""
    """The target's name, if the configuration has it."""

    @property
    def third(self) -> bool:
        """Whether it is EAGLE-3: several layers of the target fused, and attention over that beside the embedding."""
        return self.title == "EAGLE-3"


@dataclass(frozen=True, slots=True)
class Target:
    """What a model has to tell of itself for a drafter to fit it."""

    name: str
    width: int
    """Of its hidden states."""
    layers: int
    vocabulary: int


def read_format(folder: Path, files: list[Path]) -> Format | None:
    """The trained drafter in a folder whose files have been checked; None for anything else.

    Raises:
        UserError: it is one that cannot be used here; says why.
    """
    config = read_json(folder / "config.json")
    names: dict[str, tuple[Path, str]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        for name, tensor in header(file).items():
            ours = name.removeprefix("model.").replace("midlayer.", "layers.0.", 1)
            names[ours], shapes[ours] = (file, name), tuple(tensor["shape"])
    other = _unsupported(config, shapes)
    if other:
        raise UserError(f"{folder} holds {UNSUPPORTED[other]}, which specchat cannot draft with yet. Use an EAGLE head.")
    if "fc.weight" not in shapes or "layers.0.self_attn.q_proj.weight" not in shapes:
        return None
    return _eagle(folder, config, names, shapes)


def refuse_pickles(folder: Path) -> None:
    """Refuse a drafter that comes as a pickle only, with the command that converts it.

    Raises:
        UserError: it is one.
    """
    pickles = sorted(file for pattern in PICKLES for file in folder.glob(pattern))
    if not pickles or next(folder.glob("*.safetensors"), None) or not (folder / "config.json").is_file():
        return
    config = read_json(folder / "config.json")
    # No whole model has one layer; a head's configuration says little more.
    if config.get("num_hidden_layers") == 1 or any(key in config for key in ("draft_vocab_size", "medusa_num_heads")):
        code = UNPICKLE.format(file=repr(str(pickles[0])), out=repr(str(folder / "model.safetensors")))
        raise UserError(
            f"{folder} has only pickled weights, which can run code when opened, so specchat does not open them. Convert them "
            f"once: python -c {json.dumps(code)}"
        )


def _unsupported(config: Mapping[str, Any], shapes: Mapping[str, Any]) -> str:
    """The entry of UNSUPPORTED that a folder is; empty if none."""
    kind = config.get("speculators_model_type")
    if isinstance(kind, str) and kind != "eagle3":
        return kind if kind in UNSUPPORTED else "mlp"
    if "medusa_num_heads" in config or config.get("model_type") == "medusa":
        return "medusa"
    if "markov_rank" in config or any(name.startswith("markov_head.") for name in shapes):
        return "dspark"
    if "dflash_config" in config:
        return "dflash"
    return "peagle" if "mask_hidden" in shapes else ""


def _eagle(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]]
) -> Format:
    """An EAGLE head. The third kind reads its feature beside the embedding, so its attention's input is twice as wide."""
    speculators = "speculators_model_type" in config
    layer = _part(config, "transformer_layer_config") if speculators else config
    eagle = _part(config, "eagle_config")
    query, fc = shapes["layers.0.self_attn.q_proj.weight"], shapes["fc.weight"]
    if len(query) != 2 or len(fc) != 2:
        raise UserError(f"{folder} is damaged: fc.weight has the shape {list(fc)}. Download it again.")
    third = query[1] == 2 * fc[0]
    layers = figure(folder, layer, "num_hidden_layers", 1)
    scale = config.get("logit_scale", 1.0)
    if not isinstance(scale, int | float) or isinstance(scale, bool):
        raise UserError(f"{folder / 'config.json'} does not match the weights next to it (logit_scale is {str(scale)[:40]}).")
    verifier = _part(_part(config, "speculators_config"), "verifier").get("name_or_path")

    def flag(name: str, tensor: str) -> bool:
        said = config.get(name, eagle.get(name))
        return tensor in shapes if said is None else bool(said)

    return Format(
        folder=folder,
        kind="eagle",
        title="EAGLE-3" if third else "EAGLE-1",
        names=names,
        shapes=shapes,
        layer=layer,
        layers=layers,
        readings=_readings(folder, config, eagle, speculators) if third else (Reading((-1,)),),
        vocabulary=_whole(layer.get("vocab_size")),
        drafted=_whole(config.get("draft_vocab_size")) if third else None,
        target_width=_whole(config.get("target_hidden_size")) if third else None,
        norm_before_fc=third and flag("norm_before_fc", "input_norm.weight"),
        fc_norm=third and flag("fc_norm", "fc_norm.0.weight"),
        norm_output=third and bool(config.get("norm_output")),
        logit_scale=float(scale),
        trained_for=verifier if isinstance(verifier, str) else "",
    )


def _readings(folder: Path, config: Mapping[str, Any], eagle: Mapping[str, Any], speculators: bool) -> tuple[Reading, ...]:
    """What the taps and `norm_before_residual` may mean."""
    ids, key = config.get("target_layer_ids"), "eagle_aux_hidden_state_layer_ids"
    shifts: tuple[int, ...] = (1,)  # DeepSpec counts the layers' outputs
    if ids is None:
        # vLLM, llama.cpp and speculators take k for the input of layer k, SGLang for its output.
        ids, shifts = config.get(key, eagle.get(key)), (0, 1)
    if ids is None:
        ids, shifts = [], (0,)
    if not isinstance(ids, list) or not all(isinstance(id, int) and 0 <= id < 4096 for id in ids):
        raise UserError(f"{folder / 'config.json'} does not list the target's layers ({str(ids)[:40]}). Download it again.")
    said = config.get("norm_before_residual")
    # Left out, speculators itself takes it for off, vLLM for on in speculators' files.
    norms = (True, False) if speculators and said is None else (bool(said),)
    found = []
    for shift, norm in product(shifts, norms):
        notes = [f"layers {', '.join(map(str, ids))} taken for outputs"] if shift != shifts[0] else []
        notes += [f"norm_before_residual {'on' if norm else 'off'}"] if norm != norms[0] else []
        found.append(Reading(tuple(id + shift for id in ids), norm, " and ".join(notes)))
    return tuple(found)


def fitting(found: Format, name: str, target: Target) -> list[Reading]:
    """The readings under which a drafter fits a target, with taps that the target has.

    Args:
        found: the drafter.
        name: as the user named it.
        target: the model that it is to draft for.

    Raises:
        UserError: it is not whole, or not for this target; says what is wrong, and what to do.
    """
    made_for = f"It was made for {found.trained_for}." if found.trained_for else "Load it with the model it was made for."
    hidden, inputs = found.shapes["fc.weight"]
    third, width = found.third, target.width
    if found.vocabulary is not None and found.vocabulary != target.vocabulary:
        raise UserError(
            f"{name} drafts from a vocabulary of {found.vocabulary:,} tokens, and {target.name} has {target.vocabulary:,}. "
            f"{made_for}"
        )
    readings = _tapping(found, target.layers)
    if not readings:
        raise UserError(
            f"{name} reads layers that {target.name} does not have: it has {counted(target.layers, 'layer')}. {made_for}"
        )
    taps = len(readings[0].taps)
    reads = found.target_width or hidden
    if reads != width and not (third and found.target_width is None and inputs == taps * width):
        raise UserError(
            f"{name} reads hidden states {reads:,} numbers wide, and those of {target.name} have {width:,}. {made_for}"
        )
    if third and inputs != taps * width:
        raise UserError(
            f"{name} reads {counted(inputs // width, 'layer')} of the target (fc.weight), but its config.json names {taps}. "
            "Set eagle_aux_hidden_state_layer_ids there as whoever trained it says."
        )
    wanted = _expected(found, width, taps, target.vocabulary)
    missing = [tensor for tensor in wanted if tensor not in found.shapes]
    if missing:
        raise UserError(
            f"{name} is missing {counted(len(missing), 'tensor')} that its config.json asks for, such as {missing[0]}. "
            "Download it again, or ask whoever trained it."
        )
    for tensor, shape in wanted.items():
        if found.shapes[tensor] != shape:
            raise UserError(
                f"{name} does not fit {target.name}: {tensor} has the shape {list(found.shapes[tensor])} instead of "
                f"{list(shape)}. {made_for}"
            )
    unknown = [t for t in found.shapes if t not in wanted and t not in IGNORED and "rotary_emb" not in t]
    if unknown:
        raise UserError(
            f"{name} has tensors that specchat does not know, such as {unknown[0]}, so it would not draft as it was trained. "
            "Use another drafter."
        )
    return readings


def _tapping(found: Format, layers: int) -> list[Reading]:
    """The readings that tap layers which a target of so many has."""
    out = []
    for reading in found.readings:
        # The three that everybody takes where a configuration names none.
        taps = tuple(tap % (layers + 1) if tap < 0 else tap for tap in reading.taps) or (2, layers // 2, layers - 3)
        if all(0 <= tap <= layers for tap in taps):
            out.append(replace(reading, taps=taps))
    return out


def _expected(found: Format, width: int, taps: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The tensors that a drafter needs and their shapes, for a target of this hidden width and vocabulary.

    Raises:
        UserError: the configuration lacks a figure.
    """
    shapes, folder = found.shapes, found.folder
    third = found.third
    hidden = shapes["fc.weight"][0]
    heads = figure(folder, found.layer, "num_attention_heads")
    keys = figure(folder, found.layer, "num_key_value_heads", heads)
    head = figure(folder, found.layer, "head_dim", hidden // heads)
    if heads % keys or head % 2:
        raise UserError(
            f"{folder / 'config.json'} has {heads} attention heads of {head} for {keys} key heads, which does not go together. "
            "Download it again."
        )
    out: dict[str, tuple[int, ...]] = {"fc.weight": (hidden, taps * width if third else 2 * hidden)}
    inner = shapes.get("layers.0.mlp.gate_proj.weight", (0,))[0]
    for i in range(found.layers):
        at, reads = f"layers.{i}.", 2 * hidden if third and i == 0 else hidden
        attention = {"q": (heads * head, reads), "k": (keys * head, reads), "v": (keys * head, reads)}
        out |= {f"{at}self_attn.{name}_proj.weight": shape for name, shape in attention.items()}
        out |= {f"{at}self_attn.o_proj.weight": (hidden, heads * head), f"{at}mlp.down_proj.weight": (hidden, inner)}
        out |= {f"{at}mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")}
        out[f"{at}post_attention_layernorm.weight"] = (hidden,)
        if third or i:
            out[f"{at}input_layernorm.weight"] = (hidden,)
        if third and i == 0:
            out[f"{at}hidden_norm.weight"] = (hidden,)
        if f"{at}self_attn.q_norm.weight" in shapes:
            out |= {f"{at}self_attn.{name}_norm.weight": (head,) for name in "qk"}
        if f"{at}self_attn.q_proj.bias" in shapes:
            out |= {f"{at}self_attn.{name}_proj.bias": shape[:1] for name, shape in attention.items()}
        if f"{at}mlp.gate_proj.bias" in shapes:
            out |= {f"{at}mlp.{name}_proj.bias": (inner,) for name in ("gate", "up")}
        ends = (f"{at}self_attn.o_proj.bias", f"{at}mlp.down_proj.bias")
        out |= {name: (hidden,) for name in ends if name in shapes}
    if "fc.bias" in shapes:
        out["fc.bias"] = (hidden,)
    if third:
        out["norm.weight"] = (hidden,)
        out |= {"input_norm.weight": (taps * width,)} if found.norm_before_fc else {}
        out |= {f"fc_norm.{i}.weight": (width,) for i in range(taps)} if found.fc_norm else {}
    drafted = found.drafted or (shapes["d2t"][0] if shapes.get("d2t") else vocabulary)
    if "d2t" in shapes or drafted != vocabulary:
        out["d2t"] = (drafted,)
    if "lm_head.weight" in shapes or "d2t" in out or hidden != width:
        out["lm_head.weight"] = (drafted, hidden)
    if "embed_tokens.weight" in shapes or hidden != width:
        out["embed_tokens.weight"] = (vocabulary, hidden)
    return out


def figure(folder: Path, config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A whole number above 0 of a configuration.

    Raises:
        UserError: there is none.
    """
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{folder / 'config.json'} needs {key}, a whole number above 0, not {str(value)[:40]}.")
    return value


def _whole(value: Any) -> int | None:
    """A whole number above 0; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of a configuration; empty if there is none."""
    part = config.get(key)
    return part if isinstance(part, Mapping) else {}
