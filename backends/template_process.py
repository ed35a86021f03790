"""Renders chat templates in a process of its own, which `chat_template` starts and, where a template does not end, kills.

A template is a program that strangers wrote: it can loop for ever, ask for all memory or recurse, in ways that no thread can be
stopped in. Run as a script: it imports jinja2, nothing of ours, and is up in a tenth of a second.

The environment is that of `transformers.utils.chat_template_utils`: sandboxed, blocks trimmed, with `raise_exception`,
`strftime_now`, a `tojson` that keeps characters as they are, and a `dict` and a `namespace` that lead nowhere else.

In comes a line of JSON with "source", "specials", "messages" and "most" (characters); out goes one with "text", "refused" or
"fails".
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MOST_MEMORY = 512 << 20
"""Bytes of address space; the process starts with some 50 MB, and a chat of 1 MB takes 20 more."""

ALARM_SECONDS = 15
"""The system ends a rendering after these, should nobody be left to do it."""


class _Refusal(TemplateError):
    """What a template says of a conversation."""


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
    raise _Refusal(message)


def _to_json(value: Any, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


@lru_cache(4)
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment.from_string(source)


def answer(request: dict[str, Any]) -> dict[str, str]:
    """What a template makes of a conversation, or why it does not."""
    length, parts = 0, []
    try:
        stream = _compiled(request["source"]).generate(
            messages=request["messages"], tools=None, documents=None, add_generation_prompt=True, **request["specials"]
        )
        for part in stream:
            length += len(part)
            if length > request["most"]:
                return {"fails": f"it produces more than {request['most'] / 1e6:.1f} million characters"}
            parts.append(part)
    except _Refusal as error:
        return {"refused": _first_line(error)}
    except MemoryError:
        return {"fails": "it needs too much memory"}
    except Exception as error:  # a template can raise whatever Python can
        return {"fails": f"{type(error).__name__}: {_first_line(error)}"}
    return {"text": "".join(parts)}


def _first_line(error: BaseException) -> str:
    said = str(error).strip().splitlines()
    return said[0][:200] if said else type(error).__name__


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with contextlib.suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for line in sys.stdin.buffer:
        signal.alarm(ALARM_SECONDS)
        try:
            out = json.dumps(answer(json.loads(line))).encode()
        except MemoryError:  # the conversation alone is too large
            out = b'{"fails": "it takes too much memory"}'
        signal.alarm(0)
        sys.stdout.buffer.write(out + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
