"""EAGLE heads on the disk.

EAGLE-1 and EAGLE-2 (the same weights), and EAGLE-3 as SafeAILab, SpecForge and DeepSpec write it (`midlayer.*`, a Llama-like
configuration) and as `speculators` does (`layers.0.*`, a configuration in parts). Engines disagree on what some configurations
mean: those have several readings, which are measured (see load.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

from ...errors import UserError
from .base import Kind
from .formats import Checkpoint, Config, Format, Reading, Target

LAYERS_KEY = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True, slots=True)
class EagleFormat(Format):
    """An EAGLE head's folder; the layers are called `layers.0`, `layers.1` …"""

    kind: ClassVar[Kind] = "eagle"
    layer: Mapping[str, Any]
    """The configuration of its layers, with Llama's keys."""
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
        """Whether it is EAGLE-3: it fuses several of the target's layers, and its attention reads that and the embedding."""
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
            raise self.other_layers(name, inputs // width, taps, LAYERS_KEY)
        return readings

    def _tapping(self, layers: int) -> list[Reading]:
        """Return the readings whose taps exist in a target with `layers` layers."""
        out = []
        for reading in self.readings:
            # The usual three, if the configuration names none.
            taps = tuple(tap % (layers + 1) if tap < 0 else tap for tap in reading.taps) or (2, layers // 2, layers - 3)
            if all(0 <= tap <= layers for tap in taps):
                out.append(replace(reading, taps=taps))
        return out


def eagle_format(files: Checkpoint) -> EagleFormat:
    """Read an EAGLE head's configuration. EAGLE-3 reads the features next to the embedding, so its attention's input is twice
    as wide."""
    config, shapes = files.config, files.shapes
    layer = config.part("transformer_layer_config") if "speculators_model_type" in config.values else config
    eagle = config.part("eagle_config")
    query, fc = shapes["layers.0.self_attn.q_proj.weight"], shapes["fc.weight"]
    if len(query) != 2 or len(fc) != 2:
        raise UserError(f"{files.folder} is damaged: fc.weight has the shape {list(fc)}. Download it again.")
    third = query[1] == 2 * fc[0]

    def flag(name: str, tensor: str) -> bool:
        return third and bool(config.get(name, eagle.get(name, tensor in shapes)))

    return EagleFormat(
        folder=files.folder,
        title="EAGLE-3" if third else "EAGLE-1",
        names=files.names,
        shapes=shapes,
        layer=layer.values,
        layers=layer.figure("num_hidden_layers", 1),
        readings=_readings(config, eagle) if third else (Reading((-1,)),),
        vocabulary=layer.count("vocab_size"),
        target_width=config.count("target_hidden_size") if third else None,
        norm_before_fc=flag("norm_before_fc", "input_norm.weight"),
        fc_norm=flag("fc_norm", "fc_norm.0.weight"),
        norm_output=third and bool(config.get("norm_output")),
        logit_scale=config.number("logit_scale", 1.0),
        trained_for=config.verifier,
    )


def _readings(config: Config, eagle: Config) -> tuple[Reading, ...]:
    """List the possible meanings of the taps and of `norm_before_residual`."""
    shifts: tuple[int, ...] = (1,)  # DeepSpec counts the layers' outputs
    ids = config.layer_ids("target_layer_ids")
    if ids is None:
        # vLLM, llama.cpp and speculators take k for the input of layer k, SGLang for its output.
        ids = config.layer_ids(LAYERS_KEY) or eagle.layer_ids(LAYERS_KEY)
        shifts = (0, 1) if ids else (0,)
    before_residual = config.get("norm_before_residual")
    norms: tuple[bool, ...] = (bool(before_residual),)
    if before_residual is None and "speculators_model_type" in config.values:
        norms = (True, False)  # vLLM's default is on for these files, speculators' own is off
    readings = []
    for shift, norm in product(shifts, norms):
        notes = [f"layers {', '.join(map(str, ids or ()))} taken for outputs"] if shift != shifts[0] else []
        notes += [f"norm_before_residual {'on' if norm else 'off'}"] if norm != norms[0] else []
        readings.append(Reading(tuple(id + shift for id in ids or ()), norm, " and ".join(notes)))
    return tuple(readings)
