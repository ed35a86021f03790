"""The commands that measure: bench, replay and tune. The fields of a request are the options of its command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Annotated, Any

import typer

from ...errors import UserError
from ..settings.file import changed
from ..settings.precedence import read_settings
from .bench.requests import BenchRequest, ReplayRequest, TuneRequest
from .options import Given, Several, takes_settings, with_options

LOADED = ("device", "dtype", "context", "threads", "exact")
"""Settings on how the model is loaded."""


def bench(request: BenchRequest) -> int:
    """Compare decoding methods on your model, machine and prompts.

    All methods answer a prompt before the next one comes. ctrl+c keeps what has been measured; --resume continues.
    """
    from .bench.run import run_bench

    return run_bench(request)


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


def tune(request: TuneRequest) -> int:
    """Find the fastest method and settings for a model, and save them as its default.

    Measures on this machine with your prompts. Also prints the equivalent settings for other engines.
    """
    from .bench.tune import tune as search

    if not 0 < request.minutes < 10_000:
        raise UserError(f"--minutes takes a number above 0, not {request.minutes:g}.")
    return search(request)


def register(app: typer.Typer) -> None:
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
