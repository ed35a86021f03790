"""Shared by bench, replay, tune and doctor: a model in the engine, measurements that Ctrl-C ends, methods as text, tables."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ....engine.catalog import get, parse_params
from ....engine.client import EngineClient
from ....engine.messages import Event, Failed, Finished, Loaded, Loading, Worked, Working
from ....engine.options import ModelInfo, is_url
from ....errors import UserError
from ...settings.fields import Settings
from ...terminal.ansi import BOLD, RESET, colour_depth
from ...terminal.output import Notes, stdout
from ...text.cells import one_line, sanitise, width
from ..exit_codes import ANSWERED, BROKEN, CANCELLED
from ..interrupts import POLL_SECONDS, Interrupts

BASE = "greedy"
"""The method that speedups are measured against on this machine: our plain decoding."""

GAP = "  "
"""Gap between two columns of a table."""


TaskOptions = Mapping[str, Any]
"""Options of a task, as its function takes them."""


class EngineFailed(Exception):
    """The engine failed; the text is the sentence to show."""


class Interrupted(Exception):
    """Ctrl-C was pressed; finished measurements are kept."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A method with settings, as `lookup` or `lookup:nodes=32:floor=0.1` names it."""

    label: str
    name: str
    settings: Mapping[str, str]
    server: str = ""
    """Name of the server that decodes with it; empty for methods of this machine."""


def make_spec(name: str, settings: Mapping[str, str]) -> Spec:
    """Make the specification of a method with settings; `read_spec` reads its label."""
    return Spec(":".join([name, *(f"{key}={value}" for key, value in settings.items())]), name, settings)


def read_spec(text: str) -> Spec:
    """Parse a method and its settings.

    Raises:
        UserError: no such method or setting.
    """
    name, *pairs = (part.strip() for part in text.split(":"))
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{text!r} is not a method with settings. Write {name}:NAME=VALUE:NAME=VALUE.")
        settings[key.strip()] = value.strip()
    if "/" not in name:  # with one it is another implementation, which the engine knows
        parse_params(get(name), dict(settings))
    return Spec(text.strip(), name, settings)


def read_specs(text: str) -> list[Spec]:
    """Parse specifications separated by commas, without duplicates. No method's name begins with a digit, so a comma before
    one is part of a value, as in early-exit:skip=3a,4-6."""
    parts = (part.strip() for part in re.split(r",(?!\s*\d)", text))
    specs = {spec.label: spec for spec in map(read_spec, filter(None, parts))}
    if not specs:
        raise UserError("Give at least one method. `specchat methods` lists them.")
    return list(specs.values())


class Lab:
    """The engine for one command. Its calls raise Interrupted after Ctrl-C, and EngineFailed; both end the `with` and set
    `code`."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.client = EngineClient()
        self.loaded: Loaded | None = None
        self.code = ANSWERED
        """Exit code of the command."""
        self._interrupts = Interrupts(self.client)

    def __enter__(self) -> Self:
        self.client.start()
        self._interrupts.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, ended: BaseException | None, trace: object) -> bool:
        self._interrupts.__exit__()
        self.client.close()
        self.notes.clear()
        match ended:
            case Interrupted():
                self.code = CANCELLED
            case EngineFailed():
                self.notes.sentence(str(ended))
                self.code = BROKEN
        return isinstance(ended, Interrupted | EngineFailed)

    @property
    def info(self) -> ModelInfo:
        """The loaded model; one without a name if there is none."""
        return self.loaded.model if self.loaded else ModelInfo()

    def check(self) -> None:
        """Raise Interrupted if Ctrl-C was pressed."""
        if self._interrupts.signal:
            raise Interrupted

    def load(self, settings: Settings, *, quiet: bool = False) -> Loaded:
        """Load the models that the settings select; `quiet` prints no notes on them.

        Raises:
            UserError: they cannot be loaded; says what to do.
        """

        def show(event: Event) -> None:
            if isinstance(event, Loading):
                self.notes.progress(f"loading {settings.model}: {event.stage}")

        self.loaded = None
        loaded = self._wait(self.client.load(settings.selection()), show)
        assert isinstance(loaded, Loaded)
        self.loaded = loaded
        self.notes.clear()
        for note in () if quiet else loaded.model.notes:
            self.notes.sentence(note)
        return loaded

    def work(self, task: str, part: Callable[[Any], None] | None = None, **options: Any) -> Any:
        """Run a task of the engine (engine/tasks/work.py).

        Args:
            task: name of the task.
            part: receives each part of the result as it comes.
            options: of the task.

        Returns:
            the task's result.

        Raises:
            UserError: the user can fix it.
            EngineFailed: the engine failed.
        """

        def take(event: Event) -> None:
            if isinstance(event, Working) and part is not None:
                part(event.data)

        worked = self._wait(self.client.work(task, **options), take)
        assert isinstance(worked, Worked)
        return worked.result

    def _wait(self, id: int, take: Callable[[Event], None]) -> Event:
        """Wait for the event that ends a command; `take` receives those before it."""
        cancelled = False
        while True:
            event = self.client.wait(POLL_SECONDS)
            if self._interrupts.signal and not cancelled:
                cancelled = True
                self.client.cancel(id)
            match event:
                case None:
                    continue
                case Loaded() | Worked() | Finished() if event.id == id:
                    return event
                case Failed() if event.id == id or id in event.other_ids or event.cause == "died":
                    if event.cause == "cancelled":
                        raise Interrupted
                    sentence = event.sentence.partition(" Your chat is safe")[0]
                    raise UserError(sentence) if event.cause == "user" else EngineFailed(sentence)
                case _:
                    take(event)


def is_server(name: str, settings: Settings) -> bool:
    """Whether a name is a server's: an address, or a name in the settings."""
    return is_url(name) or name.partition("#")[0] in settings.servers


def show_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    spare: Sequence[str] = (),
    bold: Collection[int] = (),
) -> None:
    """Print a table as aligned lines. A terminal that is too narrow gets fewer columns, and their names below.

    Args:
        head: titles of the columns.
        rows: cells.
        left: number of columns with names, which stay and are aligned to the left.
        spare: titles of the columns that are left out first, in this order; after them the last ones go.
        bold: numbers of the rows that stand out on a terminal.
    """
    stream = stdout()
    terminal = stream.isatty()
    lines = [[one_line(cell) for cell in row] for row in (head, *rows)]
    cells = [max(map(width, column)) for column in zip(*lines, strict=True)]
    columns = list(range(len(head)))
    missing: list[str] = []
    for i in (*(head.index(title) for title in spare if title in head), *reversed(columns[left:])):
        needed = sum(cells[column] + len(GAP) for column in columns) - len(GAP)
        if terminal and needed > shutil.get_terminal_size().columns and i in columns and len(columns) > left + 1:
            columns.remove(i)
            missing.append(head[i])
    for number, line in enumerate(lines):
        gaps = {i: " " * (cells[i] - width(line[i])) for i in columns}
        text = GAP.join(line[i] + gaps[i] if i < left else gaps[i] + line[i] for i in columns).rstrip()
        stands_out = number - 1 in bold and colour_depth(terminal)
        stream.write(f"{BOLD}{text}{RESET}\n" if stands_out else f"{text}\n")
        if terminal and not number:
            stream.write("─" * width(text) + "\n")
    if missing:
        say(f"Too narrow to show: {', '.join(missing)}. Widen the terminal, or pipe the output.")


def say(text: str) -> None:
    """Print a sentence; a terminal's lines break between words."""
    stream = stdout()
    if stream.isatty():
        cells = max(1, shutil.get_terminal_size().columns)
        text = textwrap.fill(sanitise(text), cells, break_long_words=False, break_on_hyphens=False, subsequent_indent=GAP)
    stream.write(f"{text}\n")
