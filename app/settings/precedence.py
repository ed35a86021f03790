"""The settings as values by dotted key: read from the file, checked, written back; and which of several sources counts.

Dotted keys are the same in the file, in changes made by the chat, and in messages: `theme`, `sampling.temperature`,
`methods.lookup.max_draft`, `keymap.next_method`, `models."owner/name".method`.

From weak to strong: the defaults, the sampling that the model's makers recommend, the settings file, a model's own table in it,
the command line, a preset, changes made in the chat.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...engine.options import CONSTRAINTS, ModelInfo
from ...errors import UserError, did_you_mean
from ...plain_file import user_path
from ..text.amounts import short_path
from ..text.cells import one_line
from . import locations
from .fields import NESTED, SAMPLING, Settings, Values, checked
from .toml import join, leaves, parse, read_text, rewrite, split


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """The checked values of the settings file."""

    path: Path
    values: Values = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """A sentence for each value that is wrong; all others count."""


def merged(settings: Settings, changes: Values) -> Settings:
    """Return settings with some of them changed to values that are checked already."""
    fields: dict[str, Any] = {"keymap": dict(settings.keymap)}
    for table in NESTED:
        fields[table] = {name: dict(values) for name, values in getattr(settings, table).items()}
    sampling: dict[str, Any] = {}
    for key, value in changes.items():
        match split(key):
            case (name,):
                fields[name] = value
            case ("sampling", name):
                sampling[name] = value
            case ("keymap", binding):
                fields["keymap"][binding] = value
            case (table, name, *inner):
                fields[table].setdefault(name, {})[join(inner)] = value
    return replace(settings, **fields, sampling=replace(settings.sampling, **sampling))


def read(path: Path | None = None) -> ReadSettings:
    """Read the settings file (the user's own if None). Never raises: wrong values are left out and become problems."""
    path = path or locations.settings_file()
    values: dict[str, object] = {}
    problems: list[str] = []
    try:
        for parts, value in leaves(parse(read_text(path), short_path(path))):
            key = join(parts)
            try:
                values[key] = checked(key, value)
            except UserError as error:
                problems.append(one_line(f"{short_path(path)}: {error} Correct or delete that line."))
    except UserError as error:
        problems.append(str(error))
    return ReadSettings(path, values, tuple(problems))


def save(changes: Values, path: Path | None = None) -> None:
    """Write changes into the settings file (the user's own if None), all or nothing; comments and order stay.

    Each dotted key has a value, or None to remove it, so that its default applies again.

    Raises:
        UserError: a value is wrong, the file is not TOML as it is, or it cannot be written.
    """
    values = {split(key): None if value is None else checked(key, value) for key, value in changes.items()}
    rewrite(path or locations.settings_file(), values)


OriginKind = Literal["default", "makers", "file", "model", "command line", "preset", "chat"]


class Origin(NamedTuple):
    """The source of a value."""

    kind: OriginKind
    place: str
    """The source in words: `default`, `~/.config/specchat/settings.toml`, `--theme`, …"""


DEFAULT = Origin("default", "default")


@dataclass(frozen=True, slots=True)
class Layers:
    """The values of each source."""

    read: ReadSettings
    """The file."""
    command_line: Values = field(default_factory=dict)
    preset: Values = field(default_factory=dict)
    preset_name: str = ""
    chat: Values = field(default_factory=dict)
    """Changes made in the chat."""
    model: str | None = None
    """The model that is loaded or being loaded; None for the one that the settings name."""
    makers: Values = field(default_factory=dict)
    """The sampling that the makers of the loaded model recommend."""

    def of_model(self, model: str | None = None) -> tuple[str, Values]:
        """Return the name of a model in the file, and its table there; a path may be written with ~ or without."""
        models = merged(Settings(), self.read.values).models
        named = self.command_line.get("model") or self.read.values.get("model") or Settings().model
        model = model or self.model or str(named)
        same = (name for name in (model, *models) if name in models and user_path(name) == user_path(model))
        name = next(same, model)
        return name, models.get(name, {})

    @property
    def presets(self) -> Mapping[str, Values]:
        """Name of a preset → its values."""
        return merged(Settings(), self.read.values).presets

    def with_preset(self, name: str) -> Layers:
        """Return these with a preset in force.

        Raises:
            UserError: there is none of this name (with the nearest).
        """
        presets = self.presets
        if name not in presets:
            none = "there are none yet. Make one in the chat with /preset save NAME."
            hint = did_you_mean(name, list(presets)) if presets else none
            raise UserError(f"There is no preset {one_line(name)}: {hint}")
        return replace(self, preset=presets[name], preset_name=name)

    def sources(self) -> list[tuple[Origin, Values]]:
        """List the sources with their values, the strongest first."""
        name, table = self.of_model()
        file = short_path(self.read.path)
        return [
            (Origin("chat", "this chat"), self.chat),
            (Origin("preset", f"preset {self.preset_name}"), self.preset),
            (Origin("command line", "command line"), self.command_line),
            (Origin("model", f"default of {name}, {file}"), table),
            (Origin("file", file), self.read.values),
            (Origin("makers", "recommended for this model"), self.makers),
        ]

    def values(self) -> Values:
        """Return every value that is not a default. A constraint of a stronger source overrides those of weaker ones."""
        maps: list[dict[str, object]] = []
        constrained = False
        for _, values in self.sources():
            maps.append({key: value for key, value in values.items() if not (constrained and key in CONSTRAINTS)})
            constrained |= any(key in CONSTRAINTS for key in values)
        return ChainMap(*maps)

    def settings(self) -> Settings:
        """Return the values in force."""
        return replace(merged(Settings(), self.values()), layers=self)

    def origin(self, key: str) -> Origin:
        """Return the source of a setting's value."""
        return next((origin for origin, values in self.sources() if key in values), DEFAULT)


def recommended(info: ModelInfo) -> Values:
    """Return the sampling that a model's makers recommend, by dotted key."""
    return {f"sampling.{name}": value for name, value in info.sampling.items() if name in SAMPLING}


def with_command_line(
    settings: Settings, options: Values, names: Mapping[str, str] | None = None, preset: str | None = None
) -> Settings:
    """Return settings with more options of a command line, by dotted key, which override the preset; `names` has their names in
    error messages.

    Raises:
        UserError: a value is wrong, or there is no such preset.
    """
    names = names or {}
    values = {key: checked(key, value, names.get(key, key)) for key, value in options.items()}
    layers = layers_of(settings)
    layers = replace(layers, command_line={**layers.command_line, **values})
    if preset is not None:
        layers = layers.with_preset(preset)
        layers = replace(layers, preset={key: value for key, value in layers.preset.items() if key not in values})
    return layers.settings()


def layers_of(settings: Settings) -> Layers:
    """Return the layers of settings; none but the defaults for those that were not read."""
    return settings.layers if isinstance(settings.layers, Layers) else Layers(ReadSettings(locations.settings_file()))


def load_settings(path: Path | None = None) -> tuple[Settings, str | None]:
    """Read the settings; also return a sentence on what is wrong with them, None if nothing is. The rest counts."""
    content = read(path)
    problem = next(iter(content.problems), None)
    if len(content.problems) > 1:
        problem = f"{problem} `specchat settings` shows all {len(content.problems)} problems."
    return Layers(content).settings(), problem


def read_settings(path: Path | None = None) -> Settings:
    """Read the settings, as `load_settings`.

    Raises:
        UserError: something is wrong with them; names the file, the key and what to do.
    """
    content = read(path)
    if content.problems:
        raise UserError(content.problems[0])
    return Layers(content).settings()


def method_changes(model: str, method: str, params: Values, path: Path | None = None) -> dict[str, object]:
    """Return the changes of a settings file (the user's own if None) that make a method, with its settings, the model's own;
    settings of this method that the file has for the model are removed."""
    name, table = Layers(read(path or locations.settings_file())).of_model(model)
    changes: dict[str, object] = {
        join(("models", name, *split(key))): None for key in table if split(key)[:2] == ("methods", method)
    }
    changes[join(("models", name, "method"))] = method
    return changes | {join(("models", name, "methods", method, param)): value for param, value in params.items()}
