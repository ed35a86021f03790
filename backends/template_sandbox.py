"""Runs chat templates: programs that strangers wrote, in a sandbox with limits of time, memory and length.

The environment is that of `transformers.utils.chat_template_utils`: sandboxed, blocks trimmed, with `raise_exception`,
`strftime_now`, a `tojson` that keeps characters as they are, and a `dict` and a `namespace` that lead nowhere else.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.nodes import Template as Tree
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ..errors import Cancelled

MOST_SECONDS = 10.0
"""CPU seconds that a template may take. Most need a millisecond."""

GRACE_SECONDS = 5
"""How much later the system ends the whole process: an operation in C, such as to compare lists that hold each other a billion
times, lets no Python run that could stop it."""

POLL_SECONDS = 0.05
"""Computing between two looks whether the rendering is still wanted."""

MOST_MEMORY = 512 << 20
"""Bytes of address space that a rendering may add; a chat of 1 MB takes 20 MB."""


class Refused(TemplateError):
    """What a template says of a conversation that it does not take."""


class Broken(Exception):
    """What a template does wrong, in a few words."""


class Program:
    """A template, compiled when it is first rendered: that takes time, and may fail.

    Args:
        source: Jinja.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._compiled: Template | None = None

    def tree(self) -> Tree:
        """Its syntax tree. Call it within `limited`.

        Raises:
            TemplateError: it is not written as one.
        """
        return _environment().parse(self._source)

    def render(self, values: Mapping[str, Any], most: int) -> str:
        """The text that it makes. Call it within `limited`.

        Args:
            values: its variables.
            most: characters.

        Raises:
            Refused: by the template's own word.
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
        except Refused as error:
            raise Refused(_first_line(error)) from None
        except Broken:
            raise
        except MemoryError:
            raise Broken("it needs too much memory") from None
        except Exception as error:  # a template can raise whatever Python can
            raise Broken(f"{type(error).__name__}: {_first_line(error)}") from None


@contextmanager
def limited(cancelled: Callable[[], bool] | None = None, seconds: float | None = None) -> Iterator[None]:
    """Limits time and memory inside the block. Only in the main thread, which gets a process's signals and is where the engine
    renders; elsewhere there are no limits.

    Args:
        cancelled: polled; answering True ends the block.
        seconds: of CPU time; by default MOST_SECONDS.

    Raises:
        Broken: the time is over.
        Cancelled: `cancelled` answered True.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = MOST_SECONDS if seconds is None else seconds
    began = time.thread_time()

    def look(*_: object) -> None:
        why: Exception
        if cancelled is not None and cancelled():
            why = Cancelled()
        elif time.thread_time() - began > seconds:
            why = Broken(f"it did not finish within {seconds:.0f} seconds")
        else:
            return
        signal.setitimer(signal.ITIMER_PROF, 0)  # once: what follows must run to its end
        raise _Stop(why)

    with ExitStack() as after:
        used = time.process_time() + seconds + GRACE_SECONDS
        _limit(after, resource.RLIMIT_CPU, math.ceil(used))
        with suppress(OSError):  # only Linux tells, and only there is the limit kept
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            _limit(after, resource.RLIMIT_AS, pages * resource.getpagesize() + MOST_MEMORY)
        after.callback(signal.signal, signal.SIGPROF, signal.signal(signal.SIGPROF, look) or signal.SIG_DFL)
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, POLL_SECONDS, POLL_SECONDS)
                yield
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.signal(signal.SIGPROF, signal.SIG_IGN)  # forgets one on its way, which by default would end the process
        except _Stop as stop:
            raise stop.why from None


class _Stop(BaseException):
    """Ends a rendering from a signal's handler: nothing in a template or in jinja2 catches it."""

    def __init__(self, why: Exception) -> None:
        self.why = why


def _limit(after: ExitStack, kind: int, most: int) -> None:
    """Set one of the process's limits, unless it is lower already, until `after` ends."""
    before = resource.getrlimit(kind)
    lowest = min((most, *(each for each in before if each != resource.RLIM_INFINITY)))
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (lowest, before[1]))
        after.callback(partial(resource.setrlimit, kind, before))


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
    raise Refused(message)


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
    said = str(error).strip().splitlines()
    return said[0][:200] if said else type(error).__name__
