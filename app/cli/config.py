"""`specchat settings`: every setting with its value and where that comes from, and the settings file from the shell."""

from __future__ import annotations

import json as json_module
import subprocess
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ...errors import UserError
from ..settings.checks import known
from ..settings.fields import OPTIONS
from ..settings.file import from_text, read, save, spots, takes_many
from ..settings.key_path import join, split
from ..settings.precedence import Layers, default_of, load_settings
from ..settings.rows import in_force, shown, word
from ..settings.toml import write
from ..text.cells import fit, width
from . import complete as completion_shell
from .options import AsJson, argument, flag, option, with_options

config = typer.Typer(name="settings", help="Show settings with their values and sources, and change them.")

Key = Annotated[str, argument("For example theme or sampling.temperature.", "KEY", completion_shell.setting_keys)]
ForModel = Annotated[str | None, option("--model", "Apply this model's defaults.", "MODEL")]
FromPreset = Annotated[str | None, option("--preset", "Apply this preset.", "NAME")]


@config.callback(invoke_without_command=True)
def show(
    context: typer.Context,
    model: ForModel = None,
    preset: FromPreset = None,
    changed: Annotated[bool, flag("--changed", "List only settings that differ from their default.")] = False,
    json: AsJson = False,
) -> None:
    """Print every setting with its value and its source: default, settings file with the line, a model's default, environment,
    command line or preset."""
    given = {**(context.obj or {}), **({"model": model} if model else {})}
    context.obj = given
    if context.invoked_subcommand is not None:
        if preset or changed or json:
            raise UserError("Put the options of `specchat settings` after the command's name.")
        return
    layers = _layers(given, preset)
    rows = [row for row in rows_of(layers) if not changed or row["source"] != "default"]
    for problem in layers.read.problems:
        typer.echo(f"specchat: {problem}", err=True)
    if json:
        body = {"file": str(layers.read.path), "problems": list(layers.read.problems), "settings": rows}
        typer.echo(json_module.dumps(body, ensure_ascii=False))
        return
    cells = [(row["key"], fit(in_force(row["key"], row["value"]), 44), row["where"]) for row in rows]
    first, second = (max((width(row[i]) for row in cells), default=0) + 2 for i in (0, 1))
    for key, value, where in cells:
        typer.echo(f"{key}{' ' * (first - width(key))}{value}{' ' * (second - width(value))}{where}".rstrip())
    if not cells:
        typer.echo("Every setting is at its default.")


@config.command()
def get(context: typer.Context, key: Key, preset: FromPreset = None, json: AsJson = False) -> None:
    """Print the value of a setting; nothing if it is not set."""
    known(key)
    row = _row(_layers(context.obj or {}, preset), key)
    if json:
        typer.echo(json_module.dumps(row, ensure_ascii=False))
    else:
        value = row["value"]
        many = isinstance(value, list)
        typer.echo("\n".join(map(str, value)) if many else "" if value is None else word(value))


@config.command("set", context_settings={"ignore_unknown_options": True})
def set_(key: Key, values: Annotated[list[str], argument("One value, or several for a list.", "VALUE…")]) -> None:
    """Write a setting to the file, keeping its comments and order."""
    known(key)
    if len(values) > 1 and not takes_many(key):
        raise UserError(f"{key} takes one value. Put it in quotes.")
    value: Any = from_text(key, values[0]) if len(values) == 1 else list(values)
    save({key: value})
    _tell(key)


@config.command()
def unset(keys: Annotated[list[str], argument(None, "KEY…")]) -> None:
    """Remove settings from the file, so that their defaults apply again. Unknown keys can be removed too."""
    found = read()
    there = spots(found.path)
    for key in keys:
        if not any(parts[: len(split(key))] == split(key) for parts in there) or not split(key):
            raise UserError(f"The settings file does not set {key}. `specchat settings --changed` shows what it sets.")
    save({join(parts): None for key in keys for parts in there if parts[: len(split(key))] == split(key)})
    typer.echo(f"{', '.join(keys)}: removed from {found.path}.")


@config.command()
def edit() -> None:
    """Open the settings file in your editor (the setting editor, $VISUAL or $EDITOR), then report any mistakes in it."""
    from ..terminal.editor import editor_command

    found = read()
    command = editor_command(Layers(found).settings().editor)
    if not found.path.exists():
        write(found.path, "# `specchat settings` lists every setting.\n")
    try:
        code = subprocess.call([*command, str(found.path)])
    except OSError as error:
        raise UserError(f"Cannot start {command[0]} ({error.strerror}). Choose another editor.") from None
    problems = read().problems
    for problem in problems:
        typer.echo(f"specchat: {problem}", err=True)
    if code or problems:
        raise typer.Exit(1 if code else 2)


def _layers(given: dict[str, Any], preset: str | None) -> Layers:
    layers: Layers = with_options(load_settings()[0], given | ({"preset": preset} if preset else {})).layers
    return layers


def rows_of(layers: Layers) -> Iterator[dict[str, Any]]:
    """Each setting as an object: key, value, default, source, where. Those of methods, models and keys where they are set."""
    more = [key for table in ("methods", "models", "presets", "keymap") for key in layers.values() if split(key)[0] == table]
    for key in (*OPTIONS, *more):
        yield _row(layers, key)


def _row(layers: Layers, key: str) -> dict[str, Any]:
    origin = layers.origin(key)
    default = default_of(key)
    value = layers.values().get(key, default)
    return {
        "key": key,
        "value": list(value) if isinstance(value, tuple) else value,
        "default": list(default) if isinstance(default, tuple) else default,
        "source": origin.kind,
        "where": origin.said,
    }


def _tell(key: str) -> None:
    """Say what was written, and what goes before it."""
    layers = Layers(read())
    row = _row(layers, key)
    written = layers.read.values.get(key)
    typer.echo(f"{key} = {shown(written)} in {layers.place(layers.read.lines.get(key, 0))}.")
    if row["source"] not in ("file", "default"):
        typer.echo(f"The value in use is still {shown(row['value'])}: {row['where']} overrides the file.", err=True)
