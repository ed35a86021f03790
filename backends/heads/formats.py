"""What is known of a trained drafter's folder before its weights are read, and whether it fits a target."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from ...errors import UserError, counted
from .base import Kind

IGNORED = ("t2d", "verifier_lm_head.weight", "verifier_norm.weight")
"""Tensors that only training needs."""

LLAMA = (
    *("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act"),
    *("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters"),
)
"""Keys of a drafter's configuration that its layers go by."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a configuration."""

    taps: tuple[int, ...]
    """Layers whose inputs the drafter reads, as it names them; empty for the usual three. Negative: counted from the end."""
    norm_before_residual: bool = False
    note: str = ""
    """How it differs from the first reading."""
    earlier: bool = False
    """Whether an assistant stands at the position of the last verified token rather than at that of the pending one."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a model has to tell of itself for a drafter to fit it."""

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
    """Where it runs."""
    reads_keys: ClassVar[bool] = False
    """Whether it reads the target's own keys and values."""
    folder: Path
    title: str
    names: Mapping[str, tuple[Path, str]]
    """Tensor → its file and its name there. Here they have the same names in every layout."""
    shapes: Mapping[str, tuple[int, ...]]
    vocabulary: int | None
    """Size of the target's vocabulary, if the configuration says so."""
    trained_for: str
    """The target's name, if the configuration has it."""

    @abstractmethod
    def fitting(self, name: str, target: Target) -> list[Reading]:
        """The readings under which the drafter fits a target, with taps that the target has; at least one.

        Args:
            name: of the drafter, as the user gave it.
            target: the model that it is to draft for.

        Raises:
            UserError: it is not whole, or not for this target; says what is wrong, and what to do.
        """

    @property
    def borrows(self) -> bool:
        """Whether it drafts with the target's LM head."""
        return not any(name.endswith("lm_head.weight") for name in self.shapes)

    @property
    def made_for(self) -> str:
        """A sentence that leads to its target."""
        return f"It was made for {self.trained_for}." if self.trained_for else "Load it with the model it was made for."

    def check_vocabulary(self, name: str, target: Target) -> None:
        """Refuse another vocabulary than the target's."""
        if self.vocabulary is not None and self.vocabulary != target.vocabulary:
            raise UserError(
                f"{name} drafts from a vocabulary of {self.vocabulary:,} tokens, and {target.name} has {target.vocabulary:,}. "
                f"{self.made_for}"
            )

    def check_width(self, name: str, target: Target, width: int) -> None:
        """Refuse a target whose hidden states have another width than it reads."""
        if width != target.width:
            raise UserError(
                f"{name} reads hidden states {width:,} numbers wide, and those of {target.name} have {target.width:,}. "
                f"{self.made_for}"
            )

    def too_deep(self, name: str, target: Target) -> UserError:
        """What is said of a target without the layers that it reads."""
        return UserError(
            f"{name} reads layers that {target.name} does not have: it has {counted(target.layers, 'layer')}. {self.made_for}"
        )

    def other_layers(self, name: str, reads: int, told: int, key: str) -> UserError:
        """What is said of weights that read another number of the target's layers than the configuration names under `key`."""
        return UserError(
            f"{name} reads {counted(reads, 'layer')} of the target (fc.weight), but its config.json names {told}. Set {key} "
            "there as whoever trained it says."
        )

    def check_mask(self, name: str, target: Target, mask: int) -> None:
        """Refuse a mask token that the target does not have."""
        if not 0 <= mask < target.vocabulary:
            raise UserError(
                f"{name} uses the token {mask:,} as its mask, and {target.name} has {target.vocabulary:,} tokens. "
                f"{self.made_for}"
            )


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


def whole(value: Any) -> int | None:
    """A whole number above 0; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A part of a configuration; empty if there is none."""
    part = config.get(key)
    return part if isinstance(part, Mapping) else {}
