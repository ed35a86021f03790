"""What the commands that measure take: bench, replay and tune."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...errors import UserError
from ..settings.fields import Settings
from ..settings.precedence import read_settings
from .options import MODELS, AsJson, Given, Several, flag, option, takes_settings, with_options

LOADED = ("device", "dtype", "context", "threads", "exact", "guard")
"""Settings on how the model is loaded."""

Csv = Annotated[Path | None, option("--csv", "Write the table to this file as CSV.", "FILE")]
Markdown = Annotated[Path | None, option("--markdown", "Write the table to this file as Markdown.", "FILE")]
Methods = Annotated[str | None, option("--methods", "Only these methods, as NAME or NAME:SETTING=VALUE:…", "LIST")]
Category = Annotated[list[str] | None, option("--category", "Only this category. Repeat for more.", "NAME")]
Past = Annotated[list[Path] | None, option("--past", "Draft from these earlier answers too. Repeat for more.", "FILE")]
Clock = Annotated[str, option("--clock", "wall, or cpu for processor seconds (on a busy machine without a GPU).", "CLOCK")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (bench, replay, tune):
        app.command()(takes_settings(command))


def _settings(context: typer.Context, given: Given) -> Settings:
    """The settings with the options that were given, those before the command's name among them."""
    return with_options(read_settings(), {**(context.obj or {}), **given})


def _numbers(text: str | None, name: str) -> list[int]:
    try:
        numbers = [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise UserError(f"{name} takes whole numbers from 1 up, separated by commas, not {text!r}.")
    return numbers


def bench(
    context: typer.Context,
    *,
    prompts: Annotated[
        Path | None,
        typer.Argument(
            help="JSONL (prompt, turns or messages) or plain text; by default the built-in tasks.", show_default=False
        ),
    ] = None,
    models: Annotated[Given, Several(*MODELS)],
    methods: Methods = None,
    against: Annotated[
        str | None,
        option("--against", "Also compare other implementations: transformers, llama-cpp, or one as NAME/METHOD.", "LIST"),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        option("--sweep", "Compare these values of a setting. Repeat for more settings.", "NAME.SETTING=A,B,…"),
    ] = None,
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 6).", "N")] = None,
    category: Category = None,
    rounds: Annotated[int, option("--rounds", "Answer each prompt N times with each method (default 1).", "N")] = 1,
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 256).", "N")] = 256,
    clock: Clock = "wall",
    raw: Annotated[bool, flag("--raw", "Continue the prompts as they are, without the chat template.")] = False,
    resume: Annotated[bool, flag("--resume", "Continue an interrupted run of the same command.")] = False,
    record: Annotated[
        Path | None, option("--record", "Save every measurement in this file; by default in the cache.", "FILE")
    ] = None,
    json: AsJson = False,
    csv: Csv = None,
    markdown: Markdown = None,
    plots: Annotated[Path | None, option("--plots", "Write plots into this folder.", "FOLDER")] = None,
    png: Annotated[bool, flag("--png", "Write plots as PNG (needs resvg-py) instead of SVG.")] = False,
    loading: Annotated[Given, Several(*LOADED)],
) -> None:
    """Compare decoding methods on your model, machine and prompts.

    All methods answer a prompt before the next one comes. ctrl+c keeps what has been measured; --resume continues.
    """
    from .bench.plan import BenchRequest
    from .bench.run import run_bench

    settings = _settings(context, models | loading)
    request = BenchRequest(
        prompts,
        settings,
        methods=methods or "",
        limit=_number(limit, "--limit"),
        rounds=_number(rounds, "--rounds") or 1,
        max_tokens=_number(max_tokens, "--max-tokens") or 1,
        categories=tuple(category or ()),
        against=tuple(part.strip() for part in (against or "").split(",") if part.strip()),
        sweep=tuple(sweep or ()),
        clock=_clock(clock),
        raw=raw,
        resume=resume,
        record=record,
        as_json=json,
        csv=csv,
        markdown=markdown,
        plots=plots,
        png=png,
    )
    raise typer.Exit(run_bench(request))


def _clock(name: str) -> str:
    if name not in ("wall", "cpu"):
        raise UserError(f"--clock takes wall or cpu, not {name!r}.")
    return name


def _number(value: int | None, name: str) -> int | None:
    if value is not None and value < 1:
        raise UserError(f"{name} must be at least 1, not {value}.")
    return value


def replay(
    context: typer.Context,
    *,
    transcripts: Annotated[
        list[Path] | None, typer.Argument(help="JSONL files of recorded answers.", show_default=False)
    ] = None,
    history: Annotated[bool, flag("--history", "Replay the chats in your history.")] = False,
    chat: Annotated[
        list[str] | None, option("--chat", "With --history: only this chat, by number or title. Repeat for more.", "CHAT")
    ] = None,
    tokenizer: Annotated[
        Path | None, option("--tokenizer", "Folder with the tokenizer.json of the model that wrote the answers.", "FOLDER")
    ] = None,
    nodes: Annotated[str | None, option("--nodes", "Trees of at most N nodes, for methods with this setting.", "N,N,…")] = None,
    methods: Methods = None,
    limit: Annotated[int | None, option("--limit", "Only the first N records of each file.", "N")] = None,
    past: Past = None,
    remember: Annotated[
        bool, flag("--remember", "Draft from the answers before it in its file too; the order is taken for time.")
    ] = False,
    models: Annotated[Given, Several(*MODELS)],
    on_model: Annotated[
        str | None, option("--on-model", "Run the passes on this model, though another wrote the answers.", "MODEL")
    ] = None,
    json: AsJson = False,
    csv: Csv = None,
    markdown: Markdown = None,
    loading: Annotated[Given, Several(*LOADED)],
) -> None:
    """Score decoding methods on recorded answers: tokens a pass, and with a model the speedup.

    Without --model no model runs. With it, the model runs the passes, but the tokens are those of the record. With --on-model,
    any model does: all it chooses is replaced by the record, and only its seconds count. Each line of a file is {"prompt",
    "response"} or {"messages": [{"role", "content"}]}.
    """
    from contextlib import ExitStack

    from .bench.replay import ReplayRequest, replay_files

    given = models | loading
    if on_model is not None and "model" in given:
        raise UserError("--on-model names the model that runs the passes: leave out --model.")
    if not transcripts and not (history or chat):
        raise UserError("There is nothing to replay. Give JSONL files of recorded answers, or --history for your own chats.")
    given |= {} if on_model is None else {"model": on_model}
    request = ReplayRequest(
        transcripts or [],
        _settings(context, given),
        over_model="model" in given or "model" in (context.obj or {}),
        forced=on_model is not None,
        tokenizer=tokenizer,
        nodes=_numbers(nodes, "--nodes"),
        methods=methods or "",
        limit=_number(limit, "--limit"),
        past=past or (),
        remember=remember,
        as_json=json,
        csv=csv,
        markdown=markdown,
    )
    with ExitStack() as stack:
        if history or chat:
            from ..history.records import recorded

            request = replace(request, files=[*request.files, stack.enter_context(recorded(chat or ()))])
        code = replay_files(request)
    raise typer.Exit(code)


def tune(
    context: typer.Context,
    *,
    prompts: Annotated[
        Path | None, typer.Argument(help="Prompts as for bench; by default the built-in tasks.", show_default=False)
    ] = None,
    models: Annotated[Given, Several(*MODELS)],
    tokenizer: Annotated[
        Path | None,
        option("--tokenizer", "Folder with the tokenizer.json of a server's model.", "FOLDER"),
    ] = None,
    minutes: Annotated[float, option("--minutes", "Minutes to search (default 10).", "N")] = 10.0,
    methods: Methods = None,
    limit: Annotated[int | None, option("--limit", "At most N prompts per category (built-in tasks: 4).", "N")] = None,
    category: Category = None,
    past: Past = None,
    max_tokens: Annotated[int, option("--max-tokens", "Stop each answer after N tokens (default 128).", "N")] = 128,
    clock: Clock = "wall",
    no_save: Annotated[bool, flag("--no-save", "Do not save the result in the settings.")] = False,
    exhaustive: Annotated[
        bool, flag("--exhaustive", "Measure every candidate on every prompt, however long it takes.")
    ] = False,
    json: AsJson = False,
    loading: Annotated[Given, Several(*LOADED)],
) -> None:
    """Find the fastest method and settings for a model, and save them as its default.

    Measures on this machine with your prompts. Also prints the equivalent settings for other engines, and the
    best settings of the own methods of vLLM, llama-server and SGLang. Of a server (--model URL) only these.
    """
    from .bench.tune import tune as search
    from .bench.tune_search import TuneRequest

    settings = _settings(context, models | loading)
    if not 0 < minutes < 10_000:
        raise UserError(f"--minutes takes a number above 0, not {minutes:g}.")
    request = TuneRequest(
        prompts,
        settings,
        minutes=minutes,
        methods=methods or "",
        limit=_number(limit, "--limit"),
        max_tokens=_number(max_tokens, "--max-tokens") or 1,
        categories=tuple(category or ()),
        past=past or (),
        clock=_clock(clock),
        save=not no_save,
        tokenizer=tokenizer,
        exhaustive=exhaustive,
        as_json=json,
    )
    raise typer.Exit(search(request))
