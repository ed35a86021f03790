"""Prompts of messages as token ids."""

from __future__ import annotations

from collections.abc import Callable

from ..backends.base import Model
from ..decoders.conversation import encode_prompt
from ..errors import Cancelled, UserError
from .messages import Count, Counted, Generate


def encode_request(model: Model, request: Generate, cancelled: Callable[[], bool] | None = None) -> list[int]:
    """Encode the prompt or chat of a request as token ids.

    Raises:
        UserError: the model's template refuses it, or has no such word for thinking, or no such variable.
        Cancelled: `cancelled` answered True while the template ran.
    """
    variables = {} if request.raw else model.variables(request.think, request.template_vars)
    prompt = (request.prompt or "") if request.messages is None else request.messages
    return encode_prompt(model, prompt, raw=request.raw, cancelled=cancelled, variables=variables)


def count(model: Model | None, request: Count, cancelled: Callable[[], bool]) -> Counted:
    """Count the tokens of a chat as a prompt; 0 if the model's template refuses it, or `cancelled` answers True."""
    if model is None:
        return Counted(request.id, 0, 0)
    try:
        tokens = len(encode_prompt(model, request.messages, cancelled=cancelled))
    except (UserError, Cancelled):
        tokens = 0
    return Counted(request.id, tokens, model.info.context)
