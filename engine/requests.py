"""Prompts of messages as token ids."""

from __future__ import annotations

from ..backends.base import Model
from ..decoders.conversation import encode_prompt
from ..errors import UserError
from .messages import Count, Counted, Generate


def encode_request(model: Model, request: Generate) -> list[int]:
    """Encode the prompt or chat of a request as token ids.

    Raises:
        UserError: the model's template refuses it, or has no such word for thinking, or no such variable.
    """
    variables = {} if request.raw else model.variables(request.think, request.template_vars)
    prompt = (request.prompt or "") if request.messages is None else request.messages
    return encode_prompt(model, prompt, raw=request.raw, variables=variables)


def count(model: Model | None, request: Count) -> Counted:
    """Count the tokens of a chat as a prompt; 0 if the model's template refuses it."""
    if model is None:
        return Counted(request.id, 0, 0)
    try:
        tokens = len(encode_prompt(model, request.messages))
    except UserError:
        tokens = 0
    return Counted(request.id, tokens, model.info.context)
