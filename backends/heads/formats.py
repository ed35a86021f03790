"""Formats of trained drafters: a folder's description before its weights are read, and checks that it fits a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...errors import UserError, counted
from .base import HeadInfo, Kind

IGNORED = ("t2d", "verifier_lm_head.weight", "verifier_norm.weight")
"""Tensors that only training needs."""

LLAMA = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "hidden_act",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
)
"""Keys of a drafter's configuration that define its layers, as in Llama's."""


@dataclass(frozen=True, slots=True)
class Config:
    """A drafter's config.json, or an object in it."""

    file: Path
    values: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; the default if it is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def part(self, key: str) -> Config:
        """Return a nested object; empty if there is none."""
        part = self.values.get(key)
        return Config(self.file, part if isinstance(part, Mapping) else {})

    def count(self, key: str) -> int | None:
        """Return a whole number above 0, and None for anything else."""
        value = self.values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def figure(self, key: str, default: int | None = None) -> int:
        """Return a whole number above 0.

        Raises:
            UserError: it is missing, or something else.
        """
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{self.file} needs {key}, a whole number above 0, not {str(value)[:40]}.")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number.

        Raises:
            UserError: it is something else.
        """
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{self.file} needs a number for {key}, not {str(value)[:40]}.")
        return float(value)

    def layer_ids(self, key: str) -> list[int] | None:
        """Return a list of the target's layers; None if it is missing.

        Raises:
            UserError: it is something else.
        """
        ids = self.get(key)
        if ids is None:
            return None
        if not isinstance(ids, list) or not ids or not all(isinstance(id, int) and -1 <= id < 4096 for id in ids):
            raise UserError(f"{self.file} does not list the target's layers ({str(ids)[:40]}). Download it again.")
        return ids

    def layer_types(self, count: int, default: str = "") -> list[str]:
        """Return the attention of each of `count` layers, full or sliding; without a list all are of the default.

        Raises:
            UserError: it is something else.
        """
        kinds = self.get("layer_types", [default] * count)
        if not isinstance(kinds, list) or len(kinds) < count or set(kinds) - {"full_attention", "sliding_attention"}:
            raise UserError(f"{self.file} needs layer_types, one for each of {counted(count, 'layer')}.")
        return kinds[:count]

    @property
    def verifier(self) -> str:
        """The target that `speculators` names; empty if there is none."""
        name = self.part("speculators_config").part("verifier").get("name_or_path")
        return name if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of a drafter's folder."""

    folder: Path
    config: Config
    names: Mapping[str, tuple[Path, str]]
    """Tensor → its file and its name there. The keys are the same in every layout."""
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a configuration."""

    taps: tuple[int, ...]
    """Layers whose inputs the drafter reads, as it names them; empty for the usual three. Negative: counted from the end."""
    norm_before_residual: bool = False
    note: str = ""
    """Its difference from the first reading, as a phrase."""


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
    trained_for: str
    """The target's name, if the configuration has it."""

    @abstractmethod
    def fitting(self, name: str, target: Target) -> list[Reading]:
        """Return the readings under which the drafter fits a target, with taps that the target has; at least one.

        Args:
            name: of the drafter, as the user gave it.
            target: the model that it is to draft for.

        Raises:
            UserError: it is incomplete, or for another target; says what is wrong, and what to do.
        """

    def describe(self, name: str, parameters: int, dtype: str, reading: Reading, note: str = "") -> HeadInfo:
        """Collect the facts about the loaded drafter, with a note on how it was read."""
        return HeadInfo(
            name=name,
            kind=self.kind,
            title=self.title,
            parameters=parameters,
            dtype=dtype,
            taps=reading.taps,
            path=str(self.folder),
            notes=(note,) if note else (),
        )

    @property
    def borrows(self) -> bool:
        """Whether it drafts with the target's LM head."""
        return not any(name.endswith("lm_head.weight") for name in self.shapes)

    @property
    def made_for(self) -> str:
        """A sentence that leads to its target."""
        return f"It was made for {self.trained_for}." if self.trained_for else "Load it with the model it was made for."

    def misfit(self, reason: str) -> UserError:
        """Return an error with a reason why it does not fit a target."""
        return UserError(f"{reason}. {self.made_for}")

    def check_vocabulary(self, name: str, target: Target) -> None:
        """Refuse a drafter whose vocabulary is not the target's."""
        if self.vocabulary is not None and self.vocabulary != target.vocabulary:
            raise self.misfit(
                f"{name} drafts from a vocabulary of {self.vocabulary:,} tokens, and {target.name} has {target.vocabulary:,}"
            )

    def check_width(self, name: str, target: Target, width: int) -> None:
        """Refuse a target whose hidden states are not `width` wide."""
        if width != target.width:
            raise self.misfit(
                f"{name} reads hidden states {width:,} numbers wide, and those of {target.name} have {target.width:,}"
            )

    def check_mask(self, name: str, target: Target, mask: int) -> None:
        """Refuse a mask token that the target does not have."""
        if not 0 <= mask < target.vocabulary:
            raise self.misfit(f"{name} uses the token {mask:,} as its mask, and {target.name} has {target.vocabulary:,} tokens")

    def too_deep(self, name: str, target: Target) -> UserError:
        """Return the error about a target without the layers that it reads."""
        return self.misfit(f"{name} reads layers that {target.name} does not have: it has {counted(target.layers, 'layer')}")

    def other_layers(self, name: str, reads: int, named: int, key: str) -> UserError:
        """Return the error about weights that read `reads` layers where the configuration names `named` under `key`."""
        return UserError(
            f"{name} reads {counted(reads, 'layer')} of the target (fc.weight), but its config.json names {named}. Set {key} "
            "there as whoever trained it says."
        )
