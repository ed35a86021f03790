"""The model of a chat and the settings in force."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ...engine.options import AnswerOptions, ModelInfo, ModelSelection
from ...errors import NotPossible, UserError, did_you_mean
from .entries import Request
from .methods import MethodSettings
from .runs import Pieces
from .transcript import Transcript

LOADED_WITH = ("draft_model", "revision", "backend", "chat_template")
"""Options of a load that belong to a chat; the others (device, threads, …) belong to the machine."""


@dataclass(frozen=True, slots=True)
class About:
    """The model and the settings of a chat at one moment."""

    selection: ModelSelection
    info: ModelInfo
    """The engine's description of the model; one without a name until it is loaded."""
    method: str
    methods: Mapping[str, MethodSettings]
    """Method → its settings."""
    options: AnswerOptions
    pieces: Pieces = field(default_factory=Pieces)
    """Default token texts for answers without any."""

    def request(self) -> Request:
        """Return the request for an answer, as `Answer.asked` has it."""
        constraint = self.options.constraint
        template_vars = variables(self.options.template_var)
        return {
            "model": self.selection.model,
            "method": self.method,
            "settings": dict(self.methods.get(self.method, {})),
            **self.answering(),
            "think": word_for(self.info, self.options.think),
            **({"constraint": constraint} if constraint else {}),
            **({"template_vars": template_vars} if template_vars else {}),
        }

    def answering(self) -> Request:
        """Return the options of every request, as plain data."""
        return {"sampling": asdict(self.options.sampling), **self.options.request_options()}


def generate_fields(request: Request) -> Request:
    """Return a request as fields of the engine's `Generate`, where `model` has another meaning."""
    return {name: value for name, value in request.items() if name != "model"}


def words_of(info: ModelInfo) -> tuple[str, ...]:
    """Return the model's words for how to think, such as on, off or low; empty if it has no switch."""
    return info.thinking.words if info.thinking else ()


def default_word(info: ModelInfo) -> str:
    """Return the word in force by default."""
    return info.thinking.default if info.thinking else ""


def word_for(info: ModelInfo, word: str) -> str:
    """Return `word` if the model knows it, else an empty string."""
    return word if word in words_of(info) else ""


def known_word(info: ModelInfo, word: str) -> str:
    """Return `word` if the model knows it.

    Raises:
        UserError: it does not, or it has no switch for its thinking.
    """
    words = words_of(info)
    name = info.name or "This model"
    if not words:
        does = "thinks, but its chat template has no switch for it" if info.thinking else "does not think before it answers"
        raise NotPossible(f"{name} {does}.")
    if word not in words:
        raise UserError(f"{name} cannot think {word!r}: {did_you_mean(word, words)}")
    return word


def word_after(info: ModelInfo, word: str) -> str:
    """Return the word after the one in force; the first follows the last.

    Raises:
        UserError: the model has no switch for its thinking.
    """
    current = word_for(info, word) or default_word(info)
    words = words_of(info) or (known_word(info, current),)
    return words[(words.index(current) + 1) % len(words)] if current in words else words[0]


def variables(texts: Sequence[str]) -> dict[str, Any]:
    """Parse `NAME=VALUE …` as variables of a chat template; a value that is no JSON is a text."""
    out = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            out[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            out[name.strip()] = value
    return out


class SavableChat(Protocol):
    """A chat that can be saved."""

    @property
    def transcript(self) -> Transcript: ...

    def about(self) -> About: ...


def public(info: ModelInfo) -> dict[str, Any]:
    """Return a model's description for files, without its place on this disk; empty for no model."""
    hidden = ("path",) if info.server else ("path", "server")
    return {key: value for key, value in asdict(info).items() if key not in hidden} if info else {}
