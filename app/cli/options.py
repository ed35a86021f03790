"""Options of the commands. Those that set a setting for one run are made of what is declared of the setting."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from ...engine.options import DRAFTING
from ..settings.fields import OPTIONS, Settings
from ..settings.precedence import with_given
from .complete import BY_OPTION, Completer, choices

Given = dict[str, Any]
"""Settings that were given on the command line, by dotted key."""

KINDS: Mapping[str, Any] = {
    "str": str | None,
    "int": int | None,
    "float": float | None,
    "bool": bool | None,
    "tuple[str, ...]": list[str] | None,
}
FLAGS = {key: f"--{key.removeprefix('sampling.').replace('_', '-')}" for key in OPTIONS} | {"history": "--no-history"}
"""Dotted key of a setting → the option that sets it for one run."""


class Several:
    """Marks a parameter that stands for several settings, each an option of the command. It gets those that were given."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys


MODELS = ("model", "draft_model", *DRAFTING)
"""Settings that name the models."""


def argument(help_text: str | None, metavar: str | None = None, offered: Completer | None = None) -> Any:
    """An argument, and what the shell offers for it at tab."""
    return typer.Argument(help=help_text, metavar=metavar, show_default=False, autocompletion=offered)


def option(name: str, help_text: str, metavar: str | None, *short: str) -> Any:
    """An option with a value."""
    return typer.Option(*short, name, help=help_text, metavar=metavar, show_default=False, autocompletion=BY_OPTION.get(name))


def flag(name: str, help_text: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help_text, show_default=False)


Preset = Annotated[str | None, option("--preset", "Preset: system prompt, method, sampling and limits under a name.", "NAME")]
AsJson = Annotated[bool, flag("--json", "Print one JSON object.")]


def _of(key: str) -> Any:
    """The option of a setting, as Typer takes it."""
    said, name = OPTIONS[key], FLAGS[key]
    if said.kind == "bool":
        return flag(f"{name}/--no-{name[2:]}", said.help)
    more = " Repeat for more." if said.kind.startswith("tuple") else ""
    made = option(name, said.help + more, said.metavar)
    if said.choices:
        made.autocompletion = choices(said.choices)
    return made


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each setting that its parameters stand for."""
    groups: dict[str, tuple[str, ...]] = {}
    taken: list[inspect.Parameter] = []
    for name, own in inspect.signature(command, eval_str=True).parameters.items():
        mark = getattr(own.annotation, "__metadata__", (None,))[0]
        if isinstance(mark, Several):
            groups[name] = mark.keys
            taken += map(_parameter, mark.keys)
        else:
            taken.append(own)

    @wraps(command)
    def call(**values: Any) -> None:
        for name, keys in groups.items():
            told = {key: values.pop(_name(key)) for key in keys}
            values[name] = {key: value for key, value in told.items() if value not in (None, [])}
        command(**values)

    # Typer reads these two.
    call.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _parameter(key: str) -> inspect.Parameter:
    kind: Any = KINDS[OPTIONS[key].kind]
    return inspect.Parameter(_name(key), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, _of(key)])


def _name(key: str) -> str:
    """A parameter's name, which none of a command's own has."""
    return f"setting_{key.replace('.', '_')}"


def print_json(data: Any) -> None:
    """Print data as JSON that people can read too."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))


def with_options(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Settings with what was given on the command line, a preset among it.

    Raises:
        UserError: an option is not as it must be, or there is no such preset.
    """
    options = {key: value for key, value in given.items() if key != "preset"}
    return with_given(settings, options, FLAGS, given.get("preset"))
