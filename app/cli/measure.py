"""The commands that measure: bench, replay and tune. The fields of a request are the options of its command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import UserError
from ..settings.fields import Settings
from ..settings.file import changed
from ..settings.precedence import read_settings
from .options import MODELS, AsJson, Given, Several, argument, flag, option, takes_settings, with_options

LOADED = ("device", "dtype", "context", "threads", "exact", "guard")
"""Settings on how the model is loaded."""

OnModels = Annotated[Settings, Several(*MODELS)]
Csv = Annotated[Path | None, option("--csv", "Write the table to this file as CSV.", "FILE")]
Markdown = Annotated[Path | None, option("--markdown", "Write the table to this file as Markdown.", "FILE")]
Methods = Annotated[str, option("--methods", "Only these methods, as NAME or NAME:SETTING=VALUE:…", "LIST")]
Category = Annotated[list[str] | None, option("--category", "Only this category. Repeat for more.", "NAME")]
Past = Annotated[list[Path] | None, option("--past", "Draft from these earlier answers too. Repeat for more.", "FILE")]
Clock = Annotated[str, option("--clock", "wall, or cpu for processor seconds (on a busy machine without a GPU).", "CLOCK")]


def _check_numbers(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {value}.")


def _check_clock(name: str) -> None:
    if name not in ("wall", "cpu"):
        raise UserError(f"--clock takes wall or cpu, not {name!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """What `specchat bench` is asked to do."""

    prompts: Annotated[
        Path | None, argument("JSONL (prompt, turns or messages) or plain text; by default the built-in tasks.")
    ] = None
    settings: OnModels
    methods: Methods = ""
    against: Annotated[
        str, option("--against", "Also compare other implementations: transformers, llama-cpp, or one as NAME/METHOD.", "LIST")
    ] = ""
    sweep: Annotated[
        list[str] | None,
        option("--sweep", "Compare these values of a setting. Repeat for more settings.", "NAME.SETTING=A,B,…"),
    ] = None
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 6).", "N")] = None
    category: Category = None
    rounds: Annotated[int, option("--rounds", "Answer each prompt N times with each method (default 1).", "N")] = 1
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 256).", "N")] = 256
    clock: Clock = "wall"
    raw: Annotated[bool, flag("--raw", "Continue the prompts as they are, without the chat template.")] = False
    resume: Annotated[bool, flag("--resume", "Continue an interrupted run of the same command.")] = False
    record: Annotated[
        Path | None, option("--record", "Save every measurement in this file; by default in the cache.", "FILE")
    ] = None
    as_json: AsJson = False
    csv: Csv = None
    markdown: Markdown = None
    plots: Annotated[Path | None, option("--plots", "Write plots into this folder.", "FOLDER")] = None
    png: Annotated[bool, flag("--png", "Write plots as PNG (needs resvg-py) instead of SVG.")] = False

    def __post_init__(self) -> None:
        _check_numbers(limit=self.limit, rounds=self.rounds, max_tokens=self.max_tokens)
        _check_clock(self.clock)

    @property
    def others(self) -> list[str]:
        """The implementations or servers that `against` names."""
        return [name.strip() for name in self.against.split(",") if name.strip()]


def bench(request: BenchRequest) -> int:
    """Compare decoding methods on your model, machine and prompts.

    All methods answer a prompt before the next one comes. ctrl+c keeps what has been measured; --resume continues.
    """
    from .bench.run import run_bench

    return run_bench(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """What `specchat replay` is asked to do."""

    transcripts: Annotated[list[Path] | None, argument("JSONL files of recorded answers.")] = None
    history: Annotated[bool, flag("--history", "Replay the chats in your history.")] = False
    chat: Annotated[
        list[str] | None, option("--chat", "With --history: only this chat, by number or title. Repeat for more.", "CHAT")
    ] = None
    tokenizer: Annotated[
        Path | None, option("--tokenizer", "Folder with the tokenizer.json of the model that wrote the answers.", "FOLDER")
    ] = None
    nodes: Annotated[str, option("--nodes", "Trees of at most N nodes, for methods with this setting.", "N,N,…")] = ""
    methods: Methods = ""
    limit: Annotated[int | None, option("--limit", "Only the first N records of each file.", "N")] = None
    past: Past = None
    remember: Annotated[
        bool, flag("--remember", "Draft from the answers before it in its file too; the order is taken for time.")
    ] = False
    settings: OnModels
    on_model: Annotated[
        str | None, option("--on-model", "Run the passes on this model, though another wrote the answers.", "MODEL")
    ] = None
    as_json: AsJson = False
    csv: Csv = None
    markdown: Markdown = None

    def __post_init__(self) -> None:
        _check_numbers(limit=self.limit)
        if self.on_model is not None and self._named:
            raise UserError("--on-model names the model that runs the passes: leave out --model.")

    @property
    def _named(self) -> bool:
        return self.settings.layers is not None and "model" in self.settings.layers.given

    @property
    def forced(self) -> bool:
        """Whether the model is not the one that wrote the answers: its choices do not count, only its seconds."""
        return self.on_model is not None

    @property
    def over_model(self) -> bool:
        """Whether a model runs the passes."""
        return self.forced or self._named

    @property
    def budgets(self) -> Sequence[int]:
        """The sizes of trees that `nodes` names.

        Raises:
            UserError: they are no numbers.
        """
        try:
            numbers = [int(part) for part in self.nodes.split(",") if part.strip()]
        except ValueError:
            numbers = [0]
        if any(number < 1 for number in numbers):
            raise UserError(f"--nodes takes whole numbers from 1 up, separated by commas, not {self.nodes!r}.")
        return numbers


def replay(request: ReplayRequest) -> int:
    """Score decoding methods on recorded answers: tokens a pass, and with a model the speedup.

    Without --model no model runs. With it, the model runs the passes, but the tokens are those of the record. With --on-model,
    any model does: all it chooses is replaced by the record, and only its seconds count. Each line of a file is {"prompt",
    "response"} or {"messages": [{"role", "content"}]}.
    """
    from contextlib import ExitStack

    from .bench.replay import replay_files

    files = list(request.transcripts or ())
    if not files and not (request.history or request.chat):
        raise UserError("There is nothing to replay. Give JSONL files of recorded answers, or --history for your own chats.")
    if request.on_model is not None:
        settings = changed(request.settings, {"model": request.on_model}, {"model": "--on-model"})
        request = replace(request, settings=settings)
    with ExitStack() as stack:
        if request.history or request.chat:
            from ..history.records import recorded

            files.append(stack.enter_context(recorded(request.chat or ())))
        return replay_files(request, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """What `specchat tune` is asked to do."""

    prompts: Annotated[Path | None, argument("Prompts as for bench; by default the built-in tasks.")] = None
    settings: OnModels
    tokenizer: Annotated[
        Path | None, option("--tokenizer", "Folder with the tokenizer.json of a server's model.", "FOLDER")
    ] = None
    minutes: Annotated[float, option("--minutes", "Minutes to search (default 10).", "N")] = 10.0
    methods: Methods = ""
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 4).", "N")] = None
    category: Category = None
    past: Past = None
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 128).", "N")] = 128
    clock: Clock = "wall"
    no_save: Annotated[bool, flag("--no-save", "Do not save the result in the settings.")] = False
    exhaustive: Annotated[bool, flag("--exhaustive", "Measure every candidate on every prompt, however long it takes.")] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        _check_numbers(limit=self.limit, max_tokens=self.max_tokens)
        _check_clock(self.clock)


def tune(request: TuneRequest) -> int:
    """Find the fastest method and settings for a model, and save them as its default.

    Measures on this machine with your prompts. Also prints the equivalent settings for other engines, and the
    best settings of the own methods of vLLM, llama-server and SGLang. Of a server (--model URL) only these.
    """
    from .bench.tune import tune as search

    if not 0 < request.minutes < 10_000:
        raise UserError(f"--minutes takes a number above 0, not {request.minutes:g}.")
    return search(request)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for does, request in ((bench, BenchRequest), (replay, ReplayRequest), (tune, TuneRequest)):
        app.command()(_command(does, request))


def _command(does: Callable[[Any], int], request: type[Any]) -> Callable[..., None]:
    """A command that makes a request of its options and ends with the exit code."""

    @wraps(does)
    def call(context: typer.Context, settings: Given, loading: Given, **values: Any) -> None:
        given = {**(context.obj or {}), **settings, **loading}
        raise typer.Exit(does(request(settings=with_options(read_settings(), given), **values)))

    kind = inspect.Parameter.KEYWORD_ONLY
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("context", kind, annotation=typer.Context),
            *inspect.signature(request, eval_str=True).parameters.values(),
            inspect.Parameter("loading", kind, annotation=Annotated[Given, Several(*LOADED)]),
        ]
    )
    return takes_settings(call)
