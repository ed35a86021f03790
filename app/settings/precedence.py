"""Which value counts where several are given, and where it comes from.

From weak to strong: the defaults, the sampling that the model's makers recommend, the settings file, a model's own table in it,
the environment, the command line, a preset, what was set in the chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ...engine.options import SHAPES
from ...errors import UserError, did_you_mean
from ...plain_file import user_path
from ..text.amounts import short_path
from ..text.cells import one_line
from . import locations
from .checks import checked, method_params
from .fields import SAMPLING, Settings, is_chat_key
from .file import ReadSettings, flat, from_text, merged, read, variable
from .key_path import join, split
from .keymap import ALL as KEYS

OriginKind = Literal["default", "makers", "file", "model", "environment", "command line", "preset", "chat"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from."""

    kind: OriginKind
    said: str
    """Where it comes from, in words: `default`, `~/.config/specchat/settings.toml, line 3`, `--theme`, …"""


@dataclass(frozen=True, slots=True)
class Layers:
    """The values of each source, by dotted keys."""

    read: ReadSettings
    """The file and the environment."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The command line."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Key → the option that gives it."""
    preset: Mapping[str, Any] = field(default_factory=dict)
    preset_name: str = ""
    chat: Mapping[str, Any] = field(default_factory=dict)
    """What was set in the chat."""
    model: str | None = None
    """The model that is loaded or being loaded; None for the one that the settings name."""
    makers: Mapping[str, Any] = field(default_factory=dict)
    """What the makers of the loaded model recommend (see `recommended`)."""

    def of_model(self, model: str | None = None) -> tuple[str, dict[str, Any]]:
        """The name that the file knows a model by, and its table there."""
        named = model or self.model
        if named is None:
            named = {**self.read.values, **self.read.environment, **self.given}.get("model", Settings().model)
        return model_table(merged(Settings(), self.read.values).models, str(named))

    @property
    def presets(self) -> Mapping[str, Mapping[str, Any]]:
        """Name of a preset → its values."""
        return merged(Settings(), self.read.values).presets

    def with_preset(self, name: str) -> Layers:
        """These with a preset in force.

        Raises:
            UserError: there is none of this name (with the nearest).
        """
        known = self.presets
        if name not in known:
            hint = (
                did_you_mean(name, list(known)) if known else "there are none yet. Make one in the chat with /preset save NAME."
            )
            raise UserError(f"There is no preset {one_line(name)}: {hint}")
        return replace(self, preset=known[name], preset_name=name)

    def values(self) -> dict[str, Any]:
        """Every value that is not a default."""
        out: dict[str, Any] = {}
        for values in (
            self.makers,
            self.read.values,
            self.of_model()[1],
            self.read.environment,
            self.given,
            self.preset,
            self.chat,
        ):
            if any(key in values for key in SHAPES):
                out = {key: value for key, value in out.items() if key not in SHAPES}
            out |= values
        return out

    def settings(self) -> Settings:
        """The values that count, which know where they come from."""
        return replace(merged(Settings(), self.values()), layers=self)

    def origin(self, key: str) -> Origin:
        """Where the value of a setting comes from."""
        if key in self.chat:
            return Origin("chat", "this chat")
        if key in self.preset:
            return Origin("preset", f"preset {self.preset_name}")
        if key in self.given:
            return Origin("command line", self.names.get(key, "command line"))
        if key in self.read.environment:
            return Origin("environment", f"${variable(key)}")
        name, table = self.of_model()
        if key in table:
            whole = join(("models", name, *split(key)))
            return Origin("model", f"default of {name}, {self.place(self.read.lines.get(whole, 0))}")
        if key in self.read.values:
            return Origin("file", self.place(self.read.lines.get(key, 0)))
        if key in self.makers:
            return Origin("makers", "recommended for this model")
        return Origin("default", "default")

    def place(self, line: int) -> str:
        """A line of the settings file in words."""
        return f"{short_path(self.read.path)}, line {line}" if line else short_path(self.read.path)


def recommended(info: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling that a model's makers recommend, by dotted key."""
    return {f"sampling.{name}": value for name, value in (info.get("sampling") or {}).items() if name in SAMPLING}


def with_recommended(settings: Settings, info: Mapping[str, Any]) -> Settings:
    """Settings with the sampling that the model's makers recommend, where none was chosen."""
    return replace(settings, sampling=replace(layers_of(settings), makers=recommended(info)).settings().sampling)


def model_table(models: Mapping[str, Mapping[str, Any]], model: str) -> tuple[str, dict[str, Any]]:
    """The table of a model, under the name that it has there; a path may be written with ~ or without."""
    for name in (model, *models):
        if name in models and (name == model or user_path(name) == user_path(model)):
            return name, dict(models[name])
    return model, {}


def with_given(settings: Settings, given: Mapping[str, Any], names: Mapping[str, str], preset: str | None = None) -> Settings:
    """Settings that were read, with what the command line gives, by dotted key; `names` has each key's option. What is given
    goes before the preset.

    Raises:
        UserError: an option is not as it must be, or there is no such preset.
    """
    layers = settings.layers if settings.layers is not None else layers_of(settings)
    values = {key: checked(key, value, names.get(key, key)) for key, value in given.items()}
    layers = replace(layers, given=values, names=names)
    if preset is not None:
        layers = layers.with_preset(preset)
        layers = replace(layers, preset={key: value for key, value in layers.preset.items() if key not in values})
    return layers.settings()


def layers_of(settings: Settings) -> Layers:
    """Layers of settings; of some that were made by hand, without a look at the file: what is no default counts as given."""
    if settings.layers is not None:
        return settings.layers  # type: ignore[no-any-return]
    made = flat(settings)
    of_models = {key: value for key, value in made.items() if split(key)[0] in ("models", "presets")}
    given = {key: value for key, value in made.items() if key not in of_models}
    return Layers(ReadSettings(locations.settings_file(), of_models), given)


def default_of(key: str) -> Any:
    """What a setting is where nothing is said; None for one that is not set."""
    match split(key):
        case ("models" | "presets", _, *inner):
            return default_of(join(inner))
        case ("sampling", name) if name in SAMPLING:
            return getattr(Settings().sampling, name)
        case ("methods", method, name):
            return next((param["default"] for param in method_params(method) if param["name"] == name), None)
        case ("keymap", binding):
            return next((found.keys for found in KEYS if found.id == binding), None)
        case (name,):
            return getattr(Settings(), name, None)
    return None


def chat_part(values: Mapping[str, Any]) -> dict[str, Any]:
    """Filter values by dotted key: those that a chat may have of its own."""
    return {key: value for key, value in values.items() if is_chat_key(split(key))}


def load_settings(path: Path | None = None) -> tuple[Settings, str | None]:
    """The settings, and sentences that say what is wrong with the file; what is right of it counts."""
    found = read(path)
    layers = Layers(found)
    more = len(found.problems) - 2
    told = [*found.problems[:2], *([f"`specchat settings` shows all {more + 2} problems."] if more > 0 else [])]
    return layers.settings(), " ".join(told) or None


def read_settings(path: Path | None = None) -> Settings:
    """The settings in a file, and in the environment for the user's own; the defaults if there is no file.

    Raises:
        UserError: the file cannot be read or says something that is not a setting; names the file, the key and what to do.
    """
    found = read(path)
    if found.problems:
        raise UserError(found.problems[0])
    return Layers(found).settings()


def method_changes(model: str, method: str, settings: Mapping[str, Any], path: Path | None = None) -> dict[str, Any]:
    """Changes of a settings file (the user's own if None) that make a method, with its settings, the model's own; settings that
    the file had of it for this model go."""
    found = read(path or locations.settings_file())
    name, table = model_table(merged(Settings(), found.values).models, model)
    before = [key for key in table if split(key)[:2] == ("methods", method)]
    changes: dict[str, Any] = {join(("models", name, *split(key))): None for key in before}
    changes[join(("models", name, "method"))] = method
    for setting, value in settings.items():
        key = join(("models", name, "methods", method, setting))
        changes[key] = from_text(key, value) if isinstance(value, str) else value
    return changes
