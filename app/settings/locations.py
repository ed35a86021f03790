"""The places of specchat's files: settings, data, cache and logs, each in the folder that the operating system names for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from ...engine.logfile import log_path
from ...engine.options import builtin_path
from ...errors import UserError
from ...plain_file import cache_folder, hub_cache, user_path


def _folder(variable: str, default: Path) -> Path:
    """Return the folder that an environment variable names, or the default."""
    path = os.environ.get(variable)
    return user_path(path).absolute() if path else default


def settings_file() -> Path:
    """Return the settings file. SPECCHAT_CONFIG is its path if it ends in .toml, else its folder's."""
    path = _folder("SPECCHAT_CONFIG", platformdirs.user_config_path("specchat", appauthor=False))
    return path if path.suffix == ".toml" else path / "settings.toml"


def config_folder() -> Path:
    """Return the folder of the settings and the user's own themes."""
    return settings_file().parent


def themes_folder() -> Path:
    """Return the folder of the user's own themes, one TOML file each."""
    return config_folder() / "themes"


def theme_names() -> list[str]:
    """List every theme that `theme` may name: those that ship, and the user's own in the config folder."""
    folders = (Path(__file__).resolve().parents[2] / "themes", themes_folder())
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})


def data_folder() -> Path:
    """Return the folder of the history and of all else that must not be lost; SPECCHAT_DATA names another."""
    return _folder("SPECCHAT_DATA", platformdirs.user_data_path("specchat", appauthor=False))


def exports_folder() -> Path:
    """Return the folder of exports that were given no name; SPECCHAT_EXPORTS names another."""
    return _folder("SPECCHAT_EXPORTS", platformdirs.user_documents_path() / "specchat")


def first_start() -> bool:
    """Whether specchat is used here for the first time: there are neither settings nor data."""
    return not settings_file().exists() and not data_folder().exists()


def all_locations() -> Mapping[str, Path]:
    """Return every location by the name that `specchat locate` knows it by."""
    return {
        "settings": settings_file(),
        "themes": themes_folder(),
        "data": data_folder(),
        "exports": exports_folder(),
        "cache": cache_folder(),
        "log": log_path(),
        "builtin": builtin_path(),
        "models": hub_cache(),
    }


def ensure(folder: Path) -> Path:
    """Create a folder where it is missing.

    Raises:
        UserError: it cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot create the folder {folder} ({error.strerror}). Choose another.") from None
    return folder
