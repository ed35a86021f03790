"""What a chat is held with: its model and the settings in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ...engine.options import Sampling
from .pieces import Pieces
from .transcript import Transcript

LOADED_WITH = ("draft_model", "revision", "backend")
"""Options of a load that belong to a chat; the others (device, threads, …) to the machine that it goes on at."""


@dataclass(frozen=True, slots=True)
class About:
    """The model and the settings of a chat, as they are at one moment."""

    model: str
    """As the user named it."""
    info: Mapping[str, Any]
    """What the engine tells of it; empty until it is loaded."""
    load: Mapping[str, Any]
    """Options of its load (fields of the engine's `Load`)."""
    method: str
    methods: Mapping[str, Mapping[str, Any]]
    """Method → its settings."""
    sampling: Sampling
    accept: str
    max_tokens: int | None
    stop: Sequence[str]
    stop_loops: bool
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""
    constraint: Mapping[str, str] | None = None
    """What answers must match, as `Generate.constraint`."""

    def request(self) -> dict[str, Any]:
        """What an answer is asked with, as `Answer.asked` has it."""
        return {
            "model": self.model,
            "method": self.method,
            "settings": dict(self.methods.get(self.method, {})),
            "sampling": asdict(self.sampling),
            "accept": self.accept,
            "max_tokens": self.max_tokens,
            "stop": list(self.stop),
            "stop_loops": self.stop_loops,
            **({"constraint": dict(self.constraint)} if self.constraint else {}),
        }


def generate_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as fields of the engine's `Generate`, where `model` says something else."""
    return {name: value for name, value in request.items() if name != "model"}


class SavableChat(Protocol):
    """A chat that can be saved: what was said, and with what."""

    @property
    def transcript(self) -> Transcript:
        """What was said."""

    def about(self) -> About:
        """The model and the settings that it is held with."""


def public(info: Mapping[str, Any]) -> dict[str, Any]:
    """What files tell of a model: not where it lies on this disk, which is nobody else's business."""
    return {key: value for key, value in info.items() if key != "path"}
