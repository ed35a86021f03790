"""Options of the commands. Those that set a setting for one run are made from the setting's declaration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from ...engine.options import DRAFTING
from ...option import Option
from ..settings.fields import OPTIONS, Settings, Values
from ..settings.precedence import with_command_line
from .complete import BY_FLAG, Completer, choices

TYPES: Mapping[str, object] = {
    "str": str | None,
    "int": int | None,
    "float": float | None,
    "bool": bool | None,
    "tuple[str, ...]": list[str] | None,
}
"""Type of an option → annotation that Typer understands."""
FLAGS = {key: f"--{key.removeprefix('sampling.').replace('_', '-')}" for key in OPTIONS} | {"history": "--no-history"}
"""Dotted key of a setting → the option that sets it for one run."""
MODELS = ("model", "draft_model", *DRAFTING)
"""Settings that select the models."""


class SettingOptions:
    """Mark on a parameter of a command: it stands for several settings, each an option of the command, and receives the values
    on the command line by dotted key."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys


def argument(help_text: str | None, metavar: str | None = None, completer: Completer | None = None) -> Any:
    """Declare an argument, and its completion in the shell."""
    return typer.Argument(help=help_text, metavar=metavar, show_default=False, autocompletion=completer)


def option(name: str, help_text: str, metavar: str | None, *short: str, least: float | None = None) -> Any:
    """Declare an option with a value; `least` is the least number that it takes."""
    return typer.Option(
        *short, name, help=help_text, metavar=metavar, show_default=False, autocompletion=BY_FLAG.get(name), min=least
    )


def flag(name: str, help_text: str) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, help=help_text, show_default=False)


Preset = Annotated[str | None, option("--preset", "Preset: system prompt, method, sampling and limits under a name.", "NAME")]
AsJson = Annotated[bool, flag("--json", "Print one JSON object.")]


def _typer_option(name: str, setting: Option) -> Any:
    """Turn a setting into an option as Typer takes it."""
    if setting.type == "bool":
        return flag(f"{name}/--no-{name[2:]}", setting.help)
    typed = option(name, setting.help + (" Repeat for more." if setting.several else ""), setting.metavar)
    if setting.choices:
        typed.autocompletion = choices(setting.choices)
    return typed


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting that its parameters stand for."""
    groups: dict[str, tuple[str, ...]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        mark = getattr(parameter.annotation, "__metadata__", (None,))[0]
        if isinstance(mark, SettingOptions):
            groups[name] = mark.keys
            parameters += map(_parameter, mark.keys)
        else:
            parameters.append(parameter)

    @wraps(command)
    def call(**arguments: Any) -> None:
        for name, keys in groups.items():
            values = {key: arguments.pop(_parameter_name(key)) for key in keys}
            arguments[name] = {key: value for key, value in values.items() if value not in (None, [])}
        command(**arguments)

    # Typer reads these two.
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _parameter(key: str) -> inspect.Parameter:
    annotation: Any = Annotated[TYPES[OPTIONS[key].type], _typer_option(FLAGS[key], OPTIONS[key])]
    return inspect.Parameter(_parameter_name(key), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parameter_name(key: str) -> str:
    """Name the parameter of a setting; no other parameter of a command has this name."""
    return f"setting_{key.replace('.', '_')}"


def print_json(data: Any) -> None:
    """Print data as JSON that people can read too."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def with_options(settings: Settings, values: Values) -> Settings:
    """Return settings with the values on the command line; a preset's name may be among them.

    Raises:
        UserError: a value is wrong, or there is no such preset.
    """
    options = {key: value for key, value in values.items() if key != "preset"}
    return with_command_line(settings, options, FLAGS, values.get("preset"))
