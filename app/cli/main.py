"""The commands and their parameters. A command imports its work when it runs, so that help comes at once."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ...engine.options import LOADING
from ...errors import UserError
from ...plain_file import FULL, stand_somewhere
from ..cli import complete as completers
from ..history import take_notices
from ..settings.fields import OPTIONS, Values
from ..settings.precedence import load_settings, read_settings
from ..terminal.output import use_utf8
from ..text.cells import sanitise
from .bench.requests import BenchRequest, ReplayRequest, TuneRequest
from .chats import chats, why
from .exit_codes import BROKEN, CLOSED, USER
from .models import models
from .options import (
    FLAGS,
    MODELS,
    AsJson,
    Preset,
    SettingOptions,
    argument,
    flag,
    option,
    print_json,
    takes_settings,
    with_options,
)
from .settings_commands import settings_commands

LOADED = ("device", "dtype", "context", "threads", "exact")
"""Settings of the load that every command with a model takes."""


def bench(request: BenchRequest) -> int:
    """Compare decoding methods on your model, machine and prompts.

    All methods answer a prompt before the next one comes. ctrl+c ends it and prints what has been measured.
    """
    from .bench.run import run_bench

    return run_bench(request)


def replay(request: ReplayRequest) -> int:
    """Score decoding methods on recorded answers: tokens a pass, and with a model the speedup.

    Without --model no model runs. With it, the model runs the passes, but the tokens are those of the record. With --on-model,
    any model does: all it chooses is replaced by the record, and only its seconds count. Each line of a file is {"prompt",
    "response"} or {"messages": [{"role", "content"}]}.
    """
    from .bench.replay import replay_files

    return replay_files(request)


def tune(request: TuneRequest) -> int:
    """Find the fastest method and settings for a model, and save them as its default.

    Measures on this machine with your prompts. Also prints the equivalent settings for other engines.
    """
    from .bench.tune import tune as search

    return search(request)


def _measuring(run: Callable[[Any], int], request: type[Any]) -> Callable[..., None]:
    """Make a command that turns its options into a request, runs that, and ends with the exit code."""

    @wraps(run)
    def call(context: typer.Context, settings: Values, loading: Values, **fields: Any) -> None:
        values = {**(context.obj or {}), **settings, **loading}
        raise typer.Exit(run(request(settings=with_options(read_settings(), values), **fields)))

    kind = inspect.Parameter.KEYWORD_ONLY
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("context", kind, annotation=typer.Context),
            *inspect.signature(request, eval_str=True).parameters.values(),
            inspect.Parameter("loading", kind, annotation=Annotated[Values, SettingOptions(*LOADED)]),
        ]
    )
    return takes_settings(call)


# Rich's help and tracebacks would cost 60 ms at every start.
app = typer.Typer(
    name="specchat",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A terminal chat that shows how a local language model decodes. Without a command, opens the chat.",
)

LIMITS = (*(key for key, option in OPTIONS.items() if option.group == "Sampling and limits"), "thoughts", "accept")
"""Settings of answers, and of their display."""


CHAT_OPTIONS = (*MODELS, *LOADING, "method", *LIMITS, "theme", "pace", "system")
"""Settings that the chat itself takes."""


@app.callback(invoke_without_command=True)
@takes_settings
def chat(
    context: typer.Context,
    *,
    options: Annotated[Values, SettingOptions(*CHAT_OPTIONS)],
    preset: Preset = None,
    open_file: Annotated[Path | None, option("--open", "Open a chat saved as JSON.", "FILE")] = None,
    last: Annotated[bool, flag("--continue", "Continue the last chat.")] = False,
    resume: Annotated[
        str | None,
        option("--resume", "Continue the chat with this title or number; without one, choose from a list.", "[TEXT]"),
    ] = None,
    no_history: Annotated[bool, flag("--no-history", "Do not save this chat.")] = False,
    version: Annotated[bool, flag("--version", "Print the version.")] = False,
) -> None:
    """Open the chat."""
    values = {**options, **_without_none(preset=preset, history=False if no_history else None)}
    if version:
        from ... import __version__

        typer.echo(f"specchat {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        for name, value in (("--open", open_file), ("--continue", last or None), ("--resume", resume)):
            if value is not None:
                raise UserError(f"{name} opens a chat. Leave out the command after it.")
        context.obj = values  # `specchat --model X run …` means the same as `specchat run --model X …`
        return
    from .start import open_chat

    if sum((open_file is not None, last, resume is not None)) > 1:
        raise UserError("--open, --continue and --resume each open a chat. Use only one of them.")
    settings, notice = load_settings()
    settings = with_options(settings, values)
    raise typer.Exit(open_chat(settings, notice, open_file, last=last, resume=resume, command_line=values))


@app.command()
@takes_settings
def run(
    context: typer.Context,
    *,
    prompt: Annotated[str, argument("The prompt; - reads it from standard input.", "PROMPT")],
    models: Annotated[Values, SettingOptions(*MODELS, "method")],
    set_: Annotated[
        list[str] | None, option("--set", "A setting of the method. Repeat for more settings.", "NAME=VALUE")
    ] = None,
    limits: Annotated[Values, SettingOptions(*LIMITS)],
    raw: Annotated[bool, flag("--raw", "Continue the prompt as it is, without the chat template.")] = False,
    last: Annotated[bool, flag("--continue", "Continue the last chat, and save the exchange in it.")] = False,
    resume: Annotated[str | None, option("--resume", "Continue the chat with this title or number.", "CHAT")] = None,
    keep: Annotated[bool, flag("--keep", "Save the exchange as a new chat.")] = False,
    file: Annotated[
        list[Path] | None, option("--file", "Attach a file or a folder's text files. Repeat for more.", "FILE", "-f")
    ] = None,
    json: AsJson = False,
    jsonl: Annotated[bool, flag("--jsonl", "Print one JSON object per pass, then that of --json.")] = False,
    loading: Annotated[Values, SettingOptions(*LOADING, "system")],
    preset: Preset = None,
) -> None:
    """Print one answer: coloured by tokens a pass on a terminal, plain text in a pipe.

    @FILE in the prompt attaches a file (@@ is a plain @). Piped input is attached as well.

    Exit codes: 0 answered; 1 the engine failed; 2 a mistake in the request (the message says how to fix it); 130 cancelled with
    ctrl+c; 141 the reader of the output is gone; 143 ended by SIGTERM.
    """
    from .oneshot import Request, run_once

    values = {**(context.obj or {}), **models, **limits, **loading, **_without_none(preset=preset)}
    request = Request(
        prompt=prompt,
        settings=with_options(read_settings(), values),
        explicit=frozenset(values),
        method_settings=_pairs(set_ or ()),
        raw=raw,
        as_json=json,
        as_lines=jsonl,
        files=tuple(file or ()),
        last=last,
        chat=resume,
        keep=keep,
    )
    raise typer.Exit(run_once(request))


@app.command()
@takes_settings
def tour(context: typer.Context, *, models: Annotated[Values, SettingOptions("model", "draft_model")]) -> None:
    """Open the chat with a tour of 30 seconds: one token a pass, several tokens a pass, a race."""
    from .start import open_chat

    values = {**(context.obj or {}), **models}
    settings, notice = load_settings()
    raise typer.Exit(open_chat(with_options(settings, values), notice, command_line=values, tour=True))


@app.command()
def methods(json: AsJson = False) -> None:
    """List the decoding methods, their settings and when they pay."""
    from .listing import print_methods

    print_methods(as_json=json)


@app.command()
@takes_settings
def doctor(
    context: typer.Context,
    *,
    model: Annotated[
        str | None,
        argument("A model to look into, given like --model.", "MODEL", completer=completers.models),
    ] = None,
    json: AsJson = False,
    loading: Annotated[Values, SettingOptions("backend", "device", "dtype", "context")],
) -> None:
    """Show what is installed, what is missing, and how to fix it; of a MODEL, what it can do here, and what its passes cost."""
    from . import doctor as checks

    if model is not None:
        settings = with_options(read_settings(), {**(context.obj or {}), **loading, "model": model})
        raise typer.Exit(checks.examine_model(settings, as_json=json))
    if loading:
        raise UserError(f"{FLAGS[next(iter(loading))]} is for a model. Name it: specchat doctor MODEL.")
    report = checks.examine()
    if json:
        print_json(asdict(report))
    else:
        typer.echo("\n".join(checks.page(report)))
    raise typer.Exit(1 if any(problem.serious for problem in report.problems) else 0)


@app.command()
def locate(name: Annotated[str | None, argument("Print only this path.", "NAME")] = None) -> None:
    """Print where settings, data, cache, log and models are."""
    from .listing import print_locations

    print_locations(name)


app.command()(_measuring(bench, BenchRequest))
app.command()(_measuring(replay, ReplayRequest))
app.command()(_measuring(tune, TuneRequest))
app.command()(models)
app.command()(why)
app.add_typer(chats)
app.add_typer(settings_commands)


def _without_none(**values: Any) -> Values:
    return {name: value for name, value in values.items() if value is not None}


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Parse `--set name=value …`."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--set takes NAME=VALUE, not {text!r}. `specchat methods` lists each method's settings.")
        pairs[name.strip()] = value.strip()
    return pairs


def _complete_resume(words: Sequence[str]) -> list[str]:
    """Put an empty text after a --resume without a value."""
    completed: list[str] = []
    for word, following in zip_longest(words, words[1:], fillvalue="-"):
        completed += [word, ""] if word == "--resume" and following.startswith("-") else [word]
    return completed


def _as_text(argument: str) -> str:
    """Replace bytes outside UTF-8 in an argument, unless it is the name of a file."""
    return argument if os.path.lexists(argument) else os.fsencode(argument).decode(errors="replace")


def main() -> NoReturn:
    """Run a command line, and end with its exit code."""
    code: Any = 0
    use_utf8()
    try:
        stand_somewhere()
        app(_complete_resume([*map(_as_text, sys.argv[1:])]), prog_name="specchat")
    except SystemExit as ended:
        # Click makes 1 of a closed pipe.
        code = CLOSED if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except UserError as error:
        print(f"specchat: {sanitise(str(error))}", file=sys.stderr)
        code = USER
    except OSError as error:
        if error.errno not in FULL:
            raise
        print(f"specchat: The output is incomplete ({error.strerror}). Free some space.", file=sys.stderr)
        code = BROKEN
    for sentence in take_notices():
        print(f"specchat: {sentence}", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            # The pipe is closed (`| head`). The interpreter's own last flush must not complain about it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or (CLOSED if isinstance(error, BrokenPipeError) else BROKEN)
    sys.exit(code)
