"""Shared by bench, replay, tune and doctor: a model in the engine, measurements that Ctrl-C ends, methods as text, tables."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ....engine.catalog import get, parse_params
from ....engine.client import EngineClient
from ....engine.messages import Event, Failed, Finished, Loaded, Loading, Worked, Working
from ....engine.options import ModelInfo
from ....errors import UserError
from ...settings.fields import Settings
from ...terminal.ansi import BOLD, RESET, colour_depth
from ...terminal.output import Notes, stdout
from ...text.amounts import time_of
from ...text.cells import one_line, sanitise, width
from ..exit_codes import ANSWERED, BROKEN, CANCELLED
from ..interrupts import POLL_SECONDS, Interrupts
from .items import PromptSet
from .requests import BenchRequest
from .statistics import Measurement


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

    def __init__(self, notes: Notes, client: EngineClient | None = None) -> None:
        self.notes = notes
        self.client = client or EngineClient()
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


def fingerprint(data: object) -> str:
    """Hash plain data to a short name."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Clock:
    """Estimate of the time left, by the time that the finished part took."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._start = time.monotonic()

    def left(self, done: int) -> str:
        """Write the time left as `about 3 min left`; empty before anything is done."""
        if not done:
            return ""
        seconds = (time.monotonic() - self._start) / done * (self._total - done)
        return f"about {time_of(seconds)} left"


def show_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    spare: Sequence[str] = (),
    bold: Collection[int] = (),
) -> None:
    """Print a table: with a rule and within the width on a terminal, as aligned lines in a pipe.

    Args:
        head: titles of the columns.
        rows: cells.
        left: number of columns with names; they stay on a narrow terminal.
        spare: titles of the columns that a narrow terminal leaves out first, in this order; after them the last ones go.
        bold: numbers of the rows that stand out on a terminal.
    """
    stream = stdout()
    terminal = stream.isatty()
    bold = bold if colour_depth("auto", terminal) else ()
    lines = fitting_table(head, rows, shutil.get_terminal_size().columns if terminal else sys.maxsize, left, spare, bold)
    if not terminal:
        del lines[1]
    elif not stream.encoding.lower().startswith("utf"):
        lines = [line.replace("─", "-") for line in lines]
    stream.write("\n".join(lines) + "\n")


def fitting_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    cells: int,
    left: int = 1,
    spare: Sequence[str] = (),
    bold: Collection[int] = (),
) -> list[str]:
    """Lay a table out in at most `cells` cells: long names continue in the next line after a separator, then columns are left
    out, and named below. The arguments are those of `show_table`."""
    table = [[one_line(cell) for cell in row] for row in (head, *rows)]
    wide = [max(map(width, column)) for column in zip(*table, strict=True)]
    columns = list(range(len(head)))
    droppable = [head.index(title) for title in spare if title in head] + list(reversed(columns[left:]))

    def room() -> int:
        """Return the number of unused cells in a line."""
        return cells - sum(wide[i] + len(GAP) for i in columns) + len(GAP)

    for i in sorted(columns[:left], key=lambda i: -wide[i]):  # the longest names first, down to their longest piece
        if room() < 0:
            wide[i] = max(min(wide[i], cells // 3), *(width(piece.rstrip()) for row in table for piece in _pieces(row[i])))
    for i in droppable:
        if room() < 0 and i in columns and len(columns) > left + 1:
            columns.remove(i)
    lines = []
    for number, row in enumerate(table):
        parts = {i: _break(row[i], wide[i]) if i < left else [row[i]] for i in columns}
        for at in range(max(map(len, parts.values()))):
            texts = [part[at] if at < len(part) else "" for part in parts.values()]
            gaps = [" " * (wide[i] - width(text)) for i, text in zip(columns, texts, strict=True)]
            padded = (text + gap if i < left else gap + text for i, text, gap in zip(columns, texts, gaps, strict=True))
            line = GAP.join(padded).rstrip()
            lines.append(f"{BOLD}{line}{RESET}" if number - 1 in bold else line)
        if not number:
            lines.append("─" * min(cells, cells - room()))
    if missing := [title for i, title in enumerate(head) if i not in columns and title]:
        lines += filled(f"Too narrow to show: {', '.join(missing)}. Widen the terminal, or pipe the output.", cells)
    return lines


GAP = "  "
"""Gap between two columns."""


def _pieces(name: str) -> list[str]:
    """Split a name where a line may break: each piece ends with a separator."""
    return re.findall(r"[^:,/ ]*[:,/ ]+|[^:,/ ]+", name) or [""]


def _break(name: str, cells: int) -> list[str]:
    """Break a name into lines of at most `cells` cells, as far as its pieces allow."""
    lines = [""]
    for piece in _pieces(name):
        if lines[-1] and width(lines[-1]) + width(piece.rstrip()) > cells:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def filled(text: str, cells: int) -> list[str]:
    """Break a sentence between words into lines of at most `cells` cells."""
    return textwrap.wrap(text, max(1, cells), break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")


def say(text: str) -> None:
    """Print a sentence; a terminal's lines break between words."""
    stream = stdout()
    lines = filled(sanitise(text), shutil.get_terminal_size().columns) if stream.isatty() else [text]
    stream.write("\n".join(lines) + "\n")


def write_table(
    markdown: Path | None, head: Sequence[str], rows: Sequence[Sequence[str]], heading: str = "", bold: Collection[int] = ()
) -> None:
    """Write a table to a file as Markdown, below a heading; None for no such file."""
    if markdown is not None:
        rows = [[f"**{cell}**" if cell else "" for cell in row] if i in bold else row for i, row in enumerate(rows)]
        lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
        table = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
        markdown.write_text(heading + "".join(table), encoding="utf-8")


BASE = "greedy"
"""The method that speedups are measured against on this machine: our plain decoding."""


@dataclass(slots=True)
class BenchRun:
    """A run's plan and its measurements."""

    request: BenchRequest
    prompts: PromptSet
    specs: list[Spec] = field(default_factory=list)
    info: ModelInfo = field(default_factory=ModelInfo)
    rows: list[Measurement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    record: Path | None = None
    servers: dict[str, str] = field(default_factory=dict)
    """Method → name of the server that decodes with it; empty for methods of this machine."""
    past: bool = False
    """Draft from the past answers that the engine's task `past` has opened."""
    base: str = BASE
    """The method that speedups are measured against; empty where there is none."""
    load: list[float] = field(default_factory=list)
    """The machine's load average at the start and at the end; empty where the system has none."""

    @property
    def labels(self) -> list[str]:
        """The names of the methods in tables."""
        return [spec.label for spec in self.specs]


def is_own(spec: Spec) -> bool:
    """Whether it is a method of ours (or of a drafter package) with answers identical to plain decoding's."""
    return "/" not in spec.name and get(spec.name).label == "identical"
