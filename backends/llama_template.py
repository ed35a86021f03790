"""Chat templates as transformers renders them, without transformers: importing it takes seconds.

Same environment as `transformers.utils.chat_template_utils`: sandboxed, blocks trimmed, `raise_exception`, `strftime_now`, and
a `tojson` that keeps characters as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import Environment, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .base import Message, UserError


class _Generation(Extension):
    """`{% generation %}`, which marks what the model writes for training: transparent here."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller: Any) -> str:
        return str(caller())


def _raise(message: str) -> None:
    raise TemplateError(message)


def _to_json(value: Any, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _environment() -> Environment:
    out = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    out.filters["tojson"] = _to_json
    out.globals["raise_exception"] = _raise
    out.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return out


class Template:
    """A model's chat template.

    Args:
        source: Jinja.
        specials: names of special tokens (bos_token …) and their text.
    """

    def __init__(self, source: str, specials: Mapping[str, str]) -> None:
        self._source = source
        self._specials = dict(specials)
        self._compiled: Any = None

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a chat up to where the next answer starts.

        Raises:
            UserError: no messages, or the template refuses them.
        """
        if not messages:
            raise UserError("A chat needs at least one message.")
        try:
            if self._compiled is None:
                self._compiled = _environment().from_string(self._source)
            return str(
                self._compiled.render(
                    messages=[dict(message) for message in messages],
                    tools=None,
                    documents=None,
                    add_generation_prompt=True,
                    **self._specials,
                )
            )
        except (TemplateError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            said = str(error).strip().splitlines()
            raise UserError(
                f"The model's chat template refuses this conversation ({said[0] if said else type(error).__name__}): "
                "leave out the system message, or use plain completion (--raw)."
            ) from None
