"""EAGLE heads on the disk.

EAGLE-1 and EAGLE-2 (the same weights), and EAGLE-3 as SafeAILab, SpecForge and DeepSpec write it (`midlayer.*`, a Llama-like
configuration) and as `speculators` does (`layers.0.*`, a configuration in parts). Engines disagree on what some configurations
mean: those have several readings, which are measured (see load.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from ...errors import UserError
from .base import Kind
from .formats import Format, Reading, Target, figure, part, whole


@dataclass(frozen=True, slots=True)
class EagleFormat(Format):
    """An EAGLE head's folder; the layers are called `layers.0`, `layers.1` …"""

    kind: ClassVar[Kind] = "eagle"
    layer: Mapping[str, Any]
    """The configuration of its layers, in the words of Llama's."""
    layers: int
    readings: tuple[Reading, ...]
    """The readings, at least one, the documented one first."""
    target_width: int | None
    """Width of the target's hidden states, if the configuration says so."""
    norm_before_fc: bool
    fc_norm: bool
    norm_output: bool
    logit_scale: float

    @property
    def third(self) -> bool:
        """Whether it is EAGLE-3: several layers of the target fused, and attention over that beside the embedding."""
        return self.title == "EAGLE-3"

    def fitting(self, name: str, target: Target) -> list[Reading]:
        hidden, inputs = self.shapes["fc.weight"]
        third, width = self.third, target.width
        self.check_vocabulary(name, target)
        readings = self._tapping(target.layers)
        if not readings:
            raise self.too_deep(name, target)
        taps = len(readings[0].taps)
        if not (third and self.target_width is None and inputs == taps * width):
            self.check_width(name, target, self.target_width or hidden)
        if third and inputs != taps * width:
            raise self.other_layers(name, inputs // width, taps, "eagle_aux_hidden_state_layer_ids")
        return readings

    def _tapping(self, layers: int) -> list[Reading]:
        """The readings that tap layers which a target of so many has."""
        out = []
        for reading in self.readings:
            # The three that everybody takes where a configuration names none.
            taps = tuple(tap % (layers + 1) if tap < 0 else tap for tap in reading.taps) or (2, layers // 2, layers - 3)
            if all(0 <= tap <= layers for tap in taps):
                out.append(replace(reading, taps=taps))
        return out


def eagle_format(
    folder: Path, config: Mapping[str, Any], names: Mapping[str, tuple[Path, str]], shapes: Mapping[str, tuple[int, ...]]
) -> EagleFormat:
    """An EAGLE head. The third kind reads its feature beside the embedding, so its attention's input is twice as wide."""
    speculators = "speculators_model_type" in config
    layer = part(config, "transformer_layer_config") if speculators else config
    eagle = part(config, "eagle_config")
    query, fc = shapes["layers.0.self_attn.q_proj.weight"], shapes["fc.weight"]
    if len(query) != 2 or len(fc) != 2:
        raise UserError(f"{folder} is damaged: fc.weight has the shape {list(fc)}. Download it again.")
    third = query[1] == 2 * fc[0]
    layers = figure(folder, layer, "num_hidden_layers", 1)
    scale = config.get("logit_scale", 1.0)
    if not isinstance(scale, int | float) or isinstance(scale, bool):
        raise UserError(f"{folder / 'config.json'} is damaged (logit_scale is {str(scale)[:40]}). Download it again.")
    verifier = part(part(config, "speculators_config"), "verifier").get("name_or_path")

    def flag(name: str, tensor: str) -> bool:
        said = config.get(name, eagle.get(name))
        return tensor in shapes if said is None else bool(said)

    return EagleFormat(
        folder=folder,
        title="EAGLE-3" if third else "EAGLE-1",
        names=names,
        shapes=shapes,
        layer=layer,
        layers=layers,
        readings=_readings(folder, config, eagle, speculators) if third else (Reading((-1,)),),
        vocabulary=whole(layer.get("vocab_size")),
        target_width=whole(config.get("target_hidden_size")) if third else None,
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
