"""Runs chat templates: programs that strangers wrote, in a sandbox and up to a length. It is the process around it that limits
time and memory (`confined.py`).

The environment is that of `transformers.utils.chat_template_utils`: sandboxed, blocks trimmed, with `raise_exception`,
`strftime_now`, a `tojson` that keeps characters as they are, and a `dict` and a `namespace` that lead nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.nodes import Template as Tree
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from .confined import TOO_MUCH, Broken


class TemplateRefused(TemplateError):
    """A template's own refusal of a conversation."""


class Program:
    """A template, compiled when it is first rendered: that takes time, and may fail."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled: Template | None = None

    def tree(self) -> Tree:
        """Parse it into its syntax tree."""
        return _environment().parse(self._source)

    def render(self, values: Mapping[str, Any], most: int) -> str:
        """Render the text, of `most` characters at most.

        Raises:
            TemplateRefused: by the template itself.
            Broken: it fails.
        """
        length, parts = 0, []
        try:
            if self._compiled is None:
                self._compiled = _environment().from_string(self._source)
            for part in self._compiled.generate(values):
                length += len(part)
                if length > most:
                    raise Broken(f"it produces more than {most / 1e6:.1f} million characters")
                parts.append(part)
            return "".join(parts)
        except TemplateRefused as error:
            raise TemplateRefused(_first_line(error)) from None
        except Broken:
            raise
        except MemoryError:
            raise Broken(TOO_MUCH) from None
        except Exception as error:  # a template can raise whatever Python can
            raise Broken(f"{type(error).__name__}: {_first_line(error)}") from None


class _Generation(Extension):
    """`{% generation %}`, which marks what the model writes for training: transparent here."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own declaration

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_say"), [], [], body).set_lineno(line)

    def _say(self, caller: Any) -> str:
        return str(caller())


class _Dict:
    """`dict`, of which a template sees no more than this."""

    def __call__(self, *values: Any, **more: Any) -> dict[Any, Any]:
        return dict(*values, **more)

    def fromkeys(self, *values: Any) -> dict[Any, Any]:
        return dict.fromkeys(*values)


class _Namespace(Namespace):
    """`namespace`, without names that Python gives a meaning to."""

    def __init__(*values: Any, **more: Any) -> None:
        self, *rest = values  # a template may set `self`
        names = dict(*rest, **more)
        for name in names:
            _check_name(name)
        Namespace.__init__(self, names)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}")


def _raise(message: str) -> None:
    raise TemplateRefused(message)


def _to_json(value: Any, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
