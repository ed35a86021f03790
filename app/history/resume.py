"""Going on with a chat as it was: with its own model, method and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...backends.base import UserError
from ..settings.file import Settings, checked
from .writing import LOADED_WITH

if TYPE_CHECKING:
    from ..tui.app import SpecchatApp
    from .chats import OpenedChat


def own_values(opened: OpenedChat) -> dict[str, Any]:
    """A chat's own settings by dotted keys; those that are not as they must be are left out."""
    body = opened.settings
    methods, sampling = (body.get(name) for name in ("methods", "sampling"))
    values = {name: body.get(name) for name in ("method", "accept", "max_tokens", "stop")}
    for name, table in (methods if isinstance(methods, dict) else {}).items():
        for key, value in (table if isinstance(table, dict) else {}).items():
            values[f"methods.{name}.{key}"] = value
    for key, value in (sampling if isinstance(sampling, dict) else {}).items():
        values[f"sampling.{key}"] = value
    out = {}
    for key, value in values.items():
        if value is None:
            continue
        try:
            out[key] = checked(key, value, key)
        except UserError:  # of another version, or somebody wrote it
            continue
    return out


def own_model(opened: OpenedChat) -> tuple[str, dict[str, Any]]:
    """The model of a chat as it was named, empty if that is not known; and the options that it was loaded with."""
    asked = opened.model.get("asked")
    options = {name: value for name in LOADED_WITH if isinstance(value := opened.load.get(name), str)}
    return (asked, options) if isinstance(asked, str) and asked.isprintable() else ("", {})


def continued(settings: Settings, opened: OpenedChat, given: Mapping[str, Any] | None = None) -> Settings:
    """The settings that a chat goes on with.

    Args:
        settings: those in force.
        opened: the chat.
        given: what the command line asks for, which goes before the chat's own.
    """
    from ..settings.precedence import layers_of

    given = given or {}
    model, options = own_model(opened)
    if not model or "model" in given:
        model, options = settings.model, {name: getattr(settings, name) for name in LOADED_WITH}
    layers = layers_of(settings)
    asked = {**given, **(layers.preset if "preset" in given else {})}
    # A system prompt that was set is for chats to come; this one has its own in its transcript.
    system = {key: value for key, value in layers.chat.items() if key == "system"}
    values = system | {key: value for key, value in own_values(opened).items() if key not in asked}
    found = replace(layers, chat=values, model=model).settings()
    loading = {name: options.get(name, getattr(Settings(), name)) for name in LOADED_WITH if name not in given}
    return replace(found, model=model, **loading)


def go_on(chat: SpecchatApp, opened: OpenedChat) -> None:
    """Put a chat's method and settings in force, and load its model if another one is loaded. Where that cannot be loaded, the
    one that is loaded stays, and a notice says why."""
    dialogue, system = chat.dialogue, opened.transcript.system
    settings = continued(chat.settings, opened)
    chat.configuring.opening()
    chat.settings = settings
    chat.apply_settings()
    dialogue.transcript.system = system  # its own, whatever a model's defaults say
    dialogue.settings = {name: dict(table) for name, table in settings.methods.items()}
    if settings.method in dialogue.methods:
        dialogue.switch(settings.method)
    model, options = own_model(opened)
    if model and model != dialogue.model:
        dialogue.load_model(model, **{name: options.get(name) or getattr(Settings(), name) for name in LOADED_WITH})
        chat.stir()
    else:
        dialogue.settle_method()
