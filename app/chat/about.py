"""What a chat is held with: its model and the settings in force."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from ...engine.options import AnswerOptions
from ...errors import NotPossible, UserError, did_you_mean
from .pieces import Pieces
from .transcript import Transcript

LOADED_WITH = ("draft_model", "revision", "backend", "chat_template")
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
    options: AnswerOptions
    pieces: Pieces = field(default_factory=Pieces)
    """Token texts for answers that have none of their own."""

    def request(self) -> dict[str, Any]:
        """What an answer is asked with, as `Answer.asked` has it."""
        return {
            "model": self.model,
            "method": self.method,
            "settings": dict(self.methods.get(self.method, {})),
            **self.answering(),
            **({"constraint": constraint} if (constraint := self.options.constraint) else {}),
            **self._thinking(),
        }

    def answering(self) -> dict[str, Any]:
        """The options that every answer is asked with, as plain data."""
        options = self.options
        return {
            "sampling": asdict(options.sampling),
            "accept": options.accept,
            "max_tokens": options.max_tokens,
            "stop": list(options.stop),
            "stop_loops": options.stop_loops,
        }

    def _thinking(self) -> dict[str, Any]:
        """What is asked of the chat template, as far as it is not its default."""
        options = self.options
        think = word_for(self.info, options.think)
        asked = {"think": think, "think_budget": options.think_budget, "template_vars": variables(options.template_var)}
        return {name: value for name, value in asked.items() if value not in ("", None, {})}


def generate_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request as fields of the engine's `Generate`, where `model` says something else."""
    return {name: value for name, value in request.items() if name != "model"}


def words_of(info: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that the model knows for how to think, as on, off, low; none where it cannot be told."""
    return tuple(str(word) for word in (info.get("thinking") or {}).get("words") or ())


def default_of(info: Mapping[str, Any]) -> str:
    """What it does unless it is told otherwise."""
    return str((info.get("thinking") or {}).get("default") or "")


def word_for(info: Mapping[str, Any], word: str) -> str:
    """What a model is told where somebody wants `word`: that, or nothing where it does not know it."""
    return word if word in words_of(info) else ""


def known_word(info: Mapping[str, Any], word: str) -> str:
    """A word that the model must know.

    Raises:
        UserError: it does not, or it does not think at all.
    """
    words, name = words_of(info), str(info.get("name") or "This model")
    if not info.get("thinking"):
        why = "its chat template has no place for it" if info.get("has_template", True) else "it is a base model"
        raise NotPossible(f"{name} does not think before it answers: {why}.")
    if not words:
        raise NotPossible(f"{name} thinks, but its chat template has no switch for it.")
    if word not in words:
        raise UserError(f"{name} cannot think {word!r}: {did_you_mean(word, words)}")
    return word


def word_after(info: Mapping[str, Any], word: str) -> str:
    """The word after the one in force, round and round.

    Raises:
        UserError: the model cannot be told how to think.
    """
    words = words_of(info)
    if not words:
        known_word(info, word)
    now = word_for(info, word) or default_of(info)
    return words[(words.index(now) + 1) % len(words)] if now in words else words[0]


def variables(texts: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE …` as variables of a chat template: true, false, null, numbers and JSON are that, everything else a text."""
    out: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            out[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            out[name.strip()] = value
    return out


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
