"""From a Generate's plain data to what the decoders take, with a sentence for what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..backends.base import Model, Sampling
from ..decoders.conversation import encode_prompt
from ..errors import Cancelled, UserError, did_you_mean
from .messages import Count, Counted, Generate


def prompt_of(model: Model, request: Generate, cancelled: Callable[[], bool] | None = None) -> list[int]:
    """Token ids of what is to be answered.

    Raises:
        UserError: neither or both of prompt and messages are there, or the model's template refuses them, or has no such word
            for thinking, or no such variable.
        Cancelled: `cancelled` answered True while the template ran.
    """
    variables = {} if request.raw else model.variables(request.think, request.template_vars)
    match request.prompt, request.messages:
        case str() as prompt, None:
            return encode_prompt(model, prompt, raw=request.raw, cancelled=cancelled, variables=variables)
        case None, list() as messages:
            return encode_prompt(model, messages, raw=request.raw, cancelled=cancelled, variables=variables)
    raise UserError("A request needs either a prompt or chat messages.")


def count(model: Model | None, request: Count, cancelled: Callable[[], bool]) -> Counted:
    """Tokens of some chats as prompts; none if the model's template refuses one, or `cancelled` answers True."""
    if model is None:
        return Counted(request.id, [], 0)
    try:
        tokens = [len(encode_prompt(model, chat, cancelled=cancelled)) for chat in request.chats]
    except (UserError, Cancelled):
        tokens = []
    return Counted(request.id, tokens, model.info.context)


def sampling_of(settings: Mapping[str, Any]) -> Sampling:
    """Sampling settings from names and values (texts, as typed, or numbers).

    Raises:
        UserError: an unknown name (with the nearest known one), or a value of the wrong type or out of its range.
    """
    kinds = {f.name: int if f.type == "int" else float for f in fields(Sampling)}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in kinds:
            raise UserError(f"There is no sampling setting {name!r}: {did_you_mean(name, kinds)}")
        try:
            values[name] = kinds[name](value)
        except (TypeError, ValueError, OverflowError):
            wanted = "a whole number" if kinds[name] is int else "a number"
            raise UserError(f"{name} takes {wanted}, not {value!r}.") from None
    return Sampling(**values)
