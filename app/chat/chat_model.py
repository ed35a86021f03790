"""The model of a chat, its methods and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...engine.messages import Command, Event
from ...engine.options import (
    BUILTIN,
    BUILTIN_DRAFT,
    AnswerOptions,
    Capabilities,
    ModelInfo,
    ModelSelection,
    Sampling,
    draft_label,
)
from .about import About
from .choosing import Speeds, first_method, shortlist
from .entries import Answer
from .methods import Method, served_method
from .pieces import Pieces


class Engine(Protocol):
    """The part of the engine's client that a dialogue uses."""

    def drain(self) -> list[Event]:
        """Return the events since the last call."""

    def send(self, command: Command) -> None:
        """Send a command."""

    def next_id(self) -> int:
        """Return a fresh id for a command."""

    def load(self, selection: ModelSelection) -> int:
        """Load a model; returns the command's id."""


@dataclass(slots=True)
class ChatModel:
    """A model, its methods and their settings.

    Args:
        selection: the model that is loaded or being loaded, with its drafters and options.
        methods: every method by name, in display order.
        settings: method → its settings.
    """

    engine: Engine
    selection: ModelSelection
    methods: Mapping[str, Method]
    method: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    options: AnswerOptions = field(default_factory=AnswerOptions)
    """Options of every request."""
    recommended: bool = False
    """Whether the sampling is the one that the model's makers recommend, not one that the user chose."""
    info: ModelInfo = field(default_factory=ModelInfo)
    """The loaded model; one without a name until it is loaded."""
    unavailable: dict[str, str] = field(default_factory=dict)
    head: str = ""
    """Name of the loaded trained drafter, as the user wrote it."""
    pieces: Pieces = field(default_factory=Pieces)
    """Text of each token; empty until the engine has sent it."""
    chosen: bool = True
    """Whether the user chose the method; if not, each model gets the one that suits it."""
    speeds: Speeds = field(default_factory=Speeds)
    _local_methods: Mapping[str, Method] = field(default_factory=dict)
    """The methods without a server's."""

    @property
    def model(self) -> str:
        """The model as the user named it."""
        return self.selection.model

    @property
    def label(self) -> str:
        return self.effective_label(self.method)

    def effective_label(self, name: str) -> str:
        """Return a method's label under the acceptance rule in force, on the loaded model."""
        from ...engine.catalog import Acceptance, effective_label, get

        if name not in self.methods:
            return ""
        exact = self.info.capabilities.exact
        rule = self.options.accept
        if rule == "exact" and exact:
            return self.methods[name].label
        return effective_label(get(name), Acceptance.parse(rule), self.options.sampling, Capabilities(exact=exact))

    def shortlist(self) -> list[str]:
        """Return the methods worth a try on this model."""
        if served := served_method(self.info):
            return list(served)
        # Until the model is loaded, its drafters are unknown unless one is named.
        missing = set() if self.info else {"trained"}
        if not self.info and not self.draft_models:
            missing.add("draft model")
        unknown = (name for name, method in self.methods.items() if method.group in missing)
        return shortlist(self.methods, {*self.unavailable, *unknown}, self.model)

    @property
    def draft_models(self) -> dict[str, str]:
        """The loaded draft models without the trained drafter: label (see `draft_label`) → name as the user wrote it."""
        names = self.selection.draft_model or ((BUILTIN_DRAFT,) if self.model == BUILTIN else ())
        return {draft_label(i): name for i, name in enumerate(name for name in names if name != self.head)}

    @property
    def completes(self) -> bool:
        """Whether the model is a base model, which continues a text."""
        return not self.info.has_template

    def first_method(self) -> str:
        if self.info.server:
            return self.info.server.method
        return first_method(self.methods, self.unavailable, self.model, self.selection.draft_model, self.info)

    def methods_of(self, info: ModelInfo) -> dict[str, Method]:
        """Return every method for a model by name; a server's method comes first."""
        if not any(method.group == "server" for method in self.methods.values()):
            self._local_methods = self.methods
        served = served_method(info)
        return served | {name: method for name, method in self._local_methods.items() if name not in served}

    def measure(self, answer: Answer, ratio: float) -> None:
        """Record a method's speedup over plain decoding (0 if unknown) from an answer that no other method had a part in."""
        if len(answer.methods) == 1:
            self.speeds.add(self._measured_on, answer.methods[0], answer.figures.tokens, ratio)

    def speedup(self, method: str) -> float | None:
        """Return a method's last speedup over plain decoding on the loaded model; None if unknown."""
        return self.speeds.ratio(self._measured_on, method)

    @property
    def _measured_on(self) -> str:
        return f"{self.model} on {self.info.backend}"

    def about(self) -> About:
        return About(self.selection, self.info, self.method, self.settings, options=self.options, pieces=self.pieces)

    def request(self) -> dict[str, Any]:
        """Return the request for the next answer, as `Answer.asked` has it."""
        return self.about().request()

    @property
    def race_sampling(self) -> Sampling:
        """Sampling of a race's lanes: greedy, unless the user chose the sampling."""
        return Sampling() if self.recommended else self.options.sampling
