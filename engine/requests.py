"""From a Generate's plain data to what the decoders take, with a sentence for what does not fit."""

from __future__ import annotations

from collections.abc import Callable

from ..backends.base import Model
from ..decoders.conversation import encode_prompt
from ..errors import Cancelled, UserError
from .messages import Count, Counted, Generate


def prompt_of(model: Model, request: Generate, cancelled: Callable[[], bool] | None = None) -> list[int]:
    """Token ids of what is to be answered.

    Raises:
        UserError: the model's template refuses it, or has no such word for thinking, or no such variable.
        Cancelled: `cancelled` answered True while the template ran.
    """
    variables = {} if request.raw else model.variables(request.think, request.template_vars)
    asked = (request.prompt or "") if request.messages is None else request.messages
    return encode_prompt(model, asked, raw=request.raw, cancelled=cancelled, variables=variables)


def count(model: Model | None, request: Count, cancelled: Callable[[], bool]) -> Counted:
    """Tokens of some chats as prompts; none if the model's template refuses one, or `cancelled` answers True."""
    if model is None:
        return Counted(request.id, [], 0)
    try:
        tokens = [len(encode_prompt(model, chat, cancelled=cancelled)) for chat in request.chats]
    except (UserError, Cancelled):
        tokens = []
    return Counted(request.id, tokens, model.info.context)
