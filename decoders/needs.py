"""What a method needs of the target and of what is loaded beside it; each need says what is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from ..backends.heads.base import HeadName, Kind
from ..backends.info import Capabilities

TRAINED = {
    "eagle": "an EAGLE head trained for this model",
    "medusa": "Medusa heads trained for this model",
    "dflash": "a DFlash drafter trained for this model",
}
"""Kinds of trained drafters, as a sentence names them."""


@dataclass(frozen=True, slots=True)
class Present:
    """What there is for a method to work with."""

    capabilities: Capabilities
    draft_model: bool = True
    """Whether there is a draft model."""
    pard: bool = True
    """Whether it is a PARD model."""
    head: HeadName | None = None
    """The trained drafter, if there is one."""

    @property
    def loaded(self) -> HeadName | None:
        """A trained drafter that somebody has loaded: not an MTP layer, which is the model's own."""
        return None if self.head is None or self.head.kind == "mtp" else self.head


class Need(ABC):
    """One thing that a method cannot do without."""

    @abstractmethod
    def lacks(self, present: Present) -> str:
        """Why it is not met; empty if it is."""


class Chains(Need):
    """The target can verify chains: every method that drafts needs it."""

    def lacks(self, present: Present) -> str:
        able = present.capabilities
        return "" if able.chain else able.reasons.get("chain", "This model cannot verify drafts.")


class Trees(Need):
    """The target can verify branching trees. Other methods draft a chain where `Context.branching` is False."""

    def lacks(self, present: Present) -> str:
        able = present.capabilities
        return "" if able.tree else able.reasons.get("tree", "This model cannot verify branching trees.")


class FirstLayers(Need):
    """The target can stop after some of its layers, or it is not known yet."""

    def lacks(self, present: Present) -> str:
        able = present.capabilities
        return "" if able.layers else able.reasons.get("layers", "")


class DraftModel(Need):
    """A second, smaller model."""

    def lacks(self, present: Present) -> str:
        if present.draft_model:
            return ""
        if (head := present.loaded) is not None:
            return f"it needs a draft model, and {head.name} is a trained drafter ({head.title}). Use the method {head.kind}."
        return "it needs a draft model. Load one with --draft-model."


class Pard(Need):
    """The draft model is a PARD one (`ModelInfo.pard_token`)."""

    def lacks(self, present: Present) -> str:
        if present.pard:
            return ""
        return (
            "it needs a PARD draft model, one whose config.json has a pard_token (a GGUF file: a mask token). Load one with "
            "--draft-model."
        )


@dataclass(frozen=True, slots=True)
class TrainedDrafter(Need):
    """A drafter of this kind that was trained for the target."""

    kind: Kind

    def lacks(self, present: Present) -> str:
        head = present.head
        if head is not None and head.kind == self.kind:
            return ""
        if self.kind == "mtp":
            return "it needs an MTP layer in the model's own checkpoint, and no other trained drafter as --draft-model."
        found = f", and {present.loaded.name} ({present.loaded.title}) is loaded" if present.loaded is not None else ""
        return f"it needs {TRAINED[self.kind]}{found}. Load one with --draft-model."
