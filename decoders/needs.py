"""Requirements of a method on the target and the drafters loaded with it; each says what is missing."""

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
    """The capabilities of the target, and the drafters loaded with it."""

    capabilities: Capabilities
    draft_model: bool = True
    pard: bool = True
    """Whether one of the draft models is a PARD model."""
    head: HeadName | None = None
    """The trained drafter, if there is one."""


class Need(ABC):
    """A requirement of a method."""

    @abstractmethod
    def lacks(self, present: Present) -> str:
        """Return the reason why it is not met; "" if it is."""


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


class EarlyStop(Need):
    """The target can stop after some of its layers, or it is not known yet."""

    def lacks(self, present: Present) -> str:
        able = present.capabilities
        return "" if able.layers else able.reasons.get("layers", "")


class DraftModel(Need):
    """A second, smaller model."""

    def lacks(self, present: Present) -> str:
        return "" if present.draft_model else "it needs a draft model. Load one with --draft-model."


class PardModel(Need):
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
        return f"it needs {TRAINED[self.kind]}. Load one with --draft-model."
