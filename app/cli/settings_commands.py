"""`specchat settings`: every setting with its value and source, and the settings file from the shell."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from typing import Annotated, Any, TypedDict

import typer

from ...errors import UserError
from ..settings.fields import OPTIONS, Values, find_option
from ..settings.precedence import Layers, layers_of, load_settings, read, save
from ..settings.rows import in_force, shown, word
from ..settings.toml import read_text, split
from ..text.amounts import short_path
from ..text.cells import fit, width
from . import complete as completers
from .options import AsJson, argument, flag, option, with_options

settings_commands = typer.Typer(name="settings", help="Show settings with their values and sources, and change them.")

Key = Annotated[str, argument("For example theme or sampling.temperature.", "KEY", completers.setting_keys)]


class SettingFields(TypedDict):
    """A setting as `--json` prints it."""

    key: str
    value: Any
    default: Any
    source: str
    where: str


@settings_commands.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    model: Annotated[str | None, option("--model", "Apply this model's defaults.", "MODEL")] = None,
    preset: Annotated[str | None, option("--preset", "Apply this preset.", "NAME")] = None,
    changed: Annotated[bool, flag("--changed", "List only settings that differ from their default.")] = False,
    json: AsJson = False,
) -> None:
    """Print every setting with its value and its source: default, settings file, a model's default, command line or preset."""
    context.obj = {**(context.obj or {}), **{key: name for key, name in (("model", model), ("preset", preset)) if name}}
    if context.invoked_subcommand is not None:
        if changed or json:
            raise UserError("--changed and --json list settings. Leave out the command after them.")
        return
    layers = _layers(context.obj)
    settings = [setting for setting in _settings(layers) if not changed or setting["source"] != "default"]
    for problem in layers.read.problems:
        typer.echo(f"specchat: {problem}", err=True)
    if json:
        body = {"file": str(layers.read.path), "problems": list(layers.read.problems), "settings": settings}
        typer.echo(json_module.dumps(body, ensure_ascii=False))
        return
    cells = [(row["key"], fit(in_force(find_option(row["key"]), row["value"]), 44), row["where"]) for row in settings]
    key_cells, value_cells = (max((width(row[i]) for row in cells), default=0) + 2 for i in (0, 1))
    for key, value, where in cells:
        typer.echo(f"{key}{' ' * (key_cells - width(key))}{value}{' ' * (value_cells - width(value))}{where}".rstrip())
    if not cells:
        typer.echo("Every setting is at its default.")


@settings_commands.command()
def get(context: typer.Context, key: Key) -> None:
    """Print the value of a setting, or its default; nothing if it has neither."""
    value = _setting(_layers(context.obj or {}), key)["value"]
    if isinstance(value, list):
        typer.echo("\n".join(map(str, value)))
    else:
        typer.echo("" if value is None else word(value))


@settings_commands.command("set", context_settings={"ignore_unknown_options": True})
def set_(key: Key, values: Annotated[list[str], argument("One value, or several for a list.", "VALUE")]) -> None:
    """Write a setting to the file, keeping its comments and order."""
    if len(values) > 1 and not find_option(key).several:
        raise UserError(f"{key} takes one value. Put it in quotes.")
    save({key: values if len(values) > 1 else values[0]})
    layers = Layers(read())
    setting = _setting(layers, key)
    typer.echo(f"{key} = {shown(layers.read.values.get(key))} in {short_path(layers.read.path)}.")
    if setting["source"] not in ("file", "default"):
        typer.echo(f"The value in use is still {shown(setting['value'])}: {setting['where']} overrides the file.", err=True)


@settings_commands.command()
def unset(keys: Annotated[list[str], argument(None, "KEY")]) -> None:
    """Remove settings from the file, so that their defaults apply again. Unknown keys can be removed too."""
    path = read().path
    before = read_text(path)
    if all(map(split, keys)):
        save(dict.fromkeys(keys))
    if read_text(path) == before:
        raise UserError(f"The settings file does not set {keys[0]}. `specchat settings --changed` shows what it sets.")
    typer.echo(f"{', '.join(keys)}: removed from {path}.")


def _layers(options: Values) -> Layers:
    return layers_of(with_options(load_settings()[0], options))


def _settings(layers: Layers) -> Iterator[SettingFields]:
    """Yield every setting with a fixed name, and those that are set in the tables named below."""
    tables = ("methods", "models", "presets", "keymap")
    for key in (*OPTIONS, *(key for key in layers.values() if split(key)[0] in tables)):
        yield _setting(layers, key)


def _setting(layers: Layers, key: str) -> SettingFields:
    default = find_option(key).default
    value = layers.values().get(key, default)
    origin = layers.origin(key)
    return {
        "key": key,
        "value": list(value) if isinstance(value, tuple) else value,
        "default": list(default) if isinstance(default, tuple) else default,
        "source": origin.kind,
        "where": origin.place,
    }
