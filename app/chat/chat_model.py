"""The model of a chat, and the method that it answers with: what is known of both, and what is asked of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...engine.messages import Command, Event
from ...engine.options import BUILTIN, BUILTIN_DRAFT, AnswerOptions, Capabilities, Sampling, draft_label, draft_names
from .about import About
from .choosing import Speeds, first_method, shortlist
from .entries import Answer
from .methods import Method, served_method
from .pieces import Pieces


class Engine(Protocol):
    """The part of the engine's client that a dialogue uses."""

    def drain(self) -> list[Event]:
        """Events since the last call."""

    def send(self, command: Command) -> None:
        """Send a command."""

    def next_id(self) -> int:
        """A fresh id for a command."""

    def load(self, model: str, **options: Any) -> int:
        """Load a model; returns the command's id."""


@dataclass(slots=True)
class ChatModel:
    """A model, its methods and their settings.

    Args:
        model: what is loaded or being loaded, as the user named it.
        methods: every method there is, by name, in the order in which they are shown.
        settings: method → its settings.
        load: options of a load besides the model (fields of the engine's `Load`).
    """

    engine: Engine
    model: str
    methods: Mapping[str, Method]
    method: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    options: AnswerOptions = field(default_factory=AnswerOptions)
    """How answers are asked for."""
    recommended: bool = False
    """The sampling is what the model's makers recommend: nobody has chosen it."""
    load: Mapping[str, Any] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    head: str = ""
    """The trained drafter that is loaded, as it was named."""
    pieces: Pieces = field(default_factory=Pieces)
    """The text of single tokens; empty until the engine has told them."""
    chosen: bool = True
    """Somebody has chosen the method; if not, each model gets the one that suits it."""
    speeds: Speeds = field(default_factory=Speeds)
    _ours: Mapping[str, Method] = field(default_factory=dict)
    """The methods without that of a server."""

    @property
    def label(self) -> str:
        return self.effective_label(self.method)

    def effective_label(self, name: str) -> str:
        """Label of a method under the acceptance rule in force, on the loaded model."""
        from ...engine.catalog import Acceptance, effective_label, get

        if name not in self.methods:
            return ""
        found = self.info.get("capabilities") or {}
        bits = bool(found.get("exact", True))
        rule, sampling = self.options.accept, self.options.sampling
        if rule == "exact" and bits:
            return self.methods[name].label
        capabilities = Capabilities(exact=bits)
        return effective_label(get(name), Acceptance.parse(rule), sampling, capabilities)

    def shortlist(self) -> list[str]:
        """The methods worth a try on this model."""
        if served := served_method(self.info):
            return list(served)
        # Before the model is loaded nobody knows whether there is a drafter for it, unless one is named.
        without = () if self.info else ("trained",) if self.draft_models else ("trained", "draft model")
        unknown = (name for name, method in self.methods.items() if method.group in without)
        return shortlist(self.methods, {*self.unavailable, *unknown}, self.model)

    @property
    def draft_models(self) -> dict[str, str]:
        """The draft models that are loaded with this model, as they were named, by what methods call them (see `draft_label`).
        The trained drafter is none of them."""
        asked = draft_names(self.load.get("draft_model")) or ([BUILTIN_DRAFT] if self.model == BUILTIN else [])
        return {draft_label(i): name for i, name in enumerate(name for name in asked if name != self.head)}

    @property
    def completes(self) -> bool:
        """Whether the model is a base model, which goes on from a text and answers nothing."""
        return bool(self.info) and not self.info.get("has_template", True)

    def first_method(self) -> str:
        if server := self.info.get("server"):
            return str(server["method"])
        return first_method(self.methods, self.unavailable, self.model, self.load.get("draft_model"), self.info)

    def methods_of(self, info: Mapping[str, Any]) -> dict[str, Method]:
        """Every method there is for a model, by name: a server's own goes before ours."""
        if not any(method.group == "server" for method in self.methods.values()):
            self._ours = self.methods
        served = served_method(info)
        return served | {name: method for name, method in self._ours.items() if name not in served}

    def measure(self, answer: Answer, ratio: float) -> None:
        """Remember how many times as fast as plain decoding a method was (0 where that is not known), in an answer that the
        loaded model has written with it alone."""
        if len(answer.methods) == 1:
            self.speeds.add(self._measured_on, answer.methods[0], answer.figures.tokens, ratio)

    def speedup(self, method: str) -> float | None:
        """How many times as fast as plain decoding a method was last, on the loaded model; None where that is not known."""
        return self.speeds.ratio(self._measured_on, method)

    @property
    def _measured_on(self) -> str:
        return f"{self.model} on {self.info.get('backend', '')}"

    def about(self) -> About:
        return About(self.model, self.info, self.load, self.method, self.settings, self.options, self.pieces)

    def request(self) -> dict[str, Any]:
        """What the next answer is asked with, as `Answer.asked` has it."""
        return self.about().request()

    @property
    def race_sampling(self) -> Sampling:
        """What lanes of a race are asked with: the most probable token each time, unless somebody has chosen the sampling."""
        return Sampling() if self.recommended else self.options.sampling
